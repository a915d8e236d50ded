/**
 * Rules that find a value of an answer in another step's context. A rule names a source, a path in its JSON, a span of
 * the text at that path, and a way of writing. Rules are proposed from one golden step and kept if they are never wrong
 * on the others. Pure; teaching proposes rules, and the student's thread applies them.
 */

import { canonicalNumber, digitsOf, exactNumber, isRawNumber } from '../../std/exact-json.ts';
import { placeWords, type WordPlaces } from './common-run.ts';
import {
  type DayPlace,
  type DayReading,
  findDayPlaces,
  findTimes,
  firstDay,
  knownReading,
  readDays,
} from './day-words.ts';
import { chooseElement, type ElementChoice } from './element-choice.ts';
import { joinPath, pathWithin } from './file-paths.ts';
import {
  amountOf,
  CUT_KEY,
  canonicalText,
  isNumber,
  isObject,
  isPrimitive,
  type Primitive,
  textOfPrimitive,
} from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { type ListSummary, proposeSummaries, roundSum, summarizeList } from './list-summary.ts';
import { findNamedLine, readLines, type TextLines } from './named-lines.ts';
import { type Reckoning, reckon } from './reckoning.ts';
import type { StepDigest } from './step.ts';
import { cutPart, proposeCuts, type TextCut } from './text-parts.ts';
import { isOccasional, readTokens, type TextToken } from './text-tokens.ts';

/** A part of a path: a key, an index from the beginning, or an element that the context decides. */
export type PathPart =
  | string
  | number
  /** The last element. */
  | { pick: 'last' }
  /**
   * The element whose index is the number of calls of the tool since the list arrived: the next element of a loop.
   */
  | { pick: 'next'; tool: string }
  /** The first element with this value in a field. */
  | { pick: 'where'; key: string; is: string | boolean }
  /** The element with the smallest or largest number in a field, if only one element has this number. */
  | { pick: 'least' | 'most'; key: string }
  /** A summary of a list, or of the list's elements that have a given value in a field. */
  | ListSummary
  | ElementChoice
  /** How many of the run's calls of a tool succeeded. */
  | { pick: 'calls'; tool: string }
  /** Always last: the sum of the numbers that the rest of the rule finds in all successful results of a tool. */
  | { pick: 'added'; tool: string }
  /** Always last: the value is computed from what the rest of the rule finds. */
  | { pick: 'reckoned'; by: Reckoning };

/** A part of a text. */
export type Span =
  /** The n-th token with this key, or of this kind; negative counts from the end. */
  | { by: 'key' | 'kind'; key: string; nth: number }
  /** The token after these tokens. */
  | { by: 'after'; left: string[] }
  /** The capitalised words after these tokens. */
  | { by: 'name'; left: string[] }
  /** The text between these tokens, at most {@link BETWEEN_TOKENS} tokens. */
  | { by: 'between'; left: string[]; right: string[] }
  /** A piece of another span's result, or of the whole text: of an address, a path, a dotted name. */
  | { by: 'part'; of: Span | null; cuts: TextCut[] }
  /** The n-th day or time that the text names in words or numbers: `2026-03-05`, `15:00`. */
  | { by: 'day'; nth: number; reading: DayReading }
  | { by: 'time'; nth: number }
  /** A span of the n-th line after the line that another source names; negative: before it. */
  | { by: 'line'; in: string; nth: number; of: Span }
  /**
   * The path that another span finds, or the whole text: joined with a folder that the context names elsewhere, or
   * relative to this folder (file-paths.ts).
   */
  | { by: 'path'; nth: 0; as: 'joined' | 'relative'; folder: FolderPlace; of: Span | null };

/** Where the context names a folder. */
type FolderPlace = Omit<ExtractionRule, 'writing'>;

export const WRITINGS = [
  'same',
  'text',
  'number',
  'plain',
  'fixed2',
  'grouped',
  'grouped2',
  'hundredths',
  'grouped_hundredths',
  'lower',
  'upper',
  'capital',
  'spaced',
  'long_date',
  'short_date',
] as const;
/** How the answer writes a value. */
export type Writing = (typeof WRITINGS)[number];

export interface ExtractionRule {
  from: string;
  path: PathPart[];
  span: Span | null;
  writing: Writing;
}

const BETWEEN_TOKENS = 24;
/** Longest source other than the task that may name an element or a line. */
const NAMING_CHARACTERS = 1_000;
/** Maximum number of tokens of one text that rules see. */
const TEXT_TOKENS = 1_500;
/** Tokens for the beginning and the end of a text, beside a span that is first or last in its text. */
const FIRST = '^';
const LAST = '$';

const NO_DAYS: readonly string[] = [];

/** A step's context, with a cache of lookups. */
export class StepContext {
  readonly step: Pick<StepDigest, 'sources'>;
  readonly #sources = new Map<string, unknown>();
  readonly #tokens: Map<string, TextToken[]>;
  readonly #words = new Map<string, WordPlaces | undefined>();
  readonly #lines: Map<string, TextLines>;
  /** Index of the line that a source names, by text and by source. */
  readonly #namedLines = new Map<string, Map<string, number>>();
  readonly #days = new Map<string, { places: DayPlace[]; read: Map<DayReading, string[]> }>();
  readonly #times = new Map<string, string[]>();
  #today: number | null | undefined;

  /** @param like a context of the same step with other sources, whose cache of texts is reused */
  constructor(step: Pick<StepDigest, 'sources'>, like?: StepContext) {
    this.step = step;
    this.#tokens = like === undefined ? new Map() : like.#tokens;
    this.#lines = like === undefined ? new Map() : like.#lines;
    for (const { name, value } of step.sources) this.#sources.set(name, value);
  }

  source(name: string): unknown {
    return this.#sources.get(name);
  }

  tokens(text: string): TextToken[] {
    let tokens = this.#tokens.get(text);
    if (tokens === undefined) {
      tokens = readTokens(text, TEXT_TOKENS);
      this.#tokens.set(text, tokens);
    }
    return tokens;
  }

  /** All words of a source's values; undefined for a source that is missing, empty, or too long to name one thing. */
  words(name: string): WordPlaces | undefined {
    if (!this.#words.has(name)) {
      const text = joinValues(this.#sources.get(name) ?? null);
      const longest = name === 'task' ? STUDENT_CORE.task : NAMING_CHARACTERS;
      this.#words.set(name, text === '' || text.length > longest ? undefined : placeWords(text));
    }
    return this.#words.get(name);
  }

  /**
   * The line of a text that a source names, or a line near it.
   * @param nth which line after the named line; negative: before the named line
   * @returns undefined when the source names no line, or there is no such line
   */
  namedLine(text: string, source: string, nth: number): string | undefined {
    const named = this.words(source);
    if (named === undefined) return undefined;
    let read = this.#lines.get(text);
    if (read === undefined) {
      read = readLines(text);
      this.#lines.set(text, read);
    }
    let bySource = this.#namedLines.get(text);
    if (bySource === undefined) {
      bySource = new Map();
      this.#namedLines.set(text, bySource);
    }
    let at = bySource.get(source);
    if (at === undefined) {
      at = findNamedLine(read, named);
      bySource.set(source, at);
    }
    return at < 0 ? undefined : read.lines[at + nth];
  }

  /** The current day as the prompt, or a tool for the date, names it, in days since 1970; null: unknown. */
  get today(): number | null {
    if (this.#today === undefined) this.#today = findToday(this.step.sources);
    return this.#today;
  }

  /** The days that a text names; '' takes the place of a date that does not exist. */
  days(text: string, reading: DayReading): readonly string[] {
    let ofText = this.#days.get(text);
    if (ofText === undefined) {
      ofText = { places: findDayPlaces(text, this.today), read: new Map() };
      this.#days.set(text, ofText);
    }
    if (ofText.places.length === 0) return NO_DAYS;
    // A reading that was stored with a rule is equal to one of the constants, but another object.
    const known = knownReading(reading);
    let days = ofText.read.get(known);
    if (days === undefined) {
      days = readDays(ofText.places, known);
      ofText.read.set(known, days);
    }
    return days;
  }

  /** The times of a day that a text names. */
  times(text: string): string[] {
    let times = this.#times.get(text);
    if (times === undefined) {
      times = findTimes(text);
      this.#times.set(text, times);
    }
    return times;
  }

  /** How many of the run's calls of a tool succeeded; undefined when the step does not show it. */
  made(tool: string): number | undefined {
    const progress = this.#sources.get('progress');
    const made = isObject(progress) ? progress.task : undefined;
    return isObject(made) && Object.hasOwn(made, tool) ? Number(made[tool]) : undefined;
  }

  /** Number of calls of the tool since the result `source` arrived; 0 when unknown. */
  progress(source: string, tool: string): number {
    const progress = this.#sources.get('progress');
    if (!isObject(progress) || !Object.hasOwn(progress, source)) return 0;
    const counts = progress[source];
    if (!isObject(counts) || !Object.hasOwn(counts, tool)) return 0;
    return Number(counts[tool]) || 0;
  }
}

/** The values of a source as one text. */
function joinValues(value: unknown): string {
  const text = textAt(value);
  if (text !== undefined) return text;
  if (isPrimitive(value)) return value === null ? '' : textOfPrimitive(value);
  return Object.values(value as object)
    .map(joinValues)
    .join('\n');
}

const TELLS_TIME = /^result:.*(?:today|now|date|time|clock)/i;

function findToday(sources: readonly { name: string; value: unknown }[]): number | null {
  for (const isTold of [(name: string) => name === 'system', (name: string) => TELLS_TIME.test(name)])
    for (const { name, value } of sources) {
      const day = isTold(name) ? firstDay(joinValues(value)) : undefined;
      if (day !== undefined) return day;
    }
  return null;
}

/**
 * Finds the value that a rule gives in a context.
 * @returns undefined when the rule finds nothing
 */
export function applyRule(rule: ExtractionRule, context: StepContext): unknown {
  const last = rule.path.at(-1);
  if (typeof last === 'object' && last.pick === 'added') return addResults(rule, last.tool, context);
  if (typeof last !== 'object' || last.pick !== 'reckoned') return findByRule(rule, rule.path, context);
  const base = findByRule(rule, rule.path.slice(0, -1), context);
  return isPrimitive(base) ? reckon(base, last.by) : undefined;
}

/**
 * Adds what a rule finds in the results of a tool.
 * @returns undefined when a result is no longer known, or has no such number
 */
function addResults(rule: ExtractionRule, tool: string, context: StepContext): unknown {
  const path = rule.path.slice(0, -1);
  let sum = 0;
  let found = 0;
  for (let back = 0; back <= STUDENT_CORE.results_back; back++) {
    const from = back === 0 ? rule.from : `${rule.from}#${back}`;
    const amount = amountOf(findByRule({ ...rule, from, writing: 'same' }, path, context));
    if (amount === undefined) continue;
    sum = roundSum(sum + amount) ?? Number.NaN;
    found++;
  }
  const isComplete = found > 0 && found === context.made(tool) && Number.isFinite(sum);
  return isComplete ? writeValue(sum, rule.writing) : undefined;
}

function findByRule(rule: ExtractionRule, path: readonly PathPart[], context: StepContext): unknown {
  let at = context.source(rule.from);
  for (const part of path) {
    at = takePart(at, part, rule.from, context);
    if (at === undefined) return undefined;
  }
  if (rule.span !== null) {
    const text = textAt(at);
    if (text === undefined) return undefined;
    const found = findSpan(text, rule.span, context);
    if (found === undefined) return undefined;
    return writeValue(found, rule.writing);
  }
  if (isPrimitive(at)) return at === null ? undefined : writeValue(at, rule.writing);
  return rule.writing === 'same' && isWhole(at) ? at : undefined;
}

export function textAt(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (isObject(value) && typeof value[CUT_KEY] === 'string') return value[CUT_KEY];
  return undefined;
}

/** Whether the copy of a value is complete: no text in it is cut, and no list in it reached the maximum length. */
function isWhole(value: unknown): boolean {
  if (Array.isArray(value)) return value.length < STUDENT_CORE.json_items && value.every(isWhole);
  if (isObject(value)) return !Object.hasOwn(value, CUT_KEY) && Object.values(value).every(isWhole);
  return true;
}

function takePart(value: unknown, part: PathPart, from: string, context: StepContext): unknown {
  if (typeof part === 'string')
    return isObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  if (typeof part === 'object' && part.pick === 'calls')
    return !isObject(value) ? undefined : Object.hasOwn(value, part.tool) ? value[part.tool] : 0;
  if (!Array.isArray(value)) return undefined;
  if (typeof part === 'number') return value[part];
  switch (part.pick) {
    case 'last':
      return value.length < STUDENT_CORE.json_items ? value[value.length - 1] : undefined;
    case 'next':
      return value[context.progress(from, part.tool)];
    case 'where':
      return value.find(
        (item) => isObject(item) && Object.hasOwn(item, part.key) && item[part.key] === part.is,
      );
    case 'count':
    case 'sum':
    case 'join':
      return value.length < STUDENT_CORE.json_items ? summarizeList(value, part) : undefined;
    case 'named':
    case 'said':
    case 'among':
      return value.length < STUDENT_CORE.json_items ? chooseElement(value, part, context) : undefined;
    case 'added':
    case 'reckoned':
      return undefined;
    default: {
      if (value.length >= STUDENT_CORE.json_items) return undefined;
      return findExtreme(value, part.key, part.pick);
    }
  }
}

/** Finds the element with the smallest or largest number; undefined when several have it, or an element has none. */
function findExtreme(items: readonly unknown[], key: string, pick: 'least' | 'most'): unknown {
  let best: unknown;
  let bestNumber = 0;
  let isTie = false;
  for (const item of items) {
    if (!isObject(item) || !Object.hasOwn(item, key)) return undefined;
    const number = amountOf(item[key]);
    if (number === undefined) return undefined;
    if (best === undefined || (pick === 'least' ? number < bestNumber : number > bestNumber)) {
      best = item;
      bestNumber = number;
      isTie = false;
    } else if (number === bestNumber) isTie = true;
  }
  return isTie ? undefined : best;
}

function findSpan(text: string, span: Span, context: StepContext): string | undefined {
  if (span.by === 'part') {
    const whole = span.of === null ? text : findSpan(text, span.of, context);
    return whole === undefined ? undefined : cutPart(whole, span.cuts);
  }
  if (span.by === 'day') return context.days(text, span.reading)[span.nth] || undefined;
  if (span.by === 'time') return context.times(text)[span.nth];
  if (span.by === 'line') {
    const line = context.namedLine(text, span.in, span.nth);
    return line === undefined ? undefined : findSpan(line, span.of, context);
  }
  if (span.by === 'path') {
    const path = span.of === null ? text : findSpan(text, span.of, context);
    const folder = findByRule({ ...span.folder, writing: 'same' }, span.folder.path, context);
    if (path === undefined || typeof folder !== 'string') return undefined;
    return span.as === 'joined' ? joinPath(folder, path) : pathWithin(folder, path);
  }
  const tokens = context.tokens(text);
  if ('nth' in span) {
    let left = span.nth >= 0 ? span.nth : -1 - span.nth;
    const step = span.nth >= 0 ? 1 : -1;
    for (let i = step > 0 ? 0 : tokens.length - 1; i >= 0 && i < tokens.length; i += step) {
      const token = tokens[i]!;
      if ((span.by === 'key' ? token.key : token.kind) === span.key && left-- === 0)
        return text.slice(token.start, token.end);
    }
    return undefined;
  }
  const { left } = span;
  let found: string | undefined;
  for (let i = 0; i <= tokens.length; i++) {
    if (!matchesBefore(tokens, i, left)) continue;
    let end = i + 1;
    if (span.by === 'name') {
      end = endOfName(text, tokens, i);
      if (end === i) continue;
    } else if (span.by === 'between') {
      const limit = Math.min(tokens.length, i + BETWEEN_TOKENS);
      while (end <= limit && !matchesAt(tokens, end, span.right)) end++;
      if (end > limit || beginsAgain(tokens, i + 1, end, left)) continue;
    }
    const first = tokens[i];
    const last = tokens[end - 1];
    if (first === undefined || last === undefined) continue;
    const value = text.slice(first.start, last.end);
    // The key occurs twice with different values, so the rule is ambiguous.
    if (found !== undefined && found !== value) return undefined;
    found = value;
  }
  return found;
}

/**
 * Finds the end of the name that begins at a token: capitalised words, between which `&` may stand.
 * @returns index after the name's last token; `at` if no name begins there
 */
function endOfName(text: string, tokens: readonly TextToken[], at: number): number {
  if (!isCapital(text, tokens[at])) return at;
  let end = at + 1;
  for (;;) {
    const isJoined = tokens[end]?.kind === 'sign' && tokens[end]!.key === '&';
    const next = isJoined ? end + 1 : end;
    if (!isCapital(text, tokens[next])) return end;
    end = next + 1;
  }
}

function isCapital(text: string, token: TextToken | undefined): boolean {
  if (token === undefined || token.kind === 'sign' || token.kind === 'break') return false;
  const first = text[token.start]!;
  return first !== first.toLowerCase();
}

/** Whether the tokens that precede a span occur again inside it. The intended span then begins after the later ones. */
function beginsAgain(
  tokens: readonly TextToken[],
  from: number,
  to: number,
  left: readonly string[],
): boolean {
  for (let i = from; i < to; i++) if (matchesBefore(tokens, i, left)) return true;
  return false;
}

/** Whether the keys directly precede token `at`; `^` is the beginning. */
function matchesBefore(tokens: readonly TextToken[], at: number, keys: readonly string[]): boolean {
  for (let back = 1; back <= keys.length; back++) {
    const key = keys[keys.length - back]!;
    if (at - back < 0) return key === FIRST && back === keys.length && at - back === -1;
    if (tokens[at - back]!.key !== key) return false;
  }
  return true;
}

function matchesAt(tokens: readonly TextToken[], at: number, keys: readonly string[]): boolean {
  for (let ahead = 0; ahead < keys.length; ahead++) {
    const key = keys[ahead]!;
    if (at + ahead >= tokens.length) return key === LAST && at + ahead === tokens.length;
    if (tokens[at + ahead]!.key !== key) return false;
  }
  return true;
}

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

/** Ways of writing an amount. */
const OF_AMOUNTS: ReadonlySet<Writing> = new Set([
  'plain',
  'fixed2',
  'grouped',
  'grouped2',
  'hundredths',
  'grouped_hundredths',
]);

/**
 * Writes a value in a given way.
 * @returns undefined when the value cannot be written this way
 */
export function writeValue(value: Primitive, writing: Writing): Primitive | undefined {
  if (writing === 'same') return value;
  if (value === null || typeof value === 'boolean') return writing === 'text' ? String(value) : undefined;
  const text = textOfPrimitive(value);
  const amount = OF_AMOUNTS.has(writing) ? amountOf(value) : undefined;
  switch (writing) {
    case 'text':
      return text;
    case 'number':
      return typeof value === 'string' ? readDigits(value) : undefined;
    case 'plain':
      // 120.0 is written 120.
      return amount === undefined ? undefined : String(amount);
    case 'fixed2':
      return amount === undefined ? undefined : fixTwo(amount);
    case 'grouped':
      return amount === undefined || Math.abs(amount) >= 1e15 ? undefined : groupDigits(String(amount));
    case 'grouped2': {
      const fixed = amount === undefined ? undefined : fixTwo(amount);
      return fixed === undefined ? undefined : groupDigits(fixed);
    }
    case 'hundredths':
    case 'grouped_hundredths': {
      // Cents, written as 1204.50 or 1,204.50.
      const units = Number.isInteger(amount) ? fixTwo(amount! / 100) : undefined;
      return units === undefined || writing === 'hundredths' ? units : groupDigits(units);
    }
    case 'lower':
      return text.toLowerCase();
    case 'upper':
      return text.toUpperCase();
    case 'capital':
      return text.slice(0, 1).toUpperCase() + text.slice(1);
    case 'spaced':
      return text.replaceAll('_', ' ');
    default: {
      const date = text.length <= 40 ? /^(\d{4})-(\d{2})-(\d{2})(?:$|T)/.exec(text) : null;
      const month = date === null ? undefined : MONTHS[Number(date[2]) - 1];
      if (date === null || month === undefined) return undefined;
      return writing === 'long_date'
        ? `${month} ${Number(date[3])}, ${date[1]}`
        : `${month} ${Number(date[3])}`;
    }
  }
}

/**
 * Reads a number from a text.
 * @returns the number, exact in every digit; undefined for any other text, and for a large number with leading zeros
 */
function readDigits(text: string): Primitive | undefined {
  if (text.length > NUMBER_CHARACTERS || !/^-?[\d,]*\.?\d+$/.test(text)) return undefined;
  const digits = text.replaceAll(',', '');
  const number = Number(digits);
  if (
    Math.abs(number) <= Number.MAX_SAFE_INTEGER &&
    canonicalNumber(String(number)) === canonicalNumber(digits)
  )
    return number;
  // In JSON's number form: no leading zeros, which an id may have.
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(digits) ? exactNumber(digits) : undefined;
}

const NUMBER_CHARACTERS = 60;

/**
 * Writes an amount with two decimals.
 * @returns undefined when a double cannot represent the cents
 */
function fixTwo(amount: number): string | undefined {
  return Math.abs(amount) < 1e13 ? amount.toFixed(2) : undefined;
}

function groupDigits(text: string): string {
  const [whole = '', ...rest] = text.split('.');
  let grouped = '';
  for (let i = 0; i < whole.length; i++) {
    const left = whole.length - i;
    grouped += whole[i];
    if (left > 1 && left % 3 === 1 && whole[i] !== '-') grouped += ',';
  }
  return [grouped, ...rest].join('.');
}

/** Whether two values are the same JSON. */
export function sameValue(a: unknown, b: unknown): boolean {
  if (isNumber(a) && isNumber(b)) return a === b || canonicalText(a) === canonicalText(b);
  if (isPrimitive(a) || isPrimitive(b)) return a === b;
  return canonicalText(a) === canonicalText(b);
}

/** Rank of a rule among several that are always right. The rule with the lowest rank is used. */
export function rankRule(rule: ExtractionRule): number {
  let rank = rule.path.length / 50;
  if (rule.from.includes('#')) rank += 1;
  if (rule.from.startsWith('call:')) rank += 0.5;
  for (const part of rule.path) {
    if (typeof part === 'object') rank += rankPick(part);
    else if (typeof part === 'number') rank += 0.4;
  }
  if (rule.span !== null) rank += rankSpan(rule.span);
  if (rule.writing !== 'same') rank += 0.2;
  return rank;
}

function rankPick(part: Exclude<PathPart, string | number>): number {
  if (isSummary(part)) return 1 + (part.filter === undefined ? 0 : 0.5);
  if (part.pick === 'reckoned' || part.pick === 'calls') return 1;
  if (part.pick === 'among') return part.filter === undefined ? 0.4 : 0.8;
  return part.pick === 'where' || part.pick === 'named' || part.pick === 'said' ? 0.6 : 0.3;
}

function rankSpan(span: Span): number {
  if (span.by === 'line') return 0.5 + rankSpan(span.of);
  if (span.by === 'path')
    return 0.5 + rankRule({ ...span.folder, writing: 'same' }) + (span.of === null ? 0 : rankSpan(span.of));
  if (span.by === 'part') return 0.5 + 0.2 * span.cuts.length + (span.of === null ? 0 : rankSpan(span.of));
  return span.by === 'between' ? 1.4 : span.by === 'after' ? 1.2 : 0.8;
}

function isSummary(part: PathPart): part is ListSummary {
  return typeof part === 'object' && (part.pick === 'count' || part.pick === 'sum' || part.pick === 'join');
}

/** Maximum number of rules proposed for one value. Less preferred rules fill the remaining places. */
const PROPOSED = 160;

/**
 * Proposes rules that find the value in this step, at most PROPOSED.
 * @param tools whose calls may work through a list, one element after the other
 */
export function proposeRules(
  value: unknown,
  context: StepContext,
  tools: readonly string[],
): ExtractionRule[] {
  const rules: ExtractionRule[] = [];
  const canonical = isPrimitive(value) ? '' : canonicalText(value);
  const wanted = typeof value === 'string' ? value : null;
  const summaries: ExtractionRule[] = [];
  const propose = (from: string, path: PathPart[], span: Span | null, writing: Writing): void => {
    if (rules.length < PROPOSED) rules.push({ from, path, span, writing });
  };
  const visit = (from: string, at: unknown, path: PathPart[], depth: number): void => {
    if (rules.length >= PROPOSED || depth > STUDENT_CORE.json_depth) return;
    const text = textAt(at);
    if (isPrimitive(at)) {
      if (at !== null && isPrimitive(value) && value !== null && mayBeWritten(at, value)) {
        for (const writing of WRITINGS) {
          const written = writeValue(at, writing);
          if (!sameValue(written, value)) continue;
          propose(from, path, null, writing);
          if (writing === 'same') break;
        }
      }
    }
    if (text !== undefined) {
      if (isPrimitive(value) && value !== null && value !== '' && typeof value !== 'boolean')
        for (const [span, writing] of proposeSpans(text, value, context)) propose(from, path, span, writing);
      return;
    }
    if (isPrimitive(at)) return;
    if (wanted === null && canonical !== '' && canonicalText(at) === canonical && isWhole(at))
      propose(from, path, null, 'same');
    if (Array.isArray(at)) {
      if (isPrimitive(value) && value !== null && typeof value !== 'boolean')
        for (const { part, result } of proposeSummaries(at, value))
          for (const writing of WRITINGS) {
            if (!sameValue(writeValue(result, writing), value)) continue;
            summaries.push({ from, path: [...path, part], span: null, writing });
            break;
          }
      for (let i = 0; i < at.length; i++)
        for (const part of proposeParts(at, i, from, context, tools))
          visit(from, at[i], [...path, part], depth + 1);
    } else if (isObject(at))
      for (const key of Object.keys(at)) visit(from, at[key], [...path, key], depth + 1);
  };
  for (const { name, value: source } of context.step.sources)
    if (name !== 'progress') visit(name, source, [], 0);
  return [...rules, ...summaries].slice(0, PROPOSED);
}

/**
 * Whether some way of writing may turn `at` into `value`. It changes the length of a text only if the text is a date.
 */
function mayBeWritten(at: Exclude<Primitive, null>, value: Exclude<Primitive, null>): boolean {
  if (typeof at !== 'string' || typeof value !== 'string') return true;
  return at.length === value.length || /^\d{4}-/.test(at);
}

function proposeParts(
  items: readonly unknown[],
  i: number,
  from: string,
  context: StepContext,
  tools: readonly string[],
): PathPart[] {
  const parts: PathPart[] = [i];
  for (const tool of tools) if (context.progress(from, tool) === i) parts.push({ pick: 'next', tool });
  if (i === items.length - 1) parts.push({ pick: 'last' });
  const item: unknown = items[i];
  if (!isObject(item)) return parts;
  // In a list with one element, the element is both minimum and maximum. Other steps show which of the two is meant.
  let fields = 0;
  for (const key of Object.keys(item)) {
    const value: unknown = item[key];
    if (++fields > 12) break;
    if (isNumber(value)) {
      if (findExtreme(items, key, 'least') === item) parts.push({ pick: 'least', key });
      if (findExtreme(items, key, 'most') === item) parts.push({ pick: 'most', key });
    } else if (
      (typeof value === 'string' && value.length <= 24 && !/\d/.test(value)) ||
      typeof value === 'boolean'
    ) {
      const first: unknown = items.find((item) => isObject(item) && item[key] === value);
      if (first === item) parts.push({ pick: 'where', key, is: value });
    }
  }
  return parts;
}

/** Maximum number of occurrences of one value that are examined in one text. */
const OCCURRENCES = 4;

/** Proposes spans of a text that find the value, each with the way in which the answer writes what the span finds. */
export function proposeSpans(
  text: string,
  value: Exclude<Primitive, null>,
  context: StepContext,
): [Span, Writing][] {
  const spans: [Span, Writing][] = [];
  const needle = textOfPrimitive(value);
  if (needle.length > text.length || needle === '') return spans;
  const tokens = context.tokens(text);
  const spots: { from: number; to: number; writing: Writing }[] = [];
  const writing: Writing = isNumber(value) ? 'number' : 'same';
  for (
    let at = text.indexOf(needle);
    at >= 0 && spots.length < OCCURRENCES;
    at = text.indexOf(needle, at + 1)
  ) {
    const first = tokens.findIndex((token) => token.start === at);
    if (first < 0) continue;
    let last = first;
    while (last < tokens.length && tokens[last]!.end < at + needle.length) last++;
    if (last < tokens.length && tokens[last]!.end === at + needle.length)
      spots.push({ from: first, to: last, writing });
  }
  if (spots.length === 0 && needle.length <= 60) {
    // The token may be the value, written as a number or in other case.
    for (let i = 0; i < tokens.length && spots.length < OCCURRENCES; i++) {
      const token = tokens[i]!;
      if (token.end - token.start > 60 || token.kind === 'sign' || !mayBe(text, token, value)) continue;
      const raw = text.slice(token.start, token.end);
      for (const alternative of ['number', 'lower', 'upper', 'capital'] as const)
        if (sameValue(writeValue(raw, alternative), value)) {
          spots.push({ from: i, to: i, writing: alternative });
          break;
        }
    }
  }
  for (const { from, to, writing: spotWriting } of spots)
    for (const span of spansAt(text, tokens, from, to)) spans.push([span, spotWriting]);
  if (spots.length === 0) spans.push(...proposePieces(text, needle, tokens, writing));
  return spans;
}

/**
 * Quickly excludes most tokens that cannot be the value in another notation or case: a token for a text must be as long
 * as the text, and a token for a number must end with a digit. A letter whose other case has another length (`ß`) is
 * excluded, too.
 */
function mayBe(text: string, { start, end }: TextToken, value: Exclude<Primitive, null>): boolean {
  if (typeof value === 'string') return end - start === value.length;
  const code = text.charCodeAt(end - 1);
  return code >= 48 && code <= 57;
}

/** Spans that find the tokens between two positions. */
function spansAt(text: string, tokens: readonly TextToken[], from: number, to: number): Span[] {
  const spans: Span[] = [];
  const token = tokens[from]!;
  const keyAt = (at: number): string => (at < 0 ? FIRST : at >= tokens.length ? LAST : tokens[at]!.key);
  if (from === to) {
    if (token.kind !== 'word' && token.kind !== 'sign') {
      for (const by of ['key', 'kind'] as const) {
        const key = by === 'key' ? token.key : token.kind;
        let before = 0;
        let after = 0;
        for (let i = 0; i < tokens.length; i++)
          if ((by === 'key' ? tokens[i]!.key : tokens[i]!.kind) === key) {
            if (i < from) before++;
            else if (i > from) after++;
          }
        if (before < 4) spans.push({ by, key, nth: before });
        if (after < 3) spans.push({ by, key, nth: -1 - after });
      }
    }
    spans.push({ by: 'after', left: [keyAt(from - 1)] });
    if (from > 0) spans.push({ by: 'after', left: [keyAt(from - 2), keyAt(from - 1)] });
  }
  if (endOfName(text, tokens, from) === to + 1) {
    spans.push({ by: 'name', left: [keyAt(from - 1)] });
    if (from > 0) spans.push({ by: 'name', left: [keyAt(from - 2), keyAt(from - 1)] });
  }
  if (to - from < BETWEEN_TOKENS) {
    for (const leftCount of [1, 2]) {
      const left = leftCount === 1 || from === 0 ? [keyAt(from - 1)] : [keyAt(from - 2), keyAt(from - 1)];
      spans.push({ by: 'between', left, right: [keyAt(to + 1)] });
      if (to + 1 < tokens.length) spans.push({ by: 'between', left, right: [keyAt(to + 1), keyAt(to + 2)] });
    }
  }
  return spans;
}

/**
 * CUT_CHARACTERS: a text without white space is divided into pieces as a whole up to this length. CUT_TOKENS: maximum
 * number of tokens of another text that are divided.
 */
const CUT_CHARACTERS = 400;
const CUT_TOKENS = 3;

/** Pieces of an address, a path or a dotted name that equal the value. */
function proposePieces(
  text: string,
  needle: string,
  tokens: readonly TextToken[],
  writing: Writing,
): [Span, Writing][] {
  const spans: [Span, Writing][] = [];
  if (needle.length > 120 || !text.includes(needle)) return spans;
  if (text.length <= CUT_CHARACTERS && !/\s/.test(text)) {
    for (const cuts of proposeCuts(text, needle)) spans.push([{ by: 'part', of: null, cuts }, writing]);
    return spans;
  }
  let tried = 0;
  for (const [at, { start, end, kind }] of tokens.entries()) {
    if (kind === 'sign' || kind === 'break' || end - start <= needle.length) continue;
    const token = text.slice(start, end);
    if (!token.includes(needle)) continue;
    const cuts = proposeCuts(token, needle);
    if (cuts.length === 0) continue;
    for (const of of spansAt(text, tokens, at, at))
      for (const pieceCuts of cuts) spans.push([{ by: 'part', of, cuts: pieceCuts }, writing]);
    if (++tried >= CUT_TOKENS) break;
  }
  return spans;
}

/** A rule that was never wrong. */
export interface ProvenRule {
  rule: ExtractionRule;
  /** Golden runs in which it was right. */
  runs: number;
}

/**
 * Whether a value looks generated for one occasion: a number other than a whole number from −99 to 99, or a text with
 * an id, an e-mail address or a number of more than two characters near its beginning.
 */
export function looksOccasional(value: unknown): boolean {
  if (isRawNumber(value)) return true;
  if (typeof value === 'number') return !Number.isInteger(value) || Math.abs(value) > 99;
  if (typeof value !== 'string') return false;
  return readTokens(value.slice(0, 400), 60).some(
    (token) => isOccasional(token) && (token.kind !== 'number' || token.end - token.start > 2),
  );
}

/** A number that ids and dates contain by chance. */
const SHORT_NUMBER = /^\d{1,2}$/;
const DIGITS = /(?<![\p{L}\p{N}])\d+(?![\p{L}\p{N}])/gu;

/**
 * Whether a value occurs in the step's context, as a value or inside a text. Upper and lower case are the same; so are
 * the ways of writing a number, unless it is inside a text. A number of one or two digits must stand alone in a text.
 * The step's progress is not searched.
 */
export function standsIn(value: Primitive, context: StepContext): boolean {
  const needle = textOfPrimitive(value).toLowerCase();
  const plain = canonicalNumber(needle.replaceAll(',', ''));
  const isShort = SHORT_NUMBER.test(needle);
  const visit = (at: unknown): boolean => {
    if (typeof at === 'string')
      return isShort ? at.match(DIGITS)?.includes(needle) === true : at.toLowerCase().includes(needle);
    const digits = digitsOf(at);
    if (digits !== null) return canonicalNumber(digits) === plain;
    if (isPrimitive(at)) return at === value;
    if (Array.isArray(at)) return at.some(visit);
    return isObject(at) && Object.values(at).some(visit);
  };
  return context.step.sources.some(({ name, value: source }) => name !== 'progress' && visit(source));
}
