/**
 * What the runtime needs of a store for persistent actors. Implementations: storage/lmdb/journal.ts and its reference
 * storage/memory/journal.ts. Actor threads.
 */

import type { RowWrite } from './protocol.ts';

/** One thing to make durable. Events and states are opaque bytes to the store; so are the values of rows. */
export type JournalWrite =
  | { type: 'event'; kind: string; key: string; seq: number; event: Uint8Array }
  /** Replaces the actor's snapshot and removes its events up to and including `seq`. */
  | { type: 'snapshot'; kind: string; key: string; seq: number; version: number; state: Uint8Array }
  /** Removes all that is stored of the actor. What comes behind it begins anew, with event 1. */
  | { type: 'forget'; kind: string; key: string }
  /** A row that an event of the same commit brought. */
  | { type: 'row'; kind: string; key: string; row: RowWrite };

/** An actor's history as stored. */
export interface StoredActor {
  snapshot: { seq: number; version: number; state: Uint8Array } | null;
  /** The events after the snapshot, without holes: the first is `snapshot.seq + 1` (1 without a snapshot). */
  events: Uint8Array[];
}

/** Append-only histories of actors. Each address is written by one thread at a time. */
export interface JournalStore {
  /**
   * Reads what is committed.
   * @throws when the store cannot be read
   */
  load(kind: string, key: string): StoredActor;
  /**
   * Makes all writes durable together, or none of them, then calls `done` once, after it has returned. The runtime has at
   * most one commit outstanding. After an error the writes may or may not be there.
   */
  commit(writes: readonly JournalWrite[], done: (error: Error | null) => void): void;
  /**
   * Where what is committed reaches other threads only a moment later: brings it there now.
   * @throws when it cannot
   */
  settle?(): void;
  /** Waits for the outstanding commit and lets go of the store. */
  close(): Promise<void>;
}
