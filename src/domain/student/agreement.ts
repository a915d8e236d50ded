/**
 * When two answers say the same: what "error" means wherever a student is measured. Pure; any thread.
 *
 *  - Calls: the same tools in the same order, with inputs that are the same JSON whatever the order of keys. Text beside
 *    calls does not count: the agent acts on the calls.
 *  - Text alone: the same facts, and wording that is close. Facts are all words with a digit or an underscore, addresses and
 *    paths, what stands in quotes or backticks, and whether the text denies something (no, not, cannot, unable, failed, …). Close: the
 *    words that carry meaning have a Dice overlap of at least {@link CLOSE_WORDING}.
 */

import { STUDENT_CORE } from '../../limits.ts';
import type { StudentAnswer } from './decision.ts';
import { canonicalText } from './json-values.ts';
import { isOccasional, readTokens } from './text-tokens.ts';

/** Paraphrases of one message by one model reach it, messages about something else with the same values do not. */
export const CLOSE_WORDING = 0.5;

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
  /** null beside calls. */
  text: { facts: Map<string, number>; words: Map<string, number>; size: number; denials: number } | null;
}

export function answersAgree(a: Pick<StudentAnswer, 'content'>, b: Pick<StudentAnswer, 'content'>): boolean {
  return comparablesAgree(readComparable(a), readComparable(b));
}

/** For whoever compares one answer with many. */
export function readComparable(answer: Pick<StudentAnswer, 'content'>): Comparable {
  let calls = '';
  let text = '';
  for (const block of answer.content) {
    if (block.type === 'tool_call') calls += `${JSON.stringify(block.name)}${canonicalText(block.input)}\n`;
    else text += `${block.text}\n`;
  }
  return { calls, text: calls === '' ? readFacts(text) : null };
}

export function comparablesAgree(a: Comparable, b: Comparable): boolean {
  if (a.calls !== b.calls || a.text === null || b.text === null) return a.calls === b.calls && a.calls !== '';
  if (a.text.denials > 0 !== b.text.denials > 0) return false;
  if (a.text.facts.size !== b.text.facts.size) return false;
  for (const fact of a.text.facts.keys()) if (!b.text.facts.has(fact)) return false;
  if (a.text.size + b.text.size === 0) return true;
  let common = 0;
  for (const [word, count] of a.text.words) common += Math.min(count, b.text.words.get(word) ?? 0);
  return (2 * common) / (a.text.size + b.text.size) >= CLOSE_WORDING;
}

function readFacts(whole: string): NonNullable<Comparable['text']> {
  const text = whole.slice(0, 2 * STUDENT_CORE.answer);
  const facts = new Map<string, number>();
  const words = new Map<string, number>();
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
      continue;
    }
    if (token.kind === 'break') {
      quote = -1;
      continue;
    }
    if (isOccasional(token) || token.kind === 'path' || raw.includes('_')) {
      add(token.kind === 'number' ? levelNumber(raw) : raw.toLowerCase());
      continue;
    }
    const word = token.key.replaceAll('’', "'");
    if (DENIALS.has(word)) denials++;
    else if (!FUNCTION_WORDS.has(word)) {
      const stem = stemWord(word);
      words.set(stem, (words.get(stem) ?? 0) + 1);
      size++;
    }
  }
  return { facts, words, size, denials };
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
