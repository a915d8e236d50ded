/**
 * Reads untrusted JSON: every accessor takes any value and returns the wanted type or a neutral value. Numbers keep
 * their digits (`std/exact-json.ts`), so a number may be a `RawNumber`: read it with `asCount` or `asIndex`. Pure; any
 * thread.
 */

import { isRawNumber, parseExact, roundedNumber } from '../std/exact-json.ts';

/** Maximum depth of the JSON of a body that is read as a turn. A deeper body is stored and marked undecodable. */
const TURN_JSON_LEVELS = 512;

/** Largest count that is believed. One absurd count would falsify every sum that includes it. */
const MAX_COUNT = 10 ** 12;

export type JsonObject = Record<string, unknown>;

/** Returns the value as an object; an empty object for any other value. */
export function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** Returns the value as an array; an empty array for any other value. */
export function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the value if it is a non-empty string, otherwise null. */
export function asText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Returns the value if it is a count (a whole number from 0 to MAX_COUNT), otherwise null. */
export function asCount(value: unknown): number | null {
  const count = typeof value === 'object' ? roundedNumber(value) : value;
  return Number.isInteger(count) && (count as number) >= 0 && (count as number) <= MAX_COUNT
    ? (count as number)
    : null;
}

/** Reads the index of an item of a stream, a number or a text of digits; null if the value is not an index. */
export function asIndex(value: unknown): number | null {
  return typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : asCount(value);
}

/**
 * Returns the value under the first of the two names that is present. Providers accept camelCase and snake_case alike.
 */
export function pick(object: JsonObject, name: string, otherName: string): unknown {
  return object[name] ?? object[otherName];
}

/**
 * Parses JSON. `JSON.parse` accepts any depth, but walking a deep value afterwards, as `JSON.stringify` does, can
 * overflow the stack.
 * @param isPlain whether the digits of the numbers do not matter
 * @throws SyntaxError, and RangeError for JSON nested deeper than TURN_JSON_LEVELS
 */
export function parseJson(text: string, isPlain = false): unknown {
  const value: unknown = isPlain ? JSON.parse(text) : parseExact(text);
  // Every level takes two characters.
  if (text.length > 2 * TURN_JSON_LEVELS && !isWithin(value, TURN_JSON_LEVELS)) {
    throw new RangeError(`nested deeper than ${TURN_JSON_LEVELS} levels`);
  }
  return value;
}

function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return isRawNumber(value);
  if (Array.isArray(value)) {
    for (const item of value) if (!isWithin(item, levels - 1)) return false;
    return true;
  }
  for (const name in value) if (!isWithin((value as JsonObject)[name], levels - 1)) return false;
  return true;
}

/**
 * Parses JSON that may be incomplete: the parsed value, or the text itself when it is not JSON or nested too deep, {}
 * when it is empty.
 */
export function parseLenient(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Whether a body's `error` reports an error. */
export function hasError({ error }: JsonObject): boolean {
  return error !== undefined && error !== null && error !== false && error !== '';
}

/** Reads the words of an error in any form that providers use; null if absent. */
export function readErrorWords(value: unknown): string | null {
  const body = Array.isArray(value) ? asObject(value[0]) : asObject(value);
  const error = body.error;
  if (typeof error === 'string') return error === '' ? null : error;
  const inner = asObject(error);
  const words = asText(inner.message) ?? asText(body.message) ?? asText(body.Message) ?? asText(body.detail);
  const type = asText(inner.type) ?? asText(inner.status) ?? asText(inner.code);
  if (words === null) return type;
  return type === null ? words : `${type}: ${words}`;
}
