/**
 * The evaluation of a run so far, whether its steps were logged or posted: the scores at the last step, and the text to
 * inject when the agent should change course. Pure; any thread.
 */

import { MONITORS } from './monitors/definitions.ts';
import { digestStep, type TaskContext } from './monitors/digest.ts';
import type { Intervention, InterventionLevel } from './monitors/intervention.ts';
import { type MonitorStep, maskStep } from './monitors/masked-step.ts';
import { advanceMonitors, initialMonitors, type StepOutcome } from './monitors/monitors.ts';
import { MONITOR_NAMES, type MonitorName, type MonitorScores } from './monitors/names.ts';
import type { MonitorProfile } from './monitors/profiles.ts';

/** The answer to an evaluation (contract document 2). */
interface Evaluation {
  /** true: `intervention_text` belongs before the next model call. */
  inject: boolean;
  /** '' unless `inject`. */
  intervention_text: string;
  /** '' unless `inject`. */
  failure_type: MonitorName | '';
  /** `nudge` for the first level of an intervention, `stop` for the last one; '' unless `inject`. */
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

/** The outcome before the first step. */
export const NO_STEP_YET: StepOutcome = {
  scores: Object.fromEntries(MONITOR_NAMES.map((name) => [name, 0])) as MonitorScores,
  total_score: 0,
  fired: [],
  intervention: null,
};

/** Finds the highest score. Unlike the mean, it shows that one monitor is certain while the others are silent. */
export function findMaxScore(scores: MonitorScores): number {
  let highest = 0;
  for (const name of MONITOR_NAMES) if (scores[name] > highest) highest = scores[name];
  return highest;
}

/**
 * Finds the intervention of the current streak: the step's own intervention, or an earlier one as long as its monitor
 * fires at every step; otherwise null.
 * @param before result of this function for the previous step
 */
export function followStreak(before: Intervention | null, outcome: StepOutcome): Intervention | null {
  if (outcome.intervention !== null) return outcome.intervention;
  return before !== null && outcome.fired.includes(before.failure_type) ? before : null;
}

/**
 * Makes the answer to an evaluation.
 * @param due the intervention to inject now; null: none
 */
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

/** The result of evaluating a list of steps. */
interface EvaluatedOutcome {
  outcome: StepOutcome;
  /** The current streak's intervention; null without a streak. */
  intervention: Intervention | null;
  /** Number of steps at the streak's first intervention; 0 without a streak. */
  began: number;
}

/**
 * Evaluates steps as if they had been logged one by one.
 * @returns a generator that yields undefined after each step, for a caller that must not block its thread
 */
export function* evaluateSteps(
  steps: Iterable<MonitorStep>,
  profile: MonitorProfile,
  { task }: Pick<TaskContext, 'task'>,
): Generator<undefined, EvaluatedOutcome> {
  let monitors = initialMonitors(task);
  let outcome = NO_STEP_YET;
  let intervention: Intervention | null = null;
  /** Step count at the streak's nudge, by monitor; the two loop monitors share an entry. */
  const nudgedAt = new Map<string, number>();
  let count = 0;
  for (const step of steps) {
    const advanced = advanceMonitors(monitors, digestStep(maskStep(step)), profile);
    monitors = advanced.state;
    outcome = advanced.outcome;
    count += 1;
    intervention = followStreak(intervention, outcome);
    if (outcome.intervention?.level === 'nudge') nudgedAt.set(streakOf(outcome.intervention), count);
    yield;
  }
  const began = intervention === null ? 0 : (nudgedAt.get(streakOf(intervention)) ?? count);
  return { outcome, intervention, began };
}

function streakOf({ failure_type }: Intervention): string {
  return MONITORS[failure_type].failure === 'loop' ? 'loop' : failure_type;
}
