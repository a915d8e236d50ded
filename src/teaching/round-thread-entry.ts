/**
 * Entry of the thread that runs a round of `distill` or `loop`, or an export. The thread's heap is bounded, whatever the
 * size of the database, and the main thread can still handle signals. round-thread.ts starts the thread.
 */

import { setFlagsFromString } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import { DataKeyError } from '../std/data-key.ts';
import { describeRefusal } from '../std/file-place.ts';
import { CaptureFileError } from '../storage/capture/layout.ts';
import { RunWordsError } from '../storage/run-words.ts';
import { StudentDirectoryError } from '../student/directory.ts';
import { OrdersError } from '../student/orders.ts';
import { type RoundOptions, type RoundTeller, runExport, runRound } from './round.ts';
import { toRoundJson } from './round-json.ts';
import type { RoundMessage } from './round-thread.ts';
import { ServiceFailedError } from './student-asker.ts';
import { ExportError } from './training-export.ts';

/** Minimum time between two progress messages. */
const TELL_MS = 100;

// Makes V8 collect garbage earlier. Otherwise the garbage would grow to several times the live data. The flag applies
// to the whole process, which runs only this command. V8 ignores unknown flags.
setFlagsFromString('--heap-growing-percent=50');

const port = parentPort!;
const options = workerData as RoundOptions;
const post = (message: RoundMessage): void => port.postMessage(message);
let toldMs = Number.NEGATIVE_INFINITY;

try {
  const teller: RoundTeller = {
    tell: (what, done, of) => {
      if (performance.now() - toldMs < TELL_MS) return;
      toldMs = performance.now();
      post({ type: 'tell', what, done, of });
    },
    announce: (what, done = 0, of = 0) => post({ type: 'announce', what, done, of }),
    warn: (words) => post({ type: 'warn', words }),
  };
  const { exports: form = null } = options;
  const round =
    form === null
      ? toRoundJson(await runRound(options, teller), options.out)
      : await runExport({ ...options, exports: form }, teller);
  post({ type: 'done', round });
} catch (error) {
  const isExpected =
    error instanceof CaptureFileError ||
    error instanceof DataKeyError ||
    error instanceof StudentDirectoryError ||
    error instanceof OrdersError ||
    error instanceof RunWordsError ||
    error instanceof ServiceFailedError ||
    error instanceof ExportError;
  const { message, stack = message } = error as Error;
  // The cause may be a full disk, or a folder of another user.
  const refusal = describeRefusal(error);
  const words = refusal ?? (isExpected ? message : stack);
  post({ type: 'failed', words, is_expected: isExpected || refusal !== null });
}
