/**
 * Finds free arguments: prose whose wording changes from run to run and has no effect on the tool's result
 * (the reason of a refund, a note, the body of a message). Their wordings may differ; everything else must be
 * equal (equivalence.ts). In doubt, an argument is not free. Pure; teaching.
 */

import { hash } from 'node:crypto';
import type { StudentBlock } from '../student/model/decision.ts';
import type { FreeArguments } from '../student/model/equivalence.ts';
import { Ground } from '../student/model/equivalence.ts';
import { isObject, isPrimitive, textOfPrimitive } from '../student/model/json-values.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { readTokens } from '../student/model/text-tokens.ts';

/** Minimum numbers of golden calls with an argument, and of their runs, to judge the argument. */
const CALLS_MIN = 5;
const RUNS_MIN = 5;
/** Minimum share of a free argument's values that are prose. */
const PROSE_SHARE = 0.8;
/**
 * The minimum share of prose if calls may leave the argument out: its absence shows that nothing reads it. The
 * number of different values must also be at least this share of the calls, because a choice between few values is not
 * prose.
 */
const OPTIONAL_SHARE = 0.5;
/** Minimum share of the calls that have the same result. */
const SAME_RESULT = 0.95;
/** Maximum number of arguments that are examined, and of a result's characters that are compared. */
const ARGUMENTS = 60;
const RESULT_CHARACTERS = 4_000;

/** Names of arguments that are never free. */
const READ_KEYS =
  /(?:^|[_-])(?:query|queries|sql|code|commands?|cmd|script|patch|diff|paths?|files?|urls?|links?|emails?|to|cc|bcc|recipients?|address|street|ids?|names?|date|time|amount|currency|status|state)$/i;
/** Signs of code, markup and queries. */
const CODE = /[{}[\]<>=|\\$`;]|\w\(|\b(?:SELECT|INSERT|UPDATE|DELETE)\b/;

/** An argument of a tool, with what golden calls show about it. */
interface SeenArgument {
  tool: string;
  key: string;
  runs: Set<string>;
  values: Set<string>;
  calls: number;
  /** Number of calls in which the argument is prose, and the words of this prose. */
  prose: number;
  words: number;
  /** Number of calls by the hash of their result, without values of the call or the step. */
  results: Map<string, number>;
}

/**
 * Caches for each step the hash of the result that the step answers (`levelResult`), and the previous step. The values
 * that are left out of the result depend on the previous step.
 */
const levels = new WeakMap<object, { before: object; result: string }>();

/** A call with the next step, which has its result. */
interface FollowedCall {
  run_id: string;
  call: Extract<StudentBlock, { type: 'tool_call' }> & { input: Record<string, unknown> };
  step: LearnedStep['step'];
  next: LearnedStep;
}

/**
 * Finds the free arguments of one agent. Only calls that were made alone, and whose result the next step answers, count.
 * @param steps of one agent, those of a run in order
 */
export function findFreeArguments(steps: readonly LearnedStep[]): FreeArguments {
  const seen = new Map<string, SeenArgument>();
  const followed = listFollowed(steps);
  for (const of of followed) {
    const { run_id, call } = of;
    const texts = Object.entries(call.input).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string' && !READ_KEYS.test(entry[0]),
    );
    for (const [key, value] of texts) {
      const id = `${call.name}\n${key}`;
      let argument = seen.get(id);
      if (argument === undefined) {
        if (seen.size >= ARGUMENTS) continue;
        argument = startArgument(call.name, key);
        seen.set(id, argument);
      }
      const words = countProse(value);
      const result = hashResult(of);
      argument.runs.add(run_id);
      argument.values.add(value);
      argument.calls++;
      if (words > 0) argument.prose++;
      argument.words += words;
      argument.results.set(result, (argument.results.get(result) ?? 0) + 1);
    }
  }
  return [...seen.values()].flatMap((argument): FreeArguments => {
    const { tool, key } = argument;
    if (isOptional(argument, followed)) return [[tool, key, 'optional']];
    return isFree(argument, PROSE_SHARE) ? [[tool, key]] : [];
  });
}

/** Calls that were made alone and did not fail, each with the step that has its result. */
function listFollowed(steps: readonly LearnedStep[]): FollowedCall[] {
  const followed: FollowedCall[] = [];
  for (const [i, { run_id, step, answer }] of steps.entries()) {
    const calls = answer.content.filter((block) => block.type === 'tool_call');
    const next = steps[i + 1];
    const [call] = calls;
    if (call === undefined || calls.length > 1 || next?.run_id !== run_id) continue;
    if (next.step.stage !== call.name || !isObject(call.input)) continue;
    followed.push({ run_id, call: { ...call, input: call.input }, step, next });
  }
  return followed;
}

function startArgument(tool: string, key: string): SeenArgument {
  const counts = { calls: 0, prose: 0, words: 0 };
  return { tool, key, runs: new Set(), values: new Set(), results: new Map(), ...counts };
}

/** A hash of the call's result without values. */
function hashResult({ step, next, call }: FollowedCall): string {
  // A round reads the same step several times: once for each part of the steps that contains it.
  let level = levels.get(next.step);
  if (level?.before !== step) {
    const ground = new Ground({ sources: [...step.sources, { name: 'call', value: call.input }] });
    level = { before: step, result: hash('sha256', levelResult(next, call.name, ground), 'base64') };
    levels.set(next.step, level);
  }
  return level.result;
}

/** Whether enough calls leave the argument out, with the same result. */
function isOptional(argument: SeenArgument, followed: readonly FollowedCall[]): boolean {
  const { tool, key, calls, values, results } = argument;
  if (!isFree(argument, OPTIONAL_SHARE) || values.size < OPTIONAL_SHARE * calls) return false;
  const without = followed.filter(({ call }) => call.name === tool && !Object.hasOwn(call.input, key));
  if (new Set(without.map(({ run_id }) => run_id)).size < RUNS_MIN) return false;
  const [[usual]] = [...results].toSorted((a, b) => b[1] - a[1]) as [[string, number]];
  const same = without.filter((call) => hashResult(call) === usual);
  return same.length >= SAME_RESULT * without.length;
}

function isFree({ runs, values, calls, prose, words, results }: SeenArgument, share: number): boolean {
  return (
    calls >= CALLS_MIN &&
    runs.size >= RUNS_MIN &&
    values.size >= 2 &&
    prose >= share * calls &&
    words >= 2.5 * prose &&
    Math.max(...results.values()) >= SAME_RESULT * calls
  );
}

/**
 * Counts the words of prose.
 * @returns the number of words; 0 for other text than prose
 */
function countProse(text: string): number {
  if (CODE.test(text)) return 0;
  const words = readTokens(text, 400).filter(({ kind }) => kind === 'word');
  const small = words.filter(({ start }) => text[start] === text[start]!.toLowerCase()).length;
  return words.length >= 2 && 2 * small >= words.length ? words.length : 0;
}

const LITERALS: ReadonlySet<string> = new Set(['true', 'false', 'null']);

/** A result without ids and without the values of the call and of the step. Names of fields stay. */
function levelResult({ step }: LearnedStep, tool: string, ground: Ground): string {
  const value = step.sources.find(({ name }) => name === `result:${tool}`)?.value;
  let level = '';
  const visit = (at: unknown, key: string): void => {
    if (level.length > RESULT_CHARACTERS) return;
    if (Array.isArray(at)) for (const item of at) visit(item, key);
    else if (isObject(at))
      for (const name of Object.keys(at)) {
        level += ` ${name}:`;
        visit(at[name], name);
      }
    else if (isPrimitive(at)) level += levelText(textOfPrimitive(at), ground, key);
  };
  visit(value, '');
  return level;
}

function levelText(whole: string, ground: Ground, key: string): string {
  const text = whole.slice(0, RESULT_CHARACTERS);
  let level = '';
  let before = key;
  for (const { kind, start, end } of readTokens(text, 400)) {
    if (kind === 'sign' || kind === 'break') continue;
    const raw = text.slice(start, end);
    const isId =
      kind === 'id' || kind === 'email' || kind === 'path' || (kind === 'number' && /id$/i.test(before));
    before = raw;
    if (isId || (!LITERALS.has(raw) && ground.holds(raw))) level += level.endsWith('*') ? '' : '*';
    else level += ` ${raw}`;
  }
  return level;
}
