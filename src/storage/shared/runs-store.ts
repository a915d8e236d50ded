/**
 * The interface to the shared runs (runs-truth.ts) for the threads of a box. On the store thread, RunsSender implements
 * it (runs-sender.ts), on other threads RunsClient (runs-client.ts). Any thread.
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

/** An actor that another box owns from this term on. */
export interface LostActor {
  /** The actor's address, with which the keys of its history begin. */
  actor: Buffer;
  term: number;
}

/** The shared runs. Each method rejects with TruthUnavailableError if the database or the store thread is away. */
export interface RunsStore extends Pick<RunsSession, 'readRows' | 'readRange' | 'sumCounts'> {
  /**
   * Makes this box the actor's owner. Do not call it while a commit of the actor has no outcome.
   * @returns the actor, once the view shows the take-over if it was from another box
   */
  take(actor: Buffer): Promise<HeldActor>;
  /**
   * Stores the commits, each completely or not at all.
   * @returns the indexes (from 0) of the commits with a former term, of which nothing was stored. Resolves once the
   *   view shows those stored rows that every box follows.
   * @throws TruthUnavailableError: each commit may or may not be stored; RangeError if a commit is too large
   */
  commit(commits: readonly ActorCommit[]): Promise<number[]>;
}

/** Reads a row of `OWNERS`. */
export function readLost({ key }: Pick<StoredRow, 'key'>): LostActor {
  const end = key.length - TERM_BYTES;
  return { actor: key.subarray(0, end), term: key.readUIntBE(end, TERM_BYTES) };
}
