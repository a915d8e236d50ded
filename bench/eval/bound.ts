/**
 * Measures how often the student breaks its promise. Calibration lets the student serve forms of answers
 * (answer-form.ts) with at most 5 % errors. The evaluation counts the served forms that are wrong more often on fresh
 * runs. Most forms are whole kinds; forms that are only a part of a kind are also counted separately. Bench process.
 *
 * There are two measurements. The first judges the served forms of the synthetic agents on fresh runs of the same
 * agent, if enough of these runs have the form. The second plants errors: it makes each kind wrong in a known share of
 * the runs that have the kind. Calibration then decides by its own rules whether to serve the kind or some of its
 * forms. So the second measurement shows what the bound accepts if a kind is learnt only in part. Both measurements
 * also show what the bound of Clopper and Pearson would accept on the same evidence.
 */

import { parseArgs } from 'node:util';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { createPrng } from '../../src/std/prng.ts';
import { kindOfForm } from '../../src/student/model/answer-form.ts';
import { boundError } from '../../src/student/model/error-bound.ts';
import { Student, type StudentIndex } from '../../src/student/model/student.ts';
import {
  calibrateScores,
  calibrateStudent,
  type ScoredStep,
  scoreCrossFitted,
} from '../../src/teaching/calibration.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import { saveResult, takeProvenance } from '../results.ts';
import { FAMILY_NAMES } from './agent-families.ts';
import { type RecordedStep, recordRun } from './relegation-runs.ts';

const TARGET = 0.05;
/** Golden runs of each agent. */
const GOLDEN_RUNS = [20, 40] as const;
/** Fresh runs of each agent that judge what is served. */
const FRESH_RUNS = 200;
/** A form that occurs in fewer fresh runs is not judged, because its rate would be too uncertain. */
const FRESH_MIN = 40;
const PLANTED = [0.02, 0.06, 0.1, 0.2] as const;
const PLANTED_TRIALS = 200;

const makeIndex = (dimensions: number): StudentIndex => new ExactIndex(dimensions);

/** Number of forms that were served, and how many of them were wrong in more than the promised share of runs. */
interface Broken {
  served: number;
  broken: number;
}

interface BoundPoint {
  seed: number;
  golden_runs: number;
  /** Forms that the bound of the calibration serves. */
  own: Broken;
  /** Forms of `own` that Clopper and Pearson's bound would serve, too. */
  clopper_pearson: Broken;
  /** Forms of `own` that are only a part of a kind. */
  alone: Broken;
  /** Served forms that occur in too few fresh runs. */
  unjudged: number;
  /** The forms that broke the promise. */
  forms: { family: string; form: string; golden_runs: number; fresh_runs: number; wrong: number }[];
  /**
   * One entry for each planted share of wrong runs: how often the kind was served as a whole, and how often only some
   * of its forms were served.
   */
  planted: { wrong: number; trials: number; whole: number; in_part: number; clopper_pearson: number }[];
}

/**
 * Prints and stores the measurement.
 * @param args `--seeds N`, `--first-seed N`, `--runs N,N`, `--fresh N`, `--no-save`
 */
export function evaluateBound(...args: string[]): void {
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: 'string', default: '3' },
      'first-seed': { type: 'string', default: '1' },
      runs: { type: 'string', default: GOLDEN_RUNS.join(',') },
      fresh: { type: 'string', default: String(FRESH_RUNS) },
      'no-save': { type: 'boolean' },
    },
  });
  const provenance = takeProvenance();
  const points: BoundPoint[] = [];
  for (let at = 0; at < Number(values.seeds); at++)
    for (const runs of values.runs.split(',').map(Number)) {
      const point = measurePoint(Number(values['first-seed']) + at, runs, Number(values.fresh));
      points.push(point);
      printPoint(point);
    }
  printSums(points);
  const result = { ...provenance, suite: 'bound', target: TARGET, points };
  if (values['no-save'] !== true) console.log(`\n${saveResult(result)}`);
}

function measurePoint(seed: number, runs: number, fresh: number): BoundPoint {
  const base = seed * 10_000_000;
  const point: BoundPoint = {
    seed,
    golden_runs: runs,
    own: { served: 0, broken: 0 },
    clopper_pearson: { served: 0, broken: 0 },
    alone: { served: 0, broken: 0 },
    unjudged: 0,
    forms: [],
    planted: PLANTED.map((wrong) => ({ wrong, trials: 0, whole: 0, in_part: 0, clopper_pearson: 0 })),
  };
  // One agent at a time, because agents share nothing.
  for (const family of FAMILY_NAMES) {
    const golden = recordAll(family, runs, base);
    judgeServed(family, golden, recordAll(family, fresh, base + 3_000_000), point);
    plant(scoreCrossFitted(golden, 5, { makeIndex }), seed, point);
  }
  return point;
}

function recordAll(family: string, runs: number, seed: number): RecordedStep[] {
  return Array.from({ length: runs }, (_, i) => recordRun(family, seed + i).steps).flat();
}

/** Teaches a student from the golden runs, lets it serve fresh runs, and counts the forms that are wrong too often. */
function judgeServed(
  family: string,
  golden: readonly RecordedStep[],
  fresh: readonly RecordedStep[],
  point: BoundPoint,
): void {
  const calibration = calibrateStudent(golden, { makeIndex, target_error: TARGET });
  const student = new Student(limitAgents(fitStudent(golden), calibration.agents), makeIndex);
  const runsByForm = new Map<string, Map<string, boolean>>();
  for (const { run_id, step, answer } of fresh) {
    const decision = student.decide(step, calibration.threshold);
    if (!decision.covered || decision.form === undefined) continue;
    const name = `${decision.agent} ${decision.form}`;
    const runs = runsByForm.get(name) ?? new Map<string, boolean>();
    runsByForm.set(name, runs);
    const isWrong = decision.agrees?.(answer.content) !== true;
    runs.set(run_id, isWrong || runs.get(run_id) === true);
  }
  for (const { agent, kinds } of calibration.agents)
    for (const { kind: form, refused, runs, errors } of kinds) {
      if (refused !== null) continue;
      const judged = [...(runsByForm.get(`${agent} ${form}`)?.values() ?? [])];
      if (judged.length < FRESH_MIN) {
        point.unjudged++;
        continue;
      }
      const wrong = judged.filter(Boolean).length;
      const isBroken = wrong / judged.length > TARGET;
      count(point.own, isBroken);
      if (!isKind(form)) count(point.alone, isBroken);
      if (boundError(errors, runs) <= TARGET) count(point.clopper_pearson, isBroken);
      if (isBroken) point.forms.push({ family, form, golden_runs: runs, fresh_runs: judged.length, wrong });
    }
}

/** Whether a form is a whole kind, or what remains of a kind after other forms were separated from it. */
function isKind(form: string): boolean {
  return form === kindOfForm(form);
}

function count(counts: Broken, isBroken: boolean): void {
  counts.served++;
  if (isBroken) counts.broken++;
}

/** Makes each kind wrong in a share of its runs, and counts how often calibration serves that kind. */
function plant(scored: readonly ScoredStep[], seed: number, point: BoundPoint): void {
  const random = createPrng(seed);
  const kinds = Map.groupBy(
    scored.filter(({ score }) => score !== null),
    ({ agent, kind }) => `${agent} ${kind}`,
  );
  for (const steps of kinds.values()) {
    const runs = [...new Set(steps.map(({ run_id }) => run_id))];
    if (runs.length < 11) continue;
    for (const counted of point.planted)
      for (let trial = 0; trial < PLANTED_TRIALS; trial++) {
        const isWrong = new Map(runs.map((run) => [run, random.float() < counted.wrong]));
        const planted = steps.map((step) => ({ ...step, is_right: isWrong.get(step.run_id) !== true }));
        const wrong = [...isWrong.values()].filter(Boolean).length;
        counted.trials++;
        const { threshold, kinds } = calibrateScores(planted, TARGET).agents[0]!;
        if (threshold >= 0) counted[kinds.length === 1 && isKind(kinds[0]!.kind) ? 'whole' : 'in_part']++;
        if (boundError(wrong, runs.length) <= TARGET) counted.clopper_pearson++;
      }
  }
}

function printPoint({ seed, golden_runs, own, alone, clopper_pearson, unjudged, forms }: BoundPoint): void {
  console.log(
    `seed ${seed}, ${golden_runs} golden runs: ${own.broken} of ${own.served} forms served break the promise, ` +
      `${alone.broken} of the ${alone.served} that stand for themselves; ` +
      `by Clopper and Pearson ${clopper_pearson.broken} of ${clopper_pearson.served}; ` +
      `${unjudged} more forms are in fewer than ${FRESH_MIN} fresh runs`,
  );
  for (const { family, form, wrong, fresh_runs, golden_runs: golden } of forms)
    console.log(
      `  ${family} ${form}: ${wrong} of ${fresh_runs} fresh runs wrong, after ${golden} golden ones`,
    );
}

function printSums(points: readonly BoundPoint[]): void {
  for (const runs of new Set(points.map(({ golden_runs }) => golden_runs))) {
    const of = points.filter(({ golden_runs }) => golden_runs === runs);
    const add = (name: 'own' | 'alone' | 'clopper_pearson') =>
      `${of.reduce((sum, point) => sum + point[name].broken, 0)} of ${of.reduce((sum, point) => sum + point[name].served, 0)}`;
    console.log(
      `\n${runs} golden runs: promise broken by ${add('own')} forms, by ${add('alone')} that stand for themselves; by Clopper and Pearson ${add('clopper_pearson')}`,
    );
    for (const [at, wrong] of PLANTED.entries()) {
      const planted = of.map((point) => point.planted[at]!);
      const trials = planted.reduce((sum, { trials }) => sum + trials, 0);
      const share = (name: 'whole' | 'in_part' | 'clopper_pearson') =>
        ((100 * planted.reduce((sum, point) => sum + point[name], 0)) / trials).toFixed(1);
      console.log(
        `  wrong in ${100 * wrong} % of the runs: the kind served as a whole in ${share('whole')} % of ${trials} trials and in part in ${share('in_part')} %; by Clopper and Pearson in ${share('clopper_pearson')} %`,
      );
    }
  }
}
