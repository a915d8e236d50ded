/**
 * The messages between the service process and the capture process, over the Node channel between them. Both
 * processes.
 */
import type { LocalKeep } from '../../src/domain/local-keep.ts';
import type { ExpiredCaptures, LogState } from '../../src/domain/writer-state.ts';
import type { BatchPlaces } from './batch.ts';
import type { MappedMemoryPlace } from './mapped-memory.ts';

/** The file descriptor of the mapped memory in the capture process. Descriptor 3 is the channel. */
export const MEMORY_DESCRIPTOR = 4;

/**
 * The settings of the capture process. They are sent over the channel, because other users could read the arguments of
 * a process.
 */
export interface CaptureProcessOptions {
  log_level: string;
  db: string;
  redact: boolean;
  max_decoded_bytes: number;
  /** Age in days from which exchanges are removed; null or absent: all are kept. */
  retention_days?: number | null;
  /** Encrypts the captures; null: no encryption. Secret. */
  data_key: Uint8Array | null;
  /** Credentials that the gateway adds to requests; absent: none. Secret. */
  operator_secrets?: readonly string[];
  /** Headers that name runs, in lower case; absent: none. */
  run_headers?: readonly string[];
  /** DATA_DIR; absent: the folder of `db`. */
  data_dir?: string;
  /** The bucket to which sealed files are sent; null or absent: none. */
  bucket?: { place: string; keep: LocalKeep; seal_after_ms: number | null } | null;
  /** null: bodies are sent over the channel. */
  memory: MappedMemoryPlace | null;
}

/** Which files to rename before the database is opened: the live file, or also those that are about to be sealed. */
export type SetAside = 'none' | 'live' | 'all';

export interface OpenInput {
  options: CaptureProcessOptions;
  set_aside: SetAside;
  /** The last id that is known to be used; 0: none is known. */
  last_id: number;
}

export interface OpenReply {
  /** The last id of the opened database. */
  last_id: number;
}

/**
 * A batch: its slabs and then its cells, at `places` of the mapped memory; without places, these are the bodies that
 * were sent before this message.
 */
export interface AppendInput {
  /** Number of slabs. */
  slabs: number;
  places: BatchPlaces['places'] | null;
  /** Index of the first exchange to store. Earlier appends have stored the exchanges before it or set them apart. */
  from: number;
  /** Number of exchanges from there on. */
  exchanges: number;
  /** Share of the sender's queue that was in use when it sent the batch, 0 to 1. */
  queue_fill: number;
}

/** The state of the capture process and its files. */
export interface FileState extends LogState {
  /** Number of damaged files that were renamed and still exist. */
  damaged: number;
  /** Memory of the process. */
  memory_bytes: number;
  /** Age of the oldest read transaction of another process in the live file; 0 if no process has one open. */
  oldest_read_s: number;
  /** What expiry has removed since this process started; null: captures do not expire. */
  expired: ExpiredCaptures | null;
}

/** The methods of `CaptureLogAdapter`, and `ping`, which only shows that the process answers. */
export type CaptureRequest = 'open' | 'append' | 'flush' | 'rotate' | 'tidy' | 'state' | 'close' | 'ping';

export type ToCapture =
  | { type: 'request'; id: number; name: CaptureRequest; input: unknown }
  /** One slab or cell of the next append. */
  | { type: 'body'; body: Uint8Array };

export type FromCapture =
  | { type: 'reply'; id: number; value: unknown }
  | { type: 'failure'; id: number; failure: CaptureFailure };

/** An error as data. */
export interface CaptureFailure {
  message: string;
  /** A `PlaceCause`, or the error code of the system. */
  code?: string;
  /** `damage`: the file's content is damaged; `system`: the file system reports an error; `other`: neither. */
  kind: 'damage' | 'system' | 'other';
}
