/** When a process continues after `waitAtEnd`, which waits for its last work. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';

const MODULE = new URL('../../src/std/last-wait.ts', import.meta.url).href;

/** @returns the exit status and the output of a process that runs the statements */
async function run(statements: string): Promise<[number | null, string]> {
  const code = `import { waitAtEnd } from '${MODULE}'; ${statements}`;
  const child = spawn(process.execPath, [...STRIPPED_FLAGS, '--input-type=module', '-e', code]);
  let said = '';
  child.stdout.on('data', (bytes: Buffer) => (said += bytes));
  const [status] = (await once(child, 'close')) as [number | null];
  return [status, said];
}

const NEVER = 'new Promise(() => {})';

it.each([
  ['nothing keeps the process alive', `await waitAtEnd(${NEVER}, 1e9)`],
  [
    'the limit passes',
    `setTimeout(() => {}, 1e9).unref(); setTimeout(() => {}, 50); await waitAtEnd(${NEVER}, 10)`,
  ],
  ['the work fails', "await waitAtEnd(Promise.reject(new Error('no')), 1e9)"],
  ['the work ends', 'await waitAtEnd(Promise.resolve(), 1e9)'],
])('a process continues when %s', async (_when, statement) => {
  expect(await run(`${statement}; console.log('continued')`)).toEqual([0, 'continued\n']);
});

it('a process that awaits a promise that never settles exits with status 13', async () => {
  expect(await run(`await ${NEVER}`)).toEqual([13, '']);
});
