/**
 * Reads the query and the cursor of a searched list of runs from a request. Server threads.
 */
import { SchemaViolation, valueViolation } from '../contract/violation.ts';
import { readRunCursor } from '../domain/run-query/cursor.ts';
import type { PagePlace } from '../domain/run-query/page.ts';
import { parseRunQuery } from '../domain/run-query/parse.ts';
import {
  type NameValue,
  type RunQuery,
  RunQueryError,
  type Term,
  type TimePoint,
} from '../domain/run-query/run-query.ts';

const PLACE = ['query', 'q'];

/**
 * Reads the query of a list.
 * @param q the query's text; null, undefined or '': all runs
 * @throws SchemaViolation that points at the faulty part and names the nearest known word, if any is near
 */
export function readRunQuery(q: string | null | undefined): RunQuery {
  try {
    return parseRunQuery(q ?? '');
  } catch (thrown) {
    if (!(thrown instanceof RunQueryError)) throw thrown;
    const { message, from, to, nearest } = thrown;
    const word = q!.slice(from, to);
    throw queryViolation(message, q!, { from, to, word, nearest });
  }
}

/**
 * Makes a 422 about the query.
 * @param at the position of the faulty part
 */
export function queryViolation(reason: string, q: string, at: object = {}): SchemaViolation {
  const ctx = { error: reason, ...at };
  return new SchemaViolation([
    { type: 'value_error', loc: PLACE, msg: `Value error, ${reason}`, input: q, ctx },
  ]);
}

/** Makes the condition that a name equals a text, for a parameter that means the same as a field of the query. */
export function wholeName(text: string): NameValue {
  return { text, is: 'whole', is_phrase: true };
}

/** Makes the condition that a run began at `from` or later and before `to`; null without either. */
export function startedBetween({
  from,
  to,
}: {
  from?: string | null | undefined;
  to?: string | null | undefined;
}): Term | null {
  if (from == null && to == null) return null;
  const low = from == null ? null : { point: instant(from), is_after: false };
  const high = to == null ? null : { point: instant(to), is_before: true };
  return { kind: 'time', field: 'started', values: [{ low, high }], is_not: false };
}

function instant(text: string): TimePoint {
  const from_ms = Date.parse(text);
  return { from_ms, to_ms: from_ms, text };
}

/**
 * Reads a list's cursor: the place of the last run of the previous page; null without a cursor.
 * @throws SchemaViolation for a text that is not a cursor of a list in this order
 */
export function readRunPlace({ sort }: RunQuery, cursor: string | null | undefined): PagePlace | null {
  if (cursor == null || cursor === '') return null;
  const place = readRunCursor(sort, cursor);
  if (place === null) throw valueViolation(['query', 'cursor'], 'not a cursor of this list', cursor);
  return place;
}
