/**
 * Stores the time of the last accepted deletion by age, compares the current time with it (domain/retention-clock.ts),
 * and warns while a pass waits for a confirmation. Each of the two deleting processes has its own file:
 * DATA_DIR/retention-clock, `<capture db>.retention-clock`. Server threads, the capture process and the command line.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { open, rename, writeFile } from 'node:fs/promises';
import { uptime } from 'node:os';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  type ClockJudgement,
  type ClockReading,
  cutoffsOf,
  judgeClock,
  RETENTION,
} from '../domain/retention-clock.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import { readBootId } from './lmdb/checkpoint.ts';

const FORMAT = 'understudy_retention_clock_v1';
const CONFIRM =
  'understudy retention shows the details, and understudy retention --confirm accepts the present clock';

/** Returns the path of the note for runs, traces and findings. */
export function recordsNotePath(dataDir: string): string {
  return join(dataDir, 'retention-clock');
}

/** Returns the path of the note for captures. */
export function capturesNotePath(captureDb: string): string {
  return `${captureDb}.retention-clock`;
}

/** Used on systems without a boot id. It lasts as long as the process, which no restart of the machine survives. */
const UNNAMED_BOOT = randomUUID();

/** Reads the clock of this machine. */
export function readClock(): ClockReading {
  return {
    wall_ms: systemClock.wallMs(),
    uptime_ms: Math.floor(uptime() * 1_000),
    boot_id: readBootId() || UNNAMED_BOOT,
  };
}

/**
 * Reads the note of the last accepted pass.
 * @returns null if no pass was stored; `unreadable` if the file cannot be read or has other content
 */
export function readNote(path: string): ClockReading | 'unreadable' | null {
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === 'ENOENT' ? null : 'unreadable';
  }
  const [, facts, wall, up, boot_id, sum] =
    /^(\w+ (\d{1,16}) (\d{1,16}) ([\w-]{1,64})) ([0-9a-f]{1,8})\n$/.exec(text) ?? [];
  if (facts === undefined || !facts.startsWith(`${FORMAT} `) || crc32(facts).toString(16) !== sum)
    return 'unreadable';
  return { wall_ms: Number(wall), uptime_ms: Number(up), boot_id: boot_id! };
}

/**
 * Replaces the note. It is on the disk when this resolves.
 * @param draft temporary file name, different for each process that writes
 * @throws a file system error
 */
export async function writeNote(
  path: string,
  { wall_ms, uptime_ms, boot_id }: ClockReading,
  draft = `${path}.new`,
): Promise<void> {
  const facts = `${FORMAT} ${Math.max(0, Math.floor(wall_ms))} ${uptime_ms} ${boot_id}`;
  await writeFile(draft, `${facts} ${crc32(facts).toString(16)}\n`, { mode: 0o600, flush: true });
  await rename(draft, path);
  const folder = await open(dirname(path), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

interface RetentionClockParts {
  /** Path of the note. */
  path: string;
  /** Days by kind; null: kept without limit. */
  days: Readonly<Record<string, number | null>>;
  /** Writes a line for the operator. */
  warn(facts: object, words: string): void;
  /** Reads the clock of the machine; tests replace it. */
  read?: () => ClockReading;
  clock?: Pick<Clock, 'monotonicMs'>;
}

export class RetentionClock {
  readonly #parts: RetentionClockParts;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #waits = false;
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: RetentionClockParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
  }

  /** Whether the last pass waits for a confirmation. */
  get waits(): boolean {
    return this.#waits;
  }

  /** Call it once before each pass. @returns the time to which ages refer, in milliseconds since the epoch */
  async nowForAges(): Promise<number> {
    const { path, read = readClock } = this.#parts;
    const last = readNote(path);
    const now = read();
    const judgement = judgeClock(last, now);
    this.#waits = judgement.verdict !== 'accepted';
    if (this.#waits) this.#warn(judgement, last, now);
    else this.#warnedAtMs = Number.NEGATIVE_INFINITY;
    if (judgement.note !== null) await this.#note(judgement.note);
    return judgement.now_ms;
  }

  /**
   * Writes the note. If that fails, for example because the disk is full, the old note stays, and the next pass is
   * compared with it.
   */
  async #note(reading: ClockReading): Promise<void> {
    const { path, warn } = this.#parts;
    try {
      await writeNote(path, reading);
    } catch (err) {
      warn({ err, path }, 'the clock of this pass cannot be stored; the next pass tries again');
    }
  }

  #warn(
    judgement: ClockJudgement,
    last: ClockReading | 'unreadable' | null,
    { wall_ms }: ClockReading,
  ): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#warnedAtMs < RETENTION.warn_every_ms) return;
    this.#warnedAtMs = nowMs;
    const { path, days, warn } = this.#parts;
    const facts = {
      clock: new Date(wall_ms).toISOString(),
      ...(typeof last === 'object' && last !== null
        ? { last_accepted: new Date(last.wall_ms).toISOString() }
        : {}),
      note: path,
      cutoffs: cutoffsOf(judgement, wall_ms, days),
    };
    warn(facts, `${describeVerdict(judgement)}; ${CONFIRM}`);
  }
}

/** Returns the verdict in words; '' for an accepted clock. */
export function describeVerdict({ verdict }: Pick<ClockJudgement, 'verdict'>): string {
  switch (verdict) {
    case 'accepted':
      return '';
    case 'ahead':
      return 'the clock is further ahead of the last accepted pass than the uptime of this machine explains: deletion by age stops one day after that pass until the clock is confirmed';
    case 'behind':
      return 'the clock is behind the last accepted pass: deletion by age follows the clock, and notices no jump ahead before the time of that pass until the clock is confirmed';
    case 'unknown':
      return 'the note of the last accepted pass cannot be read: nothing is deleted by age until the clock is confirmed';
  }
}
