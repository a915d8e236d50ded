/**
 * Reads and writes the note beside a capture database about its content in a bucket: the bucket, the name of this
 * gateway, the files, and the objects that are still to be removed. A file's folder is in the note before the first
 * object is in the folder, so all objects of files are found again, even after a kill. The note contains no credentials.
 * Capture process, capture reader, command line.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { z } from 'zod';
import { syncFolder } from '../../std/folder.ts';
import { bucketNotePath } from '../capture/layout.ts';

/**
 * Whether a text can be the name of a gateway. On machines that read the gateway's captures, a folder has this name.
 */
export function isGatewayName(name: string): boolean {
  return /^[a-z0-9-][a-z0-9.-]{0,79}$/.test(name);
}

const part = z.tuple([z.int().nonnegative(), z.string()]);

const entrySchema = z.object({
  first_id: z.int().positive(),
  last_id: z.int().positive(),
  /** The folder of the file's objects, without a slash at the end. */
  folder: z.string(),
  /** When its first exchange began, and when its last one ended, in milliseconds since the epoch. */
  from_ms: z.number(),
  to_ms: z.number(),
  /** Total size and number of the packs, including those of attachments. */
  bytes: z.int().nonnegative(),
  packs: z.int().nonnegative(),
  /** The file without its blocks, in parts: length and SHA-256 of each. */
  index: z.array(part),
  /** Segments of the full-text index: first and last exchange, and parts; absent: they are not in the bucket. */
  text: z.array(z.tuple([z.int().positive(), z.int().positive(), z.array(part)])).optional(),
});

/** A sealed file in the bucket, as the note and the manifest describe it. */
export type OffloadedFile = z.output<typeof entrySchema>;

const noteSchema = z.object({
  format: z.literal('understudy_bucket_v1'),
  place: z.string(),
  /** The name of this gateway's captures in the bucket. */
  gateway: z.string().refine(isGatewayName),
  /**
   * Nonces of the manifest that this service wrote last, and of the manifest that it may have been writing. They
   * distinguish its manifests from those of another service.
   */
  nonces: z.array(z.string()),
  /** Id of the data key of the manifest that was written last; null: not encrypted; absent: no manifest yet. */
  key_id: z.string().nullable().optional(),
  files: z.array(
    entrySchema.extend({
      /** The whole file is in the bucket. */
      is_uploaded: z.boolean(),
      /**
       * The file is being rewritten, by an erasure or a change of the key. Its objects must be removed before the
       * rewrite ends.
       */
      is_erasing: z.boolean(),
    }),
  ),
  /** Objects to remove, and folders, which end with a slash. */
  removing: z.array(z.string()),
});

export type OffloadNote = z.output<typeof noteSchema>;
export type NotedFile = OffloadNote['files'][number];

export const MANIFEST_FORMAT = 'understudy_captures_v1';

/** The object that lists a gateway's files. Its nonce is readable without the data key, which may change. */
export const manifestSchema = z.object({
  format: z.literal(MANIFEST_FORMAT),
  nonce: z.string(),
  /** JSON, encrypted if there is a data key; base64. */
  content: z.string(),
});

/** The content of a manifest. */
export const contentSchema = z.object({
  gateway: z.string(),
  written_at: z.string(),
  files: z.array(entrySchema),
});

export type ManifestContent = z.output<typeof contentSchema>;

/** Prefix of an empty object for each gateway, so that readers find the gateways without listing all objects. */
export const GATEWAYS = 'gateways/';

/**
 * Reads the note of a capture database.
 * @param path a capture file, live or sealed
 * @returns null if there is no note, because nothing was ever sent to a bucket
 * @throws Error with a one-line message if the note is damaged or of a newer version; a file system error
 */
export function readNote(path: string): OffloadNote | null {
  const place = bucketNotePath(path);
  let text: string;
  try {
    text = readFileSync(place, 'utf8');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
  try {
    return noteSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(`${place} is damaged, or of a newer version: restore it from a backup`, { cause });
  }
}

/** Writes the note. It is on the disk when this returns. @throws a file system error */
export function writeNote(path: string, note: OffloadNote): void {
  const place = bucketNotePath(path);
  const partial = `${place}.part`;
  writeFileSync(partial, JSON.stringify(note), { mode: 0o600, flush: true });
  renameSync(partial, place);
  syncFolder(dirname(place));
}

/**
 * Notes that sealed files are about to be rewritten under another key. The next pass removes the files' objects and
 * sends the files again. Call it while the service is stopped.
 * @param isMeant selects files by their first ids
 * @throws a file system error
 */
export function noteReplaced(path: string, isMeant: (firstId: number) => boolean): void {
  const note = readNote(path);
  if (note === null) return;
  for (const entry of note.files) if (isMeant(entry.first_id)) entry.is_erasing = true;
  writeNote(path, note);
}

/** Returns an empty note, with a new name for this gateway. */
export function beginNote(place: string): OffloadNote {
  const host = hostname()
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .slice(0, 40);
  const gateway = `${host === '' ? 'gateway' : host}-${randomBytes(4).toString('hex')}`;
  return { format: 'understudy_bucket_v1', place, gateway, nonces: [], files: [], removing: [] };
}

export function manifestName(gateway: string): string {
  return `captures/${gateway}/manifest`;
}

/** Returns the object's name for a part of the file without its blocks. */
export function indexName({ folder }: Pick<OffloadedFile, 'folder'>, at: number): string {
  return `${folder}/index-${at}`;
}

/** Returns the object's name for a part of a segment of the full-text index. */
export function textName(
  { folder }: Pick<OffloadedFile, 'folder'>,
  firstId: number,
  lastId: number,
  at: number,
): string {
  return `${folder}/text-${firstId}-${lastId}-${at}`;
}

export function filesFolder(gateway: string): string {
  return `captures/${gateway}/files`;
}
