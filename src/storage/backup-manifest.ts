/**
 * The `manifest.json` of a backup: its format, and which names it may list. A backup may come from an untrusted source.
 * So a file's kind decides where it is restored, and a name that `writeBackup` never writes is refused. Command line.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { keysPath } from './capture/capture-keys.ts';
import { attachmentsFolder, sealedPath } from './capture/layout.ts';

/** Maximum size of a manifest, enough for a few million attachments. A larger one is refused. */
const BACKUP_MANIFEST_BYTES_MAX = 512 << 20;

/** A backup cannot be taken, or cannot be trusted. The message is one line for the operator. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
}

export interface BackupSource {
  /** DATA_DIR */
  data_dir: string;
  /** The capture database, which may lie elsewhere. */
  capture_db: string;
  /** The key of all databases; null or left out: they are not encrypted. */
  data_key?: Uint8Array | null;
}

export const MANIFEST = 'manifest.json';
export const BACKUP_FORMAT = 'understudy_backup_v1';
/** Databases of DATA_DIR, which have the same names in a backup. */
export const DATABASES = ['main.mdb', 'runs.mdb'] as const;
export const CAPTURE = 'capture.mdb';
/** The keys of capture files while their key is being changed (capture/capture-keys.ts). */
export const CAPTURE_KEYS = 'capture.mdb.keys';

const SEALED_NAME = /^capture\.(\d{1,15})-(\d{1,15})((?:\.[\w-]{1,40})?)$/;

/** The names that files of each kind may have. No name begins with a dot or leads out of its folder. */
const NAMES = {
  database: /^(?:main|runs)\.mdb$/,
  redo: /^runs\.\d{1,6}\.redo$/,
  capture: /^capture\.mdb$/,
  sealed: SEALED_NAME,
  keys: /^capture\.mdb\.keys$/,
  attachment: /^attachments\/[0-9a-f]{64}$/,
  secret: /^secrets\/\w[\w.-]{0,99}$/,
} as const;

type Kind = keyof typeof NAMES;
const KINDS = Object.keys(NAMES) as [Kind, ...Kind[]];

const fileEntry = z
  .object({
    /** Relative to the backup. */
    name: z.string(),
    kind: z.enum(KINDS),
    bytes: z.number().int().min(0),
    /** For a database: the number of rows of each named table. */
    rows: z.record(z.string(), z.number().int()).optional(),
    sha256: z.string().optional(),
  })
  .refine(({ name, kind }) => isBackupName(kind, name));

export const fileEntries = z
  .array(fileEntry)
  .refine((files) => new Set(files.map(({ name }) => name)).size === files.length);

const manifestSchema = z.object({
  format: z.literal(BACKUP_FORMAT),
  created_at: z.string(),
  files: fileEntries,
});

export type BackupManifest = z.output<typeof manifestSchema>;
export type FileEntry = BackupManifest['files'][number];

/** Whether a backup may contain a file of that kind with that name. */
export function isBackupName(kind: Kind, name: string): boolean {
  return NAMES[kind].test(name);
}

/**
 * Reads the manifest of a backup.
 * @param source the backup's folder
 * @throws BackupError if it is not a backup, or if it lists a file that backups never contain; a file
 *   system error
 */
export function readManifest(source: string): BackupManifest {
  let text: string;
  try {
    text = readSmallFile(join(source, MANIFEST));
  } catch (thrown) {
    // The error of the system names the path, so it is passed on.
    if (!['ENOENT', undefined].includes((thrown as NodeJS.ErrnoException).code)) throw thrown;
    throw new BackupError(`${source} is not a backup: it has no ${MANIFEST}`);
  }
  try {
    const manifest = manifestSchema.parse(JSON.parse(text));
    // Earlier versions listed lock files as sealed files. A database creates its own lock file.
    return { ...manifest, files: manifest.files.filter(({ name }) => !name.endsWith('-lock')) };
  } catch {
    throw new BackupError(`${source} is not a backup that this version can read`);
  }
}

/**
 * Reads a manifest's file. @throws Error without a code if it is not a regular file or too large; a file system error
 */
function readSmallFile(path: string): string {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stat = fstatSync(file);
    if (!stat.isFile() || stat.size > BACKUP_MANIFEST_BYTES_MAX) throw new Error('not a manifest');
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/**
 * Finds a listed file in the backup.
 * @returns its path
 * @throws BackupError if it is missing, has another length, or is not a regular file. Links are refused, because
 * backups contain none
 */
export function findBackedUp(source: string, { name, bytes }: FileEntry): string {
  const [folder, inner] = name.split('/');
  if (inner !== undefined && lstatSync(join(source, folder!), { throwIfNoEntry: false })?.isSymbolicLink())
    throw new BackupError(`${folder} in the backup is a link`);
  const path = join(source, name);
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new BackupError(`${name} is missing from the backup`);
  if (!stat.isFile()) throw new BackupError(`${name} in the backup is not a file`);
  if (stat.size !== bytes) throw new BackupError(`${name} differs from what was backed up`);
  return path;
}

/** Returns the path to which a restore copies a file of each kind. */
export function placeOf(
  { name, kind }: Pick<FileEntry, 'name' | 'kind'>,
  { data_dir, capture_db }: BackupSource,
): string {
  switch (kind) {
    case 'database':
    case 'redo':
    case 'secret':
      return join(data_dir, name);
    case 'capture':
      return capture_db;
    case 'keys':
      return keysPath(capture_db);
    case 'sealed': {
      const [, first, last] = SEALED_NAME.exec(name)!;
      return sealedPath(capture_db, Number(first), Number(last), false);
    }
    case 'attachment':
      return join(attachmentsFolder(capture_db), basename(name));
  }
}
