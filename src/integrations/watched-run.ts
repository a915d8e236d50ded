/** Which run an integration watches: the one it is given, else the one that the code is in. Any thread. */
import { currentRun } from '../client/understudy.ts';
import { AgentSteps, type WatchedRun } from './agent-steps.ts';

export interface WatchOptions {
  /** Default: the run around the call, as `understudy.run` makes it. */
  run?: WatchedRun;
}

/** @returns null outside of runs: then nothing is watched */
export function stepsAround({ run }: WatchOptions): AgentSteps | null {
  const watched = run ?? currentRun();
  return watched === null ? null : AgentSteps.of(watched);
}

let isWarned = false;

/**
 * Reads what a framework tells, if there is a run to log it to. A shape that an integration does not know never reaches the
 * agent: the first time, a process warning says so.
 */
export function watch(integration: string, options: WatchOptions, read: (steps: AgentSteps) => void): void {
  try {
    const steps = stepsAround(options);
    if (steps !== null) read(steps);
  } catch (thrown) {
    if (isWarned) return;
    isWarned = true;
    process.emitWarning(`${integration}: a step could not be read: ${String(thrown)}`, {
      type: 'UnderstudyWarning',
      code: 'UNDERSTUDY_INTEGRATION',
    });
  }
}
