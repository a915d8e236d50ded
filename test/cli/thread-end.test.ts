/** The log after a server thread ended unexpectedly. The service is a separate process, whose log the test reads. */
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { KEY } from '../fixtures/ending-thread.ts';
import { longFrom } from '../long-parts.ts';
import { CliChild } from './child.ts';

const ENTRY = fileURLToPath(new URL('../fixtures/ending-thread.ts', import.meta.url));

async function lastWords(how: string): Promise<Record<string, unknown>[]> {
  const { stderr } = await new CliChild([how], { entry: ENTRY }).ended;
  return stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

const ends = [
  ['throw', 'uncaughtException'],
  ['reject', 'unhandledRejection'],
] as const;
for (const [at, [how, origin]] of ends.entries())
  it(
    `an error that ends a thread (${how}) is logged with its type, its place and the exit code`,
    longFrom(at, 1),
    async () => {
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
    },
  );

it('an error of a parser that ends a thread is logged without the parsed text', async () => {
  const [failed] = await lastWords('parse');
  expect(failed).toMatchObject({ error: 'SyntaxError', reason: '' });
  expect(JSON.stringify(failed)).not.toContain('secret');
});

it('an exit of a thread is logged with its code', async () => {
  expect(await lastWords('exit')).toMatchObject([{ msg: 'a server thread ends', exit_code: 7 }]);
});

it('a thread whose heap is nearly full is logged in advance, with the option that enlarges the heap', {
  tags: 'long',
}, async () => {
  const [told, ...more] = await lastWords('memory');
  expect(told).toMatchObject({ level: 50, thread: 1, limit_mb: 96 });
  expect(told!.msg).toMatch(/nearly used up its memory.*--max-old-space-size/);
  expect(more).toEqual([]);
});

it('the end of a thread that was asked to end is not logged', async () => {
  expect(await lastWords('asked')).toEqual([]);
});
