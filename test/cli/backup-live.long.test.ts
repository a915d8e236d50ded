/** A backup of a running process under writes, and a process that starts from the backup. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { runCli } from './child.ts';

it('a backup contains every write acknowledged before it began, and tokens and keys remain valid', async () => {
  await using api = new ApiChild({ AUTH_DB_URL: 'embedded:' });
  await api.start();
  const env = { DATA_DIR: api.dir };
  const token = (await runCli(['token', '--email', 'ann@example.com'], env)).stdout.trim();
  const call = async (url: string, credential: string, method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${credential}`, 'content-type': 'application/json' };
    const response = await fetch(url + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  };
  const me = (await call(api.url, token, 'GET', '/auth/me')).body as { id: string };
  const key = (await call(api.url, token, 'POST', '/api-keys/', { name: 'ci' })).body as { raw_key: string };
  const start = (url: string, run_id: string) =>
    call(url, key.raw_key, 'POST', '/v1/monitor/runs', { run_id });
  const begun = await start(api.url, 'before');
  expect(begun.status).toBe(200);

  let isWriting = true;
  const writer = (async () => {
    for (let n = 0; isWriting; n++) await start(api.url, `meanwhile-${n}`);
  })();
  const out = join(api.dir, 'copy');
  const taken = await runCli(['backup', '--out', out, '--json'], env);
  isWriting = false;
  await writer;
  expect(taken.code, taken.stderr).toBe(0);
  const names = (JSON.parse(taken.stdout) as { files: { name: string }[] }).files.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['main.mdb', 'runs.mdb', 'secrets/jwt-secret']));

  await using again = new ApiChild({ AUTH_DB_URL: 'embedded:' });
  const restored = await runCli(['restore', '--from', out], { DATA_DIR: again.dir });
  expect(restored.code, restored.stderr).toBe(0);
  expect(existsSync(join(again.dir, 'runs.mdb'))).toBe(true);
  await again.start();
  expect((await call(again.url, token, 'GET', '/auth/me')).body).toMatchObject({ id: me.id });
  // The run exists, because a repeated start gets the first answer.
  expect(await start(again.url, 'before')).toEqual(begun);
  // The start may have been before midnight, hence two days.
  const usage = (await call(again.url, token, 'GET', '/usage/?days=2')).body as { totals: { runs: number } };
  expect(usage.totals.runs).toBeGreaterThanOrEqual(1);
});
