/**
 * Finds answers that the upstream stopped giving: from one run on, golden runs answer the same situations
 * differently. The earlier steps with such an answer are no longer golden. While there are many such steps, they would
 * make the student disagree with itself. Pure; teaching.
 *
 * Situations are those of the fit (student-fit.ts): steps with the same decisive marks. If a mark shows which of two
 * answers follows, the student learns the mark, and both answers stay.
 */

import { kindOfAnswer } from '../student/model/answer-kind.ts';
import type { StudentModel } from '../student/model/student-model.ts';
import type { GoldenRun } from './golden-steps.ts';
import { listLearned } from './service-calibration.ts';
import { fitStudent, type SituatedSteps } from './student-fit.ts';

/** An answer that golden runs no longer give. */
export interface SilentChange {
  agent: string;
  /** What the answer follows; see `StepDigest`. */
  stage: string;
  /** The answer that ended, by the tools that it calls. */
  kind: string;
  /** The exchange of the step at which the change begins; 0 if unknown. */
  since_exchange_id: number;
  /** Golden runs whose steps with the ended answer no longer teach. */
  earlier_runs: number;
  /** How often golden runs have had these situations since the change; a run counts once for each situation. */
  later_runs: number;
}

/** Minimum number of runs before and after a change, and of earlier runs in one situation. */
const RUNS_MIN = 8;
const SITUATION_RUNS = 4;
/** Maximum share of later steps that still have the ended answer, and minimum share of earlier steps that have it. */
const ENDED = 0.1;
const USUAL = 0.8;
/** For each stage: probability that a change is found although nothing changed. */
const CHANCE = 0.001;
/**
 * If there are at least twice as many units, the first search for the beginning of a change tries only every second,
 * third, … unit. The second search tries all units around what the first one found.
 */
const BEGINNINGS = 60;

/** Golden runs without the steps whose answers ended. */
interface CurrentRuns {
  runs: GoldenRun[];
  changes: SilentChange[];
  /** The student that `fitStudent` makes from all steps; null if some were left out. */
  model: StudentModel | null;
}

/** Leaves out the steps with answers that ended, and runs without other steps. Returns the rest, and the changes. */
export function leaveOutEnded(runs: readonly GoldenRun[]): CurrentRuns {
  const changes: SilentChange[] = [];
  const ended = new Set<number>();
  const onStage = (stage: SituatedSteps): void => {
    for (const { change, steps } of findEnded(stage)) {
      changes.push(change);
      for (const i of steps) ended.add(stage.steps[i]!.exchange_id!);
    }
  };
  const model = fitStudent(listLearned(runs), { onStage });
  if (changes.length === 0) return { runs: [...runs], changes, model };
  const left = runs.map((run) => ({
    ...run,
    steps: run.steps.filter(({ exchange_id }) => !ended.has(exchange_id)),
  }));
  return { runs: left.filter(({ steps }) => steps.length > 0), changes, model: null };
}

/** A run in one situation of a stage. The units of a stage are in the order of time. */
interface Unit {
  /** The run's first step in the situation. */
  step: number;
  situation: string;
  label: number;
}

/** An answer that ended. */
interface Ended {
  label: number;
  /** The situations in which this answer was usual. */
  situations: ReadonlySet<string>;
  /** The unit at which the change begins. */
  at: number;
  later_runs: number;
  /** Units that a change at this unit explains. */
  explained: number;
  /** Probability that a difference of this size appears by chance, without a change. */
  chance: number;
}

/** The answers of a stage that ended, each with the steps that no longer teach. */
function findEnded(stage: SituatedSteps): { change: SilentChange; steps: number[] }[] {
  const units = listUnits(stage);
  const stride = Math.max(1, Math.floor(units.length / BEGINNINGS));
  const [first, last] = [RUNS_MIN, units.length - RUNS_MIN];
  const coarse = findBest(units, first, last, stride);
  return [...coarse.values()].map((found) => {
    const [from, to] = [Math.max(first, found.at - stride + 1), Math.min(last, found.at + stride - 1)];
    return describeEnded(stage, units, findBest(units, from, to, 1).get(found.label) ?? found);
  });
}

function describeEnded(
  { agent, stage, steps, labels, situations }: SituatedSteps,
  units: readonly Unit[],
  { label, situations: affected, at, later_runs }: Ended,
): { change: SilentChange; steps: number[] } {
  const from = units[at]!.step;
  const ended = [...situations.keys()].filter(
    (i) => i < from && labels[i] === label && affected.has(situations[i]!),
  );
  return {
    change: {
      agent,
      stage,
      kind: kindOfAnswer(steps[ended[0]!]!.answer.content),
      since_exchange_id: steps[from]!.exchange_id ?? 0,
      earlier_runs: new Set(ended.map((i) => steps[i]!.run_id)).size,
      later_runs,
    },
    steps: ended,
  };
}

function listUnits({ steps, labels, situations }: SituatedSteps): Unit[] {
  const seen = new Set<string>();
  return [...steps.keys()].flatMap((step) => {
    const situation = situations[step]!;
    const key = `${steps[step]!.run_id} ${situation}`;
    if (seen.has(key)) return [];
    seen.add(key);
    return [{ step, situation, label: labels[step]! }];
  });
}

/** Finds, for each label that ended, the beginning of the change that explains most units. */
function findBest(units: readonly Unit[], first: number, last: number, stride: number): Map<number, Ended> {
  const best = new Map<number, Ended>();
  const limit = CHANCE / (units.length * Math.max(1, new Set(units.map(({ label }) => label)).size));
  for (let at = first; at <= last; at += stride)
    for (const ended of endAt(units, at)) {
      const known = best.get(ended.label);
      if (ended.chance <= limit && ended.explained > (known?.explained ?? 0)) best.set(ended.label, ended);
    }
  return best;
}

/** The answers that were usual before a unit, and are rare from it on. */
function endAt(units: readonly Unit[], at: number): Ended[] {
  const usual = nameUsual(units.slice(0, at));
  const counts = new Map<
    number,
    { same: [number, number]; all: [number, number]; situations: Set<string> }
  >();
  for (const [i, { situation, label }] of units.entries()) {
    const expected = usual.get(situation);
    if (expected === undefined) continue;
    const count = counts.get(expected) ?? { same: [0, 0], all: [0, 0], situations: new Set() };
    counts.set(expected, count);
    const side = i < at ? 0 : 1;
    count.all[side]++;
    if (label === expected) count.same[side]++;
    count.situations.add(situation);
  }
  return [...counts].flatMap(([label, { same, all, situations }]) => {
    const [earlier, later] = all;
    if (earlier < RUNS_MIN || later < RUNS_MIN || same[1] > ENDED * later) return [];
    const chance = chanceOfFew(same[1], same[0] + same[1], later, earlier + later);
    const explained = same[0] + later - same[1];
    return [{ label, situations, at, later_runs: later, explained, chance }];
  });
}

/** The label that nearly all of these units have in a situation. */
function nameUsual(units: readonly Unit[]): Map<string, number> {
  const usual = new Map<string, number>();
  for (const [situation, of] of Map.groupBy(units, (unit) => unit.situation)) {
    if (of.length < SITUATION_RUNS) continue;
    for (const [label, same] of Map.groupBy(of, (unit) => unit.label))
      if (same.length >= USUAL * of.length) usual.set(situation, label);
  }
  return usual;
}

/**
 * Probability that of `marked` units among `all` units, at most `found` are among `drawn` randomly drawn units
 * (hypergeometric distribution).
 */
function chanceOfFew(found: number, marked: number, drawn: number, all: number): number {
  let sum = 0;
  for (let x = Math.max(0, drawn + marked - all); x <= found; x++)
    sum += Math.exp(lnWays(marked, x) + lnWays(all - marked, drawn - x) - lnWays(all, drawn));
  return sum;
}

/** Logarithm of the number of ways to choose some of `of` units. */
function lnWays(of: number, some: number): number {
  let sum = 0;
  for (let i = 1; i <= some; i++) sum += Math.log((of - some + i) / i);
  return sum;
}
