/**
 * The work of the bucket's thread: makes a file without blocks from a sealed file, sends its packs, compares the
 * objects in the bucket with what was sent, rebuilds the sealed file, gathers captures of other machines, and fetches
 * packs into the cache. Memory: one pack, or a whole file without blocks. Bucket thread of the capture process, the
 * capture reader and the command line.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { makeFolder } from '../../std/folder.ts';
import { type ObjectStore, StoreError } from '../bucket/object-store.ts';
import { listSegments } from '../text-index/segment-files.ts';
import { StaleDraftError, StoppedError } from './bucket-failures.ts';
import type { BucketCall, GatherReport } from './bucket-protocol.ts';
import { GatheredCaptures } from './gathered-captures.ts';
import { indexName, type OffloadedFile, textName } from './offload-note.ts';
import { attachmentPackName } from './offloaded-file.ts';
import { makeDraft, makeWhole, PackBuilder, type PackReader, readDraft } from './pack-files.ts';

/** Maximum rate at which files are sent and compared, so that bandwidth remains for other traffic. */
const BYTES_PER_MS = 32 << 10;
/** The file without blocks is sent in parts of this size. */
const INDEX_PART_BYTES = 16 << 20;
/** Maximum size of the cache of each capture database. The copies that were fetched first are removed first. */
const CACHE_BYTES = 1 << 30;

type Call<Name extends BucketCall['name']> = Extract<BucketCall, { name: Name }>;

export class BucketWork {
  readonly #open: () => Promise<ObjectStore>;
  readonly #stopping: Int32Array;
  readonly #place: string;
  #store: Promise<ObjectStore> | null = null;
  #gathering: GatheredCaptures | null = null;

  constructor(place: string, open: () => Promise<ObjectStore>, stopping: Int32Array) {
    this.#place = place;
    this.#open = open;
    this.#stopping = stopping;
  }

  /**
   * Does the work of a call.
   * @returns the result of the call (`BucketAnswers`)
   * @throws StoreError; StaleDraftError; StoppedError; a file system error
   */
  async do(call: BucketCall): Promise<unknown> {
    switch (call.name) {
      case 'plan':
        return this.#plan(call);
      case 'upload':
        return this.#upload(call);
      case 'upload_text':
        return this.#uploadText(call);
      case 'gather':
        return this.#gather(call);
      case 'verify':
        return this.#verify(call);
      case 'restore':
        return this.#restore(call);
      case 'fetch':
        return this.#fetch(call);
      case 'put':
        await (await this.#opened()).put(call.object, call.bytes);
        return null;
      case 'get':
        return (await this.#opened()).get(call.object);
      case 'remove':
        return this.#remove(call);
    }
  }

  #opened(): Promise<ObjectStore> {
    this.#store ??= this.#open().catch((thrown: unknown) => {
      this.#store = null;
      throw thrown;
    });
    return this.#store;
  }

  #check(): void {
    if (Atomics.load(this.#stopping, 0) !== 0) throw new StoppedError('it was stopped');
  }

  async #plan({ path, draft, folder, data_key }: Call<'plan'>): Promise<unknown> {
    const planned = await makeDraft({ path, draft, folder, data_key, check: () => this.#check() });
    if (planned === null) return null;
    const index = [...splitParts(await readFile(draft))].map((part) => [part.length, hashOf(part)]);
    return { ...planned, index };
  }

  async #upload({ path, draft, folder, data_key }: Call<'upload'>): Promise<number> {
    const store = await this.#opened();
    const there = new Set<string>();
    for await (const { name } of store.list(`${folder}/`)) there.add(name);
    let sent = 0;
    const put = async (name: string, bytes: Buffer): Promise<void> => {
      this.#check();
      const started = performance.now();
      await store.put(name, bytes);
      sent += bytes.length;
      await this.#keepPace(bytes.length, started);
    };
    const builder = new PackBuilder({ path, draft, data_key });
    try {
      const { packs } = builder.content;
      for (const [pack, [bytes, sha256]] of packs.entries()) {
        this.#check();
        const name = `${folder}/${pack}`;
        // Objects are written completely or not at all, so those of an earlier attempt need not be sent again.
        if (there.has(name)) continue;
        const content = builder.read(pack);
        if (content.length !== bytes || hashOf(content) !== sha256)
          throw new StaleDraftError(`${path} has changed since its draft was made`);
        await put(name, content);
      }
      const attached = builder.content.attachments;
      let pack = 0;
      for (const content of attached.length === 0 ? [] : builder.attachments()) {
        this.#check();
        const [bytes, sha256] = attached[pack] ?? [];
        const name = attachmentPackName({ folder }, pack++);
        if (content.length !== bytes || hashOf(content) !== sha256)
          throw new StaleDraftError(`attachments of ${path} have changed since its draft was made`);
        if (!there.has(name)) await put(name, content);
      }
    } finally {
      await builder.close();
    }
    let number = 0;
    for (const part of splitParts(await readFile(draft))) await put(indexName({ folder }, number++), part);
    return sent;
  }

  /** Sends the segments of a file's full-text index. @returns null if a merge is replacing the segments */
  async #uploadText({ db, file }: Call<'upload_text'>): Promise<NonNullable<OffloadedFile['text']> | null> {
    const store = await this.#opened();
    const opened = openSegments(db, file);
    if (opened === null) return null;
    try {
      const sent: NonNullable<OffloadedFile['text']> = [];
      for (const { file: handle, first_id, last_id } of opened) {
        const parts: [number, string][] = [];
        for (const part of readParts(handle)) {
          this.#check();
          const started = performance.now();
          await store.put(textName(file, first_id, last_id, parts.length), part);
          parts.push([part.length, hashOf(part)]);
          await this.#keepPace(part.length, started);
        }
        sent.push([first_id, last_id, parts]);
      }
      return sent;
    } finally {
      for (const { file: handle } of opened) closeSync(handle);
    }
  }

  async #gather({ folder, data_key }: Call<'gather'>): Promise<GatherReport> {
    const store = await this.#opened();
    this.#gathering ??= new GatheredCaptures({ store, place: this.#place, folder, data_key });
    return this.#gathering.follow(() => this.#check());
  }

  /** Reads all objects of a file back, except its full-text segments, and compares them with what was sent. */
  async #verify({ path, draft, folder, index, data_key }: Call<'verify'>): Promise<null> {
    const content = await readDraft(path, draft, data_key);
    const parts = [...splitParts(await readFile(draft))];
    if (parts.length !== index.length || parts.some((part, at) => hashOf(part) !== index[at]![1]))
      throw new StaleDraftError(`${draft} is not the draft that was sent`);
    const all = [
      ...content.packs.map(([bytes, sha256], pack) => ({ object: `${folder}/${pack}`, bytes, sha256 })),
      ...content.attachments.map(([bytes, sha256], pack) => ({
        object: attachmentPackName({ folder }, pack),
        bytes,
        sha256,
      })),
      ...index.map(([bytes, sha256], at) => ({ object: indexName({ folder }, at), bytes, sha256 })),
    ];
    for (const wanted of all) {
      this.#check();
      const started = performance.now();
      await this.#get(wanted);
      await this.#keepPace(wanted.bytes, started);
    }
    return null;
  }

  async #restore({ path, target, data_key }: Call<'restore'>): Promise<null> {
    const reader: PackReader = async (object, bytes, sha256) => {
      this.#check();
      return this.#get({ object, bytes, sha256 });
    };
    await makeWhole({ path, target, data_key, read: reader });
    return null;
  }

  async #get({ object, bytes, sha256 }: { object: string; bytes: number; sha256: string }): Promise<Buffer> {
    const store = await this.#opened();
    const content = await store.get(object);
    if (content === null) throw new StoreError(`${object} is missing in ${store.name}`);
    if (content.length !== bytes || hashOf(content) !== sha256)
      throw new StoreError(`${object} in ${store.name} is damaged: it is not what was sent`);
    return content;
  }

  async #fetch({ copy, ...wanted }: Call<'fetch'>): Promise<null> {
    const content = await this.#get(wanted);
    const folder = dirname(copy);
    makeFolder(folder, 0o700);
    makeRoom(folder, content.length);
    const partial = `${copy}.${process.pid}.part`;
    writeFileSync(partial, content, { mode: 0o600 });
    renameSync(partial, copy);
    return null;
  }

  /** Removes objects. A name that ends with a slash stands for all objects in that folder. */
  async #remove({ names }: Call<'remove'>): Promise<null> {
    const store = await this.#opened();
    await store.remove(names.filter((name) => !name.endsWith('/')));
    for (const folder of names.filter((name) => name.endsWith('/'))) {
      const inside: string[] = [];
      for await (const { name } of store.list(folder)) inside.push(name);
      await store.remove(inside);
    }
    return null;
  }

  async #keepPace(bytes: number, startedMs: number): Promise<void> {
    const left_ms = bytes / BYTES_PER_MS - (performance.now() - startedMs);
    if (left_ms > 1) await pause(left_ms);
  }
}

/**
 * Removes the oldest copies until another copy of this size fits. Processes that have a removed copy open can still
 * read it.
 */
function makeRoom(folder: string, bytes: number): void {
  const copies = readdirSync(folder).flatMap((name) => {
    const stat = statSync(join(folder, name), { throwIfNoEntry: false });
    return stat === undefined ? [] : [{ path: join(folder, name), bytes: stat.size, ms: stat.mtimeMs }];
  });
  let all = bytes + copies.reduce((sum, copy) => sum + copy.bytes, 0);
  for (const copy of copies.sort((a, b) => a.ms - b.ms)) {
    if (all <= CACHE_BYTES) return;
    rmSync(copy.path, { force: true });
    all -= copy.bytes;
  }
}

function* splitParts(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += INDEX_PART_BYTES) yield bytes.subarray(at, at + INDEX_PART_BYTES);
}

/** Opens the full-text segments of a file. @returns null if a merge is replacing them */
function openSegments(db: string, { first_id, last_id }: Pick<OffloadedFile, 'first_id' | 'last_id'>) {
  const opened: { file: number; first_id: number; last_id: number }[] = [];
  for (const segment of listSegments(db).segments) {
    if (segment.first_id < first_id || segment.last_id > last_id) continue;
    try {
      const file = openSync(segment.path, 'r');
      opened.push({ file, first_id: segment.first_id, last_id: segment.last_id });
    } catch (thrown) {
      for (const { file } of opened) closeSync(file);
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw thrown;
    }
  }
  return opened;
}

function* readParts(file: number): Generator<Buffer> {
  for (let at = 0; ; at += INDEX_PART_BYTES) {
    const part = Buffer.allocUnsafe(Math.min(INDEX_PART_BYTES, Math.max(0, fstatSync(file).size - at)));
    if (part.length === 0) return;
    for (let used = 0; used < part.length; ) {
      const read = readSync(file, part, used, part.length - used, at + used);
      if (read === 0) throw new RangeError('a segment is cut off');
      used += read;
    }
    yield part;
  }
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
