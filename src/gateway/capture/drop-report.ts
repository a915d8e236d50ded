/**
 * Logs dropped exchanges, for the causes in ADVICE. The first drop of a cause is logged at once, later ones
 * at most once a minute. Server threads.
 */
import type { DropCause } from '../../domain/capture-cause.ts';
import { RareTelling } from '../../std/rare-telling.ts';

/**
 * For each cause, why exchanges were dropped and what the operator can do. Causes without advice
 * are reported elsewhere: the writer reports exchanges that it does not store because of their
 * content, and a stopping process reports the exchanges that it drops.
 */
const ADVICE: Readonly<Partial<Record<DropCause, string>>> = {
  queue_full:
    'they arrive faster than the writer stores them, and GW_MAX_QUEUE is reached. Give the machine more processor time or a faster disk, or raise GW_MAX_QUEUE',
  bytes_full:
    'their bodies arrive faster than the writer stores them, and GW_MAX_QUEUE_BYTES is reached. Give the machine more processor time or a faster disk, or raise GW_MAX_QUEUE_BYTES if there is memory',
  disk_full: 'the disk is full, and so is the queue. Free space on the disk',
  disk_error:
    'writing to the disk fails, and the queue is full. Check the disk and the permissions of the folder of the captures',
  damaged:
    'the capture database is damaged, and the queue is full. Move the file away: a new one is created at once',
  writer_down:
    'the writer is down, and the queue is full. It restarts automatically; earlier log lines say why it ended',
  lost_with_writer:
    'the writer ended or timed out while it held them, so some may be stored. Earlier log lines say why',
  writer_killed: 'capture was stopped by POST /__gw/writer/kill. It resumes when the process restarts',
};

/** The method of the process's log that the report needs. */
interface DropLog {
  error(fields: object, message: string): void;
}

export class DropReport {
  readonly #log: DropLog;
  readonly #telling = new RareTelling<DropCause>();

  constructor(log: DropLog) {
    this.#log = log;
  }

  /** Counts dropped exchanges, and logs them if the last line about this cause is old enough. */
  tell(cause: DropCause, count: number): void {
    const advice = ADVICE[cause];
    if (advice === undefined) return;
    const exchanges = this.#telling.count(cause, count);
    if (exchanges > 0) this.#log.error({ cause, exchanges }, `exchanges are dropped: ${advice}`);
  }
}
