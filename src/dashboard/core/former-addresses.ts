/**
 * Converts addresses of earlier releases. Captured and reported runs had separate lists, with filters that are now
 * words of the query. Pure; browser.
 */
import { quoteValue } from '../../domain/run-query/words.ts';

export interface Address {
  /** '' for the first page. */
  page: string;
  /** The selected item; null: none. */
  selection: string | null;
  /** Filters, and the organization as `org`. */
  query: Readonly<Record<string, string>>;
}

type Filters = Readonly<Record<string, string | undefined>>;

/** Filters for an exact name, with the field of the query. */
const NAMES: readonly [filter: string, field: string][] = [
  ['model', 'model'],
  ['session', 'session'],
  ['agent_name', 'agent'],
  ['outcome', 'outcome'],
  ['task_profile', 'profile'],
];
/** The other filters, by their values. */
const CHOICES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  golden: { yes: 'is:golden', no: '-is:golden' },
  own: { yes: '-is:child', no: 'is:child' },
  served_by: { student: 'served:student', upstream: 'served:upstream' },
  status: { running: 'status:running', finished: '-status:running' },
};
const FORMER = new Set([...NAMES.map(([filter]) => filter), ...Object.keys(CHOICES), 'fired', 'from', 'to']);

/** @returns the same object for an address in today's form */
export function renewAddress(address: Address): Address {
  const { page, selection, query } = address;
  const isCaptured = page === 'conversations';
  if (selection !== null || !(isCaptured || page === 'runs'))
    return isCaptured ? { ...address, page: 'runs' } : address;
  if (!isCaptured && !Object.keys(query).some((name) => FORMER.has(name))) return address;
  const kept = Object.fromEntries(Object.entries(query).filter(([name]) => !FORMER.has(name)));
  const words = [query.q ?? '', isCaptured ? 'is:captured' : '', ...wordsOf(query)];
  return { page: 'runs', selection, query: { ...kept, q: words.filter((word) => word !== '').join(' ') } };
}

function wordsOf(filters: Filters): string[] {
  const words: string[] = [];
  for (const [filter, field] of NAMES) {
    const value = filters[filter] ?? '';
    if (value !== '') words.push(`${field}:=${quoteValue(value, false)}`);
  }
  for (const [filter, choices] of Object.entries(CHOICES)) {
    const word = choices[filters[filter] ?? ''];
    if (word !== undefined) words.push(word);
  }
  const { fired = '', from = '', to = '' } = filters;
  if (fired !== '') words.push(`monitor:${quoteValue(fired, false)}`);
  if (from !== '' || to !== '') words.push(`started:${from}..${to}`);
  return words;
}
