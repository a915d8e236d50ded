/** The service of this checkout on each supported Node: a run goes through the gateway, is captured and shown. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { npmBeside } from '../fixtures/npm.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

it.each(['22', '24'])('the service captures on Node %s', async (major) => {
  const dir = mkdtempSync(join(tmpdir(), 'understudy-on-node-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const call = 'node --version && node tools/run.mjs src/demo/run.ts';
  const argv = ['exec', '--yes', '--package', `node@${major}`, '--call', call];
  const said = await npmBeside(argv, root, { DATA_DIR: dir, NO_COLOR: '1' });
  expect(said).toMatch(new RegExp(`^v${major}\\.`));
  expect(said).toMatch(/^#7 {2}seq 6 .*\n.*\n {2}assistant All checks pass now\./m);
});
