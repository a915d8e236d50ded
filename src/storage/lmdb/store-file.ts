/**
 * Creates and rewrites the database files of DATA_DIR. A file is written under a draft name, synced and renamed, so a
 * power failure leaves it complete or missing. Main thread and command line.
 */
import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { openDataKey } from '../../std/data-key.ts';
import { makeFolder } from '../../std/folder.ts';
import { syncPath } from '../../std/synced-path.ts';
import { removeCheckpoint } from './checkpoint.ts';
import { DELETION_MARK, hasMark, listTables, openMarks } from './deletion-mark.ts';
import { checkRoom } from './file-head.ts';
import { draftPath, waitForWriter } from './file-replacement.ts';
import { measureFile } from './page-count.ts';
import { markChecksums, openCodec, SEALING, SealedTable, type ValueCodec } from './sealed-table.ts';

const MAX_NAMED = 128;
const BYTES = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const;
/** Maximum number of rows and bytes in one transaction of a copy. */
const BATCH_ROWS = 10_000;
const BATCH_BYTES = 16 << 20;

type Root = RootDatabase<Buffer, Buffer>;

/**
 * Creates a file that is missing or empty. If there is no data key, adds checksums to the values of an earlier
 * version's file. Leaves every other file as it is, and does not check its key if a data key is given.
 * @param dataKey encrypts the values; null: they have checksums
 * @returns whether an existing file was rewritten with checksums
 * @throws a file system or LMDB error; DataKeyError if the file is encrypted and there is no data key
 */
export async function prepareStoreFile(path: string, dataKey: Uint8Array | null): Promise<boolean> {
  // A killed process may have left a draft, with content that was deleted later.
  removeFile(draftPath(path));
  if (isFilled(path) && !(await lacksChecksums(path, dataKey))) return false;
  let isNew = true;
  await writeAnew(path, async (target) => {
    // Checked again, because a command may have created the file in the meantime.
    isNew = !isFilled(path);
    if (dataKey === null) markChecksums(target);
    openCodec(target, draftPath(path), openDataKey(dataKey));
    if (!isNew) await copyRows(path, target, openCodec(target, path, null)!);
  });
  return !isNew;
}

/** The sizes of a file before and after it was rewritten. */
export interface Compacted {
  path: string;
  before_bytes: number;
  after_bytes: number;
}

/** Whether the file may still contain deleted content. */
export async function hasDeletions(path: string): Promise<boolean> {
  const root = openRoot(path, true);
  try {
    return hasMark(openMarks(root));
  } finally {
    await root.close();
  }
}

/** Measures the size of a file, and how much of it is in pages that no table uses. */
export async function measureStoreFile(path: string): Promise<{ bytes: number; unused_bytes: number }> {
  const root = openRoot(path, true);
  try {
    const tables = listTables(root).map((name) => root.openDB<Buffer, Buffer>({ name, ...BYTES }));
    return measureFile(root, tables);
  } finally {
    await root.close();
  }
}

/**
 * Replaces a file by a copy with the same stored values, encrypted or not, but without free pages and deleted content.
 * No thread may have the file open.
 * @throws a file system or LMDB error. After an error or an interruption, the path has either the old file or the new
 *   one, and all rows.
 */
export async function compactStoreFile(path: string): Promise<Compacted> {
  const before_bytes = statSync(path).size;
  removeFile(draftPath(path));
  await writeAnew(path, (target) => copyRows(path, target, null));
  return { path, before_bytes, after_bytes: statSync(path).size };
}

/** Writes a file under its draft name and then renames it (file-replacement.ts). */
async function writeAnew(path: string, fill: (target: Root) => Promise<void>): Promise<void> {
  makeFolder(dirname(path));
  const draft = draftPath(path);
  checkRoom(draft);
  try {
    const target = openRoot(draft, false);
    try {
      if (isFilled(path)) await waitForWriter(path);
      await fill(target);
    } finally {
      await target.close();
    }
    syncPath(draft);
    rmSync(`${draft}-lock`, { force: true });
    // The old file's checkpoint is removed, so the old file must be synced, in case of a power failure before the
    // rename.
    if (existsSync(path)) syncPath(path);
    removeCheckpoint(path);
    rmSync(`${path}-lock`, { force: true });
    renameSync(draft, path);
    syncPath(dirname(path));
  } finally {
    removeFile(draft);
  }
}

function isFilled(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

async function lacksChecksums(path: string, dataKey: Uint8Array | null): Promise<boolean> {
  if (dataKey !== null) return false;
  const root = openRoot(path, true);
  try {
    return openCodec(root, path, null) === null;
  } finally {
    await root.close();
  }
}

/**
 * Copies the rows of all tables except the deletion mark into an empty file. With a codec, the rows that identify the
 * file and its key are not copied either.
 * @param codec encodes the values; null: they are copied unchanged, and the copy has the identity of the source
 */
async function copyRows(path: string, target: Root, codec: ValueCodec | null): Promise<void> {
  const source = openRoot(path, true);
  try {
    const left = codec === null ? [DELETION_MARK] : [DELETION_MARK, SEALING];
    for (const name of listTables(source).filter((table) => !left.includes(table))) {
      const values = target.openDB<Buffer, Buffer>({ name, ...BYTES });
      const table = codec === null ? values : new SealedTable(values, name, codec);
      let batch: { key: Buffer; value: Buffer }[] = [];
      let bytes = 0;
      const write = () => {
        target.transactionSync(() => {
          for (const row of batch) table.putSync(row.key, row.value);
        });
        batch = [];
        bytes = 0;
      };
      for (const row of source.openDB<Buffer, Buffer>({ name, ...BYTES }).getRange({})) {
        batch.push(row);
        bytes += row.value.length;
        if (batch.length >= BATCH_ROWS || bytes >= BATCH_BYTES) write();
      }
      write();
    }
  } finally {
    await source.close();
  }
}

function openRoot(path: string, readOnly: boolean): Root {
  return open<Buffer, Buffer>({
    path,
    noSubdir: true,
    maxDbs: MAX_NAMED,
    overlappingSync: false,
    // The file is synced once, when it is complete.
    noSync: !readOnly,
    readOnly,
    ...BYTES,
  });
}

function removeFile(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}-lock`, { force: true });
}
