/**
 * The sentences of a prompt as hashes that ignore the parts that change: numbers, days, months. The changing values are
 * kept unchanged, next to the hash. Pure; teaching and the student's thread.
 */

import { RecentMap } from '../../std/recent-map.ts';
import { hashString, mixNumber } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { type DateCodes, findDates } from './prompt-dates.ts';

const DAYS_AND_MONTHS = new Set(
  (
    'january february march april may june july august september october november december jan feb mar apr jun jul ' +
    'aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur ' +
    'thurs fri sat sun'
  )
    .split(' ')
    .map((word) => hashString(word)),
);

/** A sentence or a line of a prompt. */
export interface Sentence {
  /** Hash of its words, in which numbers, days and months are all the same. */
  hash: number;
  /** Indexes of its first character and of the sign or line break at its end. */
  start: number;
  end: number;
  /** Whether a word was levelled: a number, a day or a month. */
  isChanging: boolean;
  /**
   * Whether the sentence contains a path or an address, which may differ between runs although no word was
   * levelled.
   */
  isPlace: boolean;
  /**
   * Hash of its numbers as written; 0 for a sentence without numbers, or with a day, a time or a year, which may
   * change.
   */
  numbers: number;
  /** The levelled words, in order. Words beyond a bound are combined into one. */
  values: readonly SentenceValue[];
}

/** A word that was levelled: a number, an id, a day. */
interface SentenceValue {
  start: number;
  end: number;
  /** Hash of the word as written, with the signs beside a number. */
  hash: number;
  /** The date that it belongs to, or null. */
  date: DateCodes | null;
}

/** Agents send the same long prompt with every step, so its sentences are cached. */
const keptSentences = new RecentMap<string, readonly Sentence[]>(STUDENT_CORE.prompts_kept_bytes);
/** Approximate memory in bytes of one sentence, and of one value in a sentence. */
const SENTENCE_BYTES = 128;
const VALUE_BYTES = 96;
const NO_VALUES: readonly SentenceValue[] = [];

/** All sentences of a prompt, whatever its length, because a part that is not read could not be compared. */
export function sentencesOf(text: string): readonly Sentence[] {
  const recent = keptSentences.getRecent(text);
  if (recent !== undefined) return recent;
  let sentences = keptSentences.get(text);
  if (sentences === undefined) {
    const read: Sentence[] = [];
    let levelled: number[] = [];
    readSentences(
      text,
      (hash, start, end, isChanging, isPlace) => {
        const numbers = isChanging ? hashNumbers(text, start, end) : 0;
        const values = isChanging ? readValues(text, start, end, levelled) : NO_VALUES;
        read.push({ hash, start, end, isChanging, isPlace, numbers, values });
        levelled = [];
      },
      (start, end) => levelled.push(start, end),
    );
    sentences = read;
  }
  let bytes = 2 * text.length + SENTENCE_BYTES * sentences.length;
  for (const { values } of sentences) bytes += VALUE_BYTES * values.length;
  keptSentences.set(text, sentences, bytes);
  return sentences;
}

/**
 * Maximum number of characters of a sentence that are searched for numbers and dates. Most sentences are shorter. In a
 * longer one, which is rather a table than a sentence, the further numbers are data.
 */
const SENTENCE_READ = 2_000;
/** Words that begin with a digit or a capital, not inside another word. */
const WORDS_OF_NUMBERS = /(?<![\p{L}\p{N}_][.:/@-]*)[0-9A-Z][\p{L}\p{N}_.:/@-]*/gu;
/** A number, with a unit or without; longer ones are ids and times. */
const PLAIN_NUMBER = /^\d{1,8}(?:\.\d{1,8})?\.?(?:\p{L}{1,4})?$/u;
const CAPITAL = /^[A-Z]/;
/** Signs that give a number its meaning: currency, comparison, minus, percent. */
const SIGNS_BEFORE = /[<>=≤≥≠$€£¥+−-]+ ?$/;
const SIGNS_BEHIND = /^ ?[<>=≤≥≠$€£¥+%]+/;
const SIGNS_READ = 4;
const TIME_OR_YEAR = /^(?:\d+[:/-]\d[\d:/-]*.*|(?:19|20)\d\d\.?)$/;

/**
 * Hashes the numbers of a sentence as written.
 * @returns 0 for a sentence without numbers, and for one with a time, a year or the capitalized name of a day or month
 */
function hashNumbers(text: string, start: number, end: number): number {
  let hash = 0;
  const sentence = text.slice(start, Math.min(end, start + SENTENCE_READ));
  for (const { 0: word, index } of sentence.matchAll(WORDS_OF_NUMBERS)) {
    // In lower case, `may` and `march` are verbs.
    const isName = CAPITAL.test(word) && DAYS_AND_MONTHS.has(hashString(word.toLowerCase()));
    if (isName || TIME_OR_YEAR.test(word)) return 0;
    if (!PLAIN_NUMBER.test(word)) continue;
    const at = start + index;
    const behind = at + word.length;
    const [before = ''] = SIGNS_BEFORE.exec(text.slice(Math.max(0, at - SIGNS_READ), at)) ?? [];
    const [after = ''] = SIGNS_BEHIND.exec(text.slice(behind, behind + SIGNS_READ)) ?? [];
    hash = mixNumber(Math.imul(hash, 31) + hashString(before + word + after)) || 1;
  }
  return hash;
}

/**
 * Reads the levelled words of a sentence.
 * @param levelled start and end of each word
 */
function readValues(
  text: string,
  start: number,
  end: number,
  levelled: readonly number[],
): readonly SentenceValue[] {
  const dates = findDates(text.slice(start, Math.min(end, start + SENTENCE_READ)));
  const values: SentenceValue[] = [];
  for (let at = 0; at < levelled.length; at += 2) {
    const from = levelled[at]!;
    const to = levelled[at + 1]!;
    const hash = hashString(text.slice(from, to), hashSigns(text, from, to));
    const last = values[STUDENT_CORE.sentence_values - 1];
    if (last !== undefined) {
      last.end = to;
      last.hash = mixNumber(Math.imul(last.hash, 31) + hash);
      last.date = null;
      continue;
    }
    const named = dates.find((date) => from < start + date.end && start + date.start < to);
    values.push({ start: from, end: to, hash, date: named?.codes ?? null });
  }
  return values;
}

/** Hash of the signs that change a number's meaning; 0 for a word without any. */
function hashSigns(text: string, from: number, to: number): number {
  const [before = ''] = SIGNS_BEFORE.exec(text.slice(Math.max(0, from - SIGNS_READ), from)) ?? [];
  const [after = ''] = SIGNS_BEHIND.exec(text.slice(to, to + SIGNS_READ)) ?? [];
  // The dash of a list item is not a minus sign.
  const signs = `${before.replace(/[-−]? $/, '')} ${after.trim()}`;
  return signs === ' ' ? 0 : hashString(signs);
}

/**
 * Reads sentences and lines as hashes of their words; words with a digit, days and months are levelled: they
 * all have the same hash.
 * @param visit called with each sentence; `isChanging`: a word of it was levelled; `isPlace`: it contains at least two
 *   slashes
 * @param visitLevelled called with each levelled word, before its sentence
 */
export function readSentences(
  text: string,
  visit: (hash: number, start: number, end: number, isChanging: boolean, isPlace: boolean) => void,
  visitLevelled?: (start: number, end: number) => void,
): void {
  let sentence = 0;
  let word = 0x811c9dc5;
  let isWord = false;
  let hasDigit = false;
  let isChanging = false;
  let words = 0;
  let slashes = 0;
  let start = 0;
  let wordStart = 0;
  const { length } = text;
  for (let at = 0; at <= length; at++) {
    const code = at < length ? text.charCodeAt(at) : 10;
    const isDigit = code >= 48 && code <= 57;
    const isLetter = (code | 32) >= 97 && (code | 32) <= 122;
    if (code === 47) slashes++;
    if (
      isDigit ||
      isLetter ||
      code > 127 ||
      code === 95 ||
      ((code === 45 || code === 47 || code === 46 || code === 64 || code === 58) &&
        isWord &&
        isWordAt(text, at + 1))
    ) {
      if (!isWord) {
        wordStart = at;
        if (words === 0) start = at;
      }
      isWord = true;
      if (isDigit) hasDigit = true;
      word = Math.imul(word ^ (isLetter ? code | 32 : code), 0x01000193);
      continue;
    }
    if (isWord) {
      words++;
      const hash = mixNumber(word);
      const isWhen = hasDigit || DAYS_AND_MONTHS.has(hash);
      if (isWhen) {
        isChanging = true;
        visitLevelled?.(wordStart, at);
      }
      sentence = mixNumber(Math.imul(sentence, 31) + (isWhen ? 9 : hash));
      word = 0x811c9dc5;
      isWord = false;
      hasDigit = false;
    }
    const isEnd =
      code === 10 ||
      ((code === 46 || code === 33 || code === 63) && (at + 1 >= length || text.charCodeAt(at + 1) <= 32));
    if (isEnd && words > 0) {
      visit(sentence, start, at, isChanging, slashes > 1);
      sentence = 0;
      words = 0;
      slashes = 0;
      isChanging = false;
    }
  }
}

function isWordAt(text: string, at: number): boolean {
  if (at >= text.length) return false;
  const code = text.charCodeAt(at);
  return code > 127 || (code >= 48 && code <= 57) || ((code | 32) >= 97 && (code | 32) <= 122);
}
