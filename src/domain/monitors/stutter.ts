/**
 * Repetition within one text: a model that says the same sentence over and over. Tables, lists, headings, quotes and
 * code are ignored, because they repeat by nature. Pure; any thread.
 */

import { hashText } from './words.ts';

/** Maximum number of sentences examined per text, which bounds the work. */
const SENTENCES_MAX = 256;
/** Minimum length of a sentence. Shorter ones are interjections. */
const SENTENCE_CHARACTERS = 16;

const NOT_PROSE = /^\s*(?:[-*+•|>#]|\d+[.)]|[{}[\]<(]|\/\/|--)|[;{}|]\s*$|\|.*\||\t/;

/** The pattern begins at a letter before a space, so that a long word is skipped at once. */
const THREE_WORDS = /\p{L} +\p{L}+ +\p{L}/u;

/**
 * Whether the text may contain this many sentences: it is long enough, and has enough ends of sentences or lines. This
 * test costs less than examining the sentences, and most texts fail it.
 */
export function mayHoldSentences(text: string, count: number): boolean {
  if (text.length < count * SENTENCE_CHARACTERS) return false;
  let ends = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // A line end, or `.`, `!` or `?` followed by a space.
    if (code !== 10 && !((code === 46 || code === 33 || code === 63) && text.charCodeAt(at + 1) === 32))
      continue;
    if (++ends >= count - 1) return true;
  }
  return ends >= count - 1;
}

/**
 * Counts how often the text contains its most frequent sentence. If more than half of the sentences are different, the
 * number is halved, because the sentence is a refrain between others.
 */
export function countStutter(text: string): number {
  if (text.length < 4 * SENTENCE_CHARACTERS) return 0;
  const counts = new Map<number, number>();
  let most = 0;
  let sentences = 0;
  let inCode = false;
  for (const line of text.split('\n', SENTENCES_MAX * 2)) {
    if (line.trimStart().startsWith('```') || line.trimStart().startsWith('~~~')) {
      inCode = !inCode;
      continue;
    }
    if (inCode || NOT_PROSE.test(line)) continue;
    for (const sentence of line.split(/(?<=[.!?]) +/, SENTENCES_MAX)) {
      // A sentence has words with spaces between; a value on its own line does not.
      if (sentence.length < SENTENCE_CHARACTERS || !THREE_WORDS.test(sentence)) continue;
      if (sentences >= SENTENCES_MAX) break;
      sentences += 1;
      const key = hashText(sentence.toLowerCase().replace(/\d+/g, '0').trim(), 10);
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      if (count > most) most = count;
    }
  }
  return counts.size * 2 > sentences ? most / 2 : most;
}
