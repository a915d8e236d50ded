/**
 * Writes a new copy of a capture file beside it, for a change of key. `rekey-plan.ts` then
 * replaces the files. Main thread of the command line.
 */
import { rmSync } from 'node:fs';
import { namePlace } from '../std/file-place.ts';
import { syncPath } from '../std/synced-path.ts';
import {
  type CaptureEnv,
  createCaptureEnv,
  makeReadOnly,
  openCaptureEnv,
  syncEnv,
} from './capture/layout.ts';
import { checkRoom } from './lmdb/file-head.ts';

interface CaptureRewrite {
  path: string;
  /** Path of the copy. A file that exists there is removed. */
  copy: string;
  /** Keys of the file and of the copy; null: not encrypted. Secrets. */
  from: Uint8Array | null;
  to: Uint8Array | null;
  is_sealed: boolean;
}

/**
 * When this returns, the copy is on the disk. If the source is sealed, the copy is read-only.
 * @param fill writes the content of the copy
 * @throws what `fill` throws, and any disk error, with the path
 */
export async function rewriteCaptureFile(
  { path, copy, from, to, is_sealed }: CaptureRewrite,
  fill: (source: CaptureEnv, target: CaptureEnv) => void,
): Promise<void> {
  removeDatabase(copy);
  checkRoom(copy);
  const source = openCaptureEnv(path, 'read', from);
  try {
    const target = await createCaptureEnv(copy, to, true);
    try {
      fill(source, target);
      await syncEnv(target);
    } finally {
      await target.root.close();
    }
    syncPath(copy);
    rmSync(`${copy}-lock`, { force: true });
    if (is_sealed) makeReadOnly(copy);
  } catch (thrown) {
    throw namePlace(thrown, copy);
  } finally {
    await source.root.close();
    if (is_sealed) rmSync(`${path}-lock`, { force: true });
  }
}

/** Removes a database file and its lock. */
export function removeDatabase(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}-lock`, { force: true });
}
