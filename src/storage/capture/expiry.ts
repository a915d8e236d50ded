/**
 * Removes captured exchanges by age while the log goes on (`RETENTION_DAYS_CAPTURES`): sealed files whose last exchange is older
 * than the bound, oldest first, and then the attachments that nothing names any more. No exchange is stored against one of another
 * file, so a later one stays as it is. A live file is sealed when it is a day old, so that its exchanges get an end, too. Capture
 * process.
 *
 * An attachment is known by the time of its file: the log touches it when an exchange names it (attachments.ts). So what was not
 * touched since the oldest exchange that is left began, no exchange names. That holds for exchanges of a time at which the log did
 * touch; before that, no attachment goes.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { opendir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, systemClock } from '../../std/clock.ts';
import { syncPath } from './attachments.ts';
import { BlockReader } from './blocks.ts';
import { listDamaged } from './damage.ts';
import { attachmentsFolder, listSealed, openCaptureEnv, type SealedFile } from './layout.ts';
import { removeRunIndex } from './run-index.ts';

/** The log, as far as it is needed. */
export interface ExpiringLog {
  /** When the first exchange of the live file began; null: there is none. */
  readFirstStart(): Promise<number | null>;
  rotate(): Promise<unknown>;
  /** Told that a sealed file is gone. */
  forgetSealed(): void;
}

export interface CaptureExpiryOptions {
  /** The live file. */
  path: string;
  /** null: nothing is encrypted. Secret. */
  data_key: Uint8Array | null;
  /** Older is removed. */
  days: number;
  log: ExpiringLog;
  clock?: Pick<Clock, 'wallMs'>;
}

/** What has gone by age since the process began. */
export interface ExpiredCaptures {
  files: number;
  exchanges: number;
  attachments: number;
  /** When all was looked through last, seconds since the epoch; 0: it was not yet. */
  passed_at_s: number;
}

export const NOTHING_EXPIRED: ExpiredCaptures = { files: 0, exchanges: 0, attachments: 0, passed_at_s: 0 };

const DAY_MS = 86_400_000;
/** The live file is sealed when its first exchange is so old. */
const SEAL_AFTER_MS = DAY_MS;
/** Clocks of exchanges and of files may be so far apart. */
const MARGIN_MS = DAY_MS;
/** Memory for the first and the last block of a file. */
const CACHE_BYTES = 1 << 20;
const HEX_NAME = /^[0-9a-f]{64}$/;
const NAME = /^[\w-]{22,64}$/;

interface Span {
  first_ms: number;
  last_ms: number;
}

export class CaptureExpiry {
  readonly #options: CaptureExpiryOptions;
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #spans = new Map<string, Span>();
  #expired = NOTHING_EXPIRED;
  #isFirst = true;

  constructor(options: CaptureExpiryOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  get expired(): ExpiredCaptures {
    return this.#expired;
  }

  /** Removes all that is too old now. @throws Error of the storage; the next pass begins anew */
  async pass(): Promise<void> {
    const { log, days } = this.#options;
    const nowMs = this.#clock.wallMs();
    const first = await log.readFirstStart();
    if (first !== null && first < nowMs - SEAL_AFTER_MS) await log.rotate();
    const removed = await this.#removeFiles(nowMs - days * DAY_MS);
    // It has first words of what is gone. Who has it open makes it again without them, else the next reader does.
    if (removed > 0) removeRunIndex(this.#options.path);
    // A process that ended in between has left attachments.
    if (removed > 0 || this.#isFirst) await this.#removeAttachments();
    this.#isFirst = false;
    this.#expired = { ...this.#expired, passed_at_s: Math.floor(nowMs / 1_000) };
  }

  /** @returns how many */
  async #removeFiles(beforeMs: number): Promise<number> {
    let removed = 0;
    for (const file of listSealed(this.#options.path)) {
      // What is being sealed is there twice for a moment, and younger than what comes before.
      if (file.sealing || this.#spanOf(file).last_ms >= beforeMs) break;
      // The lock first: without its file nobody would find it.
      rmSync(`${file.path}-lock`, { force: true });
      // A file of gigabytes takes a while; whoever reads it goes on.
      await unlink(file.path);
      syncPath(dirname(file.path));
      this.#spans.delete(file.path);
      this.#options.log.forgetSealed();
      removed++;
      const { files, exchanges } = this.#expired;
      const count = file.last_id - file.first_id + 1;
      this.#expired = { ...this.#expired, files: files + 1, exchanges: exchanges + count };
      await nextTurn();
    }
    return removed;
  }

  async #removeAttachments(): Promise<void> {
    const { path } = this.#options;
    const folder = attachmentsFolder(path);
    // What was set aside names attachments too, and nobody can tell which.
    if (!existsSync(folder) || listDamaged(path).length > 0) return;
    const oldestMs = await this.#findOldest();
    const touchedSince = readTouchedSince(path);
    if (oldestMs === null || touchedSince === null || oldestMs < touchedSince) return;
    let removed = 0;
    for await (const { name } of await opendir(folder)) {
      if (!HEX_NAME.test(name) && !NAME.test(name)) continue;
      const place = join(folder, name);
      // In one turn: between the look and the removal no exchange can name it.
      const touched = statSync(place, { throwIfNoEntry: false })?.mtimeMs;
      if (touched === undefined || touched >= oldestMs - MARGIN_MS) continue;
      rmSync(place, { force: true });
      removed++;
    }
    if (removed === 0) return;
    syncPath(folder);
    this.#expired = { ...this.#expired, attachments: this.#expired.attachments + removed };
  }

  /** When the oldest exchange that is left began; now where there is none; null: nobody can tell. */
  async #findOldest(): Promise<number | null> {
    let oldest = this.#clock.wallMs();
    const live = await this.#options.log.readFirstStart();
    if (live !== null) oldest = Math.min(oldest, live);
    for (const file of listSealed(this.#options.path)) {
      if (file.sealing) return null;
      const { first_ms, last_ms } = this.#spanOf(file);
      oldest = Math.min(oldest, first_ms, last_ms);
    }
    return oldest;
  }

  /** Of a file that cannot be read: as if it had been filled when it was sealed. */
  #spanOf({ path, first_id, last_id }: SealedFile): Span {
    let span = this.#spans.get(path);
    if (span === undefined) {
      try {
        span = readSpan(path, this.#options.data_key, first_id, last_id);
      } catch {
        const { mtimeMs } = statSync(path);
        span = { first_ms: 0, last_ms: mtimeMs };
      }
      this.#spans.set(path, span);
    }
    return span;
  }
}

function readSpan(path: string, dataKey: Uint8Array | null, firstId: number, lastId: number): Span {
  const env = openCaptureEnv(path, 'read', dataKey);
  try {
    const blocks = new BlockReader(env, path, CACHE_BYTES);
    const [first, last] = [blocks.readMeta(firstId), blocks.readMeta(lastId)];
    if (first === undefined || last === undefined) throw new RangeError('it is not all there');
    const startOf = ({ record }: typeof first) => Date.parse(record.started_at);
    const [first_ms, last_ms] = [startOf(first), startOf(last) + last.record.duration_ms];
    return { first_ms, last_ms: Math.max(first_ms, last_ms) };
  } finally {
    void env.root.close();
  }
}

function touchedPlace(path: string): string {
  return `${path}.touched-since`;
}

/** Notes that from now on the log touches attachments. To be called before the first exchange comes. */
export function noteTouching(path: string, nowMs: number): void {
  const place = touchedPlace(path);
  if (existsSync(place)) return;
  const folder = attachmentsFolder(path);
  const isNew = !existsSync(folder) || readdirSync(folder).length === 0;
  writeFileSync(place, `${isNew ? 0 : nowMs}\n`, { mode: 0o600 });
}

function readTouchedSince(path: string): number | null {
  try {
    const ms = Number(readFileSync(touchedPlace(path), 'latin1'));
    return Number.isFinite(ms) ? ms : null;
  } catch {
    return null;
  }
}
