/** Temporary folders of tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A folder that is removed after the test and its own clean-up. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-capture-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
