/**
 * Finds the thresholds at which at most a target share of the student's served answers is wrong, and measures the
 * result. Pure; teaching.
 *
 * The scores of golden steps are cross-fitted: runs are divided into folds, and a student fitted on the other folds
 * answers each fold. So no run is among its own neighbours, and every run is held out once.
 *
 * The promise, an error rate of at most the target, holds for each agent and kind of answer separately, because errors
 * come in clusters: a student that is right about a thousand lookups may be wrong about the few bookings. The kind is
 * that of the student's own answer, since only that is known for a live step. Each kind gets a threshold from its own
 * golden steps (Mondrian calibration: Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005,
 * section 4.5). The student serves a kind below a score t when an upper bound on its error rate there is within the
 * target (error-bound.ts), as in "Learn then test" (Angelopoulos, Bates, Candès, Jordan and Lei, 2021). Runs are
 * exchangeable, steps are not. So the bound counts the runs in which the student would have served the kind, and those
 * in which it was wrong. The first test uses the largest allowed t, at the promised confidence. If it fails, t is
 * chosen by the errors: the largest t that passes at a higher confidence. Kinds with a call that no lookup follows
 * (final-tools.ts) need a higher confidence in both tests.
 *
 * If a kind as a whole fails, its answers after other calls (answer-form.ts) are tested separately, at a higher
 * confidence, because errors led to this choice. Narrower forms are tested only if the errors depend on the form
 * (error-clusters.ts). Then the remaining answers of the kind share their evidence, without the forms that are probably
 * wrong too often. Such forms are also separated from a kind that passes as a whole.
 *
 * The student does not serve a kind with too few runs, or a kind that calls a tool which an operator has excluded.
 */

import { createPrng } from '../std/prng.ts';
import { kindOfForm } from '../student/model/answer-form.ts';
import { toolsOfKind } from '../student/model/answer-kind.ts';
import { boundKindError, CONFIDENCE, keepsKindError } from '../student/model/error-bound.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { type MakeStudentIndex, Student } from '../student/model/student.ts';
import { doErrorsCluster } from './error-clusters.ts';
import { findFinalTools } from './final-tools.ts';
import { isShownByRest } from './run-proof.ts';
import { type FitOptions, fitStudent, nameAgents } from './student-fit.ts';

/** Number of parts into which a calibration divides the runs. */
export const CALIBRATION_FOLDS = 5;

interface CalibrationOptions extends FitOptions {
  /** Share of wrong answers among served ones, 0 … 1; default 0.05. */
  target_error?: number;
  /** Number of folds; default {@link CALIBRATION_FOLDS}. */
  folds?: number;
  /** Called after each fold, which takes about as long as fitting a student. */
  after_fold?: () => void;
  /** Tools whose calls are never served. */
  never_serve?: readonly string[];
  /** As in {@link KindRules}. */
  final_cost?: number;
  makeIndex: MakeStudentIndex;
}

/** The thresholds for one target, and their result. */
export interface CurvePoint {
  target_error: number;
  /** The largest threshold; −1 if nothing is served. */
  threshold: number;
  agents: AgentCalibration[];
  served: number;
  errors: number;
  /** Served steps / all steps. */
  coverage: number;
  /** Errors / served steps; 0 when nothing was served. */
  error: number;
}

export interface Calibration {
  /** The `threshold` of `decide`: the largest of all agents; −1 when the evidence allows no serving. */
  threshold: number;
  /** The input of `limitAgents`: each agent's own threshold. */
  agents: AgentCalibration[];
  target_error: number;
  /** For the manifest: `cross-fitted bound by agent, form of answer and run, N folds`; a service has other words. */
  method: string;
  runs: number;
  steps: number;
  /** Steps served at the thresholds of their kinds, in runs that the student did not know, and those served wrongly. */
  served: number;
  errors: number;
  /** Coverage and error for several targets. */
  curve: CurvePoint[];
  /** The option `gathers` of {@link fitStudent} for the student that these thresholds belong to. */
  gathers: ReadonlySet<string>;
}

/** The score above which one agent's steps are not covered, and the evidence for it. */
interface AgentCalibration {
  /** The name that {@link nameAgents} gives. */
  agent: string;
  /** The largest threshold of its kinds; −1 when none of its steps is served. */
  threshold: number;
  /** Golden runs and steps, including those for which the student had no answer. */
  runs: number;
  steps: number;
  /** Steps served at the thresholds of the agent's kinds, in runs that the student did not know. */
  served: number;
  errors: number;
  /** Kinds of answers that the student gave, and forms with separate thresholds; the most frequent first. */
  kinds: KindCalibration[];
}

/**
 * Why a kind of answer is not served: too few golden runs have it, the student is wrong too often, or an operator
 * excluded it.
 */
export type KindRefusal = 'too_few' | 'too_wrong' | 'never_serve';

/** The score above which one kind of answer is not covered. */
interface KindCalibration {
  /** Name of the kind or form. If forms of a kind have separate thresholds, the kind covers its other answers. */
  kind: string;
  /** −1 when it is not served. */
  threshold: number;
  /** null when it is served. */
  refused: KindRefusal | null;
  /** Whether the answer calls a tool whose calls no lookup follows. */
  is_final: boolean;
  /** Runs, steps and errors below the threshold; for a kind that is not served, below the largest score allowed. */
  runs: number;
  steps: number;
  errors: number;
  /** Runs in which the student gave an answer of this kind, at any score. */
  seen_runs: number;
  /** Number of runs that the kind needs before it is served, if the student is right in all further runs. */
  needed_runs: number;
  /** Confidence of the test that the kind passed, or of the last test that it failed. */
  confidence: number;
  /** Upper bound on the share of `runs` with an error, at this confidence. */
  error_at_most: number;
}

/** The student's score for one step, and whether its answer was right. */
export interface ScoredStep {
  run_id: string;
  /** The name that {@link nameAgents} gives; absent: all steps belong to one agent. */
  agent?: string;
  /** Kind of the student's answer; absent: ''. */
  kind?: string;
  /** Names of the answer's form, from the kind to the narrowest form; absent: only the kind. */
  forms?: readonly string[];
  /** null when the student had no answer. */
  score: number | null;
  is_right: boolean;
}

/** Targets of {@link Calibration.curve}. */
export const CURVE_TARGETS = [0.01, 0.02, 0.05, 0.1, 0.2] as const;

/**
 * Fits a student on some runs and tests it on the others, in turn for each part of the runs. The thresholds are then
 * used for a student that is fitted on all runs. @returns the thresholds; `without` chooses thresholds again from the
 * same scores, given the forms (`keyOfForm`) that have failed
 */
export function calibrateStudent(
  steps: readonly LearnedStep[],
  options: CalibrationOptions,
): Calibration & { without(failed: ReadonlySet<string>): Calibration } {
  const target = options.target_error ?? 0.05;
  const folds = Math.max(2, Math.floor(options.folds ?? CALIBRATION_FOLDS));
  const final = findFinalKinds(steps);
  const rules = { ...options, final };
  const { scored, gathers } = scoreBestWay(steps, folds, target, rules);
  const calibrate = (failed?: ReadonlySet<string>): Calibration => ({
    ...calibrateScores(scored, target, { ...rules, ...(failed === undefined ? {} : { failed }) }),
    gathers,
    method: `cross-fitted bound by agent, form of answer and run, ${folds} folds`,
    runs: new Set(steps.map(({ run_id }) => run_id)).size,
  });
  return { ...calibrate(), without: calibrate };
}

/** If fewer of an agent's steps than this share would change, the agent is not fitted a second time. */
const GATHERED_SHARE = 0.03;

/**
 * Scores all steps, and those of agents that look things up in varying order a second time, with students for which the
 * order does not matter (`gatherLooks`). Of the two ways, an agent gets the one with which more of its steps would be
 * served; without a difference, the first.
 */
function scoreBestWay(
  steps: readonly LearnedStep[],
  folds: number,
  target: number,
  options: CalibrationOptions & KindRules,
): { scored: ScoredStep[]; gathers: ReadonlySet<string> } {
  const gatherable = new Map<string, number>();
  const scored = scoreCrossFitted(steps, folds, {
    ...options,
    onGatherable: (agent, count) => gatherable.set(agent, (gatherable.get(agent) ?? 0) + count),
  });
  const agents = nameAgents(steps);
  const counts = new Map<string, number>();
  for (const agent of agents.values()) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  // Each step is taught in all folds but one.
  const varied = new Set(
    [...gatherable].flatMap(([agent, count]) =>
      count >= GATHERED_SHARE * (folds - 1) * (counts.get(agent) ?? 0) ? [agent] : [],
    ),
  );
  if (varied.size === 0) return { scored, gathers: varied };
  const again = scoreCrossFitted(
    steps.filter((step) => varied.has(agents.get(step) ?? '')),
    folds,
    { ...options, gathers: varied, after_fold: () => {} },
  );
  const servedOf = (found: readonly ScoredStep[]): Map<string, number> =>
    new Map(chooseAgentThresholds(found, target, options).map(({ agent, served }) => [agent, served]));
  const [before, after] = [servedOf(scored), servedOf(again)];
  const gathers = new Set([...varied].filter((agent) => (after.get(agent) ?? 0) > (before.get(agent) ?? 0)));
  const isGathered = ({ agent = '' }: ScoredStep): boolean => gathers.has(agent);
  return { scored: [...scored.filter((step) => !isGathered(step)), ...again.filter(isGathered)], gathers };
}

/** Key of a form of answers. It is the same for all agents into which a scope is divided. */
export function keyOfForm(agent: string, form: string): string {
  return `${agent.split('.')[0]!} ${form}`;
}

/** Rules for kinds of answers in addition to the bound on their error rate. */
interface KindRules {
  /** Forms (`keyOfForm`) that were wrong too often in held-out runs: their answers are not served. */
  failed?: ReadonlySet<string>;
  /** Tools whose calls are never served. */
  never_serve?: readonly string[];
  /** Tools whose calls no lookup follows, by agent. */
  final?: ReadonlyMap<string, ReadonlySet<string>>;
  /** How many times as much an error costs in an answer with such a call; default {@link FINAL_COST}. */
  final_cost?: number;
  /** Largest score that is ever served; default: derived from the target. */
  score_max?: number;
}

/** Tools whose calls no lookup follows, by agent; see {@link KindRules}. */
export function findFinalKinds(steps: readonly LearnedStep[]): Map<string, Set<string>> {
  const byAgent = new Map<string, LearnedStep[]>();
  for (const [step, agent] of nameAgents(steps)) {
    const agentSteps = byAgent.get(agent);
    if (agentSteps === undefined) byAgent.set(agent, [step]);
    else agentSteps.push(step);
  }
  return new Map([...byAgent].map(([agent, agentSteps]) => [agent, findFinalTools(agentSteps)]));
}

/** Computes the thresholds from existing scores. */
export function calibrateScores(
  scored: readonly ScoredStep[],
  target: number,
  rules: KindRules = {},
): Omit<Calibration, 'method' | 'runs' | 'gathers'> {
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
      const atTarget = chooseAgentThresholds(scored, targetError, rules);
      const { threshold, served, errors } = summarize(atTarget);
      return {
        target_error: targetError,
        threshold,
        agents: atTarget,
        served,
        errors,
        coverage: scored.length === 0 ? 0 : served / scored.length,
        error: served === 0 ? 0 : errors / served,
      };
    }),
  };
}

/** Number of golden runs without an error that a kind of answer needs before it is served at a target of 5 %. */
export const KIND_RUNS_MIN = 11;

/** Maximum number of runs that {@link countNeeded} returns. */
const RUNS_TRIED = 1 << 16;

/** Minimum number of golden runs of one agent for any kind of its answers to be served. */
export function countRunsNeeded(target: number): number {
  return countNeeded(0, 1, target, false);
}

/** Number of golden runs with which a kind of answer passes its first test if the student makes no further error. */
function countNeeded(wrongRuns: number, cost: number, target: number, isChosen: boolean): number {
  const confidence = confidenceFor(cost, isChosen);
  const isEnough = (runs: number): boolean => keepsKindError(wrongRuns, runs, confidence, target);
  let enough = 1;
  while (enough < RUNS_TRIED && !isEnough(enough)) enough *= 2;
  let few = enough / 2;
  while (enough - few > 1) {
    const runs = Math.floor((few + enough) / 2);
    if (isEnough(runs)) enough = runs;
    else few = runs;
  }
  return enough;
}

/** Chooses a threshold for each kind of answer of each agent. */
function chooseAgentThresholds(
  scored: readonly ScoredStep[],
  target: number,
  rules: KindRules,
): AgentCalibration[] {
  return [...groupBy(scored, ({ agent }) => agent ?? '')].map(([agent, agentSteps]) => {
    const answered = agentSteps.filter((step): step is AnsweredStep => step.score !== null);
    const kinds = [...groupBy(answered, ({ kind }) => kind ?? '')]
      .flatMap(([kind, ofKind]) => calibrateForms(kind, ofKind, 0, { agent, target, rules }))
      .toSorted((a, b) => b.steps - a.steps || (a.kind < b.kind ? -1 : 1));
    const served = kinds.filter(isServed);
    return {
      agent,
      threshold: Math.max(-1, ...served.map(({ threshold }) => threshold)),
      runs: new Set(agentSteps.map(({ run_id }) => run_id)).size,
      steps: agentSteps.length,
      served: served.reduce((sum, { steps }) => sum + steps, 0),
      errors: served.reduce((sum, { errors }) => sum + errors, 0),
      kinds,
    };
  });
}

function groupBy<T>(all: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of all) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

type AnsweredStep = ScoredStep & { score: number };

/** The inputs to the calibration of a kind. */
interface Calibrating {
  agent: string;
  target: number;
  rules: KindRules;
}

/**
 * Chooses the thresholds for the answers of a form: either one threshold for all, or separate thresholds for narrower
 * forms and one for the remaining answers. Each step counts only for the narrowest of these forms that it belongs to.
 * @param depth index of the form among the names of a step's forms
 */
function calibrateForms(
  name: string,
  answered: readonly AnsweredStep[],
  depth: number,
  on: Calibrating,
): KindCalibration[] {
  const whole = calibrateKind(name, answered, on, depth > 0);
  if (whole.refused === 'never_serve' || hasFailed(name, on)) return [whole];
  const isWholeServed = whole.refused === null;
  const doDiffer = isWholeServed || doFormsDiffer(answered, depth, on);
  // The calls before an answer are known without its errors, so these forms need no proof that the errors depend on them.
  const mayDiffer = doDiffer || depth === 0;
  const alone: KindCalibration[] = [];
  // If errors rule out a form, the same errors choose the remaining answers.
  let isChosen = depth > 0 || !isWholeServed;
  for (const [part, steps] of groupBy(answered, ({ forms }) => forms?.[depth + 1] ?? '')) {
    const isBad = hasFailed(part, on) || (doDiffer && isLikelyWrong(steps, on));
    if (part === '' || (!isBad && (isWholeServed || !mayDiffer))) continue;
    const forms = calibrateForms(part, steps, depth + 1, on);
    if (isBad || forms.some(isServed)) alone.push(...forms);
    if (isBad && !hasFailed(part, on)) isChosen = true;
  }
  if (alone.length === 0) return [whole];
  const rest = answered.filter((step) => !isNamed(step, alone));
  const all = [...alone, ...(rest.length === 0 ? [] : [calibrateKind(name, rest, on, isChosen)])];
  return isWholeServed || all.some(isServed) ? all : [whole];
}

/** Whether narrower forms explain the errors below the largest score allowed. */
function doFormsDiffer(
  answered: readonly AnsweredStep[],
  depth: number,
  { target, rules }: Calibrating,
): boolean {
  const largest = rules.score_max ?? scoreMaxOf(target);
  const counted = answered.filter(({ score }) => score <= largest);
  const isBy = (nameForm: (step: ScoredStep) => string): boolean =>
    doErrorsCluster(counted.map((step) => ({ ...step, form: nameForm(step) })));
  return isBy(({ forms }) => forms?.[depth + 1] ?? '') || isBy(({ forms }) => forms?.at(-1) ?? '');
}

function isServed({ refused }: KindCalibration): boolean {
  return refused === null;
}

function isNamed({ forms }: ScoredStep, by: readonly KindCalibration[]): boolean {
  return by.some(({ kind }) => forms?.includes(kind) === true);
}

function hasFailed(name: string, { agent, rules }: Calibrating): boolean {
  return rules.failed?.has(keyOfForm(agent, name)) === true;
}

/** Whether a form's error rate is probably above the target. */
function isLikelyWrong(answered: readonly AnsweredStep[], { target, rules }: Calibrating): boolean {
  const { wrong_runs, runs } = countBelow(answered, rules.score_max ?? scoreMaxOf(target));
  return wrong_runs > 0 && !keepsKindError(wrong_runs, runs, EVEN, target);
}

/** Confidence of an even chance. An error rate is probably above the target if its bound at this confidence is. */
const EVEN = 0.5;

/**
 * Chooses the threshold of one kind or form.
 * @param isChosen whether errors led to the choice of these steps, which requires a higher confidence
 */
function calibrateKind(
  kind: string,
  answered: readonly AnsweredStep[],
  { agent, target, rules }: Calibrating,
  isChosen: boolean,
): KindCalibration {
  const tools = toolsOfKind(kindOfForm(kind));
  const isFinal = tools.some((name) => rules.final?.get(agent)?.has(name) === true);
  const isExcepted = tools.some((name) => rules.never_serve?.includes(name) === true);
  const largest = rules.score_max ?? scoreMaxOf(target);
  const cost = isFinal ? (rules.final_cost ?? FINAL_COST) : 1;
  const found = chooseThreshold(answered, target, cost, largest, isChosen);
  const counts = countBelow(answered, found.threshold < 0 ? largest : found.threshold);
  const failed = hasFailed(kind, { agent, target, rules });
  const passes = found.threshold >= 0 && !isExcepted && !failed;
  const tooMany = failed || counts.errors > target * counts.steps;
  return {
    kind,
    threshold: passes ? found.threshold : -1,
    refused: isExcepted ? 'never_serve' : passes ? null : tooMany ? 'too_wrong' : 'too_few',
    is_final: isFinal,
    runs: counts.runs,
    steps: counts.steps,
    errors: counts.errors,
    seen_runs: new Set(answered.map(({ run_id }) => run_id)).size,
    needed_runs: countNeeded(counts.wrong_runs, cost, target, isChosen),
    confidence: found.confidence,
    error_at_most: boundKindError(counts.wrong_runs, counts.runs, found.confidence),
  };
}

/** Each step's score from a student that does not know its run. */
export function scoreCrossFitted(
  steps: readonly LearnedStep[],
  folds: number,
  options: FitOptions & Pick<CalibrationOptions, 'makeIndex' | 'after_fold'>,
): ScoredStep[] {
  const runs = [...new Set(steps.map(({ run_id }) => run_id))];
  const random = createPrng(options.seed ?? 1);
  for (let i = runs.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [runs[i], runs[j]] = [runs[j]!, runs[i]!];
  }
  const foldOf = new Map(runs.map((run, i) => [run, i % folds]));
  const agents = nameAgents(steps);
  const ofRun = Map.groupBy(steps, ({ run_id }) => run_id);
  const scored: ScoredStep[] = [];
  for (let fold = 0; fold < Math.min(folds, runs.length); fold++) {
    const teaching = steps.filter(({ run_id }) => foldOf.get(run_id) !== fold);
    const student = new Student(fitStudent(teaching, options), options.makeIndex);
    for (const step of steps)
      if (foldOf.get(step.run_id) === fold)
        scored.push({
          ...scoreStep(student, step, ofRun.get(step.run_id)!),
          agent: agents.get(step) ?? '',
        });
    options.after_fold?.();
  }
  return scored;
}

/**
 * Asks the student about a golden step.
 * @param ofRun all steps of its run, in order
 */
export function scoreStep(student: Student, learned: LearnedStep, ofRun: readonly LearnedStep[]): ScoredStep {
  const { run_id, step, answer } = learned;
  const proposal = student.propose(step);
  if (proposal.answer === null || proposal.score === null) return { run_id, score: null, is_right: false };
  return {
    run_id,
    kind: proposal.forms[0]!,
    forms: proposal.forms,
    score: proposal.score,
    is_right:
      student.agrees(step, proposal, answer.content, true) ||
      isShownByRest(proposal.answer.content, ofRun, ofRun.indexOf(learned)),
  };
}

/**
 * A step that is more different from golden steps than similar to them is never covered: with a target of 5 %, scores
 * may be at most a half. A higher target tolerates less similar steps.
 */
const SCORE_MAX = { base: 0.4, per_target: 2, most: 0.8 } as const;

function scoreMaxOf(target: number): number {
  return Math.min(SCORE_MAX.most, SCORE_MAX.base + SCORE_MAX.per_target * target);
}

/**
 * Confidence for answers that the errors choose. {@link CONFIDENCE} applies to a kind that is fixed in advance.
 */
const CHOSEN_CONFIDENCE = 0.99;
/**
 * Confidence for a threshold that the errors choose. This confidence is a little higher than the one above, because one
 * of many thresholds is more likely to pass by chance than one of a few forms.
 */
const THRESHOLD_CONFIDENCE = 0.992;
/** Cost of an error in an answer with a call that no lookup follows, in costs of another error. */
export const FINAL_COST = 3.5;

/**
 * The confidence that a threshold needs. The remaining chance that the promise is broken, times the cost of an error,
 * is the same for all answers with the same `isChosen`.
 * @param cost of an error, as a multiple of the cost in an answer that a lookup follows
 * @param isChosen whether errors led to the choice of the steps, which requires a higher confidence
 */
function confidenceFor(cost: number, isChosen: boolean): number {
  return 1 - (1 - (isChosen ? CHOSEN_CONFIDENCE : CONFIDENCE)) / cost;
}

/**
 * Chooses the largest threshold at which the error rate of one kind of answer keeps the target. The first test is that
 * of the largest score allowed, at {@link confidenceFor}. If that fails, each score is tested at a higher confidence.
 * @param cost of an error, as {@link confidenceFor} takes it
 * @param largest the largest score that is ever served
 * @param isChosen whether errors led to the choice of these answers
 * @returns the threshold (−1: none keeps the target), and the confidence of the test that chose or refused it
 */
export function chooseThreshold(
  scored: readonly ScoredStep[],
  target: number,
  cost = 1,
  largest = scoreMaxOf(target),
  isChosen = false,
): { threshold: number; confidence: number } {
  const chosen = 1 - (1 - THRESHOLD_CONFIDENCE) / cost;
  const confidence = confidenceFor(cost, isChosen);
  const sorted = scored
    .filter((step): step is AnsweredStep => step.score !== null && step.score <= largest)
    // Among equal scores, wrong answers first.
    .sort((a, b) => a.score - b.score || Number(a.is_right) - Number(b.is_right));
  const all = countBelow(sorted, largest);
  if (keepsKindError(all.wrong_runs, all.runs, confidence, target)) return { threshold: largest, confidence };
  let threshold = -1;
  const tally = new RunTally();
  for (const [i, step] of sorted.entries()) {
    tally.add(step);
    // Equal scores pass or fail together. Between two errors, the last score is the best threshold.
    const next = sorted[i + 1];
    if (next !== undefined && (next.score === step.score || next.is_right)) continue;
    const { wrong_runs, runs } = tally.counts();
    if (keepsKindError(wrong_runs, runs, chosen, target)) threshold = step.score;
  }
  return { threshold, confidence: chosen };
}

interface RunCounts {
  runs: number;
  steps: number;
  errors: number;
  /**
   * Number of runs with an error; or the share of wrong steps times the number of runs, if that is more. It is more if
   * the wrong steps are in long runs.
   */
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
  for (const step of scored) if (step.score <= threshold) tally.add(step);
  return tally.counts();
}
