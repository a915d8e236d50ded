/**
 * Entry of the thread in which a round of `distill` and `loop` runs. Its heap is bounded whatever is in the database, and
 * the main thread hears signals meanwhile. distill-thread.ts starts it.
 */

import { setFlagsFromString } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import { DataKeyError } from '../std/data-key.ts';
import { describeRefusal } from '../std/file-place.ts';
import { CaptureFileError } from '../storage/capture/layout.ts';
import { StudentDirectoryError } from '../student/directory.ts';
import { OrdersError } from '../student/orders.ts';
import { ExportError } from './distill-export.ts';
import { toRoundJson } from './distill-report.ts';
import { type RoundOptions, type RoundTeller, runExport, runRound } from './distill-round.ts';
import type { RoundMessage } from './distill-thread.ts';
import { OutcomesError } from './run-outcomes.ts';
import { ServiceFailedError } from './student-asker.ts';

/** Between two messages of progress. */
const TELL_MS = 100;

// The process is this command's alone. Its garbage would grow to several times what it keeps. V8 passes over a flag that it
// does not know.
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
    announce: (what) => post({ type: 'announce', what }),
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
    error instanceof OutcomesError ||
    error instanceof ServiceFailedError ||
    error instanceof ExportError;
  const { message, stack = message } = error as Error;
  // The disk is full, or a place is another's.
  const refusal = describeRefusal(error);
  const words = refusal ?? (isExpected ? message : stack);
  post({ type: 'failed', words, is_expected: isExpected || refusal !== null });
}
