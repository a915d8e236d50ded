/**
 * The cases in `clients/cases`, which the client libraries of both languages must pass. The Python client's tests also
 * read them.
 */

import { readFileSync } from 'node:fs';

export function readCases<Case>(name: string): Case {
  const file = new URL(`../../clients/cases/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as Case;
}

/**
 * Converts the keys of an object from snake_case, which the cases use, to camelCase, which the options of the
 * TypeScript client use.
 */
export function camelCased(object: Readonly<Record<string, unknown>>): Record<string, never> {
  const entries = Object.entries(object).map(([key, value]) => [
    key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  return Object.fromEntries(entries) as Record<string, never>;
}
