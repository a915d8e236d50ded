/**
 * Copies the files of one gateway's captures from a bucket to this machine: the files without blocks, and the segments
 * of the full-text index. They are read like any capture database; bodies are fetched when they are read
 * (offloaded-reads.ts). The bucket's thread, command line.
 */
import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { openDataKey } from '../../std/data-key.ts';
import { isThere } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { type ObjectStore, StoreError } from '../bucket/object-store.ts';
import { SealedObjects } from '../bucket/sealed-objects.ts';
import { cacheFolder, listSealed, openCaptureEnv, sealedPath } from '../capture/layout.ts';
import { damagePath, listSegments, removeSegments, segmentPath } from '../text-index/segment-files.ts';
import {
  contentSchema,
  GATEWAYS,
  indexName,
  isGatewayName,
  type ManifestContent,
  manifestName,
  manifestSchema,
  type OffloadedFile,
  textName,
  writeNote,
} from './offload-note.ts';
import { readOffloadedFile } from './offloaded-file.ts';
import { removeFile } from './pack-files.ts';

/** Lists the names of the gateways in a bucket. @throws StoreError */
export async function listGateways(store: ObjectStore): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(GATEWAYS)) {
    const gateway = name.slice(GATEWAYS.length);
    if (isGatewayName(gateway)) names.push(gateway);
  }
  return names.sort();
}

/**
 * Reads the manifest of a gateway.
 * @returns null if the gateway has not written a manifest yet
 * @throws StoreError, including a manifest that cannot be decrypted
 */
export async function readManifest(
  store: ObjectStore,
  gateway: string,
  dataKey: Uint8Array | null,
): Promise<ManifestContent | null> {
  const object = manifestName(gateway);
  const bytes = await store.get(object);
  if (bytes === null) return null;
  try {
    const { content } = manifestSchema.parse(JSON.parse(bytes.toString()));
    const plain = new SealedObjects(openDataKey(dataKey)).open(object, Buffer.from(content, 'base64'));
    return contentSchema.parse(JSON.parse(plain.toString()));
  } catch (cause) {
    const why = dataKey === null ? 'encrypted (set DATA_KEY_FILE)' : 'encrypted with another key';
    throw new StoreError(`${object} in ${store.name} is damaged, of a newer version, or ${why}`, { cause });
  }
}

interface RemoteFilesOptions {
  store: ObjectStore;
  /** Path of the gateway's local database. */
  db: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
}

export class RemoteFiles {
  readonly #store: ObjectStore;
  readonly #db: string;
  readonly #dataKey: Uint8Array | null;
  /** The folder in the bucket of each local file, by path. */
  readonly #known = new Map<string, string>();

  constructor({ store, db, data_key }: RemoteFilesOptions) {
    this.#store = store;
    this.#db = db;
    this.#dataKey = data_key;
  }

  pathOf({ first_id, last_id }: Pick<OffloadedFile, 'first_id' | 'last_id'>): string {
    return sealedPath(this.#db, first_id, last_id, false);
  }

  /**
   * Prepares the folder for the files of a manifest. Writes the note; removes local files and cached packs that are not
   * in the bucket any more, for example because exchanges in them were erased; and removes the full-text segments of
   * files that will be fetched.
   * @returns the files that were not fetched yet
   * @throws a file system error
   */
  async prepare(place: string, { gateway, files }: ManifestContent): Promise<OffloadedFile[]> {
    makeFolder(dirname(this.#db), 0o700);
    // Readers find the bucket through the note.
    writeNote(this.#db, {
      format: 'understudy_bucket_v1',
      place,
      gateway,
      nonces: [],
      files: [],
      removing: [],
    });
    const wanted = new Map(files.map((file) => [this.pathOf(file), file]));
    for (const { path } of listSealed(this.#db)) {
      const file = wanted.get(path);
      if (file !== undefined && (await this.#isCurrent(path, file))) wanted.delete(path);
      else {
        this.#known.delete(path);
        removeFile(path);
      }
    }
    for (const file of wanted.values()) this.#removeText(file);
    this.#forgetCopies(files);
    return [...wanted.values()];
  }

  /** Removes cached packs of files that are not in the bucket any more. */
  #forgetCopies(files: readonly OffloadedFile[]): void {
    const cache = cacheFolder(this.#db);
    if (!isThere(cache)) return;
    const listed = files.map(({ folder }) => `${basename(folder)}-`);
    for (const name of readdirSync(cache))
      if (!listed.some((beginning) => name.startsWith(beginning))) rmSync(join(cache, name), { force: true });
  }

  async #isCurrent(path: string, { folder }: OffloadedFile): Promise<boolean> {
    const known = this.#known.get(path);
    if (known !== undefined) return known === folder;
    try {
      const env = openCaptureEnv(path, 'read', this.#dataKey);
      try {
        const found = readOffloadedFile(env)?.folder;
        if (found !== undefined) this.#known.set(path, found);
        return found === folder;
      } finally {
        await env.root.close();
      }
    } catch {
      return false;
    }
  }

  /** Fetches a file without its blocks. @throws StoreError; a file system error */
  async fetch(file: OffloadedFile): Promise<void> {
    const path = this.pathOf(file);
    await this.#fetchParts(path, file.index, (at) => indexName(file, at));
    if (isThere(path)) this.#known.set(path, file.folder);
  }

  /**
   * Replaces the local full-text segments of a file by those in the bucket, if they are others or one is damaged.
   * @throws StoreError; a file system error
   */
  async fetchText(file: OffloadedFile): Promise<void> {
    const listed = file.text ?? [];
    const here = new Set(this.#segmentsOf(file).map(({ path }) => path));
    const wanted = new Set(listed.map(([first, last]) => segmentPath(this.#db, first, last)));
    const isDamaged = [...here].some((path) => isThere(damagePath(path)));
    if (!isDamaged && here.size === wanted.size && [...here].every((path) => wanted.has(path))) return;
    this.#removeText(file);
    for (const [first, last, parts] of listed) {
      const path = segmentPath(this.#db, first, last);
      makeFolder(dirname(path), 0o700);
      await this.#fetchParts(path, parts, (at) => textName(file, first, last, at));
    }
  }

  #segmentsOf({ first_id, last_id }: OffloadedFile) {
    const { segments, covered } = listSegments(this.#db);
    return [...segments, ...covered].filter((file) => file.first_id >= first_id && file.last_id <= last_id);
  }

  #removeText(file: OffloadedFile): void {
    removeSegments(this.#db, this.#segmentsOf(file));
  }

  /** Removes the segments of files that are no longer in the bucket. */
  removeOtherText(files: readonly OffloadedFile[]): void {
    const { segments, covered } = listSegments(this.#db);
    const gone = [...segments, ...covered].filter(
      (segment) =>
        !files.some(({ first_id, last_id }) => first_id <= segment.first_id && segment.last_id <= last_id),
    );
    removeSegments(this.#db, gone);
  }

  async #fetchParts(
    path: string,
    parts: OffloadedFile['index'],
    nameOf: (at: number) => string,
  ): Promise<void> {
    // Two processes may fetch the same file, so each uses its own temporary name.
    const partial = `${path}.${process.pid}.part`;
    rmSync(partial, { force: true });
    for (const [at, [bytes, sha256]] of parts.entries()) {
      const object = nameOf(at);
      const part = await this.#store.get(object);
      if (part === null) throw new StoreError(`${object} is missing in ${this.#store.name}: try again`);
      if (part.length !== bytes || createHash('sha256').update(part).digest('hex') !== sha256)
        throw new StoreError(`${object} in ${this.#store.name} is damaged: it is not what was sent`);
      appendFileSync(partial, part, { mode: 0o600 });
    }
    if (!isThere(partial)) return;
    chmodSync(partial, 0o400);
    renameSync(partial, path);
  }
}
