/**
 * Recognizes lookups that find the same record by another key: some runs search by the name of a person, others by the
 * e-mail address that the found record holds, too. Pure; teaching.
 */

import type { StudentBlock } from '../student/model/decision.ts';
import { canonicalText, isObject } from '../student/model/json-values.ts';
import { isLookCall, type ReadTools } from '../student/model/look-calls.ts';
import type { StepDigest } from '../student/model/step.ts';
import { isLikely } from './other-looks.ts';

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

/** A golden step. */
interface Search {
  run_id: string;
  golden: readonly StudentBlock[];
  /** The next step of the run, which has the result; undefined: the run has no next step. */
  next: Pick<StepDigest, 'stage' | 'sources'> | undefined;
}

/** A golden step, and the answer that the student would give there. */
export interface OtherSearch extends Search {
  given: readonly StudentBlock[];
}

/** The argument in which two lookups differ. */
interface KeyArgument {
  tool: string;
  argument: string;
}

/** Minimum number of runs that found a record by the usual key, and minimum number that found one by the other key. */
const SHOWN_RUNS = { usual: 4, other: 2 } as const;

/**
 * Whether golden runs show that the usual lookup finds the records that runs with another lookup found. Both lookups
 * must be calls of the same tools that differ in one text. The usual lookup finds one record, which has the searched
 * text in some field. The other lookup finds one record, which has the text that it searched for, and in one of the same
 * fields the text for which the student would search. Exceptions may be as frequent as {@link isLikely} allows; a search
 * that finds nothing does not count.
 */
export function findSameRecords(
  usual: readonly Search[],
  others: readonly OtherSearch[],
  reads: ReadTools,
): boolean {
  const key = findKeyArgument(others, reads);
  if (key === null) return false;
  const fields = new Set<string>();
  const usualRuns = new Set<string>();
  const otherRuns = new Set<string>();
  const isUsualShown = isLikelyShown(usual, key, usualRuns, (record, { golden }) => {
    const found = listFields(record, readKey(golden, key));
    for (const field of found) fields.add(field);
    return found.length > 0;
  });
  const isOtherShown = isLikelyShown(others, key, otherRuns, (record, { given, golden }) => {
    const found = listFields(record, readKey(given, key));
    return found.some((field) => fields.has(field)) && listFields(record, readKey(golden, key)).length > 0;
  });
  const areEnough = usualRuns.size >= SHOWN_RUNS.usual && otherRuns.size >= SHOWN_RUNS.other;
  return isUsualShown && isOtherShown && areEnough;
}

/**
 * Applies a test to the record that each search found.
 * @param shown gets the runs that pass the test
 */
function isLikelyShown<T extends Search>(
  searches: readonly T[],
  { tool }: KeyArgument,
  shown: Set<string>,
  test: (record: Record<string, unknown>, search: T) => boolean,
): boolean {
  let [passed, all] = [0, 0];
  for (const search of searches) {
    const records = readRecords(tool, search.next);
    if (records.length === 0) continue;
    all++;
    if (records.length > 1 || !test(records[0]!, search)) continue;
    passed++;
    shown.add(search.run_id);
  }
  return isLikely(passed, all);
}

/** The argument in which all these answers differ from the golden ones; null if they differ in more, or in nothing. */
export function findKeyArgument(others: readonly OtherSearch[], reads: ReadTools): KeyArgument | null {
  let found: KeyArgument | null = null;
  for (const { given, golden } of others) {
    const key = compareCalls(given, golden, reads);
    if (key === null) return null;
    if (found !== null && (found.tool !== key.tool || found.argument !== key.argument)) return null;
    found = key;
  }
  return found;
}

function compareCalls(
  given: readonly StudentBlock[],
  golden: readonly StudentBlock[],
  reads: ReadTools,
): KeyArgument | null {
  const [own, others] = [listCalls(given), listCalls(golden)];
  if (own.length === 0 || own.length !== others.length) return null;
  let found: KeyArgument | null = null;
  for (const [at, call] of own.entries()) {
    const other = others[at]!;
    if (call.name !== other.name || !isLookCall(call, reads) || !isLookCall(other, reads)) return null;
    if (canonicalText(call.input) === canonicalText(other.input)) continue;
    const argument = findDifference(call.input, other.input);
    if (argument === null || found !== null) return null;
    found = { tool: call.name, argument };
  }
  return found;
}

function listCalls(content: readonly StudentBlock[]): CallBlock[] {
  return content.filter((block) => block.type === 'tool_call');
}

/** The only argument that differs, if it is a text in both inputs. */
function findDifference(a: unknown, b: unknown): string | null {
  if (!isObject(a) || !isObject(b)) return null;
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const others = keys.filter((key) => canonicalText(a[key] ?? null) !== canonicalText(b[key] ?? null));
  const [argument] = others;
  if (argument === undefined || others.length > 1) return null;
  return typeof a[argument] === 'string' && typeof b[argument] === 'string' ? argument : null;
}

function readKey(content: readonly StudentBlock[], { tool, argument }: KeyArgument): unknown {
  const input = listCalls(content).find(({ name }) => name === tool)?.input;
  return isObject(input) ? input[argument] : undefined;
}

/** Fields of a record that hold a text. */
function listFields(record: Record<string, unknown>, text: unknown): string[] {
  return Object.keys(record).filter((field) => typeof text === 'string' && record[field] === text);
}

/** The records that a tool returned; empty if it was not called exactly once, failed, or returned no JSON. */
function readRecords(tool: string, next: Search['next']): Record<string, unknown>[] {
  const name = tool.slice(0, 64);
  if (next === undefined || !next.stage.split(' ').includes(name)) return [];
  return listRecords(next.sources.find((source) => source.name === `result:${name}`)?.value);
}

/** The elements of a list; of an object with lists their elements, and of another object the object itself. */
function listRecords(value: unknown): Record<string, unknown>[] {
  if (Array.isArray(value)) return value.every(isObject) ? value : [];
  if (!isObject(value)) return [];
  const lists = Object.values(value).filter((field) => Array.isArray(field) && field.some(isObject));
  return lists.length === 0 ? [value] : lists.flatMap(listRecords);
}
