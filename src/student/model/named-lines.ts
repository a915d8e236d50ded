/**
 * The line of a page or a traceback that another source names, by the words that both have, and the lines beside it.
 * Pure; teaching and the student's thread.
 */

import { findNamed, readWords, type WordPlaces } from './common-run.ts';

/** Maximum number of lines that are compared. */
const LINES = 120;

/**
 * Finds the line that a source names, or a line near it.
 * @param nth line after the named one; negative: before it
 * @returns undefined when the source names no line, or there is no such line
 */
export function findNamedLine(
  text: string,
  { in: source, nth }: { in: string; nth: number },
  context: { words(source: string): WordPlaces | undefined },
): string | undefined {
  const named = context.words(source);
  if (named === undefined) return undefined;
  const lines = text.split('\n', LINES);
  const at = findNamed(lines.map(readWords), named);
  return at < 0 ? undefined : lines[at + nth];
}
