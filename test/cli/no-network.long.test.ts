/**
 * A first start, the embedded engines and the demo need no network: they run in a network namespace with only loopback.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const RUN = fileURLToPath(new URL('../fixtures/offline-run.ts', import.meta.url));

/** A network namespace with loopback up, if this machine lets users create one. */
function runAlone(command: readonly string[]) {
  const up = 'ip link set lo up && exec "$@"';
  return spawnSync('unshare', ['--map-root-user', '--net', 'sh', '-c', up, 'sh', ...command], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  });
}

const mayMakeOne = runAlone(['true']).status === 0;

it.skipIf(!mayMakeOne)(
  'a first start, every embedded engine and the demo send nothing beyond loopback (needs unshare and ip)',
  () => {
    const dir = mkdtempSync(join(tmpdir(), 'understudy-alone-'));
    try {
      const { stdout, stderr } = runAlone([process.execPath, RUN, dir]);
      expect(stdout, stderr).not.toBe('');
      const { statuses, code, demoCode, attempts, control } = JSON.parse(stdout);
      expect(statuses).toEqual(statuses.map(() => 200));
      expect([code, demoCode]).toEqual([0, 0]);
      expect(control, 'an attempt is counted').toBeGreaterThan(0);
      expect(attempts).toBe(0);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
);
