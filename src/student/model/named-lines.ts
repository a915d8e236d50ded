/**
 * The lines of a page or a traceback, and which of them another source names, by the words that both have. Pure;
 * teaching and the student's thread.
 */

import { findNamed, readWords, type WordPlaces } from './common-run.ts';

/** Maximum number of lines that are compared. */
const LINES = 120;

/** The first lines of a text, with the words of each. */
export interface TextLines {
  readonly lines: readonly string[];
  readonly words: readonly (readonly string[])[];
}

export function readLines(text: string): TextLines {
  const lines = text.split('\n', LINES);
  return { lines, words: lines.map(readWords) };
}

/** Finds the line that a source names. @returns its index; −1 when the source names no line, or several alike */
export function findNamedLine({ words }: TextLines, named: WordPlaces): number {
  return findNamed(words, named);
}
