/**
 * Reads blocks of a file whose content is in a bucket: from the packs in the cache folder, and from the bucket if a
 * pack is not cached. The call waits for the bucket, because readers are synchronous; after a failure, further calls
 * fail at once for a time. Any thread; the writing process forbids fetching, so it never waits.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { PackPlace } from '../capture/codec.ts';
import { bucketNotePath, type CaptureEnv, CaptureFileError, cacheFolder } from '../capture/layout.ts';
import { BucketThread } from './bucket-thread.ts';
import { readNote } from './offload-note.ts';
import { packName, readOffloadedFile } from './offloaded-file.ts';

/** How long a read waits for an object. */
const FETCH_MS = 20_000;
/** How long reads fail at once after a failed one. */
const DOWN_MS = 5_000;

/** The bucket of one capture database. */
interface Source {
  thread: BucketThread;
  not_before_ms: number;
  why: string;
}

const sources = new Map<string, Source>();
let mayFetch = true;

/** Whether reads may fetch from a bucket; otherwise only the cache is read. */
export function allowFetching(may: boolean): void {
  mayFetch = may;
}

/** The name of an object's copy in the cache. */
function cacheName(object: string): string {
  return `${basename(dirname(object))}-${basename(object)}`;
}

/**
 * @param path of the file
 * @throws CaptureFileError `remote` if the block cannot be fetched; `damaged`
 */
export function readOffloadedBlock(env: CaptureEnv, path: string, place: PackPlace): Buffer {
  const content = readOffloadedFile(env);
  const pack = content?.packs[place.pack];
  if (content === null || pack === undefined) throw new RangeError('it does not say where the block is');
  const object = packName(content, place.pack);
  const copy = join(cacheFolder(path), cacheName(object));
  const cached = readPart(copy, place.offset, place.bytes);
  if (cached !== null) return cached;
  fetchObject(path, { object, copy, bytes: pack[0], sha256: pack[1] });
  const fetched = readPart(copy, place.offset, place.bytes);
  if (fetched === null) throw refuse(path, 'what was fetched is no longer in the cache: it is too small');
  return fetched;
}

interface WantedObject {
  object: string;
  /** Path of its copy. */
  copy: string;
  bytes: number;
  sha256: string;
}

function fetchObject(path: string, wanted: WantedObject): void {
  if (!mayFetch) throw refuse(path, 'they are not fetched for this');
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
  let source = sources.get(note);
  if (source === undefined) {
    const place = readNote(path)?.place;
    if (place === undefined) throw refuse(path, `${note} is missing, which says where they are`);
    source = { thread: new BucketThread(place), not_before_ms: 0, why: '' };
    sources.set(note, source);
  }
  return source;
}

function refuse(path: string, why: string): CaptureFileError {
  return new CaptureFileError('remote', path, `its bodies are in a bucket and cannot be read now: ${why}`);
}

/** @returns null if the file does not exist */
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
