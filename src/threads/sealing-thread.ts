/**
 * Seals files of the capture log on a thread with a lower priority, one thread for each file. Capture process.
 */
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { resolveModuleUrl } from '../std/module-url.ts';
import { OwnThread } from '../std/own-thread.ts';
import { CaptureFileError, type CaptureFileFault } from '../storage/capture/layout.ts';
import type { SealEvents, SealJob } from '../storage/capture/seal-work.ts';
import type { SealEvent, SealFailure, SealTask } from './sealing-protocol.ts';

/**
 * Seals a file on a separate thread: a {@link import('../storage/capture/seal-work.ts').Seal}.
 * @throws the thread's error, rebuilt here; the signal's reason after an abort
 */
export async function sealOnThread(job: SealJob, events: SealEvents, signal: AbortSignal): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const stopping = new Int32Array(new SharedArrayBuffer(4));
  const take = (event: SealEvent): void =>
    'released' in event ? events.released(event.released) : events.indexed(event.indexed);
  const stop = (): void => void Atomics.store(stopping, 0, 1);
  signal.addEventListener('abort', stop);
  port1.on('message', take);
  const task: SealTask = { job, port: port2, stopping };
  const entry = resolveModuleUrl('./sealing-thread-entry.ts', import.meta.url);
  try {
    await new OwnThread(entry, task, { transfer: [port2] }).ended;
  } catch (thrown) {
    signal.throwIfAborted();
    throw thrown instanceof Error ? thrown : rebuild(thrown as SealFailure);
  } finally {
    // The thread sent its last events before it ended.
    for (let left = receiveMessageOnPort(port1); left !== undefined; left = receiveMessageOnPort(port1))
      take(left.message as SealEvent);
    port1.close();
    signal.removeEventListener('abort', stop);
  }
}

function rebuild({ message, code, capture_path: path }: SealFailure): Error {
  if (path === undefined) return Object.assign(new Error(message), code === undefined ? {} : { code });
  return new CaptureFileError(code as CaptureFileFault, path, message.slice(`${path}: `.length));
}
