/** A service says which code checks the framing of requests, in its start-up lines, its stats and its metrics. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CliChild } from '../cli/child.ts';

const WITHOUT = new URL('../fixtures/without-sockets.mjs', import.meta.url).href;
const ADDON = new URL('../../native/build/sockets.node', import.meta.url);
const OWN = process.platform === 'linux' && existsSync(ADDON) ? 'native' : 'js';

async function checkGuard(guard: string, env: Record<string, string>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-guard-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await using child = new CliChild(['up', '--port', '0'], { env: { DATA_DIR: folder, PORT: '0', ...env } });
  await child.waitForOutput(/inspect --db .*\n/);
  const [, gateway = ''] = /^ {2}Gateway +(http:\/\/\S+) {2}->/m.exec(child.stdout)!;
  const [, api = ''] = /^ {2}API +(http:\/\/\S+)/m.exec(child.stdout)!;
  expect(await (await fetch(`${gateway}/__gw/stats`)).json()).toMatchObject({ framing_guard: guard });
  expect(await (await fetch(`${api}/metrics`)).text()).toContain(
    `understudy_framing_guard{kind="${guard}"} 1`,
  );
  child.process.kill('SIGTERM');
  expect((await child.ended).stdout).toContain(`framing_guard: ${guard}`);
}

it('the service names its native guard where that is built, otherwise the one in JavaScript', () =>
  checkGuard(OWN, {}));

it('the service without its native code names the guard in JavaScript', { tags: 'long' }, () =>
  checkGuard('js', { NODE_OPTIONS: `--import ${WITHOUT}` }),
);
