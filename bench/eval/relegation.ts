/**
 * Measures how much of repetitive agents' work a student takes over, and how well, compared with two caches. It uses
 * synthetic families (agent-families.ts): golden runs to learn from, held-out runs, and runs of kinds that were never
 * seen. Bench process.
 *
 * The synthetic agents are measured in two ways. Step by step: the student is asked about each step of a held-out run
 * with the frontier model's context. An error is an answer that is not equivalent to the frontier model's
 * (src/student/model/equivalence.ts). In the loop: the student acts in the world if it covers a step, otherwise the
 * frontier model acts, so the histories contain answers of both. An error is an answer that the frontier model would
 * not have given at the same step. The world decides whether a run succeeded, so success does not depend on the
 * definition of equivalence. A variant measures runs in which the frontier model serves all further steps after its
 * first answer.
 *
 * The caches' thresholds are chosen on the held-out steps themselves, so that the coverage at the target is as large as
 * possible. An operator, who does not know these steps, could not choose better thresholds. The student's threshold
 * comes only from its golden runs.
 */

import { parseArgs } from 'node:util';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { answersAgree } from '../../src/student/model/agreement.ts';
import { kindOfAnswer } from '../../src/student/model/answer-kind.ts';
import type { StudentAnswer } from '../../src/student/model/decision.ts';
import { boundError } from '../../src/student/model/error-bound.ts';
import { Student, type StudentIndex } from '../../src/student/model/student.ts';
import { type Calibration, CURVE_TARGETS, calibrateStudent } from '../../src/teaching/calibration.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import { saveResult, takeProvenance } from '../results.ts';
import { FAMILY_NAMES, startRun } from './agent-families.ts';
import type { MessagesAnswer, MessagesRequest, WireBlock } from './agent-family.ts';
import { evaluateDrift } from './drift.ts';
import { evaluateAgentDrift } from './drift-agents.ts';
import { evaluateHeldBack } from './held-back/held-back.ts';
import { readLiveFlags, readOfflineFlags } from './held-back/held-back-options.ts';
import { evaluateOffline } from './held-back/offline.ts';
import { evaluateModelStudents } from './model-students.ts';
import { ExactCache, SemanticCache } from './relegation-baselines.ts';
import { type RecordedStep, readAnswer, readStep, recordRuns } from './relegation-runs.ts';
import { evaluateTrajectories } from './trajectories.ts';
import { evaluateVaried } from './varied.ts';
import { loadVersion, measureVersion, type StudentVersion, type VersionPoint } from './version-before.ts';

/** Example prices, in dollars per million tokens. */
const PRICES = { input: 3, output: 15 } as const;
/** Default number of golden runs of each agent. */
const MAIN_RUNS = 150;
const LEARNING_RUNS = [20, 40, 80, 300] as const;
const HELD_RUNS = 40;
const SHIFTED_RUNS = 10;
const LOOP_RUNS = 20;
const FIXED_SIMILARITIES = [0.9, 0.95, 0.98] as const;
const GOAL_TARGET = 0.05;
const GOAL_COVERAGE = 0.8;
const GOAL_ERROR = 0.02;
/** With fewer answers, a single wrong one would exceed the goal. */
const KIND_SERVED_MIN = 20;

/** The share of the steps that were served, and the share of the served answers that were wrong. */
interface Point {
  coverage: number;
  error: number;
  served: number;
  errors: number;
  steps: number;
}

/** Whole runs with a student or a cache in front of the frontier model. */
interface LoopPoint {
  success: number;
  cost_saved: number;
  steps_served: number;
  /** Share of the served answers that the frontier model would not have given at the same step. */
  error: number;
}

interface SeedResult {
  seed: number;
  curve: {
    target: number;
    threshold: number;
    calibrated_error: number;
    held_out: Point;
    shifted: Point;
    loop: LoopPoint;
    /** Results if the frontier model serves every step of a run after the first step that it served. */
    sticky: LoopPoint;
  }[];
  exact: { held_out: Point; loop: LoopPoint };
  /** Largest coverage with at most the target's error, by a threshold chosen on the held-out steps. */
  semantic: { target: number; similarity: number | null; held_out: Point }[];
  semantic_fixed: { similarity: number; held_out: Point; shifted: Point; loop: LoopPoint }[];
  by_family: Record<string, Point>;
  /** By family and kind of answer that was served. */
  by_kind: Record<string, { served: number; errors: number }>;
  uncovered: Record<string, number>;
  /** The version that `--before` names, on the same runs. */
  before?: VersionPoint[];
}

type Ask = (request: MessagesRequest) => Given | null;

/** An answer, and a function that tells whether another answer is equivalent. */
interface Given {
  answer: StudentAnswer;
  score: number;
  agrees(other: StudentAnswer): boolean;
}

const makeIndex = (dimensions: number): StudentIndex => new ExactIndex(dimensions);

/**
 * Prints and stores the evaluation.
 * @param args `--seeds N`, `--first-seed N`, `--runs N`, `--before DIR` (a checkout of another version), `--no-learning`, `--no-drift`,
 *   `--no-trajectories`, `--no-models`, `--no-varied`, `--models-alone` (the models behind students, and nothing else), `--no-held-back`,
 *   `--no-save`; or `--held-back` (the held-back agents, and nothing else) with the flags of `readLiveFlags`,
 *   or with `--offline` (the same agents without a gateway) those of `readOfflineFlags`
 */
export async function evaluateRelegation(...args: string[]): Promise<void> {
  if (args.includes('--held-back'))
    return args.includes('--offline')
      ? evaluateOffline(readOfflineFlags(args))
      : evaluateHeldBack(readLiveFlags(args));
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: 'string', default: '3' },
      'first-seed': { type: 'string', default: '1' },
      runs: { type: 'string', default: String(MAIN_RUNS) },
      before: { type: 'string' },
      'no-learning': { type: 'boolean' },
      'no-drift': { type: 'boolean' },
      'no-trajectories': { type: 'boolean' },
      'no-models': { type: 'boolean' },
      'no-varied': { type: 'boolean' },
      'models-alone': { type: 'boolean' },
      'no-held-back': { type: 'boolean' },
      'no-save': { type: 'boolean' },
    },
  });
  const provenance = takeProvenance();
  const seeds = Math.max(1, Math.floor(Number(values.seeds)) || 1);
  const first = Math.max(1, Math.floor(Number(values['first-seed'])) || 1);
  const runs = Math.max(1, Math.floor(Number(values.runs)) || MAIN_RUNS);
  const seedList = Array.from({ length: seeds }, (_, i) => first + i);
  if (values['models-alone'] === true) {
    const models = await evaluateModelStudents(seedList);
    printGoals(models.goals);
    const result = { ...provenance, suite: 'relegation-models', families: FAMILY_NAMES, models };
    if (values['no-save'] !== true) console.log(`\n${saveResult(result)}`);
    return;
  }
  // Measured first, because this figure applies to agents that were not used to develop the student.
  if (values['no-held-back'] !== true)
    await evaluateHeldBack({ seed: first, is_saved: values['no-save'] !== true });
  const before = values.before === undefined ? null : loadVersion(values.before);
  const results = seedList.map((seed) => evaluateSeed(seed, runs, before));
  printSeeds(results, runs);
  printBefore(results);
  printKinds(results);
  const learning =
    values['no-learning'] === true ? [] : LEARNING_RUNS.map((runs) => learn(runs, first, seeds));
  if (learning.length > 0) printLearning(learning);
  const varied = values['no-varied'] === true ? null : evaluateVaried(seedList);
  const isDrifting = values['no-drift'] !== true;
  const { goals: watched = {}, ...drift } = isDrifting ? evaluateDrift() : {};
  const changed = isDrifting ? evaluateAgentDrift(first) : null;
  const trajectories = values['no-trajectories'] === true ? null : evaluateTrajectories();
  const models = values['no-models'] === true ? null : await evaluateModelStudents(seedList);
  const goals: Record<string, boolean> = { ...judge(results), ...watched, ...models?.goals };
  printGoals(goals);
  const result = {
    ...provenance,
    suite: 'relegation',
    families: FAMILY_NAMES,
    golden_runs: runs * FAMILY_NAMES.length,
    prices: PRICES,
    seeds: results,
    learning,
    varied,
    drift,
    changed_agents: changed,
    trajectories,
    models,
    goals,
  };
  if (values['no-save'] !== true) console.log(`\n${saveResult(result)}`);
}

function printGoals(goals: Readonly<Record<string, boolean>>): void {
  for (const [goal, isMet] of Object.entries(goals)) console.log(`${isMet ? 'met   ' : 'MISSED'} ${goal}`);
}

function evaluateSeed(seed: number, runs: number, before: StudentVersion | null): SeedResult {
  const base = seed * 10_000_000;
  const families = FAMILY_NAMES.length;
  const golden = recordRuns(runs * families, base).flatMap(({ steps }) => steps);
  const held = recordRuns(HELD_RUNS * families, base + 3_000_000).flatMap(({ steps }) => steps);
  const shifted = recordRuns(SHIFTED_RUNS * families, base + 6_000_000, true).flatMap(({ steps }) => steps);
  const calibration = calibrateStudent(golden, { makeIndex, target_error: GOAL_TARGET });
  const model = fitStudent(golden);
  // The model contains each agent's threshold, so there is one student for each target.
  const students = calibration.curve.map(({ agents }) => new Student(limitAgents(model, agents), makeIndex));
  const student = students[CURVE_TARGETS.indexOf(GOAL_TARGET)]!;
  const scoredHeld = scoreAll(held, (request) => askStudent(student, request));
  const exact = new ExactCache(golden);
  const semantic = new SemanticCache(golden);
  // The score of a cache is a distance. So a lower score is better, as for the student.
  const askExact: Ask = (request) => scoreOf(exact.find(request));
  const askSemantic: Ask = (request) => scoreOf(semantic.find(request));
  const semanticHeld = scoreAll(held, askSemantic);
  const semanticShifted = scoreAll(shifted, askSemantic);
  const atGoal = calibration.threshold;
  return {
    seed,
    curve: calibration.curve.map(({ target_error, threshold, error }, i) => {
      const ask: Ask = (request) => askStudent(students[i]!, request);
      return {
        target: target_error,
        threshold,
        calibrated_error: error,
        held_out: pointAt(scoreAll(held, ask), threshold),
        shifted: pointAt(scoreAll(shifted, ask), threshold),
        loop: runLoop(ask, threshold, base + 8_000_000),
        sticky: runLoop(ask, threshold, base + 8_000_000, true),
      };
    }),
    exact: { held_out: pointAt(scoreAll(held, askExact), 0), loop: runLoop(askExact, 0, base + 8_000_000) },
    semantic: CURVE_TARGETS.map((target) => ({ target, ...chooseSimilarity(semanticHeld, target) })),
    semantic_fixed: FIXED_SIMILARITIES.map((similarity) => ({
      similarity,
      held_out: pointAt(semanticHeld, 1 - similarity),
      shifted: pointAt(semanticShifted, 1 - similarity),
      loop: runLoop(askSemantic, 1 - similarity, base + 8_000_000),
    })),
    by_family: Object.fromEntries(
      FAMILY_NAMES.map((name) => [
        name,
        pointAt(
          scoredHeld.filter((_, i) => held[i]!.family === name),
          atGoal,
        ),
      ]),
    ),
    by_kind: countByKind(student, held, atGoal),
    uncovered: countUncovered(student, held, calibration),
    ...(before === null ? {} : { before: measureVersion(before, golden, held) }),
  };
}

function countByKind(
  student: Student,
  held: readonly RecordedStep[],
  threshold: number,
): SeedResult['by_kind'] {
  const counts: SeedResult['by_kind'] = {};
  for (const { family, step, answer } of held) {
    const decision = student.decide(step, threshold);
    if (!decision.covered || decision.answer === null) continue;
    const kind = `${family} ${kindOfAnswer(decision.answer.content)}`;
    const counted = counts[kind] ?? { served: 0, errors: 0 };
    counts[kind] = counted;
    counted.served++;
    if (decision.agrees?.(answer.content) !== true) counted.errors++;
  }
  return counts;
}

/** Sums the counts of each kind of answer over the seeds. */
function addKinds(results: readonly SeedResult[]): Map<string, { served: number; errors: number }> {
  const sums = new Map<string, { served: number; errors: number }>();
  for (const { by_kind } of results) {
    for (const [kind, { served, errors }] of Object.entries(by_kind)) {
      const sum = sums.get(kind) ?? { served: 0, errors: 0 };
      sums.set(kind, { served: sum.served + served, errors: sum.errors + errors });
    }
  }
  return sums;
}

function askStudent(student: Student, request: MessagesRequest): Given | null {
  const step = readStep(request);
  const proposal = student.propose(step);
  const { answer, score, limit } = proposal;
  if (answer === null || score === null || score > limit) return null;
  return { answer, score, agrees: (other) => student.agrees(step, proposal, other.content) };
}

function scoreOf(cached: { answer: StudentAnswer; similarity: number } | null): ReturnType<Ask> {
  if (cached === null) return null;
  const { answer, similarity } = cached;
  return { answer, score: Math.max(0, 1 - similarity), agrees: (other) => answersAgree(answer, other) };
}

interface Scored {
  score: number | null;
  is_right: boolean;
}

function scoreAll(steps: readonly RecordedStep[], ask: Ask): Scored[] {
  return steps.map(({ request, answer }) => {
    const given = ask(request);
    return given === null
      ? { score: null, is_right: false }
      : { score: given.score, is_right: given.agrees(answer) };
  });
}

function pointAt(scored: readonly Scored[], threshold: number): Point {
  let served = 0;
  let errors = 0;
  for (const { score, is_right } of scored) {
    // Cosines of equal vectors are 1, except for rounding.
    if (score === null || score > threshold + 1e-6) continue;
    served++;
    if (!is_right) errors++;
  }
  const steps = scored.length;
  return {
    coverage: steps === 0 ? 0 : served / steps,
    error: served === 0 ? 0 : errors / served,
    served,
    errors,
    steps,
  };
}

function chooseSimilarity(
  scored: readonly Scored[],
  target: number,
): { similarity: number | null; held_out: Point } {
  const sorted = scored.filter(({ score }) => score !== null).sort((a, b) => a.score! - b.score!);
  let best = -1;
  let errors = 0;
  for (const [i, { score, is_right }] of sorted.entries()) {
    if (!is_right) errors++;
    if (sorted[i + 1]?.score !== score && errors / (i + 1) <= target) best = score!;
  }
  return { similarity: best < 0 ? null : 1 - best, held_out: pointAt(scored, best < 0 ? -1 : best) };
}

/**
 * Runs tasks, which are the same for every `ask`. `ask` serves the steps that it covers, and the frontier model serves
 * the others. @param stays whether the frontier model serves all steps of a run after the first step that it served
 */
function runLoop(ask: Ask, threshold: number, firstSeed: number, stays = false): LoopPoint {
  let successes = 0;
  let runs = 0;
  let paid = 0;
  let alone = 0;
  let steps = 0;
  let served = 0;
  let wrong = 0;
  for (const family of FAMILY_NAMES) {
    for (let i = 0; i < LOOP_RUNS; i++) {
      alone += priceAlone(family, firstSeed + i);
      const run = startRun(family, firstSeed + i);
      let isTaken = false;
      for (let request = run.nextRequest(); request !== null; request = run.nextRequest()) {
        const oracle = run.askOracle();
        steps++;
        const given = isTaken || threshold < 0 ? null : ask(request);
        if (given === null || given.score > threshold + 1e-6) {
          isTaken = stays;
          paid += priceOf(oracle);
          run.takeAnswer(oracle);
        } else {
          served++;
          if (!given.agrees(readAnswer(oracle))) wrong++;
          run.takeAnswer({ content: toWire(given.answer, steps), stop_reason: given.answer.stop_reason });
        }
      }
      runs++;
      if (run.isSuccess()) successes++;
    }
  }
  return {
    success: successes / runs,
    cost_saved: 1 - paid / alone,
    steps_served: served / steps,
    error: served === 0 ? 0 : wrong / served,
  };
}

function priceOf({ usage }: MessagesAnswer): number {
  return (usage.input_tokens * PRICES.input + usage.output_tokens * PRICES.output) / 1e6;
}

/** Returns the cost of a run with only the frontier model. Wrong served steps would make the run longer. */
function priceAlone(family: string, seed: number): number {
  const run = startRun(family, seed);
  let price = 0;
  while (run.nextRequest() !== null) {
    const oracle = run.askOracle();
    price += priceOf(oracle);
    run.takeAnswer(oracle);
  }
  return price;
}

function toWire(answer: StudentAnswer, step: number): WireBlock[] {
  return answer.content.map((block, i) =>
    block.type === 'text'
      ? { type: 'text', text: block.text }
      : {
          type: 'tool_use',
          id: `toolu_${step}_${i}`,
          name: block.name,
          input: block.input as Record<string, unknown>,
        },
  );
}

function countUncovered(
  student: Student,
  held: readonly RecordedStep[],
  { threshold }: Calibration,
): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { step } of held) {
    const decision = student.decide(step, threshold);
    if (!decision.covered) counts[decision.reason] = (counts[decision.reason] ?? 0) + 1;
  }
  return counts;
}

interface Learned {
  /** Golden runs of each family. */
  runs: number;
  coverage: number;
  error: number;
  worst_error: number;
  semantic_coverage: number;
}

function learn(runs: number, first: number, seeds: number): Learned {
  const points: Point[] = [];
  const caches: number[] = [];
  // More seeds reduce the influence of chance, but with 300 runs or more they take too long.
  for (let seed = first; seed < first + (runs >= 300 ? 1 : seeds); seed++) {
    const base = seed * 10_000_000;
    const golden = recordRuns(runs * FAMILY_NAMES.length, base).flatMap(({ steps }) => steps);
    const held = recordRuns(HELD_RUNS * FAMILY_NAMES.length, base + 3_000_000).flatMap(({ steps }) => steps);
    const { threshold, agents } = calibrateStudent(golden, { makeIndex, target_error: GOAL_TARGET });
    const student = new Student(limitAgents(fitStudent(golden), agents), makeIndex);
    points.push(
      pointAt(
        scoreAll(held, (request) => askStudent(student, request)),
        threshold,
      ),
    );
    const semantic = new SemanticCache(golden.slice(-6_000));
    caches.push(
      chooseSimilarity(
        scoreAll(held, (request) => scoreOf(semantic.find(request))),
        GOAL_TARGET,
      ).held_out.coverage,
    );
  }
  return {
    runs,
    coverage: mean(points.map(({ coverage }) => coverage)),
    error: mean(points.map(({ error }) => error)),
    worst_error: Math.max(...points.map(({ error }) => error)),
    semantic_coverage: mean(caches),
  };
}

function judge(results: readonly SeedResult[]): Record<string, boolean> {
  const at = results.map((result) => result.curve.find(({ target }) => target === GOAL_TARGET)!.held_out);
  const coverage = mean(at.map((point) => point.coverage));
  const semantic = mean(
    results.map((result) => result.semantic.find(({ target }) => target === GOAL_TARGET)!.held_out.coverage),
  );
  const exact = mean(results.map((result) => result.exact.held_out.coverage));
  const families = FAMILY_NAMES.map((name) => {
    const points = results.map(({ by_family }) => by_family[name]!);
    const sum = (read: (point: Point) => number): number =>
      points.reduce((all, point) => all + read(point), 0);
    return (
      sum(({ errors }) => errors) /
      Math.max(
        1,
        sum(({ served }) => served),
      )
    );
  });
  return {
    'measured error at the 5 % target is at most 5 % (mean of seeds)':
      mean(at.map(({ error }) => error)) <= GOAL_TARGET,
    'measured error at the 5 % target is at most 5 % (worst seed)': at.every(
      ({ error }) => error <= GOAL_TARGET,
    ),
    'measured error at the 5 % target is at most 5 % for each agent (all seeds together)': families.every(
      (error) => error <= GOAL_TARGET,
    ),
    'at least 80 % of the steps are served (mean of seeds)': coverage >= GOAL_COVERAGE,
    'at most 2 % of the served steps are wrong (mean of seeds)':
      mean(at.map(({ error }) => error)) <= GOAL_ERROR,
    'each kind of answer is wrong in at most 5 % (all seeds together, kinds served 20 times or more)': [
      ...addKinds(results).values(),
    ].every(({ served, errors }) => served < KIND_SERVED_MIN || errors / served <= GOAL_TARGET),
    'coverage at the 5 % target is above that of the semantic cache': coverage > semantic,
    'coverage at the 5 % target is above that of the exact cache': coverage > exact,
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`.padStart(8);
}

function row(label: string, cells: readonly string[]): void {
  console.log(label.padEnd(34) + cells.map((cell) => cell.padStart(11)).join(''));
}

function printSeeds(results: readonly SeedResult[], runs: number): void {
  const all = <T>(read: (result: SeedResult) => T): T[] => results.map(read);
  console.log(
    `${runs * FAMILY_NAMES.length} golden runs of ${FAMILY_NAMES.length} agents, ${results.length} seeds; means of the seeds, and the error of the worst seed\n`,
  );
  row('', ['coverage', 'error', 'worst', 'new kinds', 'success', 'cost saved']);
  // By definition: success is agreement with the frontier model, which alone serves nothing from a student.
  row('frontier model, by definition', [percent(0), percent(0), percent(0), '', percent(1), percent(0)]);
  for (const [i, target] of CURVE_TARGETS.entries()) {
    const points = all(({ curve }) => curve[i]!);
    row(`student, target ${100 * target} %`, [
      percent(mean(points.map(({ held_out }) => held_out.coverage))),
      percent(mean(points.map(({ held_out }) => held_out.error))),
      percent(Math.max(...points.map(({ held_out }) => held_out.error))),
      percent(mean(points.map(({ shifted }) => shifted.error))),
      percent(mean(points.map(({ loop }) => loop.success))),
      percent(mean(points.map(({ loop }) => loop.cost_saved))),
    ]);
  }
  row('exact cache', [
    percent(mean(all(({ exact }) => exact.held_out.coverage))),
    percent(mean(all(({ exact }) => exact.held_out.error))),
    percent(Math.max(...all(({ exact }) => exact.held_out.error))),
    '',
    percent(mean(all(({ exact }) => exact.loop.success))),
    percent(mean(all(({ exact }) => exact.loop.cost_saved))),
  ]);
  for (const [i, similarity] of FIXED_SIMILARITIES.entries()) {
    const points = all(({ semantic_fixed }) => semantic_fixed[i]!);
    row(`semantic cache, cosine ${similarity}`, [
      percent(mean(points.map(({ held_out }) => held_out.coverage))),
      percent(mean(points.map(({ held_out }) => held_out.error))),
      percent(Math.max(...points.map(({ held_out }) => held_out.error))),
      percent(mean(points.map(({ shifted }) => shifted.error))),
      percent(mean(points.map(({ loop }) => loop.success))),
      percent(mean(points.map(({ loop }) => loop.cost_saved))),
    ]);
  }
  for (const [i, target] of CURVE_TARGETS.entries()) {
    const points = all(({ semantic }) => semantic[i]!);
    row(`semantic cache, best at ${100 * target} %`, [
      percent(mean(points.map(({ held_out }) => held_out.coverage))),
      percent(mean(points.map(({ held_out }) => held_out.error))),
      percent(Math.max(...points.map(({ held_out }) => held_out.error))),
    ]);
  }
  console.log('\nin the loop, at the target of 5 %');
  row('', ['served', 'wrong', 'success', 'cost saved']);
  const goal = CURVE_TARGETS.indexOf(GOAL_TARGET);
  for (const [label, way] of [
    ['  the student may serve again', 'loop'],
    ['  the run stays with the upstream', 'sticky'],
  ] as const) {
    const points = all(({ curve }) => curve[goal]![way]);
    row(label, [
      percent(mean(points.map(({ steps_served }) => steps_served))),
      percent(mean(points.map(({ error }) => error))),
      percent(mean(points.map(({ success }) => success))),
      percent(mean(points.map(({ cost_saved }) => cost_saved))),
    ]);
  }
  console.log('\nby family, at the target of 5 %');
  for (const family of FAMILY_NAMES) {
    const points = all(({ by_family }) => by_family[family]!);
    row(`  ${family}`, [
      percent(mean(points.map(({ coverage }) => coverage))),
      percent(mean(points.map(({ error }) => error))),
      percent(Math.max(...points.map(({ error }) => error))),
    ]);
  }
}

/** Compares the earlier version with this one, if `--before` is given. */
function printBefore(results: readonly SeedResult[]): void {
  const points = results.flatMap(({ before }) => before ?? []);
  if (points.length === 0) return;
  console.log('\ncoverage and error of the earlier version, then of this version');
  const sum = (list: readonly { served: number; errors: number; steps: number }[]): string[] => {
    const [served, errors, steps] = (['served', 'errors', 'steps'] as const).map((key) =>
      list.reduce((all, point) => all + point[key], 0),
    );
    return [percent(served! / Math.max(1, steps!)), percent(errors! / Math.max(1, served!))];
  };
  for (const [i, target] of CURVE_TARGETS.entries())
    row(`  target ${100 * target} %`, [
      ...sum(points.filter((point) => point.target === target)),
      ...sum(results.map(({ curve }) => curve[i]!.held_out)),
    ]);
  for (const family of FAMILY_NAMES)
    row(`  ${family}`, [
      ...sum(
        points
          .filter(({ target }) => target === GOAL_TARGET)
          .flatMap((point) => point.by_family[family] ?? []),
      ),
      ...sum(results.map(({ by_family }) => by_family[family]!)),
    ]);
}

/** Prints the kinds of answers with errors, the worst first, and the evidence for the other kinds. */
function printKinds(results: readonly SeedResult[]): void {
  const kinds = [...addKinds(results)].toSorted(
    ([, a], [, b]) => b.errors / b.served - a.errors / a.served || b.served - a.served,
  );
  console.log('\nby kind of answer, at the target of 5 %: served, wrong, at most (95 %)');
  for (const [kind, { served, errors }] of kinds)
    if (errors > 0)
      row(`  ${kind}`, [String(served), percent(errors / served), percent(boundError(errors, served))]);
  const clean = kinds.filter(([, { errors }]) => errors === 0);
  const proven = clean.filter(([, { served }]) => boundError(0, served) <= GOAL_TARGET);
  console.log(
    `  ${clean.length} kinds without an error, ${proven.length} of them served often enough to prove the target`,
  );
  console.log('');
}

function printLearning(learning: readonly Learned[]): void {
  console.log('\nby golden runs of each agent, at the target of 5 %');
  row('', ['coverage', 'error', 'worst', 'semantic']);
  for (const { runs, coverage, error, worst_error, semantic_coverage } of learning)
    row(`  ${runs}`, [percent(coverage), percent(error), percent(worst_error), percent(semantic_coverage)]);
  console.log('');
}
