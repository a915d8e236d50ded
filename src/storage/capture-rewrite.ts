/**
 * Writes a capture file anew beside itself, for a change of key and for an erasure; `rekey-plan.ts` puts the copies in place. Main
 * thread of the command line.
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
  /** Where the copy goes; what is there is removed. */
  copy: string;
  /** Keys of the file and of the copy; null: not encrypted. Secrets. */
  from: Uint8Array | null;
  to: Uint8Array | null;
  is_sealed: boolean;
}

/**
 * The copy is on the disk when this returns, and it is read-only where the file is sealed.
 * @param fill writes into the copy what it is to hold
 * @throws what `fill` throws, and any failure of the disk with the place named
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
