/**
 * Checks values against the JSON schemas of live requests, which come from untrusted sources. No part of a schema is
 * evaluated as code, and a schema that would cost too much is not used. The student's thread.
 *
 * Two things make a schema expensive: references that are circular or multiply, and patterns that backtrack. References
 * are weighed before the schema is used. Patterns may have no look-around, back references or nested repetition, and
 * few open-ended repetitions, and are matched only with texts of a bounded length.
 */

import { createHash } from 'node:crypto';
import { type Schema, Validator } from '@cfworker/json-schema';
import { roundedNumber } from '../../std/exact-json.ts';
import { RecentMap } from '../../std/recent-map.ts';

/** Maximum length of the schema of a tool as JSON, and maximum number of places that a check may visit. */
export const TOOL_SCHEMA_CHARACTERS = 64 << 10;
const TOOL_SCHEMA_WEIGHT = 20_000;
/** Maximum number of compiled schemas that are kept. */
const TOOL_SCHEMAS_KEPT = 256;

const DRAFT = '2020-12';
const PATTERN_CHARACTERS = 256;
const OPEN_REPEATS_MAX = 3;
/**
 * Maximum steps of a pattern on a text. The number of steps is roughly the text's length to the power of the pattern's
 * open-ended repetitions.
 */
const PATTERN_STEPS = 1e8;
const DEPTH_MAX = 64;
/** Keywords that the validator ignores; a schema with them would accept everything. */
const UNKNOWN_KEYWORDS = ['$dynamicRef', '$recursiveRef', '$id', 'id'];

interface ReadySchema {
  validator: Validator;
  /** Number of open-ended repetitions of the schema's most expensive pattern; 0 without patterns. */
  repeats: number;
}

export class ToolSchemas {
  /** null for a schema that must not be used. */
  readonly #ready = new RecentMap<string, ReadySchema | null>(TOOL_SCHEMAS_KEPT);

  /**
   * Whether a value matches a schema.
   * @returns false also for a schema that cannot be used
   */
  accepts(schema: unknown, value: unknown): boolean {
    const ready = this.#prepare(schema);
    if (ready === null) return false;
    try {
      if (ready.repeats > 0 && longestText(value) ** ready.repeats > PATTERN_STEPS) return false;
      return ready.validator.validate(roundNumbers(value)).valid;
    } catch {
      return false;
    }
  }

  #prepare(schema: unknown): ReadySchema | null {
    const text = JSON.stringify(schema) ?? '';
    if (text.length > TOOL_SCHEMA_CHARACTERS) return null;
    const key = createHash('sha256').update(text).digest('base64url');
    const known = this.#ready.get(key);
    if (known !== undefined) return known;
    const ready = prepareSchema(text);
    this.#ready.set(key, ready);
    return ready;
  }
}

/**
 * Whether the declared format of a custom tool allows a text. A grammar of the syntax `lark` is not checked, because
 * the golden texts, from which the text is made, followed the grammar.
 * @returns false also for a pattern that may take long
 */
export function acceptsText(format: unknown, text: string): boolean {
  const { type, syntax, definition } = Object(format ?? { type: 'text' }) as Record<string, unknown>;
  if (type === 'text') return true;
  if (type !== 'grammar' || syntax !== 'regex') return type === 'grammar' && syntax === 'lark';
  const repeats = countOpenRepeats(definition);
  if (repeats === null || text.length ** repeats > PATTERN_STEPS) return false;
  try {
    return new RegExp(`^(?:${String(definition)})$`, 'u').test(text);
  } catch {
    return false;
  }
}

/**
 * Compiles a schema.
 * @returns null for a schema that must not be used
 */
function prepareSchema(text: string): ReadySchema | null {
  try {
    // A copy, because the validator writes into it.
    const schema = JSON.parse(text) as unknown;
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return null;
    const repeats = new SchemaScale(schema).weigh();
    return { validator: new Validator(schema as Schema, DRAFT), repeats };
  } catch {
    return null;
  }
}

/** Thrown for a schema that is too expensive or not understood. */
class UnusableSchema extends Error {}

/** Computes the cost of a schema, with all its references followed. */
class SchemaScale {
  readonly #root: object;
  readonly #weights = new Map<object, number>();
  readonly #open = new Set<object>();
  #repeats = 0;

  constructor(root: object) {
    this.#root = root;
  }

  /**
   * Checks the cost of the schema.
   * @returns number of open-ended repetitions of the most expensive pattern; 0 without patterns
   * @throws UnusableSchema
   */
  weigh(): number {
    this.#weigh(this.#root, 0);
    return this.#repeats;
  }

  #weigh(value: unknown, depth: number): number {
    if (typeof value !== 'object' || value === null) return 1;
    const known = this.#weights.get(value);
    if (known !== undefined) return known;
    if (this.#open.has(value) || depth > DEPTH_MAX) throw new UnusableSchema('circular or too deep');
    this.#open.add(value);
    let weight = 1;
    for (const [name, item] of Object.entries(value)) weight += this.#weighItem(name, item, depth);
    if (!(weight <= TOOL_SCHEMA_WEIGHT)) throw new UnusableSchema('too large');
    this.#open.delete(value);
    this.#weights.set(value, weight);
    return weight;
  }

  #weighItem(name: string, item: unknown, depth: number): number {
    // A property may be named like a keyword; its schema is then an object.
    const isObject = typeof item === 'object' && item !== null;
    if (name === '$ref' && !isObject) return this.#weigh(this.#find(item), depth + 1);
    if (!isObject && UNKNOWN_KEYWORDS.includes(name)) throw new UnusableSchema(name);
    if (name === 'pattern' && !isObject) this.#addPattern(item);
    if (name === 'patternProperties' && isObject)
      for (const pattern of Object.keys(item)) this.#addPattern(pattern);
    return this.#weigh(item, depth + 1);
  }

  #addPattern(pattern: unknown): void {
    const repeats = countOpenRepeats(pattern);
    if (repeats === null) throw new UnusableSchema('a pattern that may take long');
    this.#repeats = Math.max(this.#repeats, repeats, 1);
  }

  /** The target of a reference within the schema (RFC 6901). */
  #find(reference: unknown): unknown {
    if (reference === '#') return this.#root;
    if (typeof reference !== 'string' || !reference.startsWith('#/')) throw new UnusableSchema('$ref');
    let at: unknown = this.#root;
    for (const part of decodeURIComponent(reference).slice(2).split('/')) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) throw new UnusableSchema('$ref');
      at = (at as Record<string, unknown>)[name];
    }
    return at;
  }
}

/**
 * Counts the open-ended repetitions (`*`, `+`, `{2,}`) of a safe pattern.
 * @returns null for an unsafe pattern
 */
export function countOpenRepeats(pattern: unknown): number | null {
  if (typeof pattern !== 'string' || pattern.length > PATTERN_CHARACTERS) return null;
  // Back references, and every `(?` except non-capturing groups.
  if (/\\[1-9k]|\(\?(?!:)/.test(pattern)) return null;
  const bare = pattern.replace(/\\./gs, 'x').replace(/\[[^\]]*\]/g, 'x');
  const repeats = bare.match(/[*+]|\{\d+,\}/g) ?? [];
  if (repeats.length > OPEN_REPEATS_MAX) return null;
  // A repeated group must hold neither a repetition nor a choice; counted repetitions of groups multiply as well.
  let open: number[] = [];
  const heavy: boolean[] = [];
  for (let at = 0; at < bare.length; at++) {
    const character = bare[at]!;
    if (character === '(') {
      open.push(at);
      heavy.push(false);
    } else if (character === ')') {
      const isHeavy = heavy.pop() ?? false;
      open = open.slice(0, -1);
      if (/^[*+{]/.test(bare.slice(at + 1)) && isHeavy) return null;
      if (isHeavy && heavy.length > 0) heavy[heavy.length - 1] = true;
    } else if (/[*+?{|]/.test(character) && heavy.length > 0) {
      if (bare.slice(at, at + 2) !== '?:' || bare[at - 1] !== '(') heavy[heavy.length - 1] = true;
    }
  }
  return repeats.length;
}

/**
 * Converts all numbers to doubles, because the validator knows no others. So it compares numbers beyond 2^53 after
 * rounding.
 */
function roundNumbers(value: unknown): unknown {
  const number = roundedNumber(value);
  if (number !== null) return number;
  if (Array.isArray(value)) return value.map(roundNumbers);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, roundNumbers(item)]));
}

/** Length of the longest text within a value, including names of its fields. */
function longestText(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let longest = 0;
  for (const [name, item] of Object.entries(value)) {
    longest = Math.max(longest, name.length, longestText(item));
  }
  return longest;
}
