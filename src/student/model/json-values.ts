/** Bounded handling of JSON of any shape: copies, canonical texts, hashes. Pure; any thread. */

/** `null`, text, number, boolean. */
export type Primitive = string | number | boolean | null;

export function isPrimitive(value: unknown): value is Primitive {
  return (
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** As JSON.stringify writes numbers, with zeros behind the point: many services send amounts as text. */
const NUMBER_TEXT = /^-?(?:0|[1-9]\d{0,11})(?:\.\d{1,8})?$/;

/** @returns undefined for what is no number, and for a text that is more than one */
export function readNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && NUMBER_TEXT.test(value) ? Number(value) : undefined;
}

/** A value as text that is equal for equal JSON, whatever the order of keys. Deeper than `depth`: `…`. */
export function canonicalText(value: unknown, depth = 24): string {
  if (value === undefined) return 'null';
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

/** FNV-1a over UTF-16 units, scrambled. */
export function hashString(text: string, seed = 0): number {
  let h = FNV_OFFSET ^ seed;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), FNV_PRIME);
  return mixNumber(h);
}

/** What hashing may still look at. */
export interface HashBudget {
  left: number;
  /** What a string is hashed as; left out: as it stands. */
  level?: (text: string) => string;
}

/** A hash that does not see the order of keys. Beyond the budget only lengths count, deeper than `depthMax` nothing does. */
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

/** Beginning and end of a text that is too long. */
export function cutText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = Math.floor(limit * 0.6);
  return `${text.slice(0, head)}\n…\n${text.slice(text.length - (limit - head - 3))}`;
}

/** Key under which a string stands that was cut: it can be searched, but is not the value. */
export const CUT_KEY = '…';

/** What a copy may still take. */
export interface CopyBudget {
  characters: number;
  nodes: number;
}

/** A copy with fewer items, shorter strings, less depth; undefined where the budget is used up. */
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
      // A hole would move what comes behind it.
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
