/** Scripted runs as lists of steps, and the monitors' results for each step. For the tests of this folder. */
import { digestStep } from '../../../src/domain/monitors/digest.ts';
import { type MonitorStep, maskStep } from '../../../src/domain/monitors/masked-step.ts';
import { advanceMonitors, initialMonitors, type StepOutcome } from '../../../src/domain/monitors/monitors.ts';
import type { MonitorName } from '../../../src/domain/monitors/names.ts';
import { BUILT_IN_PROFILES, type MonitorProfile } from '../../../src/domain/monitors/profiles.ts';

/** A step whose missing fields are empty. */
export function makeStep(index: number, fields: Partial<MonitorStep> = {}): MonitorStep {
  return {
    step_index: index,
    action: '',
    action_input: '',
    thought: '',
    observation: '',
    is_error: false,
    tokens: 0,
    ...fields,
  };
}

/** The monitors' result for each step, in order. */
export function judgeRun(
  steps: readonly Partial<MonitorStep>[],
  task = '',
  profile: MonitorProfile = BUILT_IN_PROFILES.coding,
): StepOutcome[] {
  let state = initialMonitors(task);
  return steps.map((fields, index) => {
    const result = advanceMonitors(state, digestStep(maskStep(makeStep(index, fields))), profile);
    state = result.state;
    return result.outcome;
  });
}

/** Indices of the steps at which a monitor fired. */
export function firesAt(outcomes: readonly StepOutcome[], monitor: MonitorName): number[] {
  return outcomes.flatMap((outcome, index) => (outcome.fired.includes(monitor) ? [index] : []));
}

/** All monitors that fired at some step. */
export function firedIn(outcomes: readonly StepOutcome[]): MonitorName[] {
  return [...new Set(outcomes.flatMap((outcome) => outcome.fired))];
}

export function repeat<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}
