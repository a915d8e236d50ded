/**
 * Queries that the reader saved in this browser: at most SAVED_QUERIES, and a further one removes the oldest. Browser.
 */

const KEY = 'understudy.queries';
const SAVED_QUERIES = 12;

export function listQueries(): string[] {
  try {
    const saved: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(saved) ? saved.filter((query): query is string => typeof query === 'string') : [];
  } catch {
    // The browser stores nothing, or the entry has another form.
    return [];
  }
}

/** @returns what is saved now */
export function saveQuery(query: string): string[] {
  return write([...listQueries().filter((saved) => saved !== query), query].slice(-SAVED_QUERIES));
}

/** @returns what is saved now */
export function forgetQuery(query: string): string[] {
  return write(listQueries().filter((saved) => saved !== query));
}

function write(queries: string[]): string[] {
  try {
    localStorage.setItem(KEY, JSON.stringify(queries));
  } catch {
    // Without storage the queries last as long as the page.
  }
  return queries;
}
