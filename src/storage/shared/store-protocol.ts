/**
 * The messages between a thread of a box and its store thread. Both ends pack the bytes of rows, because cloning a
 * Buffer copies its whole pool. Types and packing; any thread.
 */
import type { MessagePort } from 'node:worker_threads';
import { Packr } from 'msgpackr';
import type { ActorCommit } from './runs-truth.ts';
import {
  type Proposal,
  type ReadRange,
  type StoredRow,
  TruthRefusedError,
  TruthUnavailableError,
  type Verdict,
} from './truth.ts';

/** The first message, which is sent directly to the store thread. It contains one end of a channel. */
export interface StoreGreeting {
  /** Identity of the database (`StoreSeat.identity`). */
  understudy_store: string;
  port: MessagePort;
  /** Which notices the thread follows; null: none. */
  follows: StoreFollowing;
  /** Whether the thread had a channel before, so that it may have missed notices. */
  is_again: boolean;
}

/** `changes`: rows that other boxes change. `losses`: actors that other boxes take. null: none. */
export type StoreFollowing = 'changes' | 'losses' | null;

/** A question of a thread. `id` is repeated in the answer. */
export type StoreQuestion =
  /** A packed {@link Proposal} to commit. */
  | { id: number; commit: Uint8Array }
  /** Wait until the view shows a position. */
  | { id: number; reach: number; within_ms: number }
  /** About the live stream (actors/live-hub/protocol.ts). */
  | { id: number; live: unknown }
  /** A packed {@link RunsQuestion}. */
  | { id: number; runs: Uint8Array };

/** A message to the store thread: the thread's indexes have applied all notices of changes up to this number. */
export interface StoreApplied {
  applied: number;
}

/** A call of the runs' store. */
export type RunsQuestion =
  | { op: 'take'; actor: Buffer }
  | { op: 'commit'; commits: readonly ActorCommit[] }
  | { op: 'rows'; table: string; keys: readonly Buffer[] }
  | { op: 'range'; range: ReadRange; limit: number; reverse: boolean }
  | { op: 'counts'; range: ReadRange };

export type StoreAnswer =
  | { id: number; verdict: Verdict }
  | { id: number; is_reached: boolean }
  | { id: number; live: unknown }
  /** The packed result of the call. */
  | { id: number; runs: Uint8Array }
  | { id: number; failure: StoreFailure };

/** Messages that a thread gets without a question. */
export type StoreTold =
  /** Events of the live stream that the thread follows. */
  | { told: unknown }
  /**
   * `changed`: the rows that other boxes changed, packed; null: any row may have changed. `changes`: the number of this
   * notice among the notices of changes.
   */
  | { changed: Uint8Array | null; changes: number }
  /**
   * `lost`: the actors that other boxes have taken, packed; null: any actor may have been taken. `notices`: the number
   * of this notice among the notices of lost actors.
   */
  | { lost: Uint8Array | null; notices: number };

/** An error as plain data, because errors lose their class between threads. */
export interface StoreFailure {
  kind: 'unavailable' | 'refused' | 'too large' | 'other';
  message: string;
}

/** A row that another box changed. */
export type ChangedRow = Pick<StoredRow, 'table' | 'key'>;

const packr = new Packr({ useRecords: false });

export function packProposal(proposal: Proposal): Uint8Array {
  return packr.pack(proposal);
}

export function unpackProposal(bytes: Uint8Array): Proposal {
  const { base, history, reads, writes } = packr.unpack(bytes) as Proposal;
  return {
    base,
    history,
    reads: reads.map(({ table, first, end }) => ({ table, first: toBuffer(first), end: toBuffer(end) })),
    writes: writes.map(({ table, key, value }) => ({
      table,
      key: toBuffer(key),
      value: value === null ? null : toBuffer(value),
    })),
  };
}

/** Packs a call of the runs' store, its result, or lost actors. */
export function packRuns(value: unknown): Uint8Array {
  return packr.pack(value);
}

/** Unpacks what {@link packRuns} has packed. Byte fields of the result are views of the packed bytes. */
export function unpackRuns(bytes: Uint8Array): unknown {
  return packr.unpack(toBuffer(bytes));
}

export function packChanged(rows: readonly ChangedRow[]): Uint8Array {
  return packr.pack(rows.map(({ table, key }) => [table, key]));
}

export function unpackChanged(bytes: Uint8Array): ChangedRow[] {
  return (packr.unpack(bytes) as [string, Uint8Array][]).map(([table, key]) => ({
    table,
    key: toBuffer(key),
  }));
}

export function toStoreFailure(thrown: unknown): StoreFailure {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (thrown instanceof TruthUnavailableError) return { kind: 'unavailable', message };
  if (thrown instanceof TruthRefusedError) return { kind: 'refused', message };
  return { kind: thrown instanceof RangeError ? 'too large' : 'other', message };
}

export function fromStoreFailure({ kind, message }: StoreFailure): Error {
  if (kind === 'unavailable') return new TruthUnavailableError(message);
  if (kind === 'refused') return new TruthRefusedError(message);
  return kind === 'too large' ? new RangeError(message) : new Error(message);
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
