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
 *
 * The promise is kept for each agent, not for all together: a student that is right about a thousand easy steps of one
 * agent may not be wrong about the few of another. So each agent has a threshold from its own steps (Mondrian conformal
 * prediction: Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005, section 4.5). Agents with too
 * few golden steps for one of their own are one category together, for which the rule holds on average; of these, none
 * is served at a score at which it was wrong itself, nor before AGENT_RUNS_MIN runs of it are known.
 */

import { createPrng } from '../../std/prng.ts';
import { answersAgree } from './agreement.ts';
import { type MakeStudentIndex, Student } from './student.ts';
import { type FitOptions, fitStudent, type LearnedStep, nameAgents } from './student-fit.ts';

export interface CalibrationOptions extends FitOptions {
  /** Share of wrong answers among served ones, 0 … 1; 0.05 when left out. */
  target_error?: number;
  /** Parts that the runs are cut into; 5 when left out. */
  folds?: number;
  makeIndex: MakeStudentIndex;
}

export interface CurvePoint {
  target_error: number;
  /** The largest; −1: nothing is served. */
  threshold: number;
  agents: AgentCalibration[];
  served: number;
  errors: number;
  /** Served of all steps. */
  coverage: number;
  /** Errors of served ones; 0 when none was. */
  error: number;
}

export interface Calibration {
  /** Goes into `decide`: the largest of all agents'; −1: nothing is served, for want of evidence. */
  threshold: number;
  /** Goes into `limitAgents`: each agent's own. */
  agents: AgentCalibration[];
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

/** From which score on one agent's steps are not covered, and what that says so. */
export interface AgentCalibration {
  /** As {@link nameAgents} names it. */
  agent: string;
  /** −1: none of its steps is served. */
  threshold: number;
  /** `own`: its own steps; `pooled`: those of all agents that have too few. */
  evidence: 'own' | 'pooled';
  runs: number;
  steps: number;
  /** At the threshold, on steps whose runs the student did not know. */
  served: number;
  errors: number;
}

/** What a student thought of a step, and whether it was right. */
export interface ScoredStep {
  run_id: string;
  /** As {@link nameAgents} names it; all one agent where it is left out. */
  agent?: string;
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
  return {
    ...calibrateScores(scored, target),
    method: `cross-fitted split-conformal selection by agent and run, ${folds} folds`,
    runs: new Set(steps.map(({ run_id }) => run_id)).size,
  };
}

/** The thresholds for scores that are there already. */
export function calibrateScores(
  scored: readonly ScoredStep[],
  target: number,
): Omit<Calibration, 'method' | 'runs'> {
  const summarize = (agents: readonly AgentCalibration[]) => ({
    threshold: agents.reduce((most, { threshold }) => Math.max(most, threshold), -1),
    served: agents.reduce((sum, { served }) => sum + served, 0),
    errors: agents.reduce((sum, { errors }) => sum + errors, 0),
  });
  const agents = chooseAgentThresholds(scored, target);
  return {
    ...summarize(agents),
    agents,
    target_error: target,
    steps: scored.length,
    curve: CURVE_TARGETS.map((targetError) => {
      const its = chooseAgentThresholds(scored, targetError);
      const { threshold, served, errors } = summarize(its);
      return {
        target_error: targetError,
        threshold,
        agents: its,
        served,
        errors,
        coverage: scored.length === 0 ? 0 : served / scored.length,
        error: served === 0 ? 0 : errors / served,
      };
    }),
  };
}

/** Steps with an answer that an agent must have for a threshold of its own, at least; at a target of 5 %. */
const OWN_STEPS_MIN = 3;
/** Golden runs of an agent with fewer steps than that, at least, before any is served. */
const AGENT_RUNS_MIN = 5;

/** A threshold for each agent: from its own steps, or from those of all that have too few. */
function chooseAgentThresholds(scored: readonly ScoredStep[], target: number): AgentCalibration[] {
  const byAgent = new Map<string, ScoredStep[]>();
  for (const one of scored) {
    const its = byAgent.get(one.agent ?? '');
    if (its === undefined) byAgent.set(one.agent ?? '', [one]);
    else its.push(one);
  }
  // As many as the rule takes, some times over: else one error more or less decides.
  const hasOwn = (its: readonly ScoredStep[]): boolean =>
    its.filter(({ score }) => score !== null).length >= (OWN_STEPS_MIN * (1 - target)) / target;
  const few = [...byAgent.values()].filter((its) => !hasOwn(its));
  const pooled = few.length > 1 ? chooseThreshold(few.flat(), target) : -1;
  return [...byAgent].map(([agent, its]) => {
    const runs = new Set(its.map(({ run_id }) => run_id)).size;
    const isOwn = hasOwn(its) || few.length === 1;
    let threshold = isOwn ? chooseThreshold(its, target) : runs < AGENT_RUNS_MIN ? -1 : pooled;
    if (!isOwn) {
      const wrong = its.flatMap(({ score, is_right }) => (score !== null && !is_right ? [score] : []));
      const least = Math.min(...wrong);
      if (least <= threshold)
        threshold = its.reduce(
          (most, { score }) => (score !== null && score < least && score > most ? score : most),
          -1,
        );
    }
    return {
      agent,
      threshold,
      evidence: isOwn ? ('own' as const) : ('pooled' as const),
      runs,
      steps: its.length,
      ...countServed(its, threshold),
    };
  });
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
  const agents = nameAgents(steps);
  const scored: ScoredStep[] = [];
  for (let fold = 0; fold < Math.min(folds, runs.length); fold++) {
    const teaching = steps.filter(({ run_id }) => foldOf.get(run_id) !== fold);
    const student = new Student(fitStudent(teaching, options), options.makeIndex);
    for (const one of steps)
      if (foldOf.get(one.run_id) === fold)
        scored.push({ ...scoreStep(student, one), agent: agents.get(one) ?? '' });
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
