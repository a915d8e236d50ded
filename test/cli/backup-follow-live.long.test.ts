/**
 * `backup --follow` of a service under writes until a kill ends both, and a service that starts from the backup.
 */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { makeFolder } from '../storage/folder.ts';
import { CliChild, runCli } from './child.ts';

it('a backup contains every run acknowledged before the time that its last point names', async () => {
  await using api = new ApiChild({ AUTH_DB_URL: 'embedded:' });
  await api.start();
  const place = join(makeFolder(), 'place');
  const acknowledged = new Map<string, number>();
  let isWriting = true;
  const write = async (writer: number): Promise<void> => {
    for (let n = 0; isWriting; n++) {
      const run_id = `run-${writer}-${n}`;
      const answer = await api.post('/v1/monitor/runs', { run_id }).catch(() => null);
      if (answer?.status === 200) acknowledged.set(run_id, Date.now());
    }
  };
  const writers = [1, 2, 3].map(write);
  await using follow = new CliChild(['backup', '--follow', '--every', '1s', '--json', '--out', place], {
    env: { DATA_DIR: api.dir },
  });
  await follow.waitForOutput(/^(?:.*\n){4}/);
  isWriting = false;
  await Promise.all([follow.kill(), api.kill()]);
  await Promise.all(writers);

  await using again = new ApiChild({ AUTH_DB_URL: 'embedded:' });
  const restored = await runCli(['restore', '--from', place], { DATA_DIR: again.dir });
  expect(restored.code, restored.stderr).toBe(0);
  const [, from = ''] = /acknowledged before (\S+Z)\./.exec(restored.stdout)!;
  await again.start();
  const before = [...acknowledged].filter(([, atMs]) => atMs < Date.parse(from));
  expect(before.length).toBeGreaterThan(20);
  const missing: string[] = [];
  for (const [run_id] of before) {
    const found = await again.get(`/v1/monitor/runs/${run_id}`);
    if (found.status !== 200) missing.push(run_id);
  }
  expect(missing).toEqual([]);
});
