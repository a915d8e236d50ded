/**
 * Measures a student on golden runs that it was not taught. It asks about each step with the context that the run
 * recorded. Pure except for the student; command line.
 */

import { answersAgree } from '../student/model/agreement.ts';
import { kindOfAnswer } from '../student/model/answer-kind.ts';
import type { JudgeAnswer, StudentAnswer, UncoveredReason } from '../student/model/decision.ts';
import { boundError } from '../student/model/error-bound.ts';
import { ERROR_DEFINITION, type StudentMeasures } from '../student/model/manifest.ts';
import type { GoldenRun, GoldenStep } from './golden-steps.ts';
import { isShownByRest } from './run-proof.ts';

/** The student's result for one step. */
export type StepVerdict =
  | {
      covered: true;
      answer: StudentAnswer | null;
      /** The form and forms of a `StudentDecision`; absent: a service answered. */
      form?: string;
      forms?: readonly string[];
      agrees?: JudgeAnswer;
    }
  | { covered: false; reason: UncoveredReason };

/**
 * Asks a student. A student in memory answers at once, a service later. Rejects if asking further is useless, for example
 * because the service keeps failing.
 */
type AskStudent = (step: GoldenStep) => StepVerdict | Promise<StepVerdict>;

/** The result for one step. */
export interface MeasuredStep {
  run_id: string;
  step: GoldenStep;
  served: boolean;
  /**
   * Whether the answer was served, is not equivalent to the golden answer, and is not proven right by the rest of the
   * run.
   */
  wrong: boolean;
  /** Form whose evidence let the answer be served, or the kind of a service's answer; null when none was served. */
  kind: string | null;
  /** All names of the answer's form, the narrowest last; absent: no answer was served, or a service answered. */
  forms?: readonly string[];
  reason: UncoveredReason | null;
}

/** Steps of one kind of answer. */
export interface AnswerKindMeasure {
  /** Names of the called tools, or `text`. */
  kind: string;
  steps: number;
  served: number;
  errors: number;
}

/**
 * Asks a student about every step.
 * @param parallel maximum number of steps in progress at a time
 * @returns results in the order of runs and steps
 */
export async function askAbout(
  runs: readonly GoldenRun[],
  ask: AskStudent,
  parallel = 1,
  tell: (done: number, of: number) => void = () => {},
): Promise<MeasuredStep[]> {
  const all = runs.flatMap(({ run_id, steps }) => steps.map((step, i) => ({ run_id, step, run: steps, i })));
  const measured: MeasuredStep[] = [];
  let next = 0;
  let done = 0;
  const work = async (): Promise<void> => {
    while (next < all.length) {
      const at = next++;
      const { run_id, step, run, i } = all[at]!;
      const verdict = await ask(step);
      measured[at] = { run_id, step, ...judge(run, i, verdict) };
      done += 1;
      tell(done, all.length);
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, parallel) }, work));
  return measured;
}

/**
 * Judges the student's result for a step.
 * @param at index of the step in its run
 */
function judge(
  run: readonly GoldenStep[],
  at: number,
  verdict: StepVerdict,
): Omit<MeasuredStep, 'run_id' | 'step'> {
  const step = run[at]!;
  if (!verdict.covered) return { served: false, wrong: false, kind: null, reason: verdict.reason };
  const agrees = (golden: StudentAnswer): boolean =>
    (verdict.agrees?.(golden.content, true) ??
      (verdict.answer !== null && answersAgree(golden, verdict.answer))) ||
    (verdict.answer !== null && isShownByRest(verdict.answer.content, run, at));
  const isRight = step.answer !== null && agrees(step.answer);
  const { answer, form, forms } = verdict;
  const kind = answer === null ? null : (form ?? kindOfAnswer(answer.content));
  return { served: true, wrong: !isRight, kind, reason: null, ...(forms === undefined ? {} : { forms }) };
}

/** Adds up the results. */
export function summarizeMeasures(steps: readonly MeasuredStep[]): StudentMeasures {
  const measures: StudentMeasures = {
    held_out_runs: 0,
    steps: steps.length,
    served: 0,
    errors: 0,
    coverage: 0,
    error: null,
    error_at_most: null,
    in_a_row: { served: 0, errors: 0 },
    whole_runs: 0,
    tokens_saved_share: null,
    uncovered: {},
    error_definition: ERROR_DEFINITION,
  };
  let tokens = 0;
  let saved = 0;
  for (const run of groupByRun(steps)) {
    measures.held_out_runs += 1;
    let inARow = true;
    let isRight = true;
    for (const { step, served, wrong, reason } of run) {
      tokens += step.tokens;
      if (served) {
        measures.served += 1;
        saved += step.tokens;
      }
      if (wrong) measures.errors += 1;
      inARow &&= served;
      isRight &&= served && !wrong;
      if (inARow) {
        measures.in_a_row.served += 1;
        if (wrong) measures.in_a_row.errors += 1;
      }
      if (reason !== null) measures.uncovered[reason] = (measures.uncovered[reason] ?? 0) + 1;
    }
    if (isRight) measures.whole_runs += 1;
  }
  if (measures.steps > 0) measures.coverage = measures.served / measures.steps;
  if (measures.served > 0) {
    measures.error = measures.errors / measures.served;
    measures.error_at_most = boundError(measures.errors, measures.served);
  }
  if (tokens > 0) measures.tokens_saved_share = saved / tokens;
  return measures;
}

function groupByRun(steps: readonly MeasuredStep[]): Iterable<MeasuredStep[]> {
  const runs = new Map<string, MeasuredStep[]>();
  for (const step of steps) {
    const run = runs.get(step.run_id);
    if (run === undefined) runs.set(step.run_id, [step]);
    else run.push(step);
  }
  return runs.values();
}

/** Results by the kind of the golden answer, most frequent first. */
export function measureByAnswer(steps: readonly MeasuredStep[]): AnswerKindMeasure[] {
  const kinds = new Map<string, AnswerKindMeasure>();
  for (const { step, served, wrong } of steps) {
    const kind = describeAnswer(step);
    const measure = kinds.get(kind) ?? { kind, steps: 0, served: 0, errors: 0 };
    measure.steps += 1;
    measure.served += served ? 1 : 0;
    measure.errors += wrong ? 1 : 0;
    kinds.set(kind, measure);
  }
  return [...kinds.values()].sort((a, b) => b.steps - a.steps || (a.kind < b.kind ? -1 : 1));
}

function describeAnswer({ answer }: GoldenStep): string {
  if (answer === null) return '(nothing a student gives)';
  return kindOfAnswer(answer.content);
}
