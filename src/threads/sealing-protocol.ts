/** The messages between the sealing thread and the thread that starts it. Both are in the capture process. */
import type { MessagePort } from 'node:worker_threads';
import type { SealJob } from '../storage/capture/seal-work.ts';

/** The input of the sealing thread; the port is transferred. */
export interface SealTask {
  job: SealJob;
  /** For {@link SealEvent}. */
  port: MessagePort;
  /** One number in shared memory. When it is not 0, the thread stops at its next check. */
  stopping: Int32Array;
}

export type SealEvent = { released: readonly number[] } | { indexed: number };

/** An error that the thread throws, without its class, which structured clones lose. */
export interface SealFailure {
  message: string;
  code?: string | number;
  /** The file, if the failure is a CaptureFileError. */
  capture_path?: string;
}
