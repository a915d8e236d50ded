/**
 * A sealed capture file whose blocks are in a bucket. It has all other data (metadata, summaries, turns), and the place
 * of each block in a pack. Its `meta` table lists the packs and the places of attachments. Any thread.
 */
import { statSync } from 'node:fs';
import { z } from 'zod';
import { type CaptureEnv, openCaptureEnv } from '../capture/layout.ts';

const OFFLOADED = 'offloaded';
/** Prefix of the keys for the places of attachments; the attachment's name follows. */
const ATTACHMENT = 'attachment ';

const contentSchema = z.object({
  /** The folder of the file's objects in the bucket, without a slash at the end. */
  folder: z.string(),
  /** When its first exchange began, and when its last one ended, in milliseconds since the epoch. */
  from_ms: z.number(),
  to_ms: z.number(),
  /** The packs by number: length and SHA-256 in hex. */
  packs: z.array(z.tuple([z.int().nonnegative(), z.string()])),
  /** Length and SHA-256 of the packs of attachments (attachment-packs.ts). */
  attachments: z.array(z.tuple([z.int().nonnegative(), z.string()])),
});

/** Where an attachment is. The packs of attachments count as one sequence of bytes. */
export interface AttachmentPlace {
  /** The name of its file. */
  name: string;
  offset: number;
  bytes: number;
}

/** All packs of attachments except the last have this size. A large attachment is in several packs. */
export const ATTACHMENT_PACK_BYTES = 4 << 20;

const placeSchema = z.tuple([z.int().nonnegative(), z.int().nonnegative()]);

export type OffloadedContent = z.output<typeof contentSchema>;

const known = new WeakMap<object, OffloadedContent>();

/**
 * Reads what a file says about its content in a bucket.
 * @returns null for a file that has its blocks
 * @throws Error if the row cannot be read
 */
export function readOffloadedFile(env: CaptureEnv): OffloadedContent | null {
  const read = known.get(env);
  if (read !== undefined) return read;
  const bytes = env.meta.get(OFFLOADED);
  if (bytes === undefined) return null;
  const content = contentSchema.parse(JSON.parse(bytes.toString()));
  known.set(env, content);
  return content;
}

/** Writes what a file says about its content in a bucket. Call it within a write transaction. */
export function writeOffloadedFile(env: CaptureEnv, content: OffloadedContent): void {
  env.meta.putSync(OFFLOADED, Buffer.from(JSON.stringify(content)));
}

/** Writes the place of an attachment. Call it within a write transaction. */
export function writeAttachmentPlace(env: CaptureEnv, { name, offset, bytes }: AttachmentPlace): void {
  env.meta.putSync(ATTACHMENT + name, Buffer.from(JSON.stringify([offset, bytes])));
}

/** Reads the place of an attachment. @returns null if the file does not list the attachment */
export function readAttachmentPlace(env: CaptureEnv, name: string): AttachmentPlace | null {
  const row = env.meta.get(ATTACHMENT + name);
  return row === undefined ? null : parsePlace(name, row);
}

/** Yields all attachments of the file, in the order of their names and places. */
export function* listAttachmentPlaces(env: CaptureEnv): Generator<AttachmentPlace> {
  for (const { key, value } of env.meta.getRange({ start: ATTACHMENT, snapshot: false })) {
    if (!key.startsWith(ATTACHMENT)) return;
    yield parsePlace(key.slice(ATTACHMENT.length), value);
  }
}

function parsePlace(name: string, row: Buffer): AttachmentPlace {
  const [offset, bytes] = placeSchema.parse(JSON.parse(row.toString()));
  return { name, offset, bytes };
}

/** Whether a row of `meta` describes only where blocks and attachments are. */
export function isOffloadedRow(key: string): boolean {
  return key === OFFLOADED || key.startsWith(ATTACHMENT);
}

/** Caches which sealed files have their blocks in a bucket. */
export class OffloadedFiles {
  readonly #dataKey: Uint8Array | null;
  readonly #known = new Map<string, { inode: bigint; bytes: number | null }>();

  /** @param dataKey of the files; null: not encrypted */
  constructor(dataKey: Uint8Array | null) {
    this.#dataKey = dataKey;
  }

  /** Whether a file's blocks are in a bucket; false for a file that does not exist. @throws CaptureFileError */
  isOffloaded(path: string): boolean {
    return this.bytesOf(path) !== null;
  }

  /**
   * Returns the size of a file's packs in the bucket, including those of attachments.
   * @returns null for a file that has its blocks or does not exist
   * @throws CaptureFileError
   */
  bytesOf(path: string): number | null {
    const inode = statSync(path, { bigint: true, throwIfNoEntry: false })?.ino;
    if (inode === undefined) {
      this.#known.delete(path);
      return null;
    }
    const known = this.#known.get(path);
    if (known?.inode === inode) return known.bytes;
    const env = openCaptureEnv(path, 'read', this.#dataKey);
    try {
      const content = readOffloadedFile(env);
      const bytes = content === null ? null : sumBytes(content);
      this.#known.set(path, { inode, bytes });
      return bytes;
    } finally {
      void env.root.close();
    }
  }
}

function sumBytes({ packs, attachments }: OffloadedContent): number {
  return [...packs, ...attachments].reduce((sum, [bytes]) => sum + bytes, 0);
}

/** Returns the name of a pack of attachments in the bucket. */
export function attachmentPackName({ folder }: Pick<OffloadedContent, 'folder'>, pack: number): string {
  return `${folder}/attachments-${pack}`;
}

/** Returns the name of a pack in the bucket. */
export function packName({ folder }: Pick<OffloadedContent, 'folder'>, pack: number): string {
  return `${folder}/${pack}`;
}
