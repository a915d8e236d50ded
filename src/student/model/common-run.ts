/**
 * How much of a text another text names: the longest run of consecutive words that both have. Finds the element of a
 * list, or the line of a page, that a task names. Pure; teaching and the student's thread.
 */

import { FUNCTION_WORDS } from './agreement.ts';
import { readTokens } from './text-tokens.ts';

/** Words of a text, with the places of each. */
export interface WordPlaces {
  words: readonly string[];
  places: ReadonlyMap<string, readonly number[]>;
}

/** Maximum number of words and signs of a text that are read. */
const WORDS = 600;
/** Maximum number of places of one word that are compared. */
const SAME_WORD = 12;

export function placeWords(text: string): WordPlaces {
  const words = readWords(text);
  const places = new Map<string, number[]>();
  for (const [at, word] of words.entries()) {
    const known = places.get(word);
    if (known === undefined) places.set(word, [at]);
    else if (known.length < SAME_WORD) known.push(at);
  }
  return { words, places };
}

/** The words of a text in lower case, without signs. */
export function readWords(text: string): string[] {
  return readTokens(text, WORDS).flatMap(({ start, end, kind }) =>
    kind === 'sign' || kind === 'break' ? [] : [text.slice(start, end).toLowerCase()],
  );
}

/** Characters of the longest run of words that has a word of content and is also in the other text; 0 without one. */
function measureRun(words: readonly string[], { words: other, places }: WordPlaces): number {
  let longest = 0;
  for (let at = 0; at < words.length; at++)
    for (const place of places.get(words[at]!) ?? []) {
      // A longer run that contains this place was measured from its beginning.
      if (at > 0 && place > 0 && words[at - 1] === other[place - 1]) continue;
      let length = 0;
      let hasContent = false;
      for (let i = 0; words[at + i] !== undefined && words[at + i] === other[place + i]; i++) {
        const word = words[at + i]!;
        length += word.length;
        hasContent ||= /\d/.test(word) || (word.length > 2 && !FUNCTION_WORDS.has(word));
      }
      if (hasContent) longest = Math.max(longest, length);
    }
  return longest;
}

/**
 * Whether the other text contains all words of a text, next to each other and in order, with at least one content word.
 */
export function hasRun(words: readonly string[], { words: other, places }: WordPlaces): boolean {
  const hasContent = words.some((word) => /\d/.test(word) || (word.length > 2 && !FUNCTION_WORDS.has(word)));
  return (
    hasContent &&
    (places.get(words[0]!) ?? []).some((place) => words.every((word, i) => other[place + i] === word))
  );
}

/** Index of the only text with the longest run; −1 if no text or several texts have it. */
export function findNamed(texts: readonly (readonly string[])[], named: WordPlaces): number {
  let best = -1;
  let longest = 0;
  let isTie = false;
  for (const [at, words] of texts.entries()) {
    const run = measureRun(words, named);
    if (run > longest) {
      best = at;
      longest = run;
      isTie = false;
    } else if (run === longest) isTie = true;
  }
  return isTie ? -1 : best;
}
