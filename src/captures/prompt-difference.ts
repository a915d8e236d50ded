/**
 * Finds the first difference between two prompts, and its cause. Pure; capture reader and command line.
 */

import type { MissCause, PromptDifference } from '../domain/cache-miss.ts';
import type { PromptPart } from '../providers/prompt-parts.ts';
import { canonicalJson, parseExact } from '../std/exact-json.ts';

/** Maximum number of characters that are shown before and after the first difference of two texts. */
const SHOWN_CHARS = 60;
/** A time or an id is searched for in this many characters around the difference. */
const NEAR_CHARS = 48;

const MONTHS =
  'jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t|tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?';
const DAYS = '(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?';
const TIMES = new RegExp(
  [
    String.raw`\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?`,
    String.raw`\d{1,2}[./]\d{1,2}[./]\d{2,4}`,
    String.raw`\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m)?`,
    String.raw`\b(?:${DAYS},?\s+)?(?:\d{1,2}\.?\s+)?\b(?:${MONTHS})\b\.?(?:\s+\d{1,2}(?:st|nd|rd|th)?)?(?:,?\s+\d{4})?`,
    String.raw`\b${DAYS}\b`,
    String.raw`\b1[5-9]\d{8}(?:\d{3})?\b`,
  ].join('|'),
  'gi',
);
const IDS =
  /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{12,}\b|\b\d{6,}\b/gi;

/** Where two prompts begin to differ. */
export interface FoundDifference {
  cause: MissCause;
  difference: PromptDifference;
}

/**
 * Compares the beginnings of two prompts.
 * @param earlier the parts that the provider had cached
 * @param later all parts of the later prompt
 * @returns null when the later prompt begins with all of the earlier parts
 */
export function findDifference(
  earlier: readonly PromptPart[],
  later: readonly PromptPart[],
): FoundDifference | null {
  const at = earlier.findIndex(({ text, place }, i) => later[i]?.text !== text || later[i]?.place !== place);
  if (at < 0) return null;
  const before = earlier[at]!;
  const after = later[at];
  if (before.place === 'tool' || after?.place === 'tool') {
    const cause = compareTools(earlier, later);
    if (cause !== null) return { cause, difference: describe(before, after) };
  }
  return { cause: nameCause(before, after, earlier, later), difference: describe(before, after) };
}

/**
 * Compares the tools of two prompts.
 * @returns null if the names and their order are the same; then a tool's content has changed
 */
function compareTools(earlier: readonly PromptPart[], later: readonly PromptPart[]): MissCause | null {
  const [old, now] = [earlier, later].map((parts) => parts.filter(({ place }) => place === 'tool'));
  const sameNames = sortedNames(old!) === sortedNames(now!);
  if (!sameNames) return 'tools_changed';
  const sameOrder = old!.every(({ label }, i) => now![i]?.label === label);
  return sameOrder ? null : 'tools_reordered';
}

function sortedNames(tools: readonly PromptPart[]): string {
  return JSON.stringify(tools.map(({ label }) => label).sort());
}

function nameCause(
  before: PromptPart,
  after: PromptPart | undefined,
  earlier: readonly PromptPart[],
  later: readonly PromptPart[],
): MissCause {
  if (before.place === 'setting' || after?.place === 'setting') return 'setting_changed';
  if (after !== undefined && before.place === after.place) {
    if (hasOtherKeys(before.text, after.text)) return 'keys_reordered';
    const moving = findMoving(before.text, after.text);
    if (moving !== null) return moving;
  }
  if (before.place === 'tool') return 'tool_changed';
  if (before.place === 'system' || after?.place === 'system') return 'system_changed';
  return isShorter(earlier, later) ? 'history_shortened' : 'history_changed';
}

/** Whether both are the same JSON except for the order of its keys. */
function hasOtherKeys(before: string, after: string): boolean {
  if (before.length !== after.length || !/[[{]/.test(before[0] ?? '')) return false;
  try {
    return canonicalJson(parseExact(before)) === canonicalJson(parseExact(after));
  } catch {
    return false;
  }
}

/** Finds a time or an id that differs at the same place of both texts. */
function findMoving(before: string, after: string): 'time_in_prompt' | 'id_in_prompt' | null {
  const at = commonLength(before, after);
  if (spans(TIMES, before, at) && spans(TIMES, after, at)) return 'time_in_prompt';
  return spans(IDS, before, at) && spans(IDS, after, at) ? 'id_in_prompt' : null;
}

function spans(pattern: RegExp, text: string, at: number): boolean {
  const from = Math.max(0, at - NEAR_CHARS);
  for (const match of text.slice(from, at + NEAR_CHARS).matchAll(pattern)) {
    const start = from + match.index;
    if (start <= at && at <= start + match[0].length) return true;
  }
  return false;
}

/** Whether the later prompt has fewer messages, or less than two thirds of the text. */
function isShorter(earlier: readonly PromptPart[], later: readonly PromptPart[]): boolean {
  const [old, now] = [earlier, later].map((parts) => parts.filter(({ place }) => place === 'message'));
  return now!.length < old!.length || countChars(now!) < (countChars(old!) * 2) / 3;
}

/** Total characters of parts. */
export function countChars(parts: Iterable<PromptPart>): number {
  let chars = 0;
  for (const { text } of parts) chars += text.length;
  return chars;
}

function describe(before: PromptPart, after: PromptPart | undefined): PromptDifference {
  const texts = { before: before.text, after: after?.text ?? '' };
  const offset = commonLength(texts.before, texts.after);
  const from = Math.max(0, offset - SHOWN_CHARS);
  return {
    place: after === undefined || after.place === 'message' ? before.name : after.name,
    offset,
    before: texts.before.slice(from, offset + SHOWN_CHARS),
    after: texts.after.slice(from, offset + SHOWN_CHARS),
  };
}

/** Counts the characters (UTF-16 units) that both texts begin with. */
export function commonLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  return at;
}

/** Counts the characters (UTF-16 units) that both texts end with. */
export function commonEnd(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a.charCodeAt(a.length - 1 - at) === b.charCodeAt(b.length - 1 - at)) at += 1;
  return at;
}
