/**
 * A service that keeps data for a month, on a machine whose clock is ten years ahead at the next start. Nothing is lost
 * before the operator confirms the clock, and all old data is deleted after that.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { WholeService } from '../fixtures/whole-service.ts';

const KEY = 'metrics-key';
const folder = mkdtempSync(join(tmpdir(), 'understudy-retention-clock-'));
const env: Record<string, string> = {
  NODE_OPTIONS: `--import=${fileURLToPath(new URL('../fixtures/days-ago.mjs', import.meta.url))}`,
  DAYS_AGO: '0',
  RETENTION_DAYS: '30',
  SVC_KEYS: KEY,
};
const service = new WholeService(folder, env);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const send = async (method: string, path: string, body?: object): Promise<string> => {
  const response = await fetch(service.api + path, {
    method,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify({ org_id: 'acme', project_id: 'web', ...body }) }),
  });
  const text = await response.text();
  expect(response.status, text).toBeLessThan(300);
  return text;
};
const write = async (name: string) => {
  await send('POST', '/v1/monitor/runs', { run_id: name });
  await send('POST', `/v1/monitor/runs/${name}/steps`, { step_index: 0, tokens: 3 });
  await send('POST', `/v1/monitor/runs/${name}/finish`, { outcome: 'success' });
  await send('POST', '/v1/findings/base', { content: name });
  await service.capture(name, { messages: [{ role: 'user', content: name }] });
  expect((await fetch(`${service.gateway}/__gw/flush`, { method: 'POST' })).status).toBe(200);
};
const read = async () => {
  const runs = JSON.parse(await send('GET', '/v1/monitor/runs?org_id=acme&project_id=web')).runs;
  const { findings } = JSON.parse(await send('GET', '/v1/findings/base?org_id=acme&project_id=web'));
  const captured = await readCaptured(join(folder, 'capture.mdb'));
  return {
    runs: runs.map(({ run_id }: { run_id: string }) => run_id),
    findings: findings.map(({ content }: { content: string }) => content),
    captured: captured.map(({ record }) => record.run_id),
  };
};
/** Resolves when both deletion passes have checked all data. */
const passed = () =>
  expect
    .poll(() => send('GET', '/metrics'), { timeout: 60_000 })
    .toMatch(
      /^understudy_capture_expired_pass_timestamp_seconds [1-9][\s\S]*^understudy_retention_pass_timestamp_seconds |^understudy_retention_pass_timestamp_seconds [\s\S]*^understudy_capture_expired_pass_timestamp_seconds [1-9]/m,
    );
const waits = async () =>
  (await send('GET', '/metrics'))
    .split('\n')
    .filter((line) => line.startsWith('understudy_retention_waits_for_confirmation'))
    .sort();
const waiting = (value: 0 | 1) =>
  ['captures', 'records'].map((of) => `understudy_retention_waits_for_confirmation{of="${of}"} ${value}`);
const command = async (...argv: string[]) => {
  const { code, stdout, stderr } = await new CliChild(['retention', ...argv], {
    env: { DATA_DIR: folder, ...env },
  }).ended;
  expect(code, stderr).toBe(0);
  return stdout;
};

it('retention deletes nothing after the clock jumped ten years ahead, until the operator confirms the clock', async () => {
  expect(await command()).toContain('no pass was recorded yet');
  await service.start();
  await passed();
  expect(await waits()).toEqual(waiting(0));
  await write('kept');
  const kept = { runs: ['kept'], findings: ['kept'], captured: ['kept'] };
  expect(await read()).toEqual(kept);
  expect(await service.stop()).toBe(0);
  expect(await command()).not.toContain('WAITS');

  env.DAYS_AGO = '-3650';
  await service.start();
  await passed();
  expect(await waits()).toEqual(waiting(1));
  expect(await read()).toEqual(kept);
  expect(service.stderr.match(/understudy retention --confirm/g)).toHaveLength(2);
  const shown = JSON.parse(await command('--json'));
  expect(shown.states.map(({ verdict }: { verdict: string }) => verdict)).toEqual(['ahead', 'ahead']);
  expect(await command()).toContain('WAITS');
  expect(await service.stop()).toBe(0);

  // Another start changes nothing.
  await service.start();
  await passed();
  expect(await read()).toEqual(kept);
  expect(await command('--confirm')).toContain('confirmed');
  expect(await command()).not.toContain('WAITS');
  expect(await service.stop()).toBe(0);

  await service.start();
  await expect.poll(read, { timeout: 60_000 }).toEqual({ runs: [], findings: [], captured: [] });
  expect(await waits()).toEqual(waiting(0));
}, 180_000);
