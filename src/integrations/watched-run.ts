/** Determines the run that an integration watches: the run in the options, or else the current run. Any thread. */
import { currentRun } from '../client/understudy.ts';
import { AgentSteps, type WatchedRun } from './agent-steps.ts';

export interface WatchOptions {
  /** Default: the current run at the time of the call, for example within `understudy.run`. */
  run?: WatchedRun;
}

/** Name of an integration. */
export interface Integration {
  /** Name of the package. */
  name: string;
  /** The framework of its runs. */
  framework: string;
}

/**
 * Returns the steps of the watched run, and names the run's framework if it has none. null: there is no run, so nothing
 * is watched.
 */
export function stepsAround({ framework }: Integration, { run }: WatchOptions): AgentSteps | null {
  const watched = run ?? currentRun();
  if (watched === null) return null;
  const steps = AgentSteps.of(watched);
  steps.nameFramework(framework);
  return steps;
}

const warned = new Set<string>();

/** Reads a framework's event if there is a run for its steps. */
export function watch(
  integration: Integration,
  options: WatchOptions,
  read: (steps: AgentSteps) => void,
): void {
  reading(integration, () => {
    const steps = stepsAround(integration, options);
    if (steps !== null) read(steps);
  });
}

/**
 * Reads a framework's data. Errors, for example about an unknown format, never reach the agent. The
 * first error of each integration becomes a process warning.
 */
export function reading({ name }: Integration, read: () => void): void {
  try {
    read();
  } catch (thrown) {
    if (warned.has(name)) return;
    warned.add(name);
    process.emitWarning(`${name}: a step could not be read: ${String(thrown)}`, {
      type: 'UnderstudyWarning',
      code: 'UNDERSTUDY_INTEGRATION',
    });
  }
}
