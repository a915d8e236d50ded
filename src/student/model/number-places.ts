/**
 * The numbers of a step by their place: in results, in summaries of the results' lists, and in the task. Thresholds,
 * ranges and comparisons refer to these places. Pure; teaching and the student's thread.
 */

import { amountOf, isObject, readNumber } from './json-values.ts';
import type { StepDigest } from './step.ts';
import { EACH_ITEM, type NumberPlace } from './student-model.ts';
import { readTokens } from './text-tokens.ts';

/**
 * Last part of a path: the length of a list, the sum of a field over its elements, the sum of the products of two
 * fields, or the number after a word of prose.
 */
const LENGTH = '[#]';
const SUM = '[+]';
const TIMES = ' × ';
const BEHIND = 'behind ';

/**
 * Maximum numbers for one step: of numbers, elements per list, elements and fields that are summed, and numbers and
 * tokens of the task.
 */
const NUMBERS = 120;
const LIST_ITEMS = 8;
const SUMMED_ITEMS = 40;
const SUMMED_FIELDS = 6;
const TASK_NUMBERS = 8;
const TASK_TOKENS = 400;

/**
 * Visits the numbers of a step.
 * @param visit called once per element for places in lists
 */
export function visitNumbers(step: StepDigest, visit: (place: NumberPlace, value: number) => void): void {
  let left = NUMBERS;
  const walk = (from: string, at: unknown, path: string[]): void => {
    if (left <= 0 || path.length > 5) return;
    const number = readNumber(at);
    if (number !== undefined) {
      left--;
      visit({ from, path }, number);
    } else if (Array.isArray(at)) {
      for (const item of at.slice(0, LIST_ITEMS)) walk(from, item, [...path, EACH_ITEM]);
      if (at.length >= SUMMED_ITEMS || left <= 0) return;
      left--;
      visit({ from, path: [...path, LENGTH] }, at.length);
      for (const fields of summedFields(at)) {
        const sum = sumOf(at, fields);
        if (sum !== undefined && left-- > 0) visit({ from, path: [...path, SUM + fields] }, sum);
      }
    } else if (isObject(at)) for (const key of Object.keys(at)) walk(from, at[key], [...path, key]);
  };
  for (const { name, value } of step.sources)
    if (name.startsWith('result:') && !name.includes('#')) walk(name, value, []);
  const task = taskOf(step);
  if (task !== '')
    for (const [word, number] of readTaskNumbers(task))
      visit({ from: 'task', path: [BEHIND + word] }, number);
}

/**
 * Reads the numbers at a place.
 * @returns the numbers at the place: none, one, or several for the elements of a list. Values that are not numbers
 * are left out
 */
export function readNumbersAt(step: StepDigest, { from, path }: NumberPlace): number[] {
  let found: unknown[] = [step.sources.find(({ name }) => name === from)?.value];
  for (const key of path)
    found = found.flatMap((at): unknown[] => {
      if (typeof at === 'string' && key.startsWith(BEHIND)) {
        const number = readTaskNumbers(at).get(key.slice(BEHIND.length));
        return number === undefined ? [] : [number];
      }
      if (Array.isArray(at)) {
        if (key === EACH_ITEM) return at;
        if (at.length >= SUMMED_ITEMS) return [];
        if (key === LENGTH) return [at.length];
        return key.startsWith(SUM) ? [sumOf(at, key.slice(SUM.length))] : [];
      }
      return isObject(at) && Object.hasOwn(at, key) ? [at[key]] : [];
    });
  return found.flatMap((value) => readNumber(value) ?? []);
}

function taskOf(step: StepDigest): string {
  const task = step.sources.find(({ name }) => name === 'task')?.value;
  return typeof task === 'string' ? task : '';
}

function summedFields(items: readonly unknown[]): string[] {
  const [first] = items;
  if (!isObject(first)) return [];
  const keys = Object.keys(first)
    .filter((key) => amountOf(first[key]) !== undefined)
    .slice(0, SUMMED_FIELDS);
  const [a, b, ...more] = keys;
  // With more than two numeric fields, price and quantity are ambiguous.
  if (a === undefined || b === undefined || more.length > 1) return keys;
  const c = more[0];
  return [...keys, a + TIMES + b, ...(c === undefined ? [] : [a + TIMES + c, b + TIMES + c])];
}

/**
 * Sums a field over elements.
 * @param fields one field, or two fields joined by {@link TIMES}
 */
function sumOf(items: readonly unknown[], fields: string): number | undefined {
  const keys = fields.split(TIMES);
  let sum = 0;
  for (const item of items) {
    let product = 1;
    for (const key of keys) {
      const value = isObject(item) && Object.hasOwn(item, key) ? amountOf(item[key]) : undefined;
      if (value === undefined) return undefined;
      product *= value;
    }
    sum += product;
  }
  return Math.round(sum * 1e6) / 1e6;
}

/** Caches the task that was read last, because the places of one task are queried in succession. */
let readTask = '';
let numbersOfTask = new Map<string, number>();

/** Plain numbers in prose, by the word before each number; the first number when several follow the same word. */
function readTaskNumbers(text: string): ReadonlyMap<string, number> {
  if (text === readTask) return numbersOfTask;
  const numbers = new Map<string, number>();
  let word = '';
  for (const { kind, key, start, end } of readTokens(text, TASK_TOKENS)) {
    if (kind === 'word') word = key;
    if (kind !== 'number' || numbers.has(word) || numbers.size >= TASK_NUMBERS) continue;
    const number = Number(text.slice(start, end).replaceAll(',', ''));
    if (Math.abs(number) <= Number.MAX_SAFE_INTEGER) numbers.set(word, number);
  }
  readTask = text;
  numbersOfTask = numbers;
  return numbers;
}
