/**
 * The interface of a store for persistent actors. Implementations: storage/lmdb/journal.ts and its reference
 * storage/memory/journal.ts. Actor threads.
 */

import type { RowWrite } from './protocol.ts';

/** A write to make durable. Events, states and the values of rows are opaque bytes to the store. */
export type JournalWrite =
  | { type: 'event'; kind: string; key: string; seq: number; event: Uint8Array }
  /** Replaces the actor's snapshot and removes its events up to and including `seq`. */
  | { type: 'snapshot'; kind: string; key: string; seq: number; version: number; state: Uint8Array }
  /** Removes everything stored of the actor. Later entries start again with event 1. */
  | { type: 'forget'; kind: string; key: string }
  /** A row that an event of the same commit projects. */
  | { type: 'row'; kind: string; key: string; row: RowWrite };

/** An actor's history as stored. */
export interface StoredActor {
  snapshot: { seq: number; version: number; state: Uint8Array } | null;
  /** The events after the snapshot, without gaps: the first is `snapshot.seq + 1` (1 without a snapshot). */
  events: Uint8Array[];
}

/** Append-only histories of actors. Each address is written by one thread at a time. */
export interface JournalStore {
  /**
   * Reads committed data.
   * @throws if the store cannot be read
   */
  load(kind: string, key: string): StoredActor;
  /**
   * Makes all writes durable together, or none of them, then calls `done` once, after it has returned. The runtime
   * has at most one commit running. After an error, the writes may or may not be stored.
   */
  commit(writes: readonly JournalWrite[], done: (error: Error | null) => void): void;
  /**
   * Makes commits visible to other threads now, in a store that would make them visible later.
   * @throws if that fails
   */
  settle?(): void;
  /** Waits for the running commit and closes the store. */
  close(): Promise<void>;
}
