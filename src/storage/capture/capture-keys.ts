/**
 * The keys of a capture database while `understudy rekey --captures` changes its data key, and until the other
 * databases have the new key, too. Each capture file names its key, so files with either key can lie side by side.
 * `capture.mdb.keys` has both keys, each encrypted with the other one, so a process with either key reads all files. If
 * that file does not exist, there is one key. Any thread.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { DataKey, DataKeyError, openDataKey, SealError } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { syncFolder } from '../../std/folder.ts';
import { nameAttachment } from './attachments.ts';

const ID = z.string().regex(/^[0-9a-f]{16}$/);

export const keyChangeSchema = z.object({
  format: z.literal('understudy_capture_keys_v1'),
  /** Identifies the old key. */
  from: ID,
  /** Identifies the new key, under which new files are written. */
  to: ID,
  /** The new key encrypted with the old one, and the old key encrypted with the new one; base64. */
  to_sealed: z.base64(),
  from_sealed: z.base64(),
});
export type KeyChange = z.output<typeof keyChangeSchema>;

/** The keys of a database. Secret. */
export interface CaptureKeys {
  /** Encrypts new files; null: nothing is encrypted. */
  newest: Uint8Array | null;
  /** All keys that files may have, the newest first. */
  all: readonly (Uint8Array | null)[];
  /** The change of the key that is in progress or was completed last; null: none. */
  change: KeyChange | null;
}

const PURPOSE = 'capture keys';

/** Returns the path of the keys' file. @param db path of the live file */
export function keysPath(db: string): string {
  return `${db}.keys`;
}

/** Describes a change from one key to another. */
export function describeKeyChange(from: Uint8Array, to: Uint8Array): KeyChange {
  const [old, next] = [new DataKey(from), new DataKey(to)];
  const place = placeOf(old.id, next.id);
  return {
    format: 'understudy_capture_keys_v1',
    from: old.id,
    to: next.id,
    to_sealed: old.sealer(PURPOSE).seal(to, place).toString('base64'),
    from_sealed: next.sealer(PURPOSE).seal(from, place).toString('base64'),
  };
}

/**
 * Reads the keys of a database.
 * @param dataKey the configured key; null: none
 * @throws DataKeyError if the file of the keys cannot be read
 */
export function readCaptureKeys(db: string, dataKey: Uint8Array | null): CaptureKeys {
  const change = readKeyChange(db);
  if (change === null || dataKey === null) return { newest: dataKey, all: [dataKey], change };
  const own = new DataKey(dataKey);
  if (own.id !== change.from && own.id !== change.to) return { newest: dataKey, all: [dataKey], change };
  const other = openOther(db, own, change);
  return own.id === change.to
    ? { newest: dataKey, all: [dataKey, other], change }
    : { newest: other, all: [other, dataKey], change };
}

/** Reads the file of the keys. @returns null if it does not exist. @throws DataKeyError if it cannot be read */
export function readKeyChange(db: string): KeyChange | null {
  const path = keysPath(db);
  if (!existsSync(path)) return null;
  try {
    return keyChangeSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (thrown) {
    // The file was removed meanwhile.
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw refuse(path);
  }
}

function openOther(db: string, own: DataKey, change: KeyChange): Uint8Array {
  const sealed = Buffer.from(own.id === change.to ? change.from_sealed : change.to_sealed, 'base64');
  try {
    return own.sealer(PURPOSE).open(sealed, placeOf(change.from, change.to));
  } catch (thrown) {
    if (!(thrown instanceof SealError)) throw thrown;
    throw refuse(keysPath(db));
  }
}

function refuse(path: string): DataKeyError {
  return new DataKeyError(`${path} is damaged: restore it from a backup`);
}

/** Writes the file. It is on the disk when this returns. @throws a file system error */
export function writeKeyChange(db: string, change: KeyChange): void {
  const path = keysPath(db);
  const draft = `${path}.new`;
  try {
    writeFileSync(draft, `${JSON.stringify(change)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
    syncFolder(dirname(path));
  } catch (thrown) {
    rmSync(draft, { force: true });
    throw namePlace(thrown, path);
  }
}

function placeOf(from: string, to: string): Buffer {
  return Buffer.from(`${from} ${to}`);
}

/** Lists the names that the file of an attachment may have: one for each key. */
export function listAttachmentNames(sha256: string, { all }: CaptureKeys): string[] {
  return all.map((key) => nameAttachment(sha256, openDataKey(key)));
}
