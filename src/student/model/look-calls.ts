/**
 * Recognizes calls that only look, by the name of their tool. In doubt, a call does more than look. Pure; teaching and the
 * student's thread.
 */

import type { StudentBlock } from './decision.ts';
import { canonicalText, isNumber, isObject } from './json-values.ts';
import { isShellLook, programOf } from './shell-commands.ts';

/** Names of tools that change nothing: their beginnings, or what they open. */
export const LOOKS =
  /^(?:(?:get|list|read|search|find|describe|show|fetch|look|lookup|view|inspect|browse)(?:[_A-Z-]|$)|(?:open|visit)[_-]?(?:web_?)?(?:[Pp]age|[Ss]ite|[Uu]rl|URL|[Ll]ink|[Ff]ile|[Dd]ocument)s?$)/;
/** Beginnings of names of tools that change nothing, unless a word of their arguments says so (`CHANGES`). */
export const READS = /^(?:query|tail|head|count)(?:[_A-Z-]|$)/;
/** Words with which a query changes something. */
const CHANGES =
  /\b(?:insert|update|delete|drop|alter|create|replace|truncate|grant|merge|write|exec|execute|call|set|rm|mv)\b/i;

/** Names of arguments that determine how much a lookup shows; their values are numbers and switches. */
const OPTIONS =
  /^(?:(?:max|num|page)_?)?(?:limit|lines|results|rows|page_?size|per_page|top_?k?|verbose|context_?lines)$/i;

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

/** Whether a call changes nothing. */
export function isLookCall(call: CallBlock): boolean {
  const { name, input } = call;
  return LOOKS.test(name) || (READS.test(name) && !CHANGES.test(canonicalText(input))) || isShellLook(call);
}

/** What a call uses: its tool, and for a command of a shell the program. */
export function nameOfUse(call: CallBlock): string {
  const program = programOf(call);
  return program === null ? call.name : `${call.name} ${program}`;
}

/**
 * Compares the options of two answers that make the same lookups.
 * @returns null if the answers differ in more, or make calls that are not lookups; otherwise the values of the options
 * that differ
 */
export function differInOptions(
  given: readonly StudentBlock[],
  other: readonly StudentBlock[],
): readonly (number | boolean)[] | null {
  const [own, others] = [listCalls(given), listCalls(other)];
  if (own.length === 0 || own.length !== others.length) return null;
  const values: (number | boolean)[] = [];
  for (const [at, call] of own.entries()) {
    const found = compareOptions(call, others[at]!);
    if (found === null) return null;
    values.push(...found);
  }
  return values;
}

function listCalls(content: readonly StudentBlock[]): CallBlock[] {
  return content.filter((block) => block.type === 'tool_call');
}

function compareOptions(a: CallBlock, b: CallBlock): (number | boolean)[] | null {
  if (a.name !== b.name || !isLookCall(a) || !isLookCall(b)) return null;
  if (!isObject(a.input) || !isObject(b.input)) return null;
  const inputs = [a.input, b.input];
  const values: (number | boolean)[] = [];
  for (const key of new Set(inputs.flatMap((input) => Object.keys(input)))) {
    const [own, other] = inputs.map((input) => input[key]);
    if (canonicalText(own ?? null) === canonicalText(other ?? null)) continue;
    if (!OPTIONS.test(key)) return null;
    for (const value of [own, other]) {
      if (isNumber(value)) values.push(Number(value));
      else if (typeof value === 'boolean') values.push(value);
      else if (value !== undefined) return null;
    }
  }
  return values;
}
