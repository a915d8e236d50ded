/**
 * Drops of exchanges as lines of the log, one for each cause, with what to do: at once, then at most one a minute. Server
 * threads.
 */
import type { DropCause } from '../../domain/capture-cause.ts';
import { RareTelling } from '../../std/rare-telling.ts';

/** What has happened to the exchanges, and what helps. The writer tells of those that it sets apart, a stop of its own. */
const ADVICE: Readonly<Partial<Record<DropCause, string>>> = {
  queue_full:
    'more of them came than the writer stores: GW_MAX_QUEUE is reached. Give the machine more processor time or a faster disk, or raise GW_MAX_QUEUE',
  bytes_full:
    'their bodies come faster than the writer stores them: GW_MAX_QUEUE_BYTES is reached. Give the machine more processor time or a faster disk, or raise GW_MAX_QUEUE_BYTES if there is memory',
  disk_full: 'the disk is full, and so is the queue. Make room there',
  disk_error:
    'the disk or its file system refuses, and the queue is full. Look at the disk and at who may write there',
  damaged:
    'the capture database is damaged, and the queue is full. Move the file away: a new one is begun at once',
  writer_down:
    'the writer is down, and the queue is full. It is started again by itself; the lines before say why it ended',
  lost_with_writer:
    'the writer ended, or did not answer in time, with them in its hands: some may be stored. The lines before say why',
  writer_killed: 'capture was stopped by POST /__gw/writer/kill. It begins again with the process',
};

/** What is needed of the process's log. */
export interface DropLog {
  error(fields: object, message: string): void;
}

export class DropReport {
  readonly #log: DropLog;
  readonly #telling = new RareTelling<DropCause>();

  constructor(log: DropLog) {
    this.#log = log;
  }

  /** So many are dropped. */
  tell(cause: DropCause, count: number): void {
    const advice = ADVICE[cause];
    if (advice === undefined) return;
    const exchanges = this.#telling.count(cause, count);
    if (exchanges > 0) this.#log.error({ cause, exchanges }, `exchanges are dropped: ${advice}`);
  }
}
