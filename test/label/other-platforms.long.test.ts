/**
 * The labels and the client on Bun and Deno, from npm: what they label, what they list, and what the service receives.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { startService } from '../client/scripted-service.ts';
import { NPM_MS, npmBeside } from '../fixtures/npm.ts';
import { headerOf, startRecorder } from './recorder.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

const AGENT = `
import http from 'node:http';
import { Understudy } from '${root}src/client/understudy.ts';
import { install, installedTransports, runScope } from '${root}src/label/label.ts';
const url = process.env.MODEL_URL;
install();
const post = { method: 'POST', body: '{}' };
await runScope('scope', async () => {
  await fetch(url, { ...post, headers: { 'x-own': '1' } });
  await fetch(new Request(url, { ...post, headers: { 'x-own': '2' } }));
  await new Promise((resolve) =>
    http.request(url, { method: 'POST' }, (answer) => answer.resume().on('end', resolve)).end('{}'),
  );
  await fetch(url.replace('messages', 'models'), post);
});
await fetch(url, post);
const understudy = new Understudy({ apiKey: 'k', baseUrl: process.env.SVC_BASE_URL });
await understudy.run({ runId: 'run' }, async (run) => {
  run.step({ action: 'look' });
  await fetch(url, post);
});
const isSent = await understudy.close();
console.log(JSON.stringify({ transports: installedTransports(), isSent }));
process.exit(0);
`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-platforms-'));
  writeFileSync(join(dir, 'agent.ts'), AGENT);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it.each([
  ['bun@1.4.5', 'bun agent.ts'],
  ['deno@2.9.6', 'deno run --allow-all --no-config --quiet agent.ts'],
])(
  'labels work on %s',
  async (platform, call) => {
    const service = await startService(200, {});
    const recorder = await startRecorder();
    onTestFinished(() => recorder.close());
    const env = { SVC_BASE_URL: service.url, MODEL_URL: `http://127.0.0.1:${recorder.port}/v1/messages` };
    const argv = ['exec', '--yes', '--package', platform, '--call', call];
    const said = JSON.parse((await npmBeside(argv, dir, env)).trim());
    expect(said).toEqual({ transports: ['fetch', 'node:http', 'node:https'], isSent: true });
    const labels = recorder.requests.map((request) => [
      headerOf(request, 'x-own'),
      headerOf(request, 'x-svc-run'),
      headerOf(request, 'x-svc-seq'),
    ]);
    expect(labels).toEqual([
      ['1', 'scope', '1'],
      ['2', 'scope', '2'],
      [null, 'scope', '3'],
      [null, null, null],
      [null, null, null],
      [null, 'run', '1'],
    ]);
    const paths = service.asked.map(({ path }) => path.replace('/v1/monitor/runs', ''));
    expect(paths).toEqual(['', '/run/steps', '/run/finish']);
  },
  NPM_MS,
);
