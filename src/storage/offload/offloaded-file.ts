/**
 * A sealed capture file whose blocks are in a bucket: it has everything else (metadata, summaries, turns), and for each block
 * its place in a pack. Its `meta` table says which packs there are. Any thread.
 */
import { statSync } from 'node:fs';
import { z } from 'zod';
import { type CaptureEnv, openCaptureEnv } from '../capture/layout.ts';

const OFFLOADED = 'offloaded';

const contentSchema = z.object({
  /** The folder of its objects in the bucket, without a slash at the end. */
  folder: z.string(),
  /** When its first exchange began, and when its last one ended, in milliseconds since the epoch. */
  from_ms: z.number(),
  to_ms: z.number(),
  /** The packs by number: length and SHA-256 in hex. */
  packs: z.array(z.tuple([z.int().nonnegative(), z.string()])),
});

export type OffloadedContent = z.output<typeof contentSchema>;

const known = new WeakMap<object, OffloadedContent>();

/** @returns null for a file that has its blocks. @throws Error if it cannot be read */
export function readOffloadedFile(env: CaptureEnv): OffloadedContent | null {
  const read = known.get(env);
  if (read !== undefined) return read;
  const bytes = env.meta.get(OFFLOADED);
  if (bytes === undefined) return null;
  const content = contentSchema.parse(JSON.parse(bytes.toString()));
  known.set(env, content);
  return content;
}

/** Within a transaction. */
export function writeOffloadedFile(env: CaptureEnv, content: OffloadedContent): void {
  env.meta.putSync(OFFLOADED, Buffer.from(JSON.stringify(content)));
}

/** Whether a row of `meta` describes only where the blocks are. */
export function isOffloadedRow(key: string): boolean {
  return key === OFFLOADED;
}

/** Remembers which sealed files have their blocks in a bucket. */
export class OffloadedFiles {
  readonly #dataKey: Uint8Array | null;
  readonly #known = new Map<string, { inode: bigint; bytes: number | null }>();

  /** @param dataKey of the files; null: not encrypted */
  constructor(dataKey: Uint8Array | null) {
    this.#dataKey = dataKey;
  }

  /** @returns false for a file that does not exist. @throws CaptureFileError */
  isOffloaded(path: string): boolean {
    return this.measure(path) !== null;
  }

  /** @returns bytes in the bucket; null for a file that has its blocks or does not exist. @throws CaptureFileError */
  measure(path: string): number | null {
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
      const bytes = content === null ? null : content.packs.reduce((sum, [size]) => sum + size, 0);
      this.#known.set(path, { inode, bytes });
      return bytes;
    } finally {
      void env.root.close();
    }
  }
}

/** The name of a pack in the bucket. */
export function packName({ folder }: Pick<OffloadedContent, 'folder'>, pack: number): string {
  return `${folder}/${pack}`;
}
