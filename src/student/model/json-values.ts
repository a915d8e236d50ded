/**
 * Bounded operations on JSON of any shape, with numbers kept to the digit: copies, canonical texts, hashes. Pure; any
 * thread.
 */

import {
  canonicalNumber,
  digitsOf,
  isRawNumber,
  type RawNumber,
  roundedNumber,
} from '../../std/exact-json.ts';

/** `null`, text, number or boolean; a number may have kept its digits. */
export type Primitive = string | number | boolean | null | RawNumber;

export function isPrimitive(value: unknown): value is Primitive {
  return value === null || typeof value !== 'object' ? isPlain(value) : isRawNumber(value);
}

function isPlain(value: unknown): boolean {
  return (
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value) && !isRawNumber(value);
}

/** Whether it is a number, either a double or one with its digits. */
export function isNumber(value: unknown): value is number | RawNumber {
  return typeof value === 'number' || isRawNumber(value);
}

/** A primitive as text: a number with the digits with which it was read. */
export function textOfPrimitive(value: Primitive): string {
  return isRawNumber(value) ? value.rawJSON : String(value);
}

/** Above this, a double cannot represent every integer. A larger number is an id, not an amount. */
const COUNTED_MOST = Number.MAX_SAFE_INTEGER;

/** A number for arithmetic and comparison; undefined for other values, and for a number that a double rounds. */
export function amountOf(value: unknown): number | undefined {
  if (typeof value === 'number') return Math.abs(value) <= COUNTED_MOST ? value : undefined;
  if (!isRawNumber(value)) return undefined;
  const rounded = Number(value.rawJSON);
  const isExact = canonicalNumber(String(rounded)) === canonicalNumber(value.rawJSON);
  return isExact && Math.abs(rounded) <= COUNTED_MOST ? rounded : undefined;
}

/**
 * Numbers as JSON.stringify writes them, without an exponent, and also with trailing zeros, because many services send
 * amounts as text. At most 12 digits before the point and 8 after it.
 */
const NUMBER_TEXT = /^-?(?:0|[1-9]\d{0,11})(?:\.\d{1,8})?$/;

/**
 * Reads a number for ranges and thresholds, where the rounding of a double does no harm.
 * @returns undefined for anything but a number or the text of one
 */
export function readNumber(value: unknown): number | undefined {
  return typeof value === 'string' && NUMBER_TEXT.test(value)
    ? Number(value)
    : (roundedNumber(value) ?? undefined);
}

/**
 * A value as text that is equal for equal JSON, regardless of key order; numbers are equal if their exact values are.
 * Nesting deeper than `depth` becomes `…`.
 */
export function canonicalText(value: unknown, depth = 24): string {
  if (value === undefined) return 'null';
  const digits = digitsOf(value);
  if (digits !== null) return canonicalNumber(digits);
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  if (depth <= 0) return '"…"';
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item, depth - 1)).join(',')}]`;
  const fields: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined) fields.push(`${JSON.stringify(key)}:${canonicalText(item, depth - 1)}`);
  }
  return `{${fields.join(',')}}`;
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

export function mixNumber(value: number): number {
  let h = value ^ (value >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** FNV-1a over UTF-16 units, then mixed. */
export function hashString(text: string, seed = 0): number {
  let h = FNV_OFFSET ^ seed;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), FNV_PRIME);
  return mixNumber(h);
}

/** The amount that a hash may still read. */
interface HashBudget {
  left: number;
  /** Maps a string before it is hashed; absent: strings are hashed unchanged. */
  level?: (text: string) => string;
}

/**
 * A hash that ignores key order. When the budget is used up, only the lengths of strings and lists still count. Lists
 * and objects nested deeper than `depthMax` are all alike.
 */
export function hashJson(
  value: unknown,
  seed: number,
  budget: HashBudget,
  depthMax: number,
  depth = 0,
): number {
  budget.left -= 4;
  if (typeof value === 'string' && budget.level !== undefined) {
    const levelled = budget.level(value);
    if (levelled !== value) {
      budget.left -= value.length;
      return hashString(levelled, seed ^ 0x2b);
    }
  }
  if (typeof value === 'string') {
    const taken = value.length <= budget.left ? value : value.slice(0, Math.max(0, budget.left));
    budget.left -= taken.length;
    return hashString(taken, seed ^ value.length);
  }
  if (isRawNumber(value)) return hashString(String(amountOf(value) ?? value.rawJSON), seed ^ 0x51);
  if (value === null || typeof value !== 'object') return hashString(String(value), seed ^ 0x51);
  if (depth > depthMax) return mixNumber(seed ^ 0x7a);
  if (Array.isArray(value)) {
    let h = mixNumber(seed ^ (value.length + 0x31));
    for (const item of value) {
      if (budget.left <= 0) break;
      h = mixNumber(Math.imul(h, 31) + hashJson(item, seed, budget, depthMax, depth + 1));
    }
    return h;
  }
  let sum = mixNumber(seed ^ 0x17);
  for (const key of Object.keys(value)) {
    if (budget.left <= 0) break;
    const item = (value as Record<string, unknown>)[key];
    if (item === undefined) continue;
    budget.left -= key.length;
    sum =
      (sum +
        mixNumber(
          hashString(key, seed) ^ Math.imul(hashJson(item, seed, budget, depthMax, depth + 1), 0x9e3779b1),
        )) >>>
      0;
  }
  return mixNumber(sum);
}

/** The text itself; of a text longer than `limit`, its beginning and its end with `…` on a line between them. */
export function cutText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = Math.floor(limit * 0.6);
  return `${text.slice(0, head)}\n…\n${text.slice(text.length - (limit - head - 3))}`;
}

/** Key under which a truncated string is kept. Searches find it, but it is not used as the value. */
export const CUT_KEY = '…';

/** The amount that a copy may still take. */
export interface CopyBudget {
  characters: number;
  nodes: number;
}

/**
 * Copies a value within bounds: long lists lose elements, and long strings lose their middle.
 * @returns undefined when the budget is used up, or when the value lies deeper than the bound
 */
export function copyBounded(
  value: unknown,
  bounds: { string: number; json_depth: number; json_items: number },
  budget: CopyBudget,
  depth = 0,
): unknown {
  if (budget.nodes <= 0 || budget.characters <= 0) return undefined;
  budget.nodes -= 1;
  if (typeof value === 'string') {
    if (value.length <= bounds.string && value.length <= budget.characters) {
      budget.characters -= value.length + 3;
      return value;
    }
    const cut = cutText(value, Math.max(40, Math.min(bounds.string, budget.characters)));
    budget.characters -= cut.length + 12;
    return { [CUT_KEY]: cut };
  }
  if (isPrimitive(value)) {
    budget.characters -= 8;
    return value;
  }
  if (typeof value !== 'object' || depth >= bounds.json_depth) return undefined;
  if (Array.isArray(value)) {
    const copy: unknown[] = [];
    for (const item of value) {
      if (copy.length >= bounds.json_items) break;
      const inner = copyBounded(item, bounds, budget, depth + 1);
      // A gap would shift the following elements.
      if (inner === undefined && (budget.nodes <= 0 || budget.characters <= 0)) break;
      copy.push(inner === undefined ? null : inner);
    }
    budget.characters -= 2;
    return copy;
  }
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (key === '__proto__' || key.length > 100) continue;
    if (budget.nodes <= 0 || budget.characters <= 0) break;
    budget.characters -= key.length + 4;
    const inner = copyBounded((value as Record<string, unknown>)[key], bounds, budget, depth + 1);
    if (inner !== undefined) copy[key] = inner;
  }
  return copy;
}
