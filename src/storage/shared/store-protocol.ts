/**
 * The messages between a thread of a box and its store thread. Both ends pack the bytes of rows, because a cloned Buffer
 * takes its whole pool along. Types and packing; any thread.
 */
import type { MessagePort } from 'node:worker_threads';
import { Packr } from 'msgpackr';
import {
  type Proposal,
  type StoredRow,
  TruthRefusedError,
  TruthUnavailableError,
  type Verdict,
} from './truth.ts';

/** The first message, from thread to thread: it hands over the end of a channel. */
export interface StoreGreeting {
  understudy_store: string;
  port: MessagePort;
  /** Whether the thread wants to know what other boxes change. */
  follows: boolean;
}

export type StoreQuestion =
  | { id: number; commit: Uint8Array }
  /** Wait until the view shows a position. */
  | { id: number; reach: number; within_ms: number }
  /** About the live stream (actors/live-hub/protocol.ts). */
  | { id: number; live: unknown };

export type StoreAnswer =
  | { id: number; verdict: Verdict }
  | { id: number; is_reached: boolean }
  | { id: number; live: unknown }
  | { id: number; failure: StoreFailure }
  /** Events of the live stream that the thread follows. */
  | { told: unknown }
  /** Rows that other boxes changed, packed; null: everything was loaded again. */
  | { changed: Uint8Array | null };

/** An error loses its class between threads. */
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
