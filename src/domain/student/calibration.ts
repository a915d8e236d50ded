/**
 * How sure a student must be so that at most a target share of what it serves is wrong; and how good it then is. Pure;
 * analysis.
 *
 * The scores of golden steps are cross-fitted: runs are cut into folds, each asked of a student that was fitted on the
 * others, so that no run stands among its own neighbours. The threshold is chosen by split-conformal selection (Jin and
 * Candès, "Selection by prediction with conformal p-values", JMLR 24, 2023): serving is selecting steps, a wrong answer is
 * a false selection, and the largest threshold t is taken for which
 *     (b(t) + wrong(t)) / served(t) · n / (n + 1) ≤ target,
 * their rule (Benjamini and Hochberg over conformal p-values) with the golden steps in place of the steps to come.
 * Exchangeable are runs, not steps, as in conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster,
 * "Conformal risk control", ICLR 2024): so the one unseen loss that must be reckoned with is that of a whole run, and
 * b(t) is the largest number of wrong steps that one run had below t, at least 1. This holds on average over golden sets,
 * not for each: a bound for most of them ("Learn then test", Angelopoulos, Bates, Candès, Jordan and Lei, 2021) takes
 * some 60 served steps without an error at 5 %, which thirty short golden runs do not have. With few served steps no
 * threshold satisfies the rule, and nothing is served: at 5 % it takes 19 without an error.
 */

import { createPrng } from '../../std/prng.ts';
import { answersAgree } from './agreement.ts';
import { type FitOptions, fitStudent, type LearnedStep, type MakeStudentIndex, Student } from './student.ts';

export interface CalibrationOptions extends FitOptions {
  /** Share of wrong answers among served ones, 0 … 1; 0.05 when left out. */
  target_error?: number;
  /** Parts that the runs are cut into; 5 when left out. */
  folds?: number;
  makeIndex: MakeStudentIndex;
}

export interface CurvePoint {
  target_error: number;
  /** −1: nothing is served. */
  threshold: number;
  served: number;
  errors: number;
  /** Served of all steps. */
  coverage: number;
  /** Errors of served ones; 0 when none was. */
  error: number;
}

export interface Calibration {
  /** Goes into `decide`; −1: nothing is served, for want of evidence. */
  threshold: number;
  target_error: number;
  /** For the manifest: `cross-fitted split-conformal selection by run, N folds`. */
  method: string;
  runs: number;
  steps: number;
  /** At {@link Calibration.threshold}, on steps whose runs the student did not know. */
  served: number;
  errors: number;
  /** The same for several targets. */
  curve: CurvePoint[];
}

/** What a student thought of a step, and whether it was right. */
export interface ScoredStep {
  run_id: string;
  /** null: it had no answer. */
  score: number | null;
  is_right: boolean;
}

/** Targets of {@link Calibration.curve}. */
export const CURVE_TARGETS = [0.01, 0.02, 0.05, 0.1, 0.2] as const;

/** Fits on some of the runs, asks about the others, in turns. The threshold then serves a student fitted on all runs. */
export function calibrateStudent(steps: readonly LearnedStep[], options: CalibrationOptions): Calibration {
  const target = options.target_error ?? 0.05;
  const folds = Math.max(2, Math.floor(options.folds ?? 5));
  const scored = scoreCrossFitted(steps, folds, options);
  const threshold = chooseThreshold(scored, target);
  const at = countServed(scored, threshold);
  return {
    threshold,
    target_error: target,
    method: `cross-fitted split-conformal selection by run, ${folds} folds`,
    runs: new Set(steps.map(({ run_id }) => run_id)).size,
    steps: scored.length,
    ...at,
    curve: CURVE_TARGETS.map((targetError) => {
      const its = chooseThreshold(scored, targetError);
      const { served, errors } = countServed(scored, its);
      return {
        target_error: targetError,
        threshold: its,
        served,
        errors,
        coverage: scored.length === 0 ? 0 : served / scored.length,
        error: served === 0 ? 0 : errors / served,
      };
    }),
  };
}

/** Each step's score from a student that does not know its run. */
export function scoreCrossFitted(
  steps: readonly LearnedStep[],
  folds: number,
  options: FitOptions & { makeIndex: MakeStudentIndex },
): ScoredStep[] {
  const runs = [...new Set(steps.map(({ run_id }) => run_id))];
  const random = createPrng(options.seed ?? 1);
  for (let i = runs.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [runs[i], runs[j]] = [runs[j]!, runs[i]!];
  }
  const foldOf = new Map(runs.map((run, i) => [run, i % folds]));
  const scored: ScoredStep[] = [];
  for (let fold = 0; fold < Math.min(folds, runs.length); fold++) {
    const teaching = steps.filter(({ run_id }) => foldOf.get(run_id) !== fold);
    const student = new Student(fitStudent(teaching, options), options.makeIndex);
    for (const one of steps) if (foldOf.get(one.run_id) === fold) scored.push(scoreStep(student, one));
  }
  return scored;
}

/** Asks the student about a golden step. */
export function scoreStep(student: Student, { run_id, step, answer }: LearnedStep): ScoredStep {
  const proposal = student.propose(step);
  if (proposal.answer === null || proposal.score === null) return { run_id, score: null, is_right: false };
  return { run_id, score: proposal.score, is_right: answersAgree(proposal.answer, answer) };
}

/**
 * A step that is more unlike golden ones than like them is not covered, however good the others are: at 5 %, scores up to
 * a half. Who bears more errors bears more unlike steps.
 */
const SCORE_MAX = { base: 0.4, per_target: 2, most: 0.8 } as const;

/** The largest threshold that keeps the target; −1 where none does. */
export function chooseThreshold(scored: readonly ScoredStep[], target: number): number {
  const answered = scored.filter((one): one is ScoredStep & { score: number } => one.score !== null);
  answered.sort((a, b) => a.score - b.score);
  const n = answered.length;
  let threshold = -1;
  let wrong = 0;
  let worst = 1;
  const wrongOfRun = new Map<string, number>();
  const scoreMax = Math.min(SCORE_MAX.most, SCORE_MAX.base + SCORE_MAX.per_target * target);
  for (let i = 0; i < n; i++) {
    const { run_id, score, is_right } = answered[i]!;
    if (!is_right) {
      wrong++;
      const its = (wrongOfRun.get(run_id) ?? 0) + 1;
      wrongOfRun.set(run_id, its);
      worst = Math.max(worst, its);
    }
    // Equal scores stand or fall together.
    if (i + 1 < n && answered[i + 1]!.score === score) continue;
    if (score > scoreMax) break;
    if (((worst + wrong) / (i + 1)) * (n / (n + 1)) > target) continue;
    threshold = score;
  }
  return threshold;
}

function countServed(scored: readonly ScoredStep[], threshold: number): { served: number; errors: number } {
  let served = 0;
  let errors = 0;
  for (const { score, is_right } of scored) {
    if (score === null || score > threshold) continue;
    served++;
    if (!is_right) errors++;
  }
  return { served, errors };
}

/** What a student did on steps that it had not learnt. */
export interface Measurement {
  runs: number;
  steps: number;
  served: number;
  errors: number;
  coverage: number;
  error: number;
  fallbacks: Partial<Record<string, number>>;
  /** Of the golden answers: all, and those of served steps. */
  input_tokens: number;
  output_tokens: number;
  served_input_tokens: number;
  served_output_tokens: number;
}

/** Step by step, each with the context that the golden run had. */
export function measureStudent(
  student: Student,
  threshold: number,
  steps: readonly LearnedStep[],
): Measurement {
  const measured: Measurement = {
    runs: new Set(steps.map(({ run_id }) => run_id)).size,
    steps: steps.length,
    served: 0,
    errors: 0,
    coverage: 0,
    error: 0,
    fallbacks: {},
    input_tokens: 0,
    output_tokens: 0,
    served_input_tokens: 0,
    served_output_tokens: 0,
  };
  for (const { step, answer } of steps) {
    measured.input_tokens += answer.input_tokens;
    measured.output_tokens += answer.output_tokens;
    const decision = student.decide(step, threshold);
    if (!decision.covered) {
      measured.fallbacks[decision.reason] = (measured.fallbacks[decision.reason] ?? 0) + 1;
      continue;
    }
    measured.served++;
    measured.served_input_tokens += answer.input_tokens;
    measured.served_output_tokens += answer.output_tokens;
    if (decision.answer === null || !answersAgree(decision.answer, answer)) measured.errors++;
  }
  measured.coverage = measured.steps === 0 ? 0 : measured.served / measured.steps;
  measured.error = measured.served === 0 ? 0 : measured.errors / measured.served;
  return measured;
}
