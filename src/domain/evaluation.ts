/**
 * What an evaluation says of a run so far, whether its steps were logged or posted: the scores at the last step, and
 * the text to inject when the agent should be told to change course. Pure; any thread.
 */
import { digestStep, type MonitorStep, type TaskContext } from './monitors/digest.ts';
import type { Intervention, InterventionLevel } from './monitors/intervention.ts';
import { advanceMonitors, initialMonitors, type StepOutcome } from './monitors/monitors.ts';
import { MONITOR_NAMES, type MonitorName, type MonitorScores } from './monitors/names.ts';
import type { MonitorProfile } from './monitors/profiles.ts';

/** Document 2, Evaluate response. */
export interface Evaluation {
  /** true: `intervention_text` belongs before the next model call. */
  inject: boolean;
  /** '' unless `inject`. */
  intervention_text: string;
  /** '' unless `inject`. */
  failure_type: MonitorName | '';
  /** Whether it is the first word or the last; '' unless `inject`. */
  level: InterventionLevel | '';
  fired: readonly MonitorName[];
  scores: MonitorScores;
  /** The weighted mean of the scores. */
  composite: number;
  /** The highest of the scores. */
  max_score: number;
  /** Whether a monitor fired. */
  alarm: boolean;
}

/** What the monitors say before the first step. */
export const NO_STEP_YET: StepOutcome = {
  scores: Object.fromEntries(MONITOR_NAMES.map((name) => [name, 0])) as MonitorScores,
  total_score: 0,
  fired: [],
  intervention: null,
};

/** @returns the highest of the scores: unlike their mean, it shows one monitor that is certain among five that are silent */
export function findMaxScore(scores: MonitorScores): number {
  let highest = 0;
  for (const name of MONITOR_NAMES) if (scores[name] > highest) highest = scores[name];
  return highest;
}

/**
 * The intervention of the streak that the agent is in after a step: the step's own, or the one from earlier in the
 * streak for as long as its monitor goes on firing; null once the agent has changed course.
 * @param before what this function gave for the step before
 */
export function followStreak(before: Intervention | null, outcome: StepOutcome): Intervention | null {
  if (outcome.intervention !== null) return outcome.intervention;
  return before !== null && outcome.fired.includes(before.failure_type) ? before : null;
}

/** @param due what is to be injected now; null: nothing */
export function toEvaluation(outcome: StepOutcome, due: Intervention | null): Evaluation {
  return {
    inject: due !== null,
    intervention_text: due?.text ?? '',
    failure_type: due?.failure_type ?? '',
    level: due?.level ?? '',
    fired: outcome.fired,
    scores: outcome.scores,
    composite: outcome.total_score,
    max_score: findMaxScore(outcome.scores),
    alarm: outcome.fired.length > 0,
  };
}

/**
 * Evaluates steps as if they had been logged one by one: it says what the monitors say at the last of them. So a caller
 * who asks after each step hears of a streak when a logged run would: once, and again where it escalates.
 * @returns a generator that gives way after each step, for a caller who must not block its thread for long
 */
export function* evaluateSteps(
  steps: Iterable<MonitorStep>,
  profile: MonitorProfile,
  { task }: Pick<TaskContext, 'task'>,
): Generator<undefined, Evaluation> {
  let monitors = initialMonitors(task);
  let outcome = NO_STEP_YET;
  for (const step of steps) {
    const advanced = advanceMonitors(monitors, digestStep(step), profile);
    monitors = advanced.state;
    outcome = advanced.outcome;
    yield;
  }
  return toEvaluation(outcome, outcome.intervention);
}
