/**
 * Decides whether two calls, or two results, are the same, by hashes. Calls may differ in the order of JSON keys and in
 * white space, results in white space and, unless they are long, in times and addresses. The work is bounded for texts
 * of any length. Pure; any thread.
 */

import { digitsOf, isRawNumber, numberName, parseUnrounded } from '../../std/exact-json.ts';
import { hashText, mixHash } from './words.ts';

/** JSON inputs of up to this many characters are compared by value, longer ones as text. */
const PARSED_CHARACTERS = 32_768;
/** Values nested deeper than this count as equal; the arguments of real calls are not nested that deep. */
const CANONICAL_DEPTH = 24;
/**
 * If a text is more than three times as long as this, only parts of it are hashed: about this many characters of its
 * beginning, of its end, and of samples between them.
 */
const SAMPLED_CHARACTERS = 8_192;

/** Parses an input; undefined if it is not a JSON object or list, or is longer than PARSED_CHARACTERS. */
export function parseInput(text: string): unknown {
  if (text.length === 0 || text.length > PARSED_CHARACTERS) return undefined;
  const trimmed = text.trim();
  const first = trimmed.charCodeAt(0);
  if (first !== 123 && first !== 91) return undefined;
  try {
    return parseUnrounded(trimmed);
  } catch {
    return undefined;
  }
}

function hashValue(value: unknown, depth: number): number {
  if (typeof value === 'string') return hashText(value.trim(), 1);
  if (value === null || typeof value !== 'object') return hashText(String(value), 2);
  if (isRawNumber(value)) return hashText(numberName(value.rawJSON), 2);
  if (depth >= CANONICAL_DEPTH) return 3;
  if (Array.isArray(value)) {
    let h = mixHash(value.length + 4);
    for (const item of value) h = mixHash(Math.imul(h, 31) + hashValue(item, depth + 1));
    return h;
  }
  // A sum does not depend on the order of the keys.
  let sum = 5;
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key];
    sum = (sum + mixHash(hashText(key, 6) ^ Math.imul(hashValue(item, depth + 1), 0x9e3779b1))) >>> 0;
  }
  return mixHash(sum);
}

/**
 * Hashes an action and its input. JSON is hashed by value; other text is hashed with white space normalized.
 * @param parsed the result of `parseInput` for the input
 */
export function hashCall(action: string, input: string, parsed: unknown): number {
  const inner = parsed === undefined ? hashLoosely(input) : hashValue(parsed, 0);
  return mixHash(hashText(action.slice(0, 512).trim(), 7) ^ Math.imul(inner, 0x85ebca6b)) || 1;
}

/**
 * Collects the strings, numbers and booleans in a JSON value, without the keys, up to `limit` characters. Values nested
 * deeper than CANONICAL_DEPTH are left out.
 */
export function collectValues(value: unknown, limit: number): string {
  const parts: string[] = [];
  let length = 0;
  const visit = (item: unknown, depth: number): void => {
    if (length >= limit || depth > CANONICAL_DEPTH) return;
    const scalar = typeof item === 'string' || typeof item === 'boolean' ? String(item) : digitsOf(item);
    if (scalar !== null) {
      const text = scalar.slice(0, limit - length);
      parts.push(text);
      length += text.length + 1;
    } else if (Array.isArray(item)) {
      for (const inner of item) {
        if (length >= limit) return;
        visit(inner, depth + 1);
      }
    } else if (item !== null && typeof item === 'object') {
      for (const key of Object.keys(item)) {
        if (length >= limit) return;
        visit((item as Record<string, unknown>)[key], depth + 1);
      }
    }
  };
  visit(value, 0);
  return parts.join('\n');
}

/**
 * Hashes a text so that consecutive white space counts as one space. Of a long text, samples and the length are hashed.
 */
export function hashLoosely(text: string): number {
  let h = mixHash(text.length > 3 * SAMPLED_CHARACTERS ? text.length : 0);
  let space = true;
  const add = (from: number, to: number, step: number): void => {
    for (let i = from; i < to; i += step) {
      const code = text.charCodeAt(i);
      if (code === 32 || (code >= 9 && code <= 13)) {
        if (!space) h = Math.imul(h ^ 32, 0x01000193);
        space = true;
      } else {
        h = Math.imul(h ^ code, 0x01000193);
        space = false;
      }
    }
  };
  if (text.length <= 3 * SAMPLED_CHARACTERS) {
    // Trailing white space does not count.
    add(0, text.trimEnd().length, 1);
  } else {
    add(0, SAMPLED_CHARACTERS, 1);
    add(SAMPLED_CHARACTERS, text.length - SAMPLED_CHARACTERS, Math.ceil(text.length / SAMPLED_CHARACTERS));
    add(text.length - SAMPLED_CHARACTERS, text.length, 1);
  }
  return mixHash(h) || 1;
}

/** Times of day, durations, addresses and random ids, which differ even between two equal results. */
const CHANGING =
  /\b\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?\b|\b\d+(?:\.\d+)? ?(?:ms|s|secs?|seconds?|minutes?)\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;

/**
 * Hashes a result without the parts that always change. In a result longer than SAMPLED_CHARACTERS, these parts count.
 */
export function hashOutcome(observation: string): number {
  if (observation.length > SAMPLED_CHARACTERS) return hashLoosely(observation);
  return hashLoosely(mayChange(observation) ? observation.replace(CHANGING, '#') : observation);
}

/**
 * Whether CHANGING can match in a result. This checks only characters around digits, colons and dashes, which is
 * cheaper.
 */
export function mayChange(text: string): boolean {
  for (let at = 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 45) {
      // The dashes of a UUID.
      if (
        text.charCodeAt(at + 5) === 45 &&
        text.charCodeAt(at + 10) === 45 &&
        text.charCodeAt(at + 15) === 45
      )
        return true;
      continue;
    }
    // A colon, or the first letter of a unit or an address, after a digit.
    const letter = code | 32;
    const isUnit = letter === 109 || letter === 115;
    if (code !== 58 && !isUnit && letter !== 120) continue;
    const before = text.charCodeAt(at - 1);
    if (isDigit(before) || (isUnit && before === 32 && isDigit(text.charCodeAt(at - 2)))) return true;
  }
  return false;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Hashes the line that names a failure, with all numbers alike, so that a repeated mistake has the same hash. */
export function hashFailure(line: string): number {
  return hashText(line.slice(0, 200).toLowerCase().replace(/\d+/g, '0').replace(/\s+/g, ' ').trim(), 8);
}
