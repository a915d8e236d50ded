/**
 * The query of a full-text search. Pure; any thread.
 *
 *   date parser      both words, anywhere in a run
 *   "date parser"    adjacent words in one text
 *   pars*            words with this beginning
 *   src/date.ts      like "src date ts": joined words must be adjacent
 *
 * Case, accents and punctuation are ignored. An unclosed quotation mark ends with the query.
 */
import { eachWord, isPaired } from './words.ts';

/** Maximum number of words in a query; a longer query is refused. */
const QUERY_WORDS = 32;

/** A sequence of words, usually one. */
export interface TextTerm {
  /** The words with their distances from the first one. */
  words: readonly { word: string; distance: number }[];
  /** Whether the last word is only the beginning of a word. */
  is_prefix: boolean;
}

export type TextQuery = readonly TextTerm[];

/** A query that cannot be searched; the message tells the user why. */
export class TextQueryError extends Error {
  override readonly name = 'TextQueryError';
}

/** Parses a query. @throws TextQueryError if the query has no word or too many words */
export function parseTextQuery(text: string): TextQuery {
  const terms: TextTerm[] = [];
  let words = 0;
  for (const [, quoted, plain] of text.matchAll(/["“”„]([^"“”„]*)(?:["“”„]|$)|([^\s"“”„]+)/gu)) {
    const said = quoted ?? plain ?? '';
    const isPrefix = /\*\s*$/u.test(said);
    const term = readTerm(said, isPrefix);
    if (term === null) continue;
    words += term.words.length;
    terms.push(term);
  }
  if (terms.length === 0)
    throw new TextQueryError('A search needs a word: a letter or a digit of any script');
  if (words > QUERY_WORDS)
    throw new TextQueryError(`A search has at most ${QUERY_WORDS} words; this one has ${words}`);
  return terms;
}

function readTerm(said: string, isPrefix: boolean): TextTerm | null {
  const found: { word: string; position: number }[] = [];
  let before = '';
  eachWord(said, (word, position) => {
    // In a text, the last of several characters that are indexed in pairs is also a separate word. In a query, this
    // character is only a part of the preceding pair.
    if (!isLone(word) || !isPaired(before) || isLone(before)) found.push({ word, position });
    before = word;
  });
  const first = found[0];
  if (first === undefined) return null;
  const last = found.at(-1)!.word;
  return {
    words: found.map(({ word, position }) => ({ word, distance: position - first.position })),
    // A single character matches each pair that begins with it.
    is_prefix: isPaired(last) ? isLone(last) : isPrefix,
  };
}

/** Whether a word is one character of a script without spaces. */
function isLone(word: string): boolean {
  return isPaired(word) && [...word].length === 1;
}

/** Finds a term in a text. @returns its beginning and end; null if it is absent */
export function findTerm(text: string, term: TextTerm): { start: number; end: number } | null {
  return new TermMatcher(term).find(text);
}

/** Matches a term against a text word by word. */
class TermMatcher {
  readonly #term: TextTerm;

  constructor(term: TextTerm) {
    this.#term = term;
  }

  find(text: string): { start: number; end: number } | null {
    const { words, is_prefix } = this.#term;
    const lastAt = words.length - 1;
    /** Partial matches: the number of matched words, and the position of the first. */
    let begun: { next: number; from: number; start: number }[] = [];
    let found: { start: number; end: number } | null = null;
    const fits = (at: number, word: string): boolean =>
      at === lastAt && is_prefix ? word.startsWith(words[at]!.word) : word === words[at]!.word;
    eachWord(text, (word, position, start, end) => {
      if (found !== null) return;
      const going: typeof begun = [];
      if (fits(0, word)) {
        if (lastAt === 0) found = { start, end };
        else going.push({ next: 1, from: position, start });
      }
      for (const match of begun) {
        const due = match.from + words[match.next]!.distance;
        if (position < due) going.push(match);
        else if (position === due && fits(match.next, word)) {
          if (match.next === lastAt) found ??= { start: match.start, end };
          else going.push({ ...match, next: match.next + 1 });
        }
      }
      begun = going;
    });
    return found;
  }
}
