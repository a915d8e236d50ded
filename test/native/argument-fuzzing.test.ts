/** Arguments of any kind, especially wrong ones: an addon returns or throws, and neither ends nor hangs the process. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { MEASURED_BYTES } from '../../src/domain/monitors/features.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const CALLS = 1_000;
/** A developer may try other seeds by hand. */
const SEED = 7;
const ADDONS = ['bytes', 'memory', 'sockets', 'texts', 'vectors', 'graph'].map((name) => ({
  name,
  file: fileURLToPath(new URL(`../../native/build/${name}.node`, import.meta.url)),
}));

/** Functions that ignore all arguments. */
const TAKING_NOTHING = new Set([
  'watchConnections',
  'watchSecureConnections',
  'resumeAccepting',
  'takeHead',
  'rawHead',
  'countSlowUpload',
  'readDescriptorLimit',
]);

it.each(ADDONS.filter(({ file }) => existsSync(file)))(
  'a fuzzed call of $name throws or returns, and never crashes',
  { tags: 'long' },
  ({ file }) => {
    const folder = mkdtempSync(join(tmpdir(), 'argument-fuzzing-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const program = fileURLToPath(new URL('./argument-fuzzing.ts', import.meta.url));
    const given = [program, file, `${SEED}`, `${CALLS}`, `${MEASURED_BYTES}`];
    // The failure message contains the arguments if the process ends unexpectedly.
    const told = execFileSync(process.execPath, given, {
      cwd: folder,
      encoding: 'utf8',
      timeout: PATIENCE_MS,
    });
    const counts = Object.entries(JSON.parse(told) as Record<string, [number, number]>);
    expect(counts.length).toBeGreaterThan(0);
    for (const [name, [returned, threw]] of counts) {
      expect(returned, `${name} answered`).toBeGreaterThan(0);
      if (!TAKING_NOTHING.has(name)) expect(threw, `${name} threw`).toBeGreaterThan(0);
    }
  },
);
