/**
 * The words and signs of a sentence, each with a kind derived from its form: a number, a path, a name, a plain word.
 * Pure; teaching and the student's thread.
 */

import { isCommonWord } from './common-words.ts';
import { hashString } from './json-values.ts';
import { type DateCodes, findDates } from './prompt-dates.ts';

/**
 * The form of a word, as one letter. The form of a sign is the sign itself.
 *   d a date, in one or several words      n a number, with a unit or without     t a time, or numbers with signs between
 *   i an id: letters and digits            p a path or an address of a page       e an address of mail
 *   W a day or a month                     N a name: a capital, then small        C capitals
 *   M capitals within                      s words joined by signs                l small letters
 *   x a script without capitals
 */
export type WordForm = string;

/** A word, a date or a sign. */
export interface PromptToken {
  text: string;
  hash: number;
  form: WordForm;
  /** Readings of a date; null for anything else. */
  date: DateCodes | null;
}

const PATH = String.raw`(?:[A-Za-z]:|~|\.{1,2})?[\\/]{1,2}[\p{L}\p{N}_.@~+%=\\/-]*[\p{L}\p{N}_~]`;
const WORD = String.raw`[\p{L}\p{N}_](?:[\p{L}\p{N}\p{M}_]|:?[\\/]{1,3}(?=[\p{L}\p{N}_.])|:(?=\p{N})|[-.@~+'’](?=[\p{L}\p{N}_]))*`;
const TOKENS = new RegExp(`${PATH}|${WORD}|[^\\s]`, 'gu');

/** Splits a sentence; a date is one token. */
export function splitTokens(text: string): PromptToken[] {
  const dates = findDates(text).sort((a, b) => a.start - b.start);
  const tokens: PromptToken[] = [];
  let at = 0;
  for (const { start, end, codes } of dates) {
    splitWords(text.slice(at, start), tokens);
    const date = text.slice(start, end);
    tokens.push({ text: date, hash: hashString(date), form: 'd', date: codes });
    at = end;
  }
  splitWords(text.slice(at), tokens);
  return tokens;
}

function splitWords(text: string, tokens: PromptToken[]): void {
  for (const [word] of text.matchAll(TOKENS))
    tokens.push({ text: word, hash: hashString(word), form: formOf(word), date: null });
}

const DAY_OR_MONTH =
  /^(?:january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun)$/i;

/** The form of one word. */
function formOf(word: string): WordForm {
  if (!/[\p{L}\p{N}]/u.test(word)) return word;
  if (/\p{Lo}|(?!\p{Script=Latin})\p{L}/u.test(word)) return 'x';
  if (word.includes('@')) return 'e';
  if (/^\d+(?:[.,]\d+)*\p{L}{0,3}$/u.test(word)) return 'n';
  if (/^[\d:/.,+TZ-]+$/.test(word)) return 't';
  if (/[\\/]/.test(word)) return 'p';
  if (/\d/.test(word)) return 'i';
  // In lower case, `may` and `march` are verbs.
  if (/^\p{Lu}/u.test(word) && DAY_OR_MONTH.test(word)) return 'W';
  if (/[-_.+~]/.test(word)) return 's';
  if (/^\p{Lu}[\p{Ll}\p{M}]*(?:['’]\p{L}+)?$/u.test(word)) return 'N';
  if (/^\p{Lu}+(?:['’]s)?$/u.test(word)) return 'C';
  return /^\p{Ll}[\p{Ll}\p{M}'’]*$/u.test(word) ? 'l' : 'M';
}

/** Whether a token's form alone shows that it is a value and not a word of the language. */
export function isPlainValue(form: WordForm): boolean {
  return 'dntipeW'.includes(form);
}

/** Whether a token may be a name or part of one. */
export function isNameLike({ form, text }: PromptToken): boolean {
  return 'NCMsl'.includes(form) && !isCommonWord(text);
}

/** Whether the form is that of a word, not of a sign. */
export function isWord(form: WordForm): boolean {
  return /^[a-zA-Z]$/.test(form);
}
