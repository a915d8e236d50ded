/**
 * When two answers say the same: what "error" means wherever a student is measured. Pure; any thread.
 *
 *  - Calls: the same tools in the same order, with inputs that are the same JSON whatever the order of keys. Text beside
 *    calls does not count: the agent acts on the calls.
 *  - Text that is JSON, a fence around it or not: the same JSON. Programs read it: no key and no value is a matter of style.
 *  - Other text alone: the same facts, and close wording. Facts are all words with a digit or an underscore, addresses and
 *    paths, what stands in quotes or backticks, a number's sign and currency, names (words with a capital inside a
 *    sentence), and whether the text denies something (no, not, cannot, unable, failed, …). Close: the
 *    words that carry meaning have a Dice overlap of at least {@link CLOSE_WORDING}.
 */

import { STUDENT_CORE } from '../../limits.ts';
import type { StudentAnswer } from './decision.ts';
import { canonicalText } from './json-values.ts';
import { isOccasional, readTokens } from './text-tokens.ts';

/** Paraphrases of one message by one model reach it, messages about something else with the same values do not. */
const CLOSE_WORDING = 0.5;

const FUNCTION_WORDS = new Set(
  (
    'a an the and or but so if then than that this these those there here of to in on at by for from with as is are ' +
    'was were be been being am has have had do does did will would can could may might should shall must it its i you ' +
    "he she we they them your my our their me us his her i'm i've i'll we've we'll you're you'll it's that's up out " +
    'please just now also any all let know anything else more'
  ).split(' '),
);
const DENIALS = new Set(
  (
    'no not cannot never none nothing unable without neither nor failed fails fail unfortunately declined denied ' +
    "rejected refused can't couldn't don't doesn't didn't isn't aren't wasn't weren't won't wouldn't hasn't haven't"
  ).split(' '),
);

/** An answer as far as agreement looks at it. */
export interface Comparable {
  calls: string;
  /** null beside calls, and for JSON, which stands with the calls. */
  text: TextFacts | null;
}

interface TextFacts {
  facts: Map<string, number>;
  /** Of words with a capital inside a sentence; and all words, to look for those of the other text in. */
  names: Set<string>;
  said: Set<string>;
  words: Map<string, number>;
  size: number;
  denials: number;
}

export function answersAgree(a: Pick<StudentAnswer, 'content'>, b: Pick<StudentAnswer, 'content'>): boolean {
  return comparablesAgree(readComparable(a), readComparable(b));
}

/** For comparing one answer with many. */
export function readComparable(answer: Pick<StudentAnswer, 'content'>): Comparable {
  let calls = '';
  let text = '';
  for (const block of answer.content) {
    if (block.type === 'tool_call') calls += `${JSON.stringify(block.name)}${canonicalText(block.input)}\n`;
    else text += `${block.text}\n`;
  }
  if (calls !== '') return { calls, text: null };
  const json = readJsonText(text);
  return json === null ? { calls, text: readFacts(text) } : { calls: json, text: null };
}

/** @returns the JSON object or list that the text is, in one way of writing; null for any other text */
function readJsonText(text: string): string | null {
  if (text.length > 2 * STUDENT_CORE.answer) return null;
  let inner = text.trim();
  if (inner.startsWith('```') && inner.endsWith('```') && inner.length > 6) {
    const begin = inner.indexOf('\n');
    inner = inner.slice(begin < 0 ? 3 : begin + 1, -3).trim();
  }
  if (!inner.startsWith('{') && !inner.startsWith('[')) return null;
  try {
    return canonicalText(JSON.parse(inner));
  } catch {
    return null;
  }
}

export function comparablesAgree(a: Comparable, b: Comparable): boolean {
  if (a.calls !== b.calls || a.text === null || b.text === null) return a.calls === b.calls && a.calls !== '';
  if (a.text.denials > 0 !== b.text.denials > 0) return false;
  if (a.text.facts.size !== b.text.facts.size) return false;
  for (const fact of a.text.facts.keys()) if (!b.text.facts.has(fact)) return false;
  for (const name of a.text.names) if (!b.text.said.has(name)) return false;
  for (const name of b.text.names) if (!a.text.said.has(name)) return false;
  if (a.text.size + b.text.size === 0) return true;
  let common = 0;
  for (const [word, count] of a.text.words) common += Math.min(count, b.text.words.get(word) ?? 0);
  return (2 * common) / (a.text.size + b.text.size) >= CLOSE_WORDING;
}

function readFacts(whole: string): TextFacts {
  const text = whole.slice(0, 2 * STUDENT_CORE.answer);
  const facts = new Map<string, number>();
  const words = new Map<string, number>();
  const names = new Set<string>();
  const said = new Set<string>();
  let isInside = false;
  let size = 0;
  let denials = 0;
  const add = (fact: string): void => {
    facts.set(fact, (facts.get(fact) ?? 0) + 1);
  };
  const tokens = readTokens(text, STUDENT_CORE.answer);
  let quote = -1;
  for (const token of tokens) {
    const raw = text.slice(token.start, token.end);
    if (token.kind === 'sign') {
      if (raw === '"' || raw === '`' || raw === '“' || raw === '”') {
        if (quote >= 0 && raw !== '“') {
          if (token.start - quote <= 200) add(text.slice(quote, token.start).trim().toLowerCase());
          quote = -1;
        } else quote = token.end;
      }
      if (SENTENCE_ENDS.has(raw)) isInside = false;
      continue;
    }
    if (token.kind === 'break') {
      quote = -1;
      isInside = false;
      continue;
    }
    const wasInside = isInside;
    isInside = true;
    if (isOccasional(token) || token.kind === 'path' || raw.includes('_')) {
      add(token.kind === 'number' ? unitOf(text, token) + levelNumber(raw) : raw.toLowerCase());
      said.add(raw.toLowerCase());
      continue;
    }
    const word = token.key.replaceAll('’', "'");
    said.add(word);
    if (wasInside && raw.length > 2 && raw[0] !== raw[0]!.toLowerCase() && !FUNCTION_WORDS.has(word))
      names.add(word);
    if (DENIALS.has(word)) denials++;
    else if (!FUNCTION_WORDS.has(word)) {
      const stem = stemWord(word);
      words.set(stem, (words.get(stem) ?? 0) + 1);
      size++;
    }
  }
  return { facts, names, said, words, size, denials };
}

const SENTENCE_ENDS = new Set(['.', '!', '?', ':', '"', '“', '*', '#', '-', '(']);
const CURRENCIES = '$€£¥';
const WORD = /[\p{L}\p{N}]/u;

/** `-` before a number, its currency and `%`, on whichever side they stand. */
function unitOf(text: string, { start, end }: { start: number; end: number }): string {
  let sign = '';
  let currency = '';
  for (let at = start - 1; at >= 0 && at > start - 4; at--) {
    const char = text[at]!;
    if (CURRENCIES.includes(char)) currency = char;
    else if (char === '-' || char === '−') {
      // Not of a range or a word with a hyphen.
      if (at === 0 || !WORD.test(text[at - 1]!)) sign = '-';
    } else break;
  }
  const after = text[end] ?? '';
  if (after === '%') sign += '%';
  else if (CURRENCIES.includes(after) && after !== '' && currency === '') currency = after;
  return sign + currency;
}

/** 1,204.50 is 1204.5. */
function levelNumber(text: string): string {
  const number = Number(text.replaceAll(',', ''));
  return Number.isFinite(number) ? String(number) : text;
}

function stemWord(word: string): string {
  for (const ending of ['ing', 'ed', 'es', 's'])
    if (word.length - ending.length >= 4 && word.endsWith(ending)) return word.slice(0, -ending.length);
  return word;
}
