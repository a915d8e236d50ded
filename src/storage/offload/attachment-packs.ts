/**
 * Makes packs for a bucket from the attachments of a sealed file, and restores attachments from the packs. The
 * attachments' files form one sequence, which is cut into packs. The file without blocks says where each attachment is
 * in this sequence. Attachments have the same bytes as on the disk, so they are encrypted if there is a data key. In
 * the bucket, each sealed file has its own copies of its attachments, so the copies are removed together with the
 * sealed file. Bucket thread of the capture process and the command line.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../std/folder.ts';
import { syncPath } from '../../std/synced-path.ts';
import { listDigests, nameAttachment } from '../capture/attachments.ts';
import { BlockReader } from '../capture/blocks.ts';
import { attachmentsFolder, type CaptureEnv, CaptureFileError } from '../capture/layout.ts';
import { StaleDraftError } from './bucket-failures.ts';
import {
  ATTACHMENT_PACK_BYTES,
  type AttachmentPlace,
  attachmentPackName,
  listAttachmentPlaces,
  type OffloadedContent,
} from './offloaded-file.ts';

/** Number of exchanges that are read between two checks. */
const CHECKED_AFTER = 256;
const CACHE_BYTES = 8 << 20;

/** The attachments of a sealed file, and the packs that they make. */
interface PlannedAttachments {
  places: AttachmentPlace[];
  packs: NonNullable<OffloadedContent['attachments']>;
}

/**
 * Finds the attachments of a sealed file, and computes the sizes and digests of their packs. Omits an attachment that
 * is not in the folder.
 * @param check throws to stop
 * @throws CaptureFileError, what `check` throws, a file system error
 */
export function planAttachments(env: CaptureEnv, path: string, check: () => void): PlannedAttachments {
  const folder = attachmentsFolder(path);
  const planned: PlannedAttachments = { places: [], packs: [] };
  if (!existsSync(folder) || readdirSync(folder).length === 0) return planned;
  const key = env.sealing?.key ?? null;
  const names = listDigestsOf(env, path, check).map((sha256) => nameAttachment(sha256, key));
  let offset = 0;
  // Rows of `meta` are in the order of names, so the sequence is, too.
  for (const name of names.sort()) {
    const bytes = statSync(join(folder, name), { throwIfNoEntry: false })?.size;
    if (bytes === undefined) continue;
    planned.places.push({ name, offset, bytes });
    offset += bytes;
  }
  for (const pack of cutPacks(folder, planned.places)) {
    check();
    planned.packs.push([pack.length, createHash('sha256').update(pack).digest('hex')]);
  }
  return planned;
}

/** Lists the SHA-256 of the attachments to which the undamaged exchanges of a file refer. */
function listDigestsOf(env: CaptureEnv, path: string, check: () => void): string[] {
  const blocks = new BlockReader(env, path, CACHE_BYTES);
  const found = new Set<string>();
  const last = blocks.readLastId();
  for (let id = blocks.readFirstId(); id <= last; id++) {
    if (id % CHECKED_AFTER === 0) {
      check();
      env.root.resetReadTxn();
    }
    try {
      const meta = blocks.readMeta(id);
      if (meta === undefined || !(meta.request_has_files || meta.response_has_files)) continue;
      const { request, response } = blocks.readStored(id)!;
      for (const body of [request, response]) for (const sha256 of listDigests(body)) found.add(sha256);
    } catch (thrown) {
      // The attachments of a damaged exchange cannot be found.
      if (!(thrown instanceof CaptureFileError)) throw thrown;
    }
  }
  return [...found];
}

/**
 * Yields the packs in order. Reads each pack from the attachments' files when the caller requests it. Does not notice
 * changed bytes; the caller compares digests.
 * @throws StaleDraftError if an attachment is shorter than planned, or is gone; a file system error
 */
export function* cutPacks(folder: string, places: readonly AttachmentPlace[]): Generator<Buffer> {
  let pack = Buffer.allocUnsafe(ATTACHMENT_PACK_BYTES);
  let used = 0;
  for (const { name, bytes } of places) {
    const path = join(folder, name);
    const file = openThere(path);
    try {
      for (let at = 0; at < bytes; ) {
        const read = readSync(file, pack, used, Math.min(bytes - at, pack.length - used), at);
        if (read === 0) throw new StaleDraftError(`${path} is shorter than before`);
        at += read;
        used += read;
        if (used < pack.length) continue;
        yield pack;
        pack = Buffer.allocUnsafe(ATTACHMENT_PACK_BYTES);
        used = 0;
      }
    } finally {
      closeSync(file);
    }
  }
  if (used > 0) yield pack.subarray(0, used);
}

function openThere(path: string): number {
  try {
    return openSync(path, 'r');
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw thrown;
    throw new StaleDraftError(`${path} is no longer there`);
  }
}

interface RestoreOptions {
  env: CaptureEnv;
  path: string;
  content: OffloadedContent;
  /** Reads a pack. */
  read: (object: string, bytes: number, sha256: string) => Promise<Buffer>;
}

/**
 * Restores those attachments of a file that are not in the folder. They are on the disk when this resolves. Sets the
 * time of attachments that are in the folder to the end of the file's last exchange, if theirs is earlier.
 * @throws RangeError if the packs do not contain an attachment; what `read` throws; a file system error
 */
export async function restoreAttachmentFiles({ env, path, content, read }: RestoreOptions): Promise<void> {
  const { attachments: packs = [], to_ms } = content;
  const folder = attachmentsFolder(path);
  let pack: { number: number; bytes: Buffer } | null = null;
  const readPart = async (offset: number, most: number): Promise<Buffer> => {
    const number = Math.floor(offset / ATTACHMENT_PACK_BYTES);
    if (pack?.number !== number) {
      const listed = packs[number];
      if (listed === undefined) throw new RangeError(`${path} does not list attachment pack ${number}`);
      const [bytes, sha256] = listed;
      pack = { number, bytes: await read(attachmentPackName(content, number), bytes, sha256) };
    }
    const from = offset - number * ATTACHMENT_PACK_BYTES;
    return pack.bytes.subarray(from, from + most);
  };
  for (const { name, offset, bytes } of listAttachmentPlaces(env)) {
    const target = join(folder, name);
    // The age of an attachment counts from its file's time, and the last exchange of the capture file may be the last
    // that refers to it.
    const there = statSync(target, { throwIfNoEntry: false });
    if (there !== undefined) {
      if (there.mtimeMs < to_ms) utimesSync(target, to_ms / 1_000, to_ms / 1_000);
      continue;
    }
    makeFolder(folder);
    const partial = `${target}.${process.pid}.part`;
    const file = openSync(partial, 'w', 0o600);
    try {
      for (let at = 0; at < bytes; ) {
        const part = await readPart(offset + at, bytes - at);
        if (part.length === 0) throw new RangeError(`${path} does not say where attachment ${name} is`);
        writeSync(file, part);
        at += part.length;
      }
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    utimesSync(partial, to_ms / 1_000, to_ms / 1_000);
    renameSync(partial, target);
  }
  if (existsSync(folder)) syncPath(folder);
}
