/**
 * What a list comes to: how many elements it has, the sum of a field, its values in one line. Of all of them, or of those of which a
 * field has a value. Pure; analysis proposes, the student's thread applies.
 */

import { isObject, type Primitive } from './json-values.ts';

/** Elements that count: those of which a field has this value. */
export interface ListFilter {
  key: string;
  is: string | boolean;
}

export type ListSummary =
  | { pick: 'count'; filter?: ListFilter }
  /** `times`: a second field that each is multiplied by. */
  | { pick: 'sum'; key: string | null; times?: string; filter?: ListFilter }
  /** `last`: what stands before the last one. */
  | { pick: 'join'; key: string | null; by: string; last: string; filter?: ListFilter };

/** @returns undefined where an element lacks the field, or there is none */
export function summarizeList(items: readonly unknown[], summary: ListSummary): string | number | undefined {
  const { filter } = summary;
  const chosen = filter === undefined ? items : items.filter((item) => passesFilter(item, filter));
  if (summary.pick === 'count') return chosen.length;
  if (summary.pick === 'sum') {
    let sum = 0;
    for (const item of chosen) {
      const value = fieldOf(item, summary.key);
      const times = summary.times === undefined ? 1 : fieldOf(item, summary.times);
      if (typeof value !== 'number' || typeof times !== 'number') return undefined;
      sum += value * times;
    }
    // Sums of amounts are off by less than anybody writes.
    return Number.isFinite(sum) ? Math.round(sum * 1e6) / 1e6 : undefined;
  }
  if (chosen.length === 0) return undefined;
  let text = '';
  for (const [i, item] of chosen.entries()) {
    const value = fieldOf(item, summary.key);
    if (typeof value !== 'string' && typeof value !== 'number') return undefined;
    if (i > 0) text += i === chosen.length - 1 ? summary.last : summary.by;
    text += String(value);
  }
  return text;
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
const JOINTS: readonly (readonly [string, string])[] = [
  [', ', ', '],
  [', ', ' and '],
  [', ', ', and '],
  ['; ', '; '],
  [',', ','],
  [' ', ' '],
  ['\n', '\n'],
  ['\n- ', '\n- '],
];

/** Summaries of the list that may come to the value, however it is written. */
export function proposeSummaries(
  items: readonly unknown[],
  value: Primitive,
): { part: ListSummary; result: string | number }[] {
  if (items.length === 0 || items.length > 40) return [];
  const isNumber = typeof value === 'number' || (typeof value === 'string' && /^[\d.,-]{1,24}$/.test(value));
  const found: { part: ListSummary; result: string | number }[] = [];
  const add = (part: ListSummary): void => {
    const result = summarizeList(items, part);
    if (result !== undefined) found.push({ part, result });
  };
  const keys = listKeys(items);
  for (const filter of [undefined, ...listFilters(items, keys)]) {
    const its = filter === undefined ? {} : { filter };
    if (isNumber) {
      add({ pick: 'count', ...its });
      const numeric = keys.filter((key) => items.every((item) => typeof fieldOf(item, key) === 'number'));
      for (const key of numeric) {
        add({ pick: 'sum', key, ...its });
        for (const times of numeric)
          if (key !== null && times !== null && key < times) add({ pick: 'sum', key, times, ...its });
      }
    }
    if (typeof value !== 'string' || value.length < 2) continue;
    for (const key of keys) {
      if (!items.some((item) => value.startsWith(String(fieldOf(item, key))))) continue;
      for (const [by, last] of JOINTS) {
        const part: ListSummary = { pick: 'join', key, by, last, ...its };
        if (summarizeList(items, part) === value) found.push({ part, result: value });
      }
    }
  }
  return found;
}

/** Fields of the elements; null: they are values themselves. */
function listKeys(items: readonly unknown[]): (string | null)[] {
  const [first] = items;
  return isObject(first) ? Object.keys(first).slice(0, FIELDS) : [null];
}

/** States that some elements are in and others not. */
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
    // As many values as elements are names, and no states.
    if (values.size > 4) continue;
    for (const is of values) if (filters.length < FILTERS) filters.push({ key, is });
  }
  return filters;
}
