/** The messages between the bucket's thread and the thread that started it. Any thread. */
import type { OffloadedFile } from './offload-note.ts';

/** `workerData` of the thread. */
export interface BucketStart {
  /** A bucket or a folder (bucket/open-store.ts). */
  place: string;
  /** If it is not zero, the work in progress stops. */
  stopping: Int32Array;
}

/** A sealed file and its draft without blocks. */
interface DraftedFile {
  path: string;
  draft: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
}

export type BucketCall =
  | ({ name: 'plan'; folder: string } & DraftedFile)
  | ({ name: 'upload'; folder: string } & DraftedFile)
  | ({ name: 'verify'; folder: string; index: OffloadedFile['index'] } & DraftedFile)
  | { name: 'upload_text'; db: string; file: Pick<OffloadedFile, 'folder' | 'first_id' | 'last_id'> }
  | { name: 'gather'; folder: string; data_key: Uint8Array | null }
  | { name: 'restore'; path: string; target: string; data_key: Uint8Array | null }
  | { name: 'fetch'; object: string; copy: string; bytes: number; sha256: string }
  | { name: 'put'; object: string; bytes: Uint8Array }
  | { name: 'get'; object: string }
  | { name: 'remove'; names: string[] };

/** The times and sizes of a file whose draft is complete. */
export type PlannedFile = Pick<OffloadedFile, 'from_ms' | 'to_ms' | 'bytes' | 'packs' | 'index'>;

/** What could not be read from the bucket. */
export interface GatherReport {
  /** Why the bucket itself could not be read; null: it was read. */
  failure: string | null;
  /** The gateways whose captures could not be read, with the reasons. */
  gateways: Record<string, string>;
}

/** The result of each call, by its name; null for a call without a result, unless a field says more. */
export interface BucketAnswers {
  /** null: the file's index is incomplete, so the file stays on the disk. */
  plan: PlannedFile | null;
  /** Bytes that were sent. */
  upload: number;
  verify: null;
  /** null: the segments are being replaced now. */
  upload_text: NonNullable<OffloadedFile['text']> | null;
  gather: GatherReport;
  restore: null;
  fetch: null;
  put: null;
  /** null: there is no such object. */
  get: Uint8Array | null;
  remove: null;
}

export interface BucketRequest {
  id: number;
  call: BucketCall;
  /**
   * Shared memory for the answer to a caller that blocks its thread: a state, a length, and the reason of a failure.
   * null: the answer is a message.
   */
  sync: SharedArrayBuffer | null;
}

/** The states of a call for which the caller blocks its own thread. */
export const SYNC = { sent: 0, begun: 1, done: 2 } as const;

export interface BucketReply {
  id: number;
  /** The result (`BucketAnswers`); null after a failure. */
  value: unknown;
  failure: { kind: 'store' | 'stale' | 'stopped' | 'other'; message: string; code?: string } | null;
}
