/**
 * Reads blocks and attachments of a file whose content is in a bucket: from packs in the cache folder, or from the
 * bucket if a pack is not cached. Readers are synchronous, so a call blocks until the bucket has answered. After a
 * failure, further fetches fail at once for DOWN_MS. Any thread. The capture process forbids fetching, so it never
 * waits for the bucket. Lists never wait for it either, because the capture reader forbids fetching while it reads a
 * list.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { PackPlace } from '../capture/codec.ts';
import { bucketNotePath, type CaptureEnv, CaptureFileError, cacheFolder } from '../capture/layout.ts';
import { BucketThread } from './bucket-thread.ts';
import { readNote } from './offload-note.ts';
import {
  ATTACHMENT_PACK_BYTES,
  attachmentPackName,
  packName,
  readAttachmentPlace,
  readOffloadedFile,
} from './offloaded-file.ts';

/** Maximum time that a read waits for an object. */
const FETCH_MS = 20_000;
/** How long reads fail at once after a failure. */
const DOWN_MS = 5_000;

/** The bucket of one capture database. */
interface Source {
  thread: BucketThread;
  not_before_ms: number;
  why: string;
}

/** The buckets by place. The captures of several gateways may be in one bucket. */
const sources = new Map<string, Source>();
/** The place that each note names, by the note's path. */
const places = new Map<string, string>();
let mayFetch = true;

/** Sets whether reads may fetch from a bucket. If not, only the cache is read. */
export function allowFetching(may: boolean): void {
  mayFetch = may;
}

/** Returns the name of an object's copy in the cache. */
function cacheName(object: string): string {
  return `${basename(dirname(object))}-${basename(object)}`;
}

/**
 * Reads a block from the cache, or from the bucket.
 * @param path of the file
 * @throws CaptureFileError `remote` if the pack cannot be fetched; RangeError if the file does not list the pack, or
 *   the cached copy is cut off
 */
export function readOffloadedBlock(env: CaptureEnv, path: string, place: PackPlace): Buffer {
  const content = readOffloadedFile(env);
  const pack = content?.packs[place.pack];
  if (content === null || pack === undefined)
    throw new RangeError('the file does not say where the block is');
  return readPack(path, packName(content, place.pack), pack, place);
}

/**
 * Reads an attachment from the cache, or from the bucket.
 * @param path of the file
 * @returns the content of the attachment's file; null if the capture file does not list the attachment
 * @throws CaptureFileError `remote` if a pack cannot be fetched; RangeError as in {@link readOffloadedBlock}
 */
export function readOffloadedAttachment(env: CaptureEnv, path: string, name: string): Buffer | null {
  const content = readOffloadedFile(env);
  const place = content === null ? null : readAttachmentPlace(env, name);
  if (content === null || place === null) return null;
  const parts: Buffer[] = [];
  for (let at = place.offset; at < place.offset + place.bytes; ) {
    const number = Math.floor(at / ATTACHMENT_PACK_BYTES);
    const pack = content.attachments?.[number];
    if (pack === undefined) throw new RangeError('the file does not say where the attachment is');
    const offset = at - number * ATTACHMENT_PACK_BYTES;
    const bytes = Math.min(place.offset + place.bytes - at, ATTACHMENT_PACK_BYTES - offset);
    parts.push(readPack(path, attachmentPackName(content, number), pack, { offset, bytes }));
    at += bytes;
  }
  return Buffer.concat(parts);
}

/** Reads a part of a pack from the cache, after fetching the pack if necessary. @throws CaptureFileError `remote` */
function readPack(
  path: string,
  object: string,
  [bytes, sha256]: readonly [bytes: number, sha256: string],
  place: Pick<PackPlace, 'offset' | 'bytes'>,
): Buffer {
  const copy = join(cacheFolder(path), cacheName(object));
  const cached = readPart(copy, place.offset, place.bytes);
  if (cached !== null) return cached;
  fetchObject(path, { object, copy, bytes, sha256 });
  const fetched = readPart(copy, place.offset, place.bytes);
  if (fetched === null)
    throw refuse(path, 'the fetched copy was removed from the cache, which may be too small');
  return fetched;
}

interface WantedObject {
  object: string;
  /** Path of the object's copy in the cache. */
  copy: string;
  bytes: number;
  sha256: string;
}

function fetchObject(path: string, wanted: WantedObject): void {
  if (!mayFetch) throw refuse(path, 'this process does not fetch from the bucket');
  const source = sourceOf(path);
  if (performance.now() < source.not_before_ms) throw refuse(path, source.why);
  const why = source.thread.callNow({ name: 'fetch', ...wanted }, FETCH_MS);
  if (why === null) return;
  source.not_before_ms = performance.now() + DOWN_MS;
  source.why = why;
  throw refuse(path, why);
}

function sourceOf(path: string): Source {
  const note = bucketNotePath(path);
  const place = places.get(note) ?? readNote(path)?.place;
  if (place === undefined) throw refuse(path, `${note} is missing, which names the bucket`);
  places.set(note, place);
  let source = sources.get(place);
  if (source === undefined) {
    source = { thread: new BucketThread(place), not_before_ms: 0, why: '' };
    sources.set(place, source);
  }
  return source;
}

function refuse(path: string, why: string): CaptureFileError {
  return new CaptureFileError('remote', path, `its bodies are in a bucket and cannot be read now: ${why}`);
}

/** Reads a part of a file. @returns null if the file does not exist @throws RangeError if the file is cut off */
function readPart(path: string, offset: number, bytes: number): Buffer | null {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
  try {
    const block = Buffer.allocUnsafe(bytes);
    for (let at = 0; at < bytes; ) {
      const read = readSync(file, block, at, bytes - at, offset + at);
      if (read === 0) throw new RangeError(`${path} is cut off`);
      at += read;
    }
    return block;
  } finally {
    closeSync(file);
  }
}
