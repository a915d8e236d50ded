/**
 * A run as a scope of the labels (src/label). The client finds the labels of its thread where that package keeps them, so that a
 * client without labels loads none. Any thread.
 */
import type { Run } from './run.ts';

/** In the form of `src/label/scope.ts`. */
interface Labels {
  enter<Result>(run: string, isOver: () => boolean, work: () => Result): Result;
}

const LABELS = Symbol.for('understudy.label.2');

/** Calls the function; its model calls are labelled with the run until the run has ended. */
export function labelRun<Result>(run: Run, work: () => Result): Result {
  const labels = (globalThis as { [LABELS]?: Labels })[LABELS];
  return labels === undefined ? work() : labels.enter(run.runId, () => run.isClosed, work);
}
