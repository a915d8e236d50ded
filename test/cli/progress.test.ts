/** Progress of a command: overwritten lines on a terminal, and no escapes elsewhere. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

const folder = mkdtempSync(join(tmpdir(), 'progress-'));
const hasTerminals = spawnSync('script', ['--version']).status === 0;
const ESCAPE = '\x1b';
let made = 0;

beforeAll(async () => {
  const keys = await runHere(['keys', 'create', '--org', 'acme', '--name', 'a'], { DATA_DIR: folder });
  expect(keys.code, keys.stderr).toBe(0);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a backup as a process. @returns what it prints */
async function backUp(env: Record<string, string>, terminal: boolean): Promise<string> {
  await using child = new CliChild(['backup', '--out', join(folder, `backup-${++made}`)], {
    env: { DATA_DIR: folder, TERM: 'xterm-256color', ...env },
    terminal,
  });
  const { code, stdout, stderr } = await child.ended;
  expect(code, stderr).toBe(0);
  return stdout + stderr;
}

it.skipIf(!hasTerminals)(
  'progress is shown on a terminal, where `script` is installed',
  { tags: 'long' },
  async () => {
    expect(await backUp({}, true)).toContain(`\r${ESCAPE}[K1 of `);
  },
);

it.skipIf(!hasTerminals)(
  'progress is not shown with NO_COLOR, where `script` is installed',
  { tags: 'long' },
  async () => {
    expect(await backUp({ NO_COLOR: '1' }, true)).not.toContain(ESCAPE);
  },
);

it('progress is not shown if standard error is not a terminal', async () => {
  expect(await backUp({}, false)).not.toContain(ESCAPE);
});
