/**
 * Recognizes calls that only look, by the name of their tool. In doubt, a call does more than look. Pure; teaching and the
 * student's thread.
 */

import type { StudentBlock } from './decision.ts';
import { canonicalText, isNumber, isObject } from './json-values.ts';
import { isShellLook, programOf } from './shell-commands.ts';

/** Names of tools that change nothing: their beginnings, or what they open. */
const LOOKS =
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

/** Tools that only read according to their descriptions (`readsOnly`), by name. */
export type ReadTools = ReadonlySet<string>;

export const NO_READ_TOOLS: ReadTools = new Set();

/** Beginnings of descriptions of tools that only read, and words after which a description names a change, too. */
const DESCRIBES_READING =
  /^\W*(?:this tool )?(?:(?:reads|lists|finds|searches|retrieves|fetches|looks up)\b|(?:read|list|find|search|retrieve|fetch|look up)\b)/i;
const DESCRIBES_CHANGE =
  /\b(?:and|then|or|,|;)\s*(?:\w+ly )?(?:creates?|updates?|deletes?|removes?|sets?|sends?|books?|cancels?|moves?|adds?|posts?|writes?|pays?|marks?|assigns?|closes?|submits?|approves?|stores?|saves?|starts?|stops?|resets?|reserves?|changes?)\b/i;
/** Verbs at the beginning of a name that say that the tool changes something, whatever its description says. */
const CHANGING_NAME =
  /^(?:add|approve|archive|assign|book|buy|cancel|change|clear|close|commit|create|delete|deploy|disable|drop|edit|enable|execute|exec|flag|grant|hand|insert|install|issue|kill|lock|make|mark|merge|move|open|order|pay|post|publish|push|put|raise|record|refund|register|release|remove|rename|replace|reply|report|request|reserve|reset|restart|return|revoke|run|save|schedule|send|set|sign|start|stop|store|submit|transfer|unlock|update|upload|waive|write)(?:[_A-Z-]|$)/;

/**
 * Whether a tool only reads according to its description, although its name does not say so: `doctor_hours`, "Lists the
 * free times". In doubt, the answer is no: if the name begins with a verb of a change, or the description continues
 * with a change.
 */
export function readsOnly(name: string, description: string): boolean {
  if (LOOKS.test(name) || CHANGING_NAME.test(name)) return false;
  return DESCRIBES_READING.test(description) && !DESCRIBES_CHANGE.test(description);
}

/** Whether a tool's name or description says that it changes nothing. */
export function isLook(name: string, reads: ReadTools): boolean {
  return LOOKS.test(name) || reads.has(name);
}

/** Whether a call changes nothing. */
export function isLookCall(call: CallBlock, reads: ReadTools = NO_READ_TOOLS): boolean {
  const { name, input } = call;
  return (
    isLook(name, reads) || (READS.test(name) && !CHANGES.test(canonicalText(input))) || isShellLook(call)
  );
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
