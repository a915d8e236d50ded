/** The log after a server thread ended unexpectedly. The service is a separate process, whose log the test reads. */
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { KEY } from '../fixtures/ending-thread.ts';
import { CliChild } from './child.ts';

const ENTRY = fileURLToPath(new URL('../fixtures/ending-thread.ts', import.meta.url));

async function lastWords(how: string): Promise<Record<string, unknown>[]> {
  const { stderr } = await new CliChild([how], { entry: ENTRY }).ended;
  return stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

it.each([
  ['throw', 'uncaughtException'],
  ['reject', 'unhandledRejection'],
])('by an error (%s): which one, where, and the exit code', async (how, origin) => {
  const [failed, ended, ...more] = await lastWords(how);
  expect(failed).toMatchObject({
    level: 60,
    msg: 'a server thread fails',
    error: 'TypeError',
    code: 'E_NO',
    origin,
  });
  expect(failed!.reason).toMatch(/^no \[redacted\] at all /);
  expect((failed!.reason as string).length).toBeLessThanOrEqual(300);
  expect((failed!.at as string[])[0]).toContain('ending-thread.ts');
  expect(JSON.stringify(failed)).not.toContain(KEY);
  expect(ended).toMatchObject({ level: 60, msg: 'a server thread ends', exit_code: 1 });
  expect(more).toEqual([]);
});

it('by what a parser throws: nothing of what it parsed', async () => {
  const [failed] = await lastWords('parse');
  expect(failed).toMatchObject({ error: 'SyntaxError', reason: '' });
  expect(JSON.stringify(failed)).not.toContain('secret');
});

it('by an exit: with its code', async () => {
  expect(await lastWords('exit')).toMatchObject([{ msg: 'a server thread ends', exit_code: 7 }]);
});

it('by a full heap: beforehand, which thread it is and what gives it more', { tags: 'long' }, async () => {
  const [told, ...more] = await lastWords('memory');
  expect(told).toMatchObject({ level: 50, thread: 1, limit_mb: 96 });
  expect(told!.msg).toMatch(/nearly used up its memory.*--max-old-space-size/);
  expect(more).toEqual([]);
});

it('as it was asked to: nothing', async () => {
  expect(await lastWords('asked')).toEqual([]);
});
