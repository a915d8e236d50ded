/** `npm run demo` as a newcomer runs it: a separate process, no key in the environment, output into a pipe. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { OVERLOADED_TURN, STORY_TURNS, TASK } from '../../src/demo/story.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { CliChild } from '../cli/child.ts';
import { findChromium, openBrowser } from '../dashboard/browser.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const ENTRY = fileURLToPath(new URL('../../src/demo/run.ts', import.meta.url));

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'understudy-demo-test-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

it('the demo runs the agent through the gateway, shows the run, and can be run again', async () => {
  for (let time = 0; time < 2; time += 1) {
    await using demo = new CliChild([], { entry: ENTRY, env: { DATA_DIR: dir } });
    const { code, stdout, stderr } = await demo.ended;
    expect(stderr).toBe('');
    expect(code).toBe(0);
    expect(stdout).toContain('run_tests: 2 checks passed');
    expect(stdout).toContain('understudy-gateway inspect --db');
    // The output has no colours and no cursor movements.
    expect(stdout.includes('\u001b')).toBe(false);
  }
});

it('the demo leaves a database with the run: every turn, the overloaded call and its retry', () => {
  const reader = CaptureReader.open(join(dir, 'demo', 'capture.mdb'));
  const records = [...reader.exchanges({ run_id: 'demo' })];
  expect(records.length).toBe(STORY_TURNS + 1);
  expect(records.map((record) => record.seq)).toEqual([1, 2, 3, OVERLOADED_TURN, OVERLOADED_TURN, 5, 6]);
  expect(records.map((record) => record.status)).toEqual([200, 200, 200, 529, 200, 200, 200]);
  expect(records.at(-1)).toMatchObject({ note: 'demo', stop_reason: 'end_turn', undecodable: false });
  const last = Buffer.from(reader.body(records.at(-1)!.id, 'response')!).toString();
  expect(last).toContain('event: message_stop');
  return reader.close();
});

it('the demo ends on a terminal with a link to its run in the dashboard', async () => {
  await using demo = new CliChild([], { entry: ENTRY, env: { DATA_DIR: dir }, terminal: true });
  const [, url = '', token = ''] = await demo.waitForOutput(/(http:\/\/\S+)\/#token=(\S+)&next=runs\/demo/);
  const headers = { authorization: `Bearer ${token}` };
  const readRun = async () => (await fetch(`${url}/capture/runs/demo`, { headers })).json();
  await expect.poll(readRun).toMatchObject({ run: { golden: true, turns: STORY_TURNS + 1 } });
  expect((await fetch(`${url}/`)).status).toBe(200);
  demo.process.kill('SIGTERM');
  await demo.ended;
});

it.skipIf(findChromium() === null)(
  'the demo ends with a link that shows its run in Chromium',

  async () => {
    await using demo = new CliChild([], { entry: ENTRY, env: { DATA_DIR: dir }, terminal: true });
    const [link] = await demo.waitForOutput(/http:\/\/\S+\/#token=\S+&next=runs\/demo/);
    const browser = await openBrowser();
    try {
      const page = await browser.newPage();
      await page.goto(link!);
      await page.getByRole('heading', { level: 1, name: TASK }).waitFor({ timeout: PATIENCE_MS });
      await page.locator('.turn').nth(STORY_TURNS).waitFor({ timeout: PATIENCE_MS });
      expect(page.url()).not.toContain('token');
    } finally {
      await browser.close();
    }
    demo.process.kill('SIGTERM');
    await demo.ended;
  },
);
