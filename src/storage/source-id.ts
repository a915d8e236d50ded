/** Identifies a DATA_DIR, for places outside the machine that accept the data of only one. Command line. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isThere } from '../std/file-place.ts';
import { makeFolder } from '../std/folder.ts';

/**
 * Reads the id, or creates it. Backups do not contain the id, so a restored DATA_DIR gets another one.
 * @throws a file system error
 */
export function readSourceId(dataDir: string): string {
  const path = join(dataDir, 'backup-source');
  if (!isThere(path)) {
    makeFolder(dataDir, 0o700);
    writeFileSync(path, `${randomBytes(16).toString('hex')}\n`, { mode: 0o600, flush: true, flag: 'wx' });
  }
  return readFileSync(path, 'utf8').trim();
}
