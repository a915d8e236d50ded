/**
 * What a full-text search asks for. Pure; any thread.
 *
 *   date parser      both words, anywhere in a run
 *   "date parser"    the words side by side, in one text
 *   pars*            words that begin so
 *   src/date.ts      as "src date ts": what stands together is searched together
 *
 * Case, accents and punctuation do not matter. Quotation marks that are not closed end with the query.
 */
import { eachWord, isPaired } from './words.ts';

/** Most words of a query; a query with more is refused. */
const QUERY_WORDS = 32;

/** Words side by side; mostly one. */
export interface TextTerm {
  /** With their distances from the first one. */
  words: readonly { word: string; distance: number }[];
  /** The last word is the beginning of one. */
  is_prefix: boolean;
}

export type TextQuery = readonly TextTerm[];

/** A query that cannot be searched for; the message says why, for the user. */
export class TextQueryError extends Error {
  override readonly name = 'TextQueryError';
}

/** @throws TextQueryError */
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
    // A text has the last character of a run of paired ones by itself, too. The query has it in the pair before.
    if (!isLone(word) || !isPaired(before) || isLone(before)) found.push({ word, position });
    before = word;
  });
  const first = found[0];
  if (first === undefined) return null;
  const last = found.at(-1)!.word;
  return {
    words: found.map(({ word, position }) => ({ word, distance: position - first.position })),
    // A lone character is the beginning of each pair that begins with it.
    is_prefix: isPaired(last) ? isLone(last) : isPrefix,
  };
}

/** Whether a word is one character of a script without spaces. */
function isLone(word: string): boolean {
  return isPaired(word) && [...word].length === 1;
}

/** Whether a text holds a term. @returns where it begins and ends; null: nowhere */
export function findTerm(text: string, term: TextTerm): { start: number; end: number } | null {
  return new TermMatcher(term).find(text);
}

/** Follows a text word by word. */
class TermMatcher {
  readonly #term: TextTerm;

  constructor(term: TextTerm) {
    this.#term = term;
  }

  find(text: string): { start: number; end: number } | null {
    const { words, is_prefix } = this.#term;
    const lastAt = words.length - 1;
    /** Matches that have begun: how many words, where the first stands. */
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
