/** Temporary folders of tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A folder that is removed when the test is over, after what the test itself wants done then. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-capture-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
