/**
 * What the capture writer understands. One actor, pinned to one thread, owns the capture database.
 * Any thread.
 */
import type { PlaceCause, SetApart } from '../../src/domain/capture-cause.ts';
import type { WithheldCause } from '../../src/domain/exchange.ts';

export const CAPTURE_WRITER_KIND = 'capture-writer';

/** Where the files stand. */
export interface LogState {
  /** Size of the live file. */
  bytes: number;
  /** Number of sealed files. */
  sealed: number;
  packing: PackingState;
  /** Bodies withheld because they could not be decoded, since the files were opened. */
  withheld: Record<WithheldCause, number>;
  /** How far the full-text index is; null without one. */
  text: TextIndexState | null;
}

/** The full-text index. */
interface TextIndexState {
  /** The last exchange that is searched; 0 without any. */
  searched_id: number;
  /** Stored exchanges that are not searched yet. */
  unsearched: number;
  /** Exchanges of which only the beginning is searched. */
  cut: number;
  bytes: number;
  segments: number;
}

/** What was put off while exchanges came. */
interface PackingState {
  /** Blocks that were stored as they are and wait to be packed, and since when the oldest of them does. */
  waiting_blocks: number;
  waiting_bytes: number;
  oldest_s: number;
  /** Exchanges that the index does not have yet. */
  unindexed: number;
  /** Seconds since the oldest of those was stored; 0 without any. */
  unindexed_s: number;
  /** Exchanges that the full-text index does not have yet. */
  unsearched: number;
  /** Part of one core that tidying may take while exchanges come. */
  share: number;
}

/** The process that writes them. */
interface ProcessState {
  /** null while the process does not run. */
  pid: number | null;
  /** Times that it ended by itself since the start. */
  restarts: number;
  /** For how long it has answered nothing, though it was asked; 0 when it answers. */
  silent_ms: number;
  /** Resident memory, as it told last. */
  memory_bytes: number;
}

/** What has gone by age. */
export interface ExpiredCaptures {
  files: number;
  exchanges: number;
  attachments: number;
  /** When all was looked through last, seconds since the epoch; 0: it was not yet. */
  passed_at_s: number;
  /** Whether the clock is to be confirmed before more than a day goes. */
  waits_for_confirmation: boolean;
}

export interface WriterState extends LogState {
  /** null: all is kept. Absent where the log is written on the actor's own thread. */
  expired?: ExpiredCaptures | null;
  /** Damaged files that were set aside and lie there still. Absent where the log is written on the actor's own thread. */
  damaged?: number;
  process?: ProcessState;
}

/** What became of a batch. */
export interface Appended {
  /** Ids of what was stored now; without anything, last_id is one less. */
  first_id: number;
  last_id: number;
  /** Exchanges whose content cannot be stored; left out when empty. */
  set_apart?: SetApart[];
  /** The place failed in the middle: exchanges from this one of the batch on are to be sent again. */
  left?: { from: number; cause: PlaceCause; message: string };
}

export type CaptureWriterProtocol = {
  /** Opens the database, which the first other message would do as well. */
  open: { request: null; reply: null };
  /**
   * The exchanges lie at `places` of the mapped memory, first the slabs of a batch, then its cells (`batch.ts`); without
   * places they come as the message's bodies in that order. Answered when the batch is committed; refused with a `FailureCause` or `capture_failed` when none of it is.
   */
  append: {
    request: {
      slabs: number;
      places?: readonly number[];
      /** Which exchange is the first one; those before it are stored already. */
      from: number;
    };
    reply: Appended;
  };
  /** Answered when all that was appended before is safe from a power cut. */
  flush: { request: null; reply: null };
  rotate: { request: null; reply: { sealed: string | null; opened: string } };
  /** Closes the database; every later message is refused with `capture_stopped`. */
  kill: { request: null; reply: null };
  state: { request: null; reply: WriterState };
};
