/**
 * The messages between the process that serves and the capture process, over Node's channel between the two. Both.
 */
import type { BatchPlaces } from './batch.ts';
import type { MappedMemoryPlace } from './mapped-memory.ts';
import type { ExpiredCaptures, LogState } from './protocol.ts';

/** Where the capture process finds the mapped memory; its channel is before it. */
export const MEMORY_DESCRIPTOR = 4;

/** What the capture process must know. It goes over the channel alone: arguments and environment are for all to read. */
export interface CaptureProcessOptions {
  log_level: string;
  db: string;
  redact: boolean;
  max_decoded_bytes: number;
  /** What is older is removed; null or left out: it is kept. */
  retention_days?: number | null;
  /** Seals what is captured; null: it stands as it is. Secret. */
  data_key: Uint8Array | null;
  /** Credentials that the gateway adds to requests; left out: none. Secret. */
  operator_secrets?: readonly string[];
  /** Headers that name runs, in lower case; left out: none. */
  run_headers?: readonly string[];
  /** DATA_DIR; left out: the folder of `db`. */
  data_dir?: string;
  /** null: bodies come over the channel. */
  memory: MappedMemoryPlace | null;
}

/** Which files are set aside before the database is opened: the live one, and those about to be sealed, too. */
export type SetAside = 'none' | 'live' | 'all';

export interface OpenInput {
  options: CaptureProcessOptions;
  set_aside: SetAside;
  /** The last id that is known to have been given; 0: none is. */
  last_id: number;
}

export interface OpenReply {
  last_id: number;
}

/** A batch: places in the mapped memory, or so many slabs of the bodies that were sent before. */
export interface AppendInput {
  slabs: number;
  places: BatchPlaces['places'] | null;
  /** Which exchange of it is the first one; those before it are stored already. */
  from: number;
}

/** What the capture process tells of itself and its files. */
export interface FileState extends LogState {
  /** Files that were set aside and lie there still. */
  damaged: number;
  memory_bytes: number;
  /** What has gone by age since this process began; null: all is kept. */
  expired: ExpiredCaptures | null;
}

/** Its methods are those of `CaptureLogAdapter`, but for `open`. */
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
  /** A cause, or the system's own. */
  code?: string;
  /** `damage`: what is in the file cannot be right; `system`: the file system refuses; `other`: neither. */
  kind: 'damage' | 'system' | 'other';
}
