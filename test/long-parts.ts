/**
 * Which tests of the files of `unit` and `process` belong to the project `long-parts` (vitest.config.ts): those with the
 * tag `long`. Vitest's own process and every test file's.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const TAG = /\btags: 'long'|\blongFrom\(/;
/** A file that runs another file's tests again, over TLS. */
const RERUN = /^await import\('(\.\/[^']+\.test\.ts)'\)/m;

/** @returns the test files, relative to the root, with tests that have the tag */
export function findTaggedFiles(root: string): string[] {
  return globSync('test/**/!(*.long).test.ts', { cwd: root }).filter((file) => isTagged(join(root, file)));
}

function isTagged(path: string): boolean {
  const text = readFileSync(path, 'utf8');
  const rerun = RERUN.exec(text)?.[1];
  return TAG.test(text) || (rerun !== undefined && isTagged(join(dirname(path), rerun)));
}

/**
 * Options for one of many similar cases: the first ones run with `npm test`, the others with `npm run test:long`.
 * @param at which case it is, from 0
 * @param short how many cases `npm test` runs
 */
export function longFrom(at: number, short: number): { tags: string[] } {
  return { tags: at < short ? [] : ['long'] };
}
