/**
 * The marks of a step's state: hashes of a kind, a place and a value. The student learns which marks are informative.
 * Pure; teaching and the student's thread.
 */

import { canonicalNumber, digitsOf } from '../../std/exact-json.ts';
import { hashString, isObject, mixNumber } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { collectCalled, markLists } from './list-marks.ts';
import { nameOfUse } from './look-calls.ts';
import { readSentences } from './prompt-sentences.ts';
import { readTokens, type TextToken } from './text-tokens.ts';

/** The kinds of marks. Each place of the first four kinds has one value. */
export const MARK = {
  /** A value in a result that the step answers. */
  fresh: 1,
  /** Earlier calls, with their number and failures. */
  past: 2,
  /** A value in an earlier result, or in a call. */
  earlier: 3,
  /** Type of the value at a place of a result that the step answers. */
  shape: 4,
  /** Words. A place has several of them, unlike the kinds above. */
  fresh_word: 5,
  said_word: 6,
  task_word: 7,
  earlier_word: 10,
  /** A negation in the task or in the user's latest words; a place may have several. */
  denial: 11,
  /** The numbers in a sentence of the system prompt that names no day or time: limits, counts, prices. */
  system_number: 12,
  /** A property of a list's elements, at whatever position; a place may have several. */
  list: 13,
  /** Whether another result has the text at this place, too. */
  shared: 15,
  /** How many lines the user's words have. Only for novelty: no answer depends on this mark. */
  lines: 16,
} as const;

/** An earlier call in the conversation. */
export interface PastCall {
  id: string;
  name: string;
  input: unknown;
  /** Index of its message. */
  at: number;
}

/** The result of a call. */
export interface PastResult {
  /** Id of the call; null when unknown. */
  id: string | null;
  name: string;
  text: string;
  is_error: boolean;
  at: number;
}

/**
 * Bounds of the comparison of results (`markShared`): the longest text, the number of texts of all results together,
 * and the number of fields, elements and levels of one result.
 */
const SHARED_CHARACTERS = 64;
const SHARED_VALUES = 400;
const SHARED_FIELDS = 24;
const SHARED_ITEMS = 4;
const SHARED_DEPTH = 4;

/** The user's words with more lines than this count as equally long. */
const LINES_COUNTED = 40;

/** Collects the marks of one step in reading order. Marks beyond the bound are dropped. */
export class StepMarks {
  /** Kind, place and value of each mark, one after the other. */
  readonly values: number[] = [];
  /** Words that the user mentioned. */
  readonly #said = new Set<string>();
  /** The texts of the user as words in order, each between spaces. */
  #saidText = ' ';
  /** Place and value of each mark of a list. */
  readonly #lists: number[] = [];
  /** Values of the results that were compared, in one spelling. */
  readonly #compared = new Set<string>();

  /** Adds a mark, or drops it beyond the bound. */
  mark(kind: number, place: number, value: number): void {
    if (this.values.length < 3 * STUDENT_CORE.marks) this.values.push(kind, place, value);
  }

  /**
   * Marks the user's words.
   * @param place the place that all words get
   */
  markSaid(kind: number, place: number, text: string): void {
    const tokens = readTokens(text, 3 * STUDENT_CORE.words_marked);
    this.markTokens(kind, place, tokens);
    this.mark(MARK.lines, placeOfLines(place), Math.min(countLines(text), LINES_COUNTED));
    for (const denial of listDenials(tokens)) this.mark(MARK.denial, place, denial);
    for (const token of tokens)
      if (token.kind !== 'sign' && token.kind !== 'break')
        this.#said.add(plainValue(text.slice(token.start, token.end)));
    this.#saidText += `${spaceWords(text)} `;
  }

  /**
   * Marks the lists of a result. A separate bound applies to these marks, so that they do not displace other marks.
   * @param calls the calls since the result arrived, the latest first
   */
  markLists(name: string, json: unknown, calls: readonly PastCall[]): void {
    const isSaid = (value: string): boolean => this.#saidText.includes(` ${spaceWords(value)} `);
    markLists(name, json, { isSaid, called: collectCalled(calls) }, (place, value) => {
      if (this.#lists.length < 2 * STUDENT_CORE.list_marks) this.#lists.push(place, value);
    });
  }

  /** Adds the marks of lists to the others. */
  closeLists(): void {
    const lists = this.#lists;
    for (let at = 0; at < lists.length; at += 2) this.values.push(MARK.list, lists[at]!, lists[at + 1]!);
  }

  /**
   * Adds the system prompt's numbers. The bound does not apply to them, because a long conversation would leave no
   * room.
   * @param numbers places and values in turn
   */
  markSystemNumbers(numbers: readonly number[]): void {
    for (let at = 0; at < numbers.length; at += 2)
      this.values.push(MARK.system_number, numbers[at]!, numbers[at + 1]!);
  }

  /**
   * Marks words.
   * @param place the place that all words get
   */
  markWords(kind: number, place: number, text: string): void {
    this.markTokens(kind, place, readTokens(text, 3 * STUDENT_CORE.words_marked));
  }

  markTokens(kind: number, place: number, tokens: readonly TextToken[]): void {
    const seen = new Set<number>();
    for (const token of tokens) {
      if (token.kind === 'sign' || token.kind === 'break') continue;
      const hash = hashString(token.key);
      if (seen.has(hash)) continue;
      seen.add(hash);
      this.mark(kind, place, hash);
      if (seen.size >= STUDENT_CORE.words_marked) return;
    }
  }

  /**
   * Marks the sequence of earlier calls. A call of a shell counts with its program.
   * @param calls the latest first
   * @param results the latest first
   */
  markPast(calls: readonly PastCall[], results: readonly PastResult[]): void {
    const uses = calls.map(({ id, name, input }) => nameOfUse({ type: 'tool_call', id, name, input }));
    let trail = 0;
    for (let back = 0; back < 3; back++) {
      trail = mixNumber(Math.imul(trail, 31) + (uses[back] === undefined ? 7 : hashString(uses[back]!)));
      this.mark(MARK.past, hashString(`trail ${back}`), trail);
    }
    const counts = new Map<string, number>();
    for (const call of calls) counts.set(call.name, (counts.get(call.name) ?? 0) + 1);
    for (const [at, use] of uses.entries())
      if (use !== calls[at]!.name) counts.set(use, (counts.get(use) ?? 0) + 1);
    for (const [name, count] of counts) {
      if (counts.size > 40) break;
      this.mark(MARK.past, hashString(`called ${name}`), Math.min(count, 6));
    }
    let errors = 0;
    for (const result of results) if (result.is_error) errors++;
    this.mark(MARK.past, hashString('errors'), Math.min(errors, 4));
    let same = 1;
    while (same < calls.length && calls[same]!.name === calls[0]!.name) same++;
    this.mark(MARK.past, hashString('in a row'), Math.min(calls.length === 0 ? 0 : same, 6));
  }

  /**
   * Marks the first sentences and lines as a whole, regardless of their numbers. A line is more informative than its
   * separate words.
   */
  markLines(place: number, text: string): void {
    let lines = 0;
    readSentences(text, (hash) => {
      if (lines++ < 30) this.mark(MARK.fresh_word, mixNumber(place + 1), hash);
    });
  }

  /**
   * Marks the values of a result or of a call's input.
   * @param isFresh whether the step answers this result
   * @param place the place of `value`
   */
  markJson(isFresh: boolean, name: string, place: number, value: unknown, depth: number): void {
    const kind = isFresh ? MARK.fresh : MARK.earlier;
    if (Array.isArray(value)) {
      if (isFresh) this.mark(MARK.shape, place, 2);
      this.mark(kind, mixNumber(place + 3), Math.min(value.length, 12));
      const inner = mixNumber(place + 5);
      for (let i = 0; i < value.length && i < (isFresh ? 4 : 1); i++)
        this.markJson(isFresh, name, value.length === 1 ? inner : mixNumber(inner + i), value[i], depth + 1);
      return;
    }
    if (isObject(value)) {
      if (isFresh) this.mark(MARK.shape, place, 3);
      for (const key of Object.keys(value)) {
        const item = value[key];
        const at = hashString(key, place);
        if (key === '…' && typeof item === 'string') {
          if (isFresh) this.markWords(MARK.fresh_word, place, item);
        } else this.markJson(isFresh, name, at, item, depth + 1);
      }
      return;
    }
    if (isFresh) this.mark(MARK.shape, place, value === null ? 4 : typeof value === 'string' ? 5 : 6);
    const digits = digitsOf(value);
    if ((typeof value === 'string' && value.length >= 3 && value.length <= 48) || digits !== null) {
      // The answer may depend on whether a result is about something that the user mentioned.
      this.mark(kind, mixNumber(place + 11), this.#said.has(plainValue(digits ?? String(value))) ? 1 : 2);
    }
    if (typeof value === 'string') {
      if (value.length <= 48) this.mark(kind, place, hashString(value));
      if (isFresh && value.length > 12) {
        this.markWords(MARK.fresh_word, place, value);
        if (value.length > 48) this.markLines(place, value);
      }
    } else if (digits === null || /^-?\d+$/.test(digits)) {
      this.mark(kind, place, hashString(digits ?? String(value), 1));
    }
  }

  /**
   * Marks for each text of a result whether a result that was marked before has the same text at any place. For
   * example, the account on an invoice is the account on file. number-relations.ts compares numbers.
   * @param json the result; only the first elements of a list are compared
   */
  markShared(place: number, json: unknown): void {
    const own = new Set<string>();
    const visit = (value: unknown, at: number, depth: number): void => {
      if (Array.isArray(value)) {
        const inner = mixNumber(at + 5);
        for (const [i, item] of value.slice(0, SHARED_ITEMS).entries())
          visit(item, value.length === 1 ? inner : mixNumber(inner + i), depth + 1);
      } else if (isObject(value)) {
        for (const key of Object.keys(value).slice(0, SHARED_FIELDS))
          if (depth < SHARED_DEPTH) visit(value[key], hashString(key, at), depth + 1);
      } else if (typeof value === 'string' && value.length >= 3 && value.length <= SHARED_CHARACTERS) {
        const plain = value.toLowerCase();
        own.add(plain);
        if (this.#compared.size > 0) this.mark(MARK.shared, at, this.#compared.has(plain) ? 1 : 2);
      }
    };
    visit(json, place, 0);
    for (const value of own) if (this.#compared.size < SHARED_VALUES) this.#compared.add(value);
  }

  #markNext(place: number, value: unknown): void {
    if (isObject(value)) {
      let fields = 0;
      for (const key of Object.keys(value)) {
        const item = value[key];
        if (fields++ > 16) return;
        if (typeof item === 'boolean' || item === null || (typeof item === 'string' && item.length <= 48))
          this.mark(MARK.past, hashString(key, place), hashString(String(item)));
      }
    } else if (typeof value === 'string' && value.length <= 48)
      this.mark(MARK.past, place, hashString(value));
  }

  /**
   * Marks how many elements of a list an agent has already worked through with its calls.
   * @param since how often each tool was called since the list arrived
   * @param latest the tool that was called last
   */
  markProgress(name: string, json: unknown, since: ReadonlyMap<string, number>, latest: string): void {
    let lists = 0;
    const visit = (value: unknown, path: string, depth: number): void => {
      if (lists >= 4 || depth > 2) return;
      if (Array.isArray(value)) {
        lists++;
        const next = value[since.get(latest) ?? value.length] as unknown;
        // If the agent works through the list, `next` is the subject of its next call.
        if (next !== undefined) this.#markNext(hashString(`next ${name}${path}`), next);
        for (const [tool, count] of since)
          this.mark(
            MARK.past,
            hashString(`through ${name}${path} ${tool}`),
            Math.sign(count - value.length) + 2,
          );
      } else if (isObject(value)) {
        for (const key of Object.keys(value).slice(0, 40))
          visit(value[key], `${path}.${key.slice(0, 64)}`, depth + 1);
      }
    };
    visit(json, '', 0);
  }
}

const DENYING = new Set(
  (
    "not no never nothing none neither nor without unless except instead only don't doesn't didn't isn't aren't wasn't " +
    "weren't won't wouldn't can't cannot couldn't shouldn't mustn't stop avoid skip refrain cancel ignore omit postpone " +
    'until forbidden prohibited'
  ).split(' '),
);
/** Words before a negation that distinguish an order from a statement: `do not run`, `did not run`. */
const MOODS = new Set(
  (
    'do did does must may might should shall can could will would is are was were be been has have had please you we i ' +
    'it they he she'
  ).split(' '),
);

/** Negating words, each with the words around it; 0 for a text that denies nothing. */
function listDenials(tokens: readonly TextToken[]): Iterable<number> {
  const found = new Set<number>();
  for (const [i, { kind, key }] of tokens.entries()) {
    if (kind !== 'word' || !DENYING.has(key.replaceAll('’', "'"))) continue;
    const [before, next] = [tokens[i - 1], tokens[i + 1]];
    const mood = before?.kind === 'word' && MOODS.has(before.key) ? hashString(before.key) : 0;
    found.add(hashString(key, next?.kind === 'word' ? hashString(next.key, mood) : mood));
  }
  return found.size === 0 ? NOTHING_DENIED : found;
}

const NOTHING_DENIED = [0] as const;

/** The words of a text in lower case, with a space between them. */
function spaceWords(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim();
}

/** One spelling of a value, for comparisons. */
function plainValue(value: string): string {
  const number = value.replaceAll(',', '');
  return PLAIN_NUMBER.test(number) ? canonicalNumber(number) : value.toLowerCase();
}

const PLAIN_NUMBER = /^-?\d{1,40}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?$/;

/** The place of the number of lines. Unlike the place of the words, it never determines the answer. */
export function placeOfLines(place: number): number {
  return hashString('lines', place);
}

/** Number of lines that are not empty. */
function countLines(text: string): number {
  return text.split('\n').filter((line) => line.trim() !== '').length;
}
