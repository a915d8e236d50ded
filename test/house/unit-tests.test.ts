/** Files of `unit` share threads and files of `shared` share processes, so none of them may disturb the next one. Test thread. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { SHARED, UNIT } from '../unit-files.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const LISTENS_OR_STARTS = /from 'node:(child_process|cluster|dgram|http|http2|https|net|tls|worker_threads)'/;
const STARTS_PROCESSES =
  /from '(node:(child_process|cluster)|[./]*\/cli\/child\.ts)'|process\.(chdir|umask)\(/;

it('unit tests do not listen, and start no thread or process', () => {
  const files = globSync([...UNIT], { cwd: ROOT }).filter((file) => !file.endsWith('.long.test.ts'));
  expect(files.length).toBeGreaterThan(90);
  const impure = files.filter((file) => LISTENS_OR_STARTS.test(readFileSync(ROOT + file, 'utf8')));
  expect(impure, 'belongs to the project `process` (test/unit-files.ts)').toEqual([]);
});

it('tests of the shared processes start no process', () => {
  const files = globSync([...SHARED], { cwd: ROOT });
  expect(files.length).toBeGreaterThan(90);
  const starting = files.filter((file) => STARTS_PROCESSES.test(readFileSync(ROOT + file, 'utf8')));
  expect(starting, 'belongs to the project `process` (test/unit-files.ts)').toEqual([]);
});
