/** Finds thresholds in the numbers of steps that predict the answer. Pure; teaching. */

import { hashString } from '../student/model/json-values.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { visitNumbers } from '../student/model/number-places.ts';
import {
  EACH_ITEM,
  NUMBER_KIND,
  type NumberPlace,
  type NumberSplit,
} from '../student/model/student-model.ts';

/** Maximum number of places whose numbers are examined, and minimum number of values for a threshold. */
const PLACES = 200;
const NUMBERS_MIN = 8;

/** The numbers of steps at one place. */
export interface NumberColumn extends NumberPlace {
  id: string;
  /** Numbers in ascending order, each with the index of its step. */
  values: [number, number][];
}

/**
 * Reads the numbers of all steps. Elements of lists are left out, because the deciding element is ambiguous.
 */
export function readNumberColumns(steps: readonly LearnedStep[]): NumberColumn[] {
  const places = new Map<string, NumberColumn>();
  for (const [i, { step }] of steps.entries())
    visitNumbers(step, ({ from, path }, value) => {
      if (path.includes(EACH_ITEM)) return;
      const id = JSON.stringify([from, path]);
      const place = places.get(id);
      if (place !== undefined) place.values.push([value, i]);
      else if (places.size < PLACES) places.set(id, { id, from, path, values: [[value, i]] });
    });
  const columns = [...places.values()].filter(({ values }) => values.length >= NUMBERS_MIN);
  for (const { values } of columns) values.sort((a, b) => a[0] - b[0]);
  return columns;
}

/** Finds thresholds that separate the answers: at most three per place, with the steps above each threshold. */
export function splitNumbers(
  columns: readonly NumberColumn[],
  targets: Uint16Array,
  classes: number,
): { split: NumberSplit; has: Uint8Array }[] {
  if (classes < 2 || targets.every((target) => target === targets[0])) return [];
  const found: { split: NumberSplit; has: Uint8Array }[] = [];
  for (const { id, from, path, values } of columns) {
    const cut = (lo: number, hi: number, depth: number): void => {
      const at = findCut(values, targets, classes, lo, hi);
      if (at < 0) return;
      const has = new Uint8Array(targets.length);
      for (let v = at; v < values.length; v++) has[values[v]![1]] = 1;
      const key = NUMBER_KIND * 0x1_0000_0000 + hashString(`${id} ${values[at]![0]}`);
      found.push({ split: { key, from, path, below: values[at - 1]![0], above: values[at]![0] }, has });
      if (depth < 1) {
        cut(lo, at, depth + 1);
        cut(at, hi, depth + 1);
      }
    };
    cut(0, values.length, 0);
  }
  return found;
}

/** Whether a threshold in a number separates two parts of the steps. */
export function isSplit(
  columns: readonly NumberColumn[],
  a: readonly number[],
  b: readonly number[],
): boolean {
  const side = new Map<number, number>();
  for (const i of a) side.set(i, 0);
  for (const i of b) side.set(i, 1);
  const targets = new Uint16Array(Math.max(-1, ...a, ...b) + 1);
  for (const i of b) targets[i] = 1;
  return columns.some(({ values }) => {
    const own = values.filter(([, i]) => side.has(i));
    return findCut(own, targets, 2, 0, own.length) >= 0;
  });
}

/**
 * Finds the best threshold among ascending values.
 * @returns index of the first value above the best threshold, or −1
 */
function findCut(
  values: readonly (readonly [number, number])[],
  targets: Uint16Array,
  classes: number,
  lo: number,
  hi: number,
): number {
  const n = hi - lo;
  if (n < 6) return -1;
  const right = new Int32Array(classes);
  const left = new Int32Array(classes);
  for (let v = lo; v < hi; v++) right[targets[values[v]![1]]!]!++;
  const xlogx = (x: number): number => (x > 1 ? x * Math.log(x) : 0);
  let whole = xlogx(n);
  for (const count of right) whole -= xlogx(count);
  let best = -1;
  let bestGain = 8 + 2 * Math.log(n);
  for (let v = lo; v < hi - 1; v++) {
    const target = targets[values[v]![1]]!;
    left[target]!++;
    right[target]!--;
    if (values[v]![0] === values[v + 1]![0]) continue;
    let parts = xlogx(v + 1 - lo) + xlogx(hi - v - 1);
    for (let c = 0; c < classes; c++) parts -= xlogx(left[c]!) + xlogx(right[c]!);
    const gain = 2 * (whole - parts);
    if (gain > bestGain) {
      bestGain = gain;
      best = v + 1;
    }
  }
  return best;
}
