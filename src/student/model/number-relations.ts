/**
 * Compares pairs of numbers of a step: a requested amount and the available amount, a sum and a total. A relation that
 * changes from step to step may determine the answer. A step that breaks a constant relation is unusual. Pure; teaching
 * learns the relations, and the student's thread checks them.
 */

import { hashString } from './json-values.ts';
import { readNumbersAt, visitNumbers } from './number-places.ts';
import type { StepDigest } from './step.ts';
import { EACH_ITEM, type NumberPlace, type NumberRelation } from './student-model.ts';

/** The kind of mark that a relation's key has. */
export const RELATION_KIND = 14;

/** Maximum number of places that are compared with each other, and minimum share of steps that have a place. */
const PLACES = 12;
const PRESENT = 0.6;
/** Minimum number of golden steps before an unchanging relation counts. */
const ALWAYS_STEPS = 20;
/** Minimum number of steps in each order of the two numbers. */
const EACH_WAY = 2;

/** Key of the mark for this relation in this order. */
export function keyOfRelation({ a, b }: NumberRelation, way: number): number {
  return RELATION_KIND * 0x1_0000_0000 + hashString(JSON.stringify([a.from, a.path, b.from, b.path, way]));
}

/**
 * Compares the two numbers in a step.
 * @returns undefined when one of the numbers is missing, or looks like an id (`isId`)
 */
export function compareAt({ a, b }: NumberRelation, step: StepDigest): -1 | 0 | 1 | undefined {
  const [left] = readNumbersAt(step, a);
  const [right] = readNumbersAt(step, b);
  if (left === undefined || right === undefined || isId(left) || isId(right)) return undefined;
  return compare(left, right);
}

/** Whether a number is an id: a double rounds it. For ids, larger and smaller mean nothing. */
function isId(value: number): boolean {
  return Math.abs(value) > Number.MAX_SAFE_INTEGER;
}

/** Compares two numbers; numbers that differ only by the rounding of sums are equal. */
function compare(left: number, right: number): -1 | 0 | 1 {
  const difference = left - right;
  if (Math.abs(difference) <= 1e-6 * Math.max(1, Math.abs(left), Math.abs(right))) return 0;
  return difference < 0 ? -1 : 1;
}

interface Column {
  place: NumberPlace;
  /** The number of each step; NaN when missing. */
  values: Float64Array;
  count: number;
}

/**
 * Finds pairs of places that are worth comparing: their numbers are of similar size. Either their order is the same in
 * enough steps, or at least two orders occur in several steps each.
 * @param isCompared whether larger and smaller mean something at a place
 * @returns relations with their order in each step; 2: a number is missing
 */
export function learnRelations(
  steps: readonly StepDigest[],
  isCompared: (place: NumberPlace) => boolean = () => true,
): { relation: NumberRelation; ways: Int8Array }[] {
  const columns = readColumns(steps, isCompared);
  const found: { relation: NumberRelation; ways: Int8Array }[] = [];
  for (const [i, a] of columns.entries())
    for (const b of columns.slice(i + 1)) {
      if (!overlap(a.values, b.values)) continue;
      const ways = new Int8Array(steps.length).fill(2);
      const counts = [0, 0, 0];
      for (let s = 0; s < steps.length; s++) {
        const [left, right] = [a.values[s]!, b.values[s]!];
        if (Number.isNaN(left) || Number.isNaN(right)) continue;
        ways[s] = compare(left, right);
        counts[ways[s]! + 1]!++;
      }
      const shown = counts.filter((count) => count >= EACH_WAY).length;
      const total = counts[0]! + counts[1]! + counts[2]!;
      const only = counts.indexOf(total);
      if (only >= 0 && total < ALWAYS_STEPS) continue;
      if (only < 0 && shown < 2) continue;
      const always = only < 0 ? null : ((only - 1) as -1 | 0 | 1);
      found.push({ relation: { a: a.place, b: b.place, always }, ways });
    }
  return found;
}

function readColumns(steps: readonly StepDigest[], isCompared: (place: NumberPlace) => boolean): Column[] {
  const columns = new Map<string, Column>();
  for (const [s, step] of steps.entries())
    visitNumbers(step, (place, value) => {
      if (place.path.includes(EACH_ITEM) || isId(value)) return;
      const id = JSON.stringify([place.from, place.path]);
      let column = columns.get(id);
      if (column === undefined) {
        if (columns.size >= 100) return;
        column = { place, values: new Float64Array(steps.length).fill(Number.NaN), count: 0 };
        columns.set(id, column);
      }
      if (Number.isNaN(column.values[s]!)) column.count++;
      column.values[s] = value;
    });
  return [...columns.values()]
    .filter(({ count, values }) => count >= PRESENT * steps.length && new Set(values).size > 2)
    .filter(({ place }) => isCompared(place))
    .slice(0, PLACES);
}

/** Whether many of each side's numbers lie within the other side's range. */
function overlap(a: Float64Array, b: Float64Array): boolean {
  return shareWithin(a, b) >= 0.2 && shareWithin(b, a) >= 0.2;
}

function shareWithin(a: Float64Array, b: Float64Array): number {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of b) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  let inside = 0;
  let all = 0;
  for (const value of a) {
    if (Number.isNaN(value)) continue;
    all++;
    if (value >= least && value <= most) inside++;
  }
  return all === 0 ? 0 : inside / all;
}
