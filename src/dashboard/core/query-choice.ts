/**
 * The rules of a select whose options are words of a query: which option the query contains, and the query with another
 * option. Pure; browser.
 */
import { parseRunQuery } from '../../domain/run-query/parse.ts';
import { printRunQuery } from '../../domain/run-query/print.ts';
import { type RunQuery, RunQueryError } from '../../domain/run-query/run-query.ts';

/** Parses a query; null for a text that is not a query. */
function read(q: string): RunQuery | null {
  try {
    return parseRunQuery(q);
  } catch (thrown) {
    if (thrown instanceof RunQueryError) return null;
    throw thrown;
  }
}

function listWords(query: RunQuery): string[] {
  return query.terms.map((term) => printRunQuery({ terms: [term], sort: null }));
}

const wordsOf = (option: string): string[] => option.split(' ').filter((word) => word !== '');

/**
 * The option whose words the query contains. If the query contains several options, the option with the most words. ''
 * if the query contains none, or the text is not a query.
 */
export function chosenOf(q: string, options: readonly string[]): string {
  const query = read(q);
  if (query === null) return '';
  const held = new Set(listWords(query));
  const fitting = options.filter((option) => wordsOf(option).every((word) => held.has(word)));
  return fitting.sort((a, b) => wordsOf(b).length - wordsOf(a).length)[0] ?? '';
}

/** Whether the query has a condition on one of these fields. */
export function hasField(q: string, fields: readonly string[]): boolean {
  return listWords(read(q) ?? { terms: [], sort: null }).some((word) =>
    fields.includes(/^-?([a-z_]+):/.exec(word)?.[1] ?? ''),
  );
}

/** Returns the query with this option instead of the others. A text that is not a query is returned unchanged. */
export function choose(q: string, options: readonly string[], option: string): string {
  const query = read(q);
  if (query === null) return q;
  const known = new Set(options.flatMap(wordsOf));
  const words = listWords(query);
  const terms = query.terms.filter((_, at) => !known.has(words[at]!));
  return [option, printRunQuery({ ...query, terms })].filter((part) => part !== '').join(' ');
}
