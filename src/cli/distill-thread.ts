/** Runs a round of `distill` or `loop` in a thread of its own with a bounded heap. Main thread. */

import { Worker } from 'node:worker_threads';
import { DISTILL_BOUNDS, DISTILL_HEAP_MB } from '../limits.ts';
import { endThread } from '../std/loading-threads.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import type { ExportReport } from './distill-export.ts';
import type { RoundJson } from './distill-report.ts';
import type { RoundOptions, RoundTeller } from './distill-round.ts';

/** What the thread says. */
export type RoundMessage =
  | { type: 'tell'; what: string; done: number; of: number }
  | { type: 'announce'; what: string }
  | { type: 'warn'; words: string }
  | { type: 'done'; round: RoundJson | ExportReport }
  /** `is_expected`: something about files, in one line; else a stack. */
  | { type: 'failed'; words: string; is_expected: boolean };

/** A round that came to nothing for a reason that its reader can do something about. */
export class RoundFailedError extends Error {}

/** The thread's heap is full. */
class OutOfMemoryError extends Error {}

/**
 * Runs it. One that needs more memory than it may have begins again and takes half as much, until it fits.
 * @param entry of the thread; a test may put another in its place
 * @returns what the round did
 * @throws RoundFailedError, or Error for what should not happen
 */
export async function runRoundInThread(
  options: RoundOptions,
  teller: RoundTeller,
  entry: URL = resolveModuleUrl('./round-thread.ts', import.meta.url),
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
            return teller.announce(message.what);
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
