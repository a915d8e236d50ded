/**
 * Files of `unit` share threads and files of `shared` share processes, so no file may affect the next one. Test thread.
 */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { OWN, UNIT } from '../unit-files.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const LISTENS_OR_STARTS = /from 'node:(child_process|cluster|dgram|http|http2|https|net|tls|worker_threads)'/;
const CHANGES_PROCESS =
  /process\.(chdir|umask)\(|(?<!['"`].*)(?:delete process\.env|process\.env\.\w+ \??\??=[^=])|\bvi\.(stubGlobal|stubEnv|mock)\(|globalThis\.\w+ =[^=]|setGlobalDispatcher\(/;

const isShort = (file: string) => !file.endsWith('.long.test.ts');

it('unit tests do not listen, and start no thread or process', () => {
  const files = globSync([...UNIT], { cwd: ROOT }).filter(isShort);
  expect(files.length).toBeGreaterThan(90);
  const impure = files.filter((file) => LISTENS_OR_STARTS.test(readFileSync(ROOT + file, 'utf8')));
  expect(impure, 'belongs to another project (test/unit-files.ts)').toEqual([]);
});

it('tests of the shared processes do not change their process', () => {
  const others = [...UNIT, ...OWN, 'test/real-clients/*'];
  const files = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: others }).filter(isShort);
  expect(files.length).toBeGreaterThan(200);
  const changing = files.filter((file) => CHANGES_PROCESS.test(readFileSync(ROOT + file, 'utf8')));
  expect(changing, 'belongs to the project `process` (test/unit-files.ts)').toEqual([]);
});
