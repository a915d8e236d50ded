/**
 * Removes captured exchanges by age while the log runs (`RETENTION_DAYS_CAPTURES`): sealed files whose last exchange is
 * older than the limit, oldest first, and then the attachments to which no exchange refers any more
 * (attachment-ages.ts). Exchanges refer only to exchanges in the same file, so the exchanges of other files stay
 * readable. Only sealed files expire, so the live file is sealed when its first exchange is a day old. Capture process.
 */
import { rmSync, statSync } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, systemClock } from '../../std/clock.ts';
import { syncPath } from '../../std/synced-path.ts';
import { readOffloadedFile } from '../offload/offloaded-file.ts';
import { removeUntouched } from './attachment-ages.ts';
import { BlockReader } from './blocks.ts';
import { listSealed, openCaptureEnv, type SealedFile } from './layout.ts';
import { removeRunIndex } from './run-index.ts';

/** The methods of the log that expiry needs. */
interface ExpiringLog {
  /** Reads when the first exchange of the live file began; null for an empty file. */
  readFirstStart(): Promise<number | null>;
  rotate(): Promise<unknown>;
  /** Records that a sealed file is about to be removed, and that its blocks in a bucket may be removed. */
  expireSealed(file: SealedFile): void;
  /** Records that a sealed file was removed. */
  forgetSealed(): void;
}

interface CaptureExpiryOptions {
  /** The live file. */
  path: string;
  /** null: no encryption. Secret. */
  data_key: Uint8Array | null;
  /** Maximum age in days. */
  days: number;
  log: ExpiringLog;
  /** Returns the time to which ages refer (retention-clock.ts). Called once per pass; default: the wall clock. */
  nowForAges?(): Promise<number>;
  clock?: Pick<Clock, 'wallMs'>;
}

/** What expiry has removed since the process started. */
interface ExpiredCaptures {
  files: number;
  exchanges: number;
  attachments: number;
  /** When the last pass ended, in seconds since the epoch; 0 before the first. */
  passed_at_s: number;
}

const NOTHING_EXPIRED: ExpiredCaptures = { files: 0, exchanges: 0, attachments: 0, passed_at_s: 0 };

const DAY_MS = 86_400_000;
/** The live file is sealed when its first exchange is this old. */
const SEAL_AFTER_MS = DAY_MS;
/** Maximum memory for reading the first and the last block of a file. */
const CACHE_BYTES = 1 << 20;

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

  /** Removes everything that is too old now. @throws a storage error; the next pass starts over */
  async pass(): Promise<void> {
    const { log, days, nowForAges } = this.#options;
    const nowMs = (await nowForAges?.()) ?? this.#clock.wallMs();
    const first = await log.readFirstStart();
    if (first !== null && first < nowMs - SEAL_AFTER_MS) await log.rotate();
    const removed = await this.#removeFiles(nowMs - days * DAY_MS);
    // The run index contains the first words of removed runs. The process that has the index open, or the next reader,
    // rebuilds it without them.
    if (removed > 0) removeRunIndex(this.#options.path);
    // An earlier process may have stopped before it removed the attachments.
    if (removed > 0 || this.#isFirst) await this.#removeAttachments(nowMs);
    this.#isFirst = false;
    this.#expired = { ...this.#expired, passed_at_s: Math.floor(this.#clock.wallMs() / 1_000) };
  }

  /** Removes sealed files whose last exchange ended before a time. @returns number of removed files */
  async #removeFiles(beforeMs: number): Promise<number> {
    let removed = 0;
    for (const file of listSealed(this.#options.path)) {
      // Files are in the order of age, so no later file is older. A file that is being sealed may exist under two
      // names, so the pass ends there.
      if (file.sealing || this.#spanOf(file).last_ms >= beforeMs) break;
      // Remove the lock file first: later passes find it only by its database file.
      rmSync(`${file.path}-lock`, { force: true });
      this.#options.log.expireSealed(file);
      // Asynchronous, because removing gigabytes takes a while. Processes that have the file open can still read it.
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

  async #removeAttachments(nowMs: number): Promise<void> {
    const { path } = this.#options;
    const oldestMs = await this.#findOldest(nowMs);
    if (oldestMs === null) return;
    const removed = await removeUntouched(path, oldestMs);
    if (removed === 0) return;
    this.#expired = { ...this.#expired, attachments: this.#expired.attachments + removed };
  }

  /**
   * Finds when the oldest remaining exchange began; `nowMs` if there are no exchanges; 0 if a file cannot be read; null
   * while a file is being sealed.
   */
  async #findOldest(nowMs: number): Promise<number | null> {
    let oldest = nowMs;
    const live = await this.#options.log.readFirstStart();
    if (live !== null) oldest = Math.min(oldest, live);
    for (const file of listSealed(this.#options.path)) {
      if (file.sealing) return null;
      const { first_ms, last_ms } = this.#spanOf(file);
      oldest = Math.min(oldest, first_ms, last_ms);
    }
    return oldest;
  }

  /**
   * Returns the times of a file's first and last exchange. In an unreadable file, the first exchange counts as begun at
   * time 0, and the last one as ended when the file was sealed.
   */
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
    const offloaded = readOffloadedFile(env);
    if (offloaded !== null) return { first_ms: offloaded.from_ms, last_ms: offloaded.to_ms };
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
