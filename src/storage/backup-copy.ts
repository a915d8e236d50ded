/** Copies single files for a backup. Databases are checked by reading the copy. Command line. */
import { createHash } from 'node:crypto';
import { chmodSync, closeSync, copyFileSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { openDataKey } from '../std/data-key.ts';
import { syncPath } from '../std/synced-path.ts';
import { BackupError, type FileEntry } from './backup-manifest.ts';
import { chooseKey } from './capture/layout.ts';
import { checkSealing } from './lmdb/sealed-table.ts';
import { checkDatabase } from './lmdb/stores.ts';

const MAX_NAMED = 128;
const DIGEST_PIECE_BYTES = 1 << 20;

/** The fields of the manifest for a copied database. */
export type CopiedDatabase = Pick<FileEntry, 'bytes' | 'rows' | 'sha256'>;

/**
 * Copies a database as of one moment, compacted, while other processes write to it.
 * @param finish called when the copy is written, before its rows are counted
 */
export async function copyDatabase(
  path: string,
  copy: string,
  dataKey: Uint8Array | null,
  finish: (() => Promise<void>) | null = null,
): Promise<CopiedDatabase> {
  checkDatabase(path);
  const root = openForReading(path);
  try {
    checkSealing(root, path, openDataKey(chooseKey(root, path, dataKey)));
    await root.backup(copy, true);
  } finally {
    await root.close();
  }
  await finish?.();
  syncPath(copy);
  const rows = await countRows(copy);
  return { bytes: statSync(copy).size, rows, sha256: digestFile(copy) };
}

/** Copies a file that does not change. @returns length and digest of the copy */
export function copyPlain(path: string, copy: string): Pick<FileEntry, 'bytes' | 'sha256'> {
  copyFileSync(path, copy);
  // The copy has the permissions of the source, which may be too wide if an earlier version created it.
  chmodSync(copy, 0o600);
  syncPath(copy);
  return { bytes: statSync(copy).size, sha256: digestFile(copy) };
}

/**
 * Reads every entry of every table.
 * @returns the number of rows of each table
 * @throws BackupError if an entry cannot be read
 */
export async function countRows(path: string): Promise<Record<string, number>> {
  try {
    const root = openForReading(path);
    try {
      const rows: Record<string, number> = {};
      for (const name of tableNames(root)) {
        let count = 0;
        for (const entry of root.openDB<Buffer, Buffer>({ name, ...BYTES }).getRange(WHOLE)) {
          if (entry.value.length >= 0) count++;
        }
        rows[name] = count;
      }
      return rows;
    } finally {
      await root.close();
      rmSync(`${path}-lock`, { force: true });
    }
  } catch (thrown) {
    throw new BackupError(`${basename(path)} cannot be read: ${(thrown as Error).message}`);
  }
}

/**
 * The range of a whole table. Without an explicit start, lmdb-js starts tables with numeric keys at the number in its
 * last key buffer.
 */
const WHOLE = { start: Buffer.alloc(0) };
const BYTES = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const;

function openForReading(path: string): RootDatabase<Buffer, Buffer> {
  return open<Buffer, Buffer>({ path, noSubdir: true, readOnly: true, maxDbs: MAX_NAMED, ...BYTES });
}

/** LMDB stores the table names as keys of the unnamed table. */
function tableNames(root: RootDatabase<Buffer, Buffer>): string[] {
  return [...root.getKeys({})].map((key) => key.toString().replace(/\0$/, ''));
}

/** Computes the SHA-256 of a file, in hex. Reads in pieces, because a sealed capture file may be larger than memory. */
export function digestFile(path: string): string {
  const hash = createHash('sha256');
  const piece = Buffer.allocUnsafe(DIGEST_PIECE_BYTES);
  const file = openSync(path, 'r');
  try {
    for (let read = readSync(file, piece); read > 0; read = readSync(file, piece)) {
      hash.update(piece.subarray(0, read));
    }
  } finally {
    closeSync(file);
  }
  return hash.digest('hex');
}
