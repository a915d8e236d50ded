/** What the capture writer reports about its files and its process. Types and a constant; any thread. */
import type { WithheldCause } from './exchange.ts';

/** The state of the files. */
export interface LogState {
  /** Size of the live file. */
  bytes: number;
  /** Number of sealed files. */
  sealed: number;
  packing: PackingState;
  /** Number of bodies that were withheld since the files were opened, by cause. */
  withheld: Record<WithheldCause, number>;
  /** Progress of the full-text index; null without one. */
  text: TextIndexState | null;
  /** Progress of the bucket; null without one. */
  bucket: BucketState | null;
}

/** The sealed files in a bucket. */
interface BucketState {
  /** Number and bytes of the files that are not in the bucket yet. */
  waiting_files: number;
  waiting_bytes: number;
  /** Number and bytes of the files whose bodies are only in the bucket. */
  offloaded_files: number;
  offloaded_bytes: number;
  /** Objects and folders that are to be removed from the bucket. */
  removing: number;
  /** Bytes that the process has sent. */
  sent_bytes: number;
  /** Why the last attempt failed; null: it succeeded. */
  failure: string | null;
}

/** The full-text index. */
interface TextIndexState {
  /** The last exchange in the full-text index; 0 without any. */
  searched_id: number;
  /** Stored exchanges that are not in the full-text index yet. */
  unsearched: number;
  /** Exchanges that are only partly in the full-text index (their beginning). */
  cut: number;
  bytes: number;
  segments: number;
}

/** Work that was postponed while exchanges arrived. */
interface PackingState {
  /**
   * Number and bytes of the blocks that were stored raw and wait to be packed, and the age of the oldest in seconds.
   */
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

/** Deletion of captures by age: what the capture process has deleted since it started, and its last pass. */
export interface ExpiredCaptures {
  /** Number of sealed files that were deleted. */
  files: number;
  /** Number of exchanges in these files. */
  exchanges: number;
  /** Number of attachments that were deleted because no remaining exchange uses them. */
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
  /**
   * Age of the oldest read transaction of another process in the live file, in seconds; 0 without one. Absent if the
   * log is written on the actor's own thread.
   */
  oldest_read_s?: number;
  /** Absent if the log is written on the actor's own thread. */
  process?: ProcessState;
}

/** The state of postponed work before the first report. */
export const NOTHING_POSTPONED: PackingState = {
  waiting_blocks: 0,
  waiting_bytes: 0,
  oldest_s: 0,
  unindexed: 0,
  unindexed_s: 0,
  unsearched: 0,
  share: 0,
};
