/**
 * Rules for all test files: a failed test is not run again, a test waits for events and not for time, and a test is
 * skipped only with a condition that says why. Test thread.
 */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Files that need real time, with the reason. */
const TIMED = new Map([
  ['test/gateway/hostile-storm.long.test.ts', 'paces its load and its faults'],
  ['test/http/connections.test.ts', 'measures the processor time of a waiting process'],
]);

const files = globSync('test/**/*.test.ts', { cwd: ROOT })
  .filter((file) => file !== 'test/house/test-rules.test.ts')
  .map((file) => ({ file, text: readFileSync(ROOT + file, 'utf8') }));

function findFiles(pattern: RegExp): string[] {
  return files.filter(({ text }) => pattern.test(text)).map(({ file }) => file);
}

it('tests run once', () => {
  expect(readFileSync(`${ROOT}vitest.config.ts`, 'utf8')).not.toMatch(/\bretry\b/);
  expect(findFiles(/\b(it|test|describe)\b.*\bretry: /)).toEqual([]);
});

it('tests do not sleep', () => {
  const sleeping = findFiles(/await (delay|sleep|setTimeout)\(|=> setTimeout\(resolve\b/);
  expect(sleeping.filter((file) => !TIMED.has(file))).toEqual([]);
});

it('tests are skipped only with a condition', () => {
  expect(findFiles(/\b(it|test|describe)\.(only|skip|todo|fails)\b/)).toEqual([]);
  expect(findFiles(/\.(skipIf|runIf)\((true|false)\)/)).toEqual([]);
});

it('tests replace no modules, which Node imports itself (fixtures/module-copy.ts makes copies)', () => {
  expect(findFiles(/\bvi\.(mock|doMock|hoisted|resetModules|importActual)\(/)).toEqual([]);
});
