/** Output that cannot be written is a failure that says so in one line. */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ENTRY = fileURLToPath(new URL('../../src/cli/understudy.mjs', import.meta.url));

it('says that the output cannot be written, and fails', () => {
  const full = openSync('/dev/full', 'w');
  try {
    const { status, stderr } = spawnSync(process.execPath, [ENTRY, '--help'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    expect(stderr).toMatch(/^understudy: the output cannot be written: ENOSPC[^\n]*\n$/);
    expect(status).toBe(1);
  } finally {
    closeSync(full);
  }
});
