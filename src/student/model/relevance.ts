/**
 * Finds which marks of a step determine its answer. Small decision trees over marks (information gain, tested against
 * chance) give each mark a worth. An identifier or a noise word has the worth 0; the deciding field has the largest
 * worth. Pure; teaching.
 */

import { createPrng } from '../../std/prng.ts';
import { MARK } from './step-marks.ts';

/** A mark, and the steps that have it. */
export interface MarkColumn {
  key: number;
  kind: number;
  /** 1 for each step that has it. */
  has: Uint8Array;
  count: number;
}

/**
 * Number of trees. The first tree sees all marks. Each other tree sees a random part of them, so that equivalent marks
 * share the worth.
 */
const TREES = 5;
const DRAWN_SHARE = 0.6;
const DEPTH = 8;
/** Chi-square with one degree of freedom at 1 %, before the correction for the number of marks that were tried. */
export const CHANCE = 6.63;

/**
 * Computes the worth of each mark.
 * @param labels answer of each step, 0 … classes − 1
 * @returns worth of each column; together 1, or all 0 when no mark predicts anything
 */
export function weighMarks(
  columns: readonly MarkColumn[],
  labels: Uint16Array,
  classes: number,
  seed: number,
): Float64Array {
  const worth = new Float64Array(columns.length);
  if (classes < 2 || columns.length === 0) return worth;
  const perKind = new Map<number, number>();
  for (const { kind } of columns) perKind.set(kind, (perKind.get(kind) ?? 0) + 1);
  // With more marks of a kind, the best of them fits better by chance.
  const price = columns.map(
    ({ kind }) => CHANCE + 2 * Math.log(Math.max(1, perKind.get(kind)!)) * priceOfKind(kind),
  );
  const random = createPrng(seed);
  const all = columns.map((_, i) => i);
  for (let tree = 0; tree < TREES; tree++) {
    const drawn = tree === 0 ? all : all.filter(() => random.chance(DRAWN_SHARE));
    grow(
      { columns, labels, classes, price, worth },
      drawn,
      Array.from(labels, (_, i) => i),
      0,
    );
  }
  let sum = 0;
  for (const value of worth) sum += value;
  if (sum > 0) for (let i = 0; i < worth.length; i++) worth[i]! /= sum;
  return worth;
}

/** Words are many and redundant, so their correction is larger than that of fields. */
function priceOfKind(kind: number): number {
  return (kind >= 5 && kind <= 7) || kind === 10 ? 1.3 : 1;
}

interface Growth {
  columns: readonly MarkColumn[];
  labels: Uint16Array;
  classes: number;
  price: readonly number[];
  worth: Float64Array;
}

function grow(growth: Growth, drawn: readonly number[], members: readonly number[], depth: number): void {
  const { columns, labels, classes, price, worth } = growth;
  const total = new Int32Array(classes);
  for (const i of members) total[labels[i]!]!++;
  const entropy = sumXLogX(total, members.length);
  if (entropy <= 0 || depth >= DEPTH || members.length < 4) return;
  let best = -1;
  let bestGain = 0;
  const withMark = new Int32Array(classes);
  const without = new Int32Array(classes);
  const gains = new Float64Array(drawn.length);
  for (const [place, c] of drawn.entries()) {
    const { has } = columns[c]!;
    withMark.fill(0);
    let count = 0;
    for (const i of members)
      if (has[i] === 1) {
        withMark[labels[i]!]!++;
        count++;
      }
    if (count === 0 || count === members.length) continue;
    for (let k = 0; k < classes; k++) without[k] = total[k]! - withMark[k]!;
    // G statistic: twice the gain in nats times the steps.
    const gain =
      2 * (entropy - sumXLogX(withMark, count) - sumXLogX(without, members.length - count)) - price[c]!;
    gains[place] = gain;
    if (gain > bestGain) {
      bestGain = gain;
      best = c;
    }
  }
  if (best < 0) return;
  // Marks with the same information as the best mark share its worth, because a step in which these marks differ is
  // unusual.
  const { has } = columns[best]!;
  const equals: number[] = [];
  for (const [place, c] of drawn.entries()) {
    if (gains[place]! < 0.98 * bestGain || equals.length >= 4) continue;
    // A property of a list repeats marks of its elements. Alone, it is no reason to call a step unusual.
    const isSummary = columns[c]!.kind === MARK.list && columns[best]!.kind !== MARK.list;
    if (c === best || (!isSummary && isSamePart(columns[c]!.has, has, members))) equals.push(c);
  }
  for (const c of equals) worth[c]! += (bestGain + price[best]!) / equals.length;
  grow(
    growth,
    drawn,
    members.filter((i) => has[i] === 1),
    depth + 1,
  );
  grow(
    growth,
    drawn,
    members.filter((i) => has[i] !== 1),
    depth + 1,
  );
}

function isSamePart(a: Uint8Array, b: Uint8Array, members: readonly number[]): boolean {
  const isTurned = a[members[0]!] !== b[members[0]!];
  return members.every((i) => (a[i] !== b[i]) === isTurned);
}

/** Computes n ln n − Σ x ln x, which is the entropy of the counts times the number of steps. */
function sumXLogX(counts: Int32Array, n: number): number {
  let sum = n === 0 ? 0 : n * Math.log(n);
  for (const count of counts) if (count > 1) sum -= count * Math.log(count);
  return sum;
}
