/**
 * The interface of a store for persistent actors. Implementations: storage/lmdb/journal.ts, storage/shared/journal.ts
 * and, for tests, storage/memory/journal.ts. Any thread with actors.
 */

import type { ActorAddress, RowWrite } from './protocol.ts';

/** A write to make durable. Events, states and the values of rows are opaque bytes to the store. */
export type JournalWrite =
  | { type: 'event'; kind: string; key: string; seq: number; event: Uint8Array }
  /** Replaces the actor's snapshot and removes its events up to and including `seq`. */
  | { type: 'snapshot'; kind: string; key: string; seq: number; version: number; state: Uint8Array }
  /** Removes everything stored of the actor. Later entries start again with event 1. */
  | { type: 'forget'; kind: string; key: string }
  /** A row that follows from an event of the same commit. */
  | { type: 'row'; kind: string; key: string; row: RowWrite };

/** An actor's history as stored. */
export interface StoredActor {
  snapshot: { seq: number; version: number; state: Uint8Array } | null;
  /** The events after the snapshot, without gaps: the first is `snapshot.seq + 1` (1 without a snapshot). */
  events: Uint8Array[];
}

/** The store could not be reached, so it is unknown whether an actor can be loaded. A later load may succeed. */
export class JournalUnavailableError extends Error {
  override readonly name = 'JournalUnavailableError';
}

/**
 * Called when a commit has ended.
 * @param lost actors that another process owns now. None of their writes was stored, but all other writes were. Empty
 * if there is an error
 */
export type CommitDone = (error: Error | null, lost?: readonly ActorAddress[]) => void;

/**
 * Append-only histories of actors. Each address is written by one thread at a time. A store that several processes
 * share gives each actor one owner: `load` makes the caller the owner, and a commit of a former owner stores nothing.
 */
export interface JournalStore {
  /**
   * Reads committed data. The runtime loads an actor only after all commits with writes of it have ended.
   * @returns a promise if the store is not on this machine; the actor then waits, and the thread does not
   * @throws if the store cannot be read, also as a rejection; JournalUnavailableError if it could not be reached
   */
  load(kind: string, key: string): StoredActor | Promise<StoredActor>;
  /**
   * Makes all writes durable together, or none of them, and then calls `done` once, never before `commit` has returned.
   * The runtime runs at most one commit at a time. After an error, the writes may or may not be stored.
   */
  commit(writes: readonly JournalWrite[], done: CommitDone): void;
  /**
   * Set by the host. A shared store calls it when it learns that another process owns actors of this host, never inside
   * `load` or `commit`. If such an actor was loaded again in the meantime, it is loaded once more.
   */
  onLost?: ((addresses: readonly ActorAddress[]) => void) | undefined;
  /** Called when an actor has left memory and all its commits have ended. The actor is loaded again before its next write. */
  letGo?(kind: string, key: string): void;
  /**
   * Makes commits visible to other threads now, in a store that would make them visible later.
   * @throws a store error
   */
  settle?(): void;
  /** Waits for the running commit and closes the store. */
  close(): Promise<void>;
}
