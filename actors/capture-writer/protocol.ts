/**
 * The capture writer's messages. One actor, pinned to one thread, owns the capture database. Any thread.
 */
import type { PlaceCause, SetApart } from '../../src/domain/capture-cause.ts';
import type { WithheldCause } from '../../src/domain/exchange.ts';

export const CAPTURE_WRITER_KIND = 'capture-writer';

/** The state of the files. */
export interface LogState {
  /** Size of the live file. */
  bytes: number;
  /** Number of sealed files. */
  sealed: number;
  packing: PackingState;
  /** Bodies that were withheld because they could not be searched, since the files were opened. */
  withheld: Record<WithheldCause, number>;
  /** Progress of the full-text index; null without one. */
  text: TextIndexState | null;
  /** Progress of the bucket; null without one. */
  bucket: BucketState | null;
}

/** The sealed files in a bucket. */
interface BucketState {
  /** Files that are not there yet, and their bytes. */
  waiting_files: number;
  waiting_bytes: number;
  /** Files whose bodies are there alone, and the bytes of these. */
  away_files: number;
  away_bytes: number;
  /** Objects and folders that are to be removed there. */
  removing: number;
  /** Bytes that the process has sent. */
  sent_bytes: number;
  /** Why the last attempt failed; null: it did not. */
  failure: string | null;
}

/** The full-text index. */
interface TextIndexState {
  /** The last exchange in the full-text index; 0 without any. */
  searched_id: number;
  /** Stored exchanges that are not in the full-text index yet. */
  unsearched: number;
  /** Exchanges of which only the beginning is in the full-text index. */
  cut: number;
  bytes: number;
  segments: number;
}

/** Work that was postponed while exchanges arrived. */
interface PackingState {
  /** Blocks that were stored raw and wait to be packed, and the age of the oldest of them. */
  waiting_blocks: number;
  waiting_bytes: number;
  oldest_s: number;
  /** Exchanges that the index does not have yet. */
  unindexed: number;
  /** Seconds since the oldest of these was stored; 0 without any. */
  unindexed_s: number;
  /** Exchanges that the full-text index does not have yet. */
  unsearched: number;
  /** Share of one core that postponed work may use while exchanges arrive. */
  share: number;
}

/** The process that writes the files. */
interface ProcessState {
  /** null while the process is not running. */
  pid: number | null;
  /** Unexpected ends of the process since the start. */
  restarts: number;
  /** For how long a request has been unanswered; 0 if the process answers. */
  silent_ms: number;
  /** Resident memory, as last reported. */
  memory_bytes: number;
}

/** Data removed by age. */
export interface ExpiredCaptures {
  files: number;
  exchanges: number;
  attachments: number;
  /** End of the last complete pass, in seconds since the epoch; 0 before the first. */
  passed_at_s: number;
  /** Whether an operator must confirm the clock before more than a day of exchanges is removed. */
  waits_for_confirmation: boolean;
}

export interface WriterState extends LogState {
  /** null: all is kept. Absent if the log is written on the actor's own thread. */
  expired?: ExpiredCaptures | null;
  /** Damaged files that were renamed and still exist. Absent if the log is written on the actor's own thread. */
  damaged?: number;
  /** As `FileState` has it. Absent if the log is written on the actor's own thread. */
  oldest_read_s?: number;
  process?: ProcessState;
}

/** The outcome of a batch. */
export interface Appended {
  /** Range of the ids stored by this append; if nothing was stored, last_id is first_id minus one. */
  first_id: number;
  last_id: number;
  /** Exchanges whose content cannot be stored; omitted if empty. */
  set_apart?: SetApart[];
  /** The storage failed in the middle: the exchanges of the batch from this index on must be sent again. */
  left?: { from: number; cause: PlaceCause; message: string };
}

export type CaptureWriterProtocol = {
  /** Opens the database now; otherwise the first other message opens it. */
  open: { request: null; reply: null };
  /**
   * The exchanges are at `places` of the mapped memory: first the slabs of a batch, then its cells (`batch.ts`).
   * Without places, they are the message's bodies in that order. Answered when the batch is committed; refused with a
   * `FailureCause` or `capture_failed` if nothing of it is stored.
   */
  append: {
    request: {
      slabs: number;
      places?: readonly number[];
      /** Index of the first exchange to store; earlier ones are stored already. */
      from: number;
    };
    reply: Appended;
  };
  /** Answered when everything appended before survives a power failure. */
  flush: { request: null; reply: null };
  rotate: { request: null; reply: { sealed: string | null; opened: string } };
  /** Closes the database; every later message is refused with `capture_stopped`. */
  kill: { request: null; reply: null };
  state: { request: null; reply: WriterState };
};
