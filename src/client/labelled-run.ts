/**
 * Labels the model calls within a run with the run's id (src/label). The client finds the label
 * module of its thread in a global variable, so a client without labels does not load it. Any
 * thread.
 */
import type { Run } from './run.ts';

/** The interface of `src/label/scope.ts`. */
interface Labels {
  enter<Result>(run: string, isOver: () => boolean, work: () => Result): Result;
}

const LABELS = Symbol.for('understudy.label.2');

/** Calls the function. If labels are installed, its model calls are labelled with the run until the run has ended. */
export function labelRun<Result>(run: Run, work: () => Result): Result {
  const labels = (globalThis as { [LABELS]?: Labels })[LABELS];
  return labels === undefined ? work() : labels.enter(run.runId, () => run.isClosed, work);
}
