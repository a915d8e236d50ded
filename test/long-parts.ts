/**
 * Which parts of test files `npm test` leaves out: tests with the tag `long`, and most draws of property tests. The
 * project `long-parts` (vitest.config.ts) runs the tagged tests. Loaded by Vitest's own process and by test files.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const TAG = /\btags: 'long'|\blongFrom\(/;
/** A file that runs another file's tests again, over TLS. */
const RERUN = /^await import\('(\.\/[^']+\.test\.ts)'\)/m;

/** @returns the test files that contain tests with the tag, as paths from the root */
export function findTaggedFiles(root: string): string[] {
  return globSync('test/**/!(*.long).test.ts', { cwd: root }).filter((file) => isTagged(join(root, file)));
}

function isTagged(path: string): boolean {
  const text = readFileSync(path, 'utf8');
  const rerun = RERUN.exec(text)?.[1];
  return TAG.test(text) || (rerun !== undefined && isTagged(join(dirname(path), rerun)));
}

/**
 * Parameters of a property test: a third of its draws with `npm test`, all with ALL_DRAWS=1, which `.ci/run` sets.
 * @param all how many draws
 */
export function drawsOf(all: number): { numRuns: number } {
  return { numRuns: process.env.ALL_DRAWS === '1' ? all : Math.ceil(all / 3) };
}

/**
 * Options for one of many similar cases: the first ones run with `npm test`, the others with `npm run test:long`.
 * @param at which case it is, from 0
 * @param short how many cases `npm test` runs
 */
export function longFrom(at: number, short: number): { tags: string[] } {
  return { tags: at < short ? [] : ['long'] };
}
