/**
 * The capture writer's messages. One actor, pinned to one thread, does all writes to the captures. Any thread.
 */
import type { PlaceCause, SetApart } from '../../src/domain/capture-cause.ts';
import type { WriterState } from '../../src/domain/writer-state.ts';

export const CAPTURE_WRITER_KIND = 'capture-writer';

/** The outcome of a batch. */
export interface Appended {
  /** Range of the ids stored by this append; if nothing was stored, last_id is first_id minus one. */
  first_id: number;
  last_id: number;
  /** Exchanges whose content cannot be stored; absent: none. */
  set_apart?: SetApart[];
  /** The storage failed in the middle: the exchanges of the batch from this index on must be sent again. */
  left?: { from: number; cause: PlaceCause; message: string };
}

export type CaptureWriterProtocol = {
  /** Opens the database now. Without this message, the first other message opens it. */
  open: { request: null; reply: null };
  /**
   * The exchanges are at `places` of the mapped memory: first the slabs of a batch, then its cells (`batch.ts`).
   * Without places, they are the message's bodies in that order. Answered when the batch, or the part of it before
   * `left`, is committed. Refused if nothing is stored, except with `lost_with_writer`: then it is unknown what is stored.
   */
  append: {
    request: {
      slabs: number;
      places?: readonly number[];
      /** Index of the first exchange to store. Earlier appends stored the exchanges before it, or set them apart. */
      from: number;
      /** Number of exchanges from there on. */
      exchanges: number;
      /** Share of the sender's queue that was in use when it sent the batch, 0 to 1. */
      queue_fill: number;
    };
    reply: Appended;
  };
  /** Answered when all earlier appends are on the disk, so that they survive a power failure. */
  flush: { request: null; reply: null };
  /** Seals the live file and opens a new one. `sealed`: null if there was nothing to seal. */
  rotate: { request: null; reply: { sealed: string | null; opened: string } };
  /** Closes the database. Later messages, except `state` and `kill`, are refused with `capture_stopped`. */
  kill: { request: null; reply: null };
  state: { request: null; reply: WriterState };
};
