/**
 * What the threads of a box ask about the common runs (runs-truth.ts). On the store thread a RunsSender answers
 * (runs-sender.ts), on other threads a RunsClient (runs-client.ts). Any thread.
 */
import type { ActorCommit, RunsSession } from './runs-truth.ts';
import type { StoredRow } from './truth.ts';

const TERM_BYTES = 6;

/** An actor that this box owns. */
export interface HeldActor {
  term: number;
  /** Its rows of `snapshots` and of `journal`, in the order of their keys. */
  rows: StoredRow[];
}

/** Another box has the actor from this term on. */
export interface LostActor {
  /** Its address as it begins the keys of its history. */
  actor: Buffer;
  term: number;
}

/** @throws TruthUnavailableError when the database or the way to it is away */
export interface RunsStore extends Pick<RunsSession, 'readRows' | 'readRange' | 'sumCounts'> {
  /**
   * Makes this box the actor's owner. Not while a commit of the actor is outstanding.
   * @returns once the view shows a take-over from another box
   */
  take(actor: Buffer): Promise<HeldActor>;
  /**
   * Stores the commits, each all or nothing.
   * @returns which of them (from 0) are of a former term: nothing of these was stored. Once the view shows the rows that
   *   every box follows
   * @throws TruthUnavailableError: each may or may not be stored; RangeError for one that is too large
   */
  commit(commits: readonly ActorCommit[]): Promise<number[]>;
}

/** Reads a row of `OWNERS`. */
export function readLost({ key }: Pick<StoredRow, 'key'>): LostActor {
  const end = key.length - TERM_BYTES;
  return { actor: key.subarray(0, end), term: key.readUIntBE(end, TERM_BYTES) };
}
