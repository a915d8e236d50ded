/** Evaluations of posted steps over several server threads, at the same time, and after a kill. */
import { expect, it } from 'vitest';
import { databasePaths } from '../../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { ApiChild } from '../fixtures/api-child.ts';

/** Headers for a new connection with each request, which the kernel gives to one of the server threads. */
const APART = { connection: 'close' };

function evaluate(child: ApiChild, calls: number) {
  const step = { action: 'search', action_input: '{"q":"needle"}', observation: 'no results' };
  return child.post('/v1/monitors/evaluate', { task: 'find it', steps: Array(calls).fill(step) }, APART);
}

it('evaluations on all server threads belong to one run, which counts once and is known after a kill', async () => {
  await using child = new ApiChild({ SERVER_THREADS: '3', ACTOR_THREADS: '1' });
  await child.start();
  const injected: [number, string][] = [];
  for (let calls = 1; calls <= 5; calls++) {
    const answers = await Promise.all(Array.from({ length: 8 }, () => evaluate(child, calls)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    if (answers[0]!.body.inject) injected.push([calls, answers[0]!.body.level]);
  }
  const { text } = await evaluate(child, 3);
  await child.kill();
  await child.start();
  expect((await evaluate(child, 3)).text).toBe(text);
  for (let calls = 6; calls <= 9; calls++) {
    const { body } = await evaluate(child, calls);
    if (body.inject) injected.push([calls, body.level]);
  }
  expect(injected).toEqual([
    [3, 'nudge'],
    [6, 'stop'],
  ]);
  expect(await child.stop()).toBe(0);
  const tables = new LmdbTables(databasePaths(child.dir).runs, 'process');
  const rows = [...tables.range('usage', { prefix: [] })].map(({ value }) => value);
  await tables.close();
  expect(rows).toMatchObject([{ evaluations: 5 * 8 + 6, injections_evaluate: 2 }]);
});
