/**
 * Summaries of a list: its number of elements, the sum of a field, its values joined. A summary covers all elements, or
 * only the elements with a given value in a field. Pure; teaching proposes rules, and the student's thread applies
 * them.
 */

import { amountOf, isNumber, isObject, isPrimitive, type Primitive, textOfPrimitive } from './json-values.ts';

/** Selects the elements with this value in a field. */
export interface ListFilter {
  key: string;
  is: string | boolean;
}

export type ListSummary =
  | { pick: 'count'; filter?: ListFilter }
  /** `times`: a second field that multiplies each value. */
  | { pick: 'sum'; key: string | null; times?: string; filter?: ListFilter }
  /** `last`: the separator before the last value. */
  | { pick: 'join'; key: string | null; by: string; last: string; filter?: ListFilter };

/**
 * Computes a summary of a list.
 * @returns undefined when a covered element lacks a field or has no suitable value in it, a sum is too large, or there
 *   is no element to join
 */
export function summarizeList(items: readonly unknown[], summary: ListSummary): string | number | undefined {
  const { filter } = summary;
  const chosen = filter === undefined ? items : items.filter((item) => passesFilter(item, filter));
  if (summary.pick === 'count') return chosen.length;
  if (summary.pick === 'sum') {
    let sum = 0;
    for (const item of chosen) {
      const value = amountOf(fieldOf(item, summary.key));
      const times = summary.times === undefined ? 1 : amountOf(fieldOf(item, summary.times));
      if (value === undefined || times === undefined) return undefined;
      sum += value * times;
      if (!(Math.abs(sum) <= Number.MAX_SAFE_INTEGER)) return undefined;
    }
    return roundSum(sum);
  }
  if (chosen.length === 0) return undefined;
  let text = '';
  for (const [i, item] of chosen.entries()) {
    const value = fieldOf(item, summary.key);
    if (typeof value !== 'string' && !isNumber(value)) return undefined;
    if (i > 0) text += i === chosen.length - 1 ? summary.last : summary.by;
    text += textOfPrimitive(value);
  }
  return text;
}

/**
 * Removes the rounding error of summed amounts, which is smaller than the last written digit.
 * @returns undefined when a double cannot represent the fraction
 */
export function roundSum(sum: number): number | undefined {
  if (Number.isInteger(sum)) return sum;
  return Math.abs(sum) < 9e9 ? Math.round(sum * 1e6) / 1e6 : undefined;
}

export function passesFilter(item: unknown, { key, is }: ListFilter): boolean {
  return isObject(item) && Object.hasOwn(item, key) && item[key] === is;
}

function fieldOf(item: unknown, key: string | null): unknown {
  if (key === null) return item;
  return isObject(item) && Object.hasOwn(item, key) ? item[key] : undefined;
}

const FIELDS = 12;
const FILTERS = 12;
/** Separators of the elements of a list in a text, and before the last element. */
export const JOINTS: readonly (readonly [string, string])[] = [
  [', ', ', '],
  [', ', ' and '],
  [', ', ', and '],
  ['; ', '; '],
  [',', ','],
  [' ', ' '],
  ['\n', '\n'],
  ['\n- ', '\n- '],
];

/** Summaries of the list that may produce the value, in any way of writing. */
export function proposeSummaries(
  items: readonly unknown[],
  value: Primitive,
): { part: ListSummary; result: string | number }[] {
  if (items.length === 0 || items.length > 40) return [];
  const mayBeSum = isAmount(value);
  const found: { part: ListSummary; result: string | number }[] = [];
  const add = (part: ListSummary): void => {
    const result = summarizeList(items, part);
    if (result !== undefined) found.push({ part, result });
  };
  const keys = listKeys(items);
  for (const filter of [undefined, ...listFilters(items, keys)]) {
    const filtered = filter === undefined ? {} : { filter };
    if (mayBeSum) {
      add({ pick: 'count', ...filtered });
      const numeric = keys.filter((key) => items.every((item) => amountOf(fieldOf(item, key)) !== undefined));
      for (const key of numeric) {
        add({ pick: 'sum', key, ...filtered });
        for (const times of numeric)
          if (key !== null && times !== null && key < times) add({ pick: 'sum', key, times, ...filtered });
      }
    }
    if (typeof value !== 'string' || value.length < 2) continue;
    for (const key of keys) {
      if (!items.some((item) => startsWith(value, fieldOf(item, key)))) continue;
      for (const [by, last] of JOINTS) {
        const part: ListSummary = { pick: 'join', key, by, last, ...filtered };
        if (summarizeList(items, part) === value) found.push({ part, result: value });
      }
    }
  }
  return found;
}

/** Whether a value is a number, also as a text. */
export function isAmount(value: Primitive): boolean {
  return isNumber(value) || (typeof value === 'string' && /^[\d.,-]{1,24}$/.test(value));
}

/** Counts of a list's elements, and sums of their numbers. */
export function listTotals(items: readonly unknown[]): ListSummary[] {
  const keys = listKeys(items);
  const numeric = keys.filter((key) => items.every((item) => amountOf(fieldOf(item, key)) !== undefined));
  const filters = [undefined, ...listFilters(items, keys)];
  return filters.flatMap((filter): ListSummary[] => {
    const filtered = filter === undefined ? {} : { filter };
    return [
      { pick: 'count', ...filtered },
      ...numeric.map((key): ListSummary => ({ pick: 'sum', key, ...filtered })),
    ];
  });
}

function startsWith(text: string, value: unknown): boolean {
  return isPrimitive(value) && text.startsWith(textOfPrimitive(value));
}

/** Fields of the elements; null when the elements are plain values. */
function listKeys(items: readonly unknown[]): (string | null)[] {
  const [first] = items;
  return isObject(first) ? Object.keys(first).slice(0, FIELDS) : [null];
}

/**
 * Filters by field values that are a boolean or a short text without a digit, for fields with at most four different
 * such values; at most FILTERS filters.
 */
export function listFilters(items: readonly unknown[], keys: readonly (string | null)[]): ListFilter[] {
  const filters: ListFilter[] = [];
  for (const key of keys) {
    if (key === null) continue;
    const values = new Set<string | boolean>();
    for (const item of items) {
      const value = fieldOf(item, key);
      if (
        typeof value === 'boolean' ||
        (typeof value === 'string' && value.length <= 24 && !/\d/.test(value))
      )
        values.add(value);
    }
    // If a field has more different values, the values are names, not states.
    if (values.size > 4) continue;
    for (const is of values) if (filters.length < FILTERS) filters.push({ key, is });
  }
  return filters;
}
