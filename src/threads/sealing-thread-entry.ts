/**
 * Entry of the sealing thread, which seals one file and ends. Sealing takes a minute of processor time for a file that
 * was filled under load; on this thread, it delays no exchange that the capture process stores. Composition root of the
 * sealing thread, which runs in the capture process.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { decodeExchange } from '../providers/decode.ts';
import { runOwnThread } from '../std/own-thread.ts';
import { lowerThreadPriority } from '../std/thread-priority.ts';
import { CaptureFileError } from '../storage/capture/layout.ts';
import { sealHere } from '../storage/capture/seal-work.ts';
import type { SealEvent, SealFailure, SealTask } from './sealing-protocol.ts';

/** Priority of the sealing thread. Beside one busy thread on the same core, it gets a tenth of the core. */
const NICE = 10;

async function seal({ job, port, stopping }: SealTask): Promise<void> {
  lowerThreadPriority(NICE);
  const send = (event: SealEvent): void => port.postMessage(event);
  const ending = new AbortController();
  const look = async (): Promise<void> => {
    if (Atomics.load(stopping, 0) !== 0) ending.abort(new Error('the sealing was interrupted'));
    await nextTurn();
  };
  const events = {
    released: (files: readonly number[]) => send({ released: files }),
    indexed: (id: number) => send({ indexed: id }),
  };
  try {
    await look();
    await sealHere(decodeExchange, look)(job, events, ending.signal);
  } catch (error) {
    throw describe(error);
  }
}

function describe(error: unknown): SealFailure {
  if (!(error instanceof Error)) return { message: String(error) };
  const { code } = error as NodeJS.ErrnoException;
  return {
    message: error.message,
    ...(code === undefined ? {} : { code }),
    ...(error instanceof CaptureFileError ? { capture_path: error.path } : {}),
  };
}

runOwnThread(seal);
