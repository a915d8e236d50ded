/**
 * Reading JSON that nobody vouches for: every accessor takes any value and gives the wanted type or nothing.
 * Pure; used by the decoders of stored turns.
 */

import { TURN_JSON_LEVELS } from '../limits.ts';

export type JsonObject = Record<string, unknown>;

/** The value as an object; an empty one when it is none. */
export function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** The value as an array; an empty one when it is none. */
export function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value when it is a string that is not empty, else null. */
export function asText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** The value when it is a count (a finite number of at least 0), else null. */
export function asCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

/** The first of the two names under which the object has a value: providers accept camelCase and snake_case alike. */
export function pick(object: JsonObject, name: string, otherName: string): unknown {
  return object[name] ?? object[otherName];
}

/**
 * Parses JSON. `JSON.parse` knows no depth, but whoever goes through the value after it (`JSON.stringify` among them) needs
 * a stack for it.
 * @throws SyntaxError, and RangeError for what is nested deeper than TURN_JSON_LEVELS
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  // Every level takes two characters.
  if (text.length > 2 * TURN_JSON_LEVELS && !isWithin(value, TURN_JSON_LEVELS)) {
    throw new RangeError(`nested deeper than ${TURN_JSON_LEVELS} levels`);
  }
  return value;
}

function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) {
    for (const item of value) if (!isWithin(item, levels - 1)) return false;
    return true;
  }
  for (const name in value) if (!isWithin((value as JsonObject)[name], levels - 1)) return false;
  return true;
}

/**
 * Parses JSON that may be half there: the parsed value, or the text itself when it is no JSON or nested too deep, {} when
 * it is empty.
 */
export function parseLenient(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** An error's words out of the forms that providers give errors; null when there are none. */
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
