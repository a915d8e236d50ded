/** The files of the `unit` project are pure: they share their threads, so that one which waits holds up all others. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { UNIT } from '../unit-files.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const LISTENS_OR_STARTS = /from 'node:(child_process|cluster|dgram|http|http2|https|net|tls|worker_threads)'/;

it('neither listen nor start a thread or a process', () => {
  const files = globSync([...UNIT], { cwd: ROOT }).filter((file) => !file.endsWith('.long.test.ts'));
  expect(files.length).toBeGreaterThan(90);
  const impure = files.filter((file) => LISTENS_OR_STARTS.test(readFileSync(ROOT + file, 'utf8')));
  expect(impure, 'belongs to the project `process` (test/unit-files.ts)').toEqual([]);
});
