/** Monitoring of a service from outside: its metrics, the alerts on them, the container's health check. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { DROP_CAUSES } from '../../src/domain/capture-cause.ts';
import { CAPTURE_REASONS } from '../../src/domain/capture-health.ts';
import { CliChild } from '../cli/child.ts';
import { makeFolder } from '../storage/folder.ts';

const DEPLOY = fileURLToPath(new URL('../../deploy', import.meta.url));

/** Reads the expressions of the alerts, and the metrics with labels that the expressions contain. */
function readAlerts(): { exprs: string[]; metrics: string[] } {
  const text = readFileSync(join(DEPLOY, 'alerts.yml'), 'utf8');
  const exprs = [...text.matchAll(/^ +expr: (.*)$/gm)].map(([, expr]) => expr!);
  return { exprs, metrics: exprs.flatMap((expr) => expr.match(/understudy_\w+\{[^}]*\}/g) ?? []) };
}

it('each reason for stopping and each cause of drops has an alert', () => {
  const { exprs, metrics } = readAlerts();
  expect(metrics).toHaveLength(exprs.length);
  expect(new Set(metrics)).toEqual(
    new Set([
      ...CAPTURE_REASONS.map((reason) => `understudy_capture_reason{reason="${reason}"}`),
      ...DROP_CAUSES.map((cause) => `understudy_capture_dropped_total{cause="${cause}"}`),
      'understudy_capture_status{status="stopped"}',
    ]),
  );
});

it('the alerts’ metrics follow the service’s status, and so does the health check', {
  tags: 'long',
}, async () => {
  const folder = makeFolder();
  await using child = new CliChild(['up', '--port', '0'], { env: { DATA_DIR: folder, PORT: '0' } });
  await child.waitForOutput(/inspect --db .*\n/);
  const [, gateway = ''] = /^ {2}Gateway +(http:\/\/\S+) {2}->/m.exec(child.stdout)!;
  const [, api = ''] = /^ {2}API +(http:\/\/\S+)/m.exec(child.stdout)!;
  const read = async (path: string) => (await fetch(`${api}${path}`)).text();
  const check = () => {
    const env = { PATH: process.env.PATH, PORT: new URL(api).port, GW_PORT: new URL(gateway).port };
    const { status, stdout } = spawnSync(process.execPath, [join(DEPLOY, 'healthcheck.mjs')], { env });
    return [status, String(stdout)];
  };
  const before = await read('/metrics');
  for (const metric of readAlerts().metrics) expect(before).toContain(`\n${metric} 0\n`);
  expect(before).toContain('\nunderstudy_capture_status{status="ok"} 1\n');
  expect(before).toContain('\n# TYPE understudy_capture_dropped_total counter\n');
  expect(before).toContain('\nunderstudy_capture_errors_total{cause="disk_full"} 0\n');
  expect(JSON.parse(await read('/ready'))).toMatchObject({ status: 'ready', capture: 'ok' });
  expect(check()).toEqual([0, 'capture: ok\n']);

  await fetch(`${gateway}/__gw/writer/kill`, { method: 'POST' });
  const after = await read('/metrics');
  for (const line of [
    'status{status="ok"} 0',
    'status{status="stopped"} 1',
    'reason{reason="writer_killed"} 1',
  ])
    expect(after).toContain(`\nunderstudy_capture_${line}\n`);
  expect(JSON.parse(await read('/ready'))).toMatchObject({ status: 'ready', capture: 'stopped' });
  expect(check()).toEqual([1, expect.stringMatching(/^capture: stopped\. Capture was stopped by/)]);

  child.process.kill('SIGTERM');
  await child.ended;
  expect(check()).toEqual([1, 'capture: none\n']);
});
