/**
 * How sure a student must be so that at most a target share of what it serves is wrong, and how good it then is. Pure;
 * analysis.
 *
 * The scores of golden steps are cross-fitted: runs are cut into folds, and a student that was fitted on the other folds
 * answers each. So no run is among its own neighbours, and each run is kept apart once.
 *
 * The promise holds for each agent and kind of answer, not for all together, because errors come in clusters: a student
 * that is right about a thousand looks may not be wrong about the few bookings. A kind is what the student would serve,
 * since that is known of a live step. Each kind has a threshold from its own golden steps (Mondrian calibration: Vovk,
 * Gammerman and Shafer, "Algorithmic learning in a random world", 2005, section 4.5). The student serves a kind below a
 * score t when an upper bound of its share of errors there is within the target (error-bound.ts), as in "Learn then
 * test" (Angelopoulos, Bates, Candès, Jordan and Lei, 2021). Runs are exchangeable, steps are not. So the bound counts
 * the runs in which the student would have served the kind, and those of them in which it was wrong. The first test is
 * of the largest t that is ever allowed, with the promised confidence. When it fails, the errors choose t: the largest
 * one that passes with a higher confidence. Kinds with a call that no look follows (final-tools.ts) need the higher
 * confidence in the first test, and a still higher one in the second.
 *
 * The student does not serve a kind with too few runs, nor one that calls a tool which an operator has excepted.
 */

import { createPrng } from '../../std/prng.ts';
import { answersAgree } from './agreement.ts';
import { kindOfAnswer, toolsOfKind } from './answer-kind.ts';
import { boundKindError, CONFIDENCE, keepsKindError } from './error-bound.ts';
import { findFinalTools } from './final-tools.ts';
import { type MakeStudentIndex, Student } from './student.ts';
import { type FitOptions, fitStudent, type LearnedStep, nameAgents } from './student-fit.ts';

export interface CalibrationOptions extends FitOptions {
  /** Share of wrong answers among served ones, 0 … 1; 0.05 when left out. */
  target_error?: number;
  /** Parts that the runs are cut into; 5 when left out. */
  folds?: number;
  /** Tools of which no call is ever served. */
  never_serve?: readonly string[];
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

/** From which score on one agent's steps are not covered, and what says so. */
export interface AgentCalibration {
  /** As {@link nameAgents} names it. */
  agent: string;
  /** The largest of its kinds'; −1: none of its steps is served. */
  threshold: number;
  /** Golden runs and steps, those without an answer of the student among them. */
  runs: number;
  steps: number;
  /** At the thresholds of its kinds, on steps whose runs the student did not know. */
  served: number;
  errors: number;
  /** Kinds of answers that the student gave; the one with most steps first. */
  kinds: KindCalibration[];
}

/** Why a kind of answer is not served: too few golden runs have it, it is wrong too often in them, or an operator says so. */
export type KindRefusal = 'too_few' | 'too_wrong' | 'never_serve';

/** From which score on one kind of answer is not covered. */
export interface KindCalibration {
  /** As `kindOfAnswer` names it. */
  kind: string;
  /** −1: it is not served. */
  threshold: number;
  /** null: it is served. */
  refused: KindRefusal | null;
  /** It calls a tool whose calls no look follows. */
  is_final: boolean;
  /** Below the threshold, of one that is not served below the largest score allowed: runs, steps, and wrong ones. */
  runs: number;
  steps: number;
  errors: number;
  /** With this confidence the share of errors is at most that. */
  confidence: number;
  error_at_most: number;
}

/** What a student thought of a step, and whether it was right. */
export interface ScoredStep {
  run_id: string;
  /** As {@link nameAgents} names it; all one agent where it is left out. */
  agent?: string;
  /** Of the answer that it gave; '' where it is left out. */
  kind?: string;
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
    ...calibrateScores(scored, target, { ...options, final: findFinalKinds(steps) }),
    method: `cross-fitted bound by agent, kind of answer and run, ${folds} folds`,
    runs: new Set(steps.map(({ run_id }) => run_id)).size,
  };
}

/** Kinds of answers that need more than the bound. */
export interface KindRules {
  /** Tools of which no call is ever served. */
  never_serve?: readonly string[];
  /** Tools whose calls no look follows, by agent. */
  final?: ReadonlyMap<string, ReadonlySet<string>>;
  /** Largest score that is ever served; by the target when left out. */
  score_max?: number;
}

/** Tools whose calls no look follows, by agent; see {@link KindRules}. */
export function findFinalKinds(steps: readonly LearnedStep[]): Map<string, Set<string>> {
  const byAgent = new Map<string, LearnedStep[]>();
  for (const [step, agent] of nameAgents(steps)) {
    const its = byAgent.get(agent);
    if (its === undefined) byAgent.set(agent, [step]);
    else its.push(step);
  }
  return new Map([...byAgent].map(([agent, its]) => [agent, findFinalTools(its)]));
}

/** The thresholds for scores that are there already. */
export function calibrateScores(
  scored: readonly ScoredStep[],
  target: number,
  rules: KindRules = {},
): Omit<Calibration, 'method' | 'runs'> {
  const summarize = (agents: readonly AgentCalibration[]) => ({
    threshold: agents.reduce((most, { threshold }) => Math.max(most, threshold), -1),
    served: agents.reduce((sum, { served }) => sum + served, 0),
    errors: agents.reduce((sum, { errors }) => sum + errors, 0),
  });
  const agents = chooseAgentThresholds(scored, target, rules);
  return {
    ...summarize(agents),
    agents,
    target_error: target,
    steps: scored.length,
    curve: CURVE_TARGETS.map((targetError) => {
      const its = chooseAgentThresholds(scored, targetError, rules);
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

/** Golden runs with a kind of answer, without an error, before any is served; at a target of 5 %. */
export const KIND_RUNS_MIN = 11;

/** Golden runs that the first test of a kind of answer takes, when the student is wrong in none of them. */
export function cleanRunsNeeded(isFinal: boolean, target: number): number {
  const [confidence] = CONFIDENCES[isFinal ? 'final' : 'common'];
  let runs = 1;
  while (runs < RUNS_TRIED && !keepsKindError(0, runs, confidence, target)) runs++;
  return runs;
}

const RUNS_TRIED = 10_000;

/** A threshold for each kind of answer of each agent. */
function chooseAgentThresholds(
  scored: readonly ScoredStep[],
  target: number,
  rules: KindRules,
): AgentCalibration[] {
  return [...groupBy(scored, ({ agent }) => agent ?? '')].map(([agent, its]) => {
    const answered = its.filter((one): one is AnsweredStep => one.score !== null);
    const kinds = [...groupBy(answered, ({ kind }) => kind ?? '')]
      .toSorted(([a, as], [b, bs]) => bs.length - as.length || (a < b ? -1 : 1))
      .map(([kind, ofKind]) => calibrateKind(kind, ofKind, target, rules, agent));
    const served = kinds.filter(({ refused }) => refused === null);
    return {
      agent,
      threshold: Math.max(-1, ...served.map(({ threshold }) => threshold)),
      runs: new Set(its.map(({ run_id }) => run_id)).size,
      steps: its.length,
      served: served.reduce((sum, { steps }) => sum + steps, 0),
      errors: served.reduce((sum, { errors }) => sum + errors, 0),
      kinds,
    };
  });
}

function groupBy<T>(all: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const key = keyOf(one);
    const its = groups.get(key);
    if (its === undefined) groups.set(key, [one]);
    else its.push(one);
  }
  return groups;
}

type AnsweredStep = ScoredStep & { score: number };

function calibrateKind(
  kind: string,
  answered: readonly AnsweredStep[],
  target: number,
  rules: KindRules,
  agent: string,
): KindCalibration {
  const tools = toolsOfKind(kind);
  const isFinal = tools.some((name) => rules.final?.get(agent)?.has(name) === true);
  const isExcepted = tools.some((name) => rules.never_serve?.includes(name) === true);
  const largest = rules.score_max ?? scoreMaxOf(target);
  const found = chooseThreshold(answered, target, isFinal, largest);
  const counts = countBelow(answered, found.threshold < 0 ? largest : found.threshold);
  const isServed = found.threshold >= 0 && !isExcepted;
  const tooMany = counts.errors > target * counts.steps;
  return {
    kind,
    threshold: isServed ? found.threshold : -1,
    refused: isExcepted ? 'never_serve' : isServed ? null : tooMany ? 'too_wrong' : 'too_few',
    is_final: isFinal,
    runs: counts.runs,
    steps: counts.steps,
    errors: counts.errors,
    confidence: found.confidence,
    error_at_most: boundKindError(counts.wrong_runs, counts.runs, found.confidence),
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
  return {
    run_id,
    kind: kindOfAnswer(proposal.answer.content),
    score: proposal.score,
    is_right: answersAgree(proposal.answer, answer),
  };
}

/**
 * A step that is more unlike golden ones than like them is not covered, however good the others are: at 5 %, scores up to
 * a half. Who bears more errors bears more unlike steps.
 */
const SCORE_MAX = { base: 0.4, per_target: 2, most: 0.8 } as const;

function scoreMaxOf(target: number): number {
  return Math.min(SCORE_MAX.most, SCORE_MAX.base + SCORE_MAX.per_target * target);
}

/** The confidence for a threshold that stands before anything is looked at, and for one that is chosen by the errors. */
const CONFIDENCES = { common: [CONFIDENCE, 0.99], final: [0.985, 0.998] } as const;

/**
 * The largest threshold below which the share of errors of one kind of answer keeps the target, with a confidence.
 * @param isFinal no look follows it: the confidence is higher
 * @param largest score that is ever served
 * @returns −1 where no threshold does
 */
export function chooseThreshold(
  scored: readonly ScoredStep[],
  target: number,
  isFinal = false,
  largest = scoreMaxOf(target),
): { threshold: number; confidence: number } {
  const [confidence, chosen] = CONFIDENCES[isFinal ? 'final' : 'common'];
  const sorted = scored
    .filter((one): one is AnsweredStep => one.score !== null && one.score <= largest)
    // Of equal scores those that are wrong first.
    .sort((a, b) => a.score - b.score || Number(a.is_right) - Number(b.is_right));
  const all = countBelow(sorted, largest);
  if (keepsKindError(all.wrong_runs, all.runs, confidence, target)) return { threshold: largest, confidence };
  let threshold = -1;
  const tally = new RunTally();
  for (const [i, one] of sorted.entries()) {
    tally.add(one);
    // Equal scores stand or fall together; between two errors the last is the best.
    const next = sorted[i + 1];
    if (next !== undefined && (next.score === one.score || next.is_right)) continue;
    const { wrong_runs, runs } = tally.counts();
    if (keepsKindError(wrong_runs, runs, chosen, target)) threshold = one.score;
  }
  return { threshold, confidence: chosen };
}

interface RunCounts {
  runs: number;
  steps: number;
  errors: number;
  /** Runs in which it was wrong; more where the wrong ones are long. */
  wrong_runs: number;
}

/** Counts runs, and those with an error. */
class RunTally {
  readonly #wrong = new Map<string, boolean>();
  #steps = 0;
  #errors = 0;
  #wrongRuns = 0;

  add({ run_id, is_right }: ScoredStep): void {
    const was = this.#wrong.get(run_id);
    this.#steps++;
    if (!is_right) {
      this.#errors++;
      if (was !== true) this.#wrongRuns++;
    }
    if (was === undefined || !is_right) this.#wrong.set(run_id, !is_right);
  }

  counts(): RunCounts {
    const runs = this.#wrong.size;
    const share = this.#steps === 0 ? 0 : (this.#errors * runs) / this.#steps;
    return {
      runs,
      steps: this.#steps,
      errors: this.#errors,
      wrong_runs: Math.max(this.#wrongRuns, share),
    };
  }
}

function countBelow(scored: readonly AnsweredStep[], threshold: number): RunCounts {
  const tally = new RunTally();
  for (const one of scored) if (one.score <= threshold) tally.add(one);
  return tally.counts();
}

/** What a student did on steps that it was not taught. */
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
