/** Runs a round of `distill` or `loop` in a separate thread with a bounded heap. Main thread. */

import { Worker } from 'node:worker_threads';
import { endThread } from '../std/loading-threads.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { DISTILL_BOUNDS } from './limits.ts';
import type { RoundOptions, RoundTeller } from './round.ts';
import type { RoundJson } from './round-json.ts';
import type { ExportReport } from './training-export.ts';

/** V8 heap of a round. Including buffers, a round stays under 500 MB for any database. */
const DISTILL_HEAP_MB = { old: 176, young: 16 } as const;

/** The thread's messages. */
export type RoundMessage =
  | { type: 'tell'; what: string; done: number; of: number }
  | { type: 'announce'; what: string; done: number; of: number }
  | { type: 'warn'; words: string }
  | { type: 'done'; round: RoundJson | ExportReport }
  /** `is_expected`: an error about files, in one line; otherwise a stack trace. */
  | { type: 'failed'; words: string; is_expected: boolean };

/** A round that failed for a reason that the user can act on. */
export class RoundFailedError extends Error {}

/** The thread's heap is full. */
class OutOfMemoryError extends Error {}

/**
 * Runs a round. If it needs more memory than allowed, it restarts with half as much room, until it fits or has restarted
 * DISTILL_BOUNDS.halvings times.
 * @param entry of the thread; tests may replace it
 * @returns the round's result
 * @throws RoundFailedError, or Error for an unexpected failure
 */
export async function runRoundInThread(
  options: RoundOptions,
  teller: RoundTeller,
  entry: URL = resolveModuleUrl('./round-thread-entry.ts', import.meta.url),
): Promise<RoundJson | ExportReport> {
  for (let halvings = 0; ; halvings += 1) {
    try {
      return await runOnce({ ...options, room: 2 ** -halvings }, teller, entry);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      if (halvings >= DISTILL_BOUNDS.halvings)
        throw new RoundFailedError(`a round needs more than its ${DISTILL_HEAP_MB.old} MB of memory`);
      const share = `1/${2 ** (halvings + 1)}`;
      teller.announce(`memory is full: beginning again with ${share} of what a round takes at most`);
    }
  }
}

async function runOnce(
  options: RoundOptions,
  teller: RoundTeller,
  entry: URL,
): Promise<RoundJson | ExportReport> {
  const { old, young } = DISTILL_HEAP_MB;
  const worker = new Worker(entry, {
    workerData: options,
    resourceLimits: { maxOldGenerationSizeMb: old, maxYoungGenerationSizeMb: young },
  });
  try {
    return await new Promise<RoundJson | ExportReport>((resolve, reject) => {
      worker.on('message', (message: RoundMessage) => {
        switch (message.type) {
          case 'tell':
            return teller.tell(message.what, message.done, message.of);
          case 'announce':
            return teller.announce(message.what, message.done, message.of);
          case 'warn':
            return teller.warn(message.words);
          case 'done':
            return resolve(message.round);
          case 'failed':
            return reject(
              message.is_expected ? new RoundFailedError(message.words) : new Error(message.words),
            );
        }
      });
      worker.once('error', (error) => {
        const isFull = (error as { code?: unknown }).code === 'ERR_WORKER_OUT_OF_MEMORY';
        reject(isFull ? new OutOfMemoryError() : error);
      });
      worker.once('exit', (code) => reject(new Error(`the round's thread ended with ${code}`)));
    });
  } finally {
    await endThread(worker);
  }
}
