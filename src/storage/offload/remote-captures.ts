/**
 * Captures of gateways in a bucket, for a reader on another machine: fetches the files without blocks into a folder, where they
 * are read like any capture database. Bodies are fetched when they are read (offloaded-reads.ts). Command line.
 */
import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { openDataKey } from '../../std/data-key.ts';
import { isThere } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import { type ObjectStore, StoreError } from '../bucket/object-store.ts';
import { openStore } from '../bucket/open-store.ts';
import { SealedObjects } from '../bucket/sealed-objects.ts';
import { cacheFolder, listSealed, openCaptureEnv, sealedPath } from '../capture/layout.ts';
import {
  contentSchema,
  GATEWAYS,
  type ManifestContent,
  manifestName,
  manifestSchema,
  type OffloadedFile,
  writeNote,
} from './offload-note.ts';
import { readOffloadedFile } from './offloaded-file.ts';
import { removeFile } from './pack-files.ts';

/** The captures of one gateway. */
export interface RemoteCaptures {
  gateway: string;
  /** Path of their database here. */
  db: string;
  /** When the gateway last wrote its list of files to the bucket. */
  written_at: string;
}

interface RemoteOptions {
  place: string;
  /** null: all gateways. */
  gateway: string | null;
  /** Where the files go. */
  folder: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
}

/**
 * Fetches what is new, and removes what is no longer in the bucket.
 * @throws StoreError with one line; Error of the file system
 */
export async function fetchCaptures({
  place,
  gateway,
  folder,
  data_key,
}: RemoteOptions): Promise<RemoteCaptures[]> {
  const store = await openStore(place);
  try {
    const names: string[] = [];
    for await (const { name } of store.list(GATEWAYS)) names.push(name.slice(GATEWAYS.length));
    if (names.length === 0)
      throw new StoreError(`${store.name} has no captures: CAPTURE_BUCKET_URL of a gateway names the place`);
    if (gateway !== null && !names.includes(gateway))
      throw new StoreError(`${store.name} has no gateway ${gateway}; it has ${names.sort().join(', ')}`);
    const found: RemoteCaptures[] = [];
    for (const name of gateway === null ? names.sort() : [gateway]) {
      const content = await readManifest(store, name, data_key);
      if (content === null) continue;
      const db = join(folder, name, 'capture.mdb');
      await new RemoteFiles(store, db, data_key).bring(place, content);
      found.push({ gateway: name, db, written_at: content.written_at });
    }
    return found;
  } finally {
    store.close();
  }
}

/** @returns null for a gateway that has not finished its first file */
async function readManifest(
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

class RemoteFiles {
  readonly #store: ObjectStore;
  readonly #db: string;
  readonly #dataKey: Uint8Array | null;

  constructor(store: ObjectStore, db: string, dataKey: Uint8Array | null) {
    this.#store = store;
    this.#db = db;
    this.#dataKey = dataKey;
  }

  async bring(place: string, { gateway, files }: ManifestContent): Promise<void> {
    makeFolder(join(this.#db, '..'), 0o700);
    // Readers find the bucket through it.
    writeNote(this.#db, {
      format: 'understudy_bucket_v1',
      place,
      gateway,
      nonces: [],
      files: [],
      removing: [],
    });
    const wanted = new Map(
      files.map((file) => [sealedPath(this.#db, file.first_id, file.last_id, false), file]),
    );
    for (const { path } of listSealed(this.#db)) {
      const file = wanted.get(path);
      if (file !== undefined && (await this.#isCurrent(path, file))) wanted.delete(path);
      else removeFile(path);
    }
    for (const [path, file] of wanted) await this.#fetch(path, file);
    this.#forgetCopies(files);
  }

  /** Removes packs of files that are no longer in the bucket, for example because exchanges in them were erased. */
  #forgetCopies(files: readonly OffloadedFile[]): void {
    const cache = cacheFolder(this.#db);
    if (!isThere(cache)) return;
    const listed = files.map(({ folder }) => `${basename(folder)}-`);
    for (const name of readdirSync(cache))
      if (!listed.some((beginning) => name.startsWith(beginning))) rmSync(join(cache, name), { force: true });
  }

  async #isCurrent(path: string, { folder }: OffloadedFile): Promise<boolean> {
    try {
      const env = openCaptureEnv(path, 'read', this.#dataKey);
      try {
        return readOffloadedFile(env)?.folder === folder;
      } finally {
        await env.root.close();
      }
    } catch {
      return false;
    }
  }

  async #fetch(path: string, { folder, index }: OffloadedFile): Promise<void> {
    const partial = `${path}.part`;
    rmSync(partial, { force: true });
    for (const [at, [bytes, sha256]] of index.entries()) {
      const object = `${folder}/index-${at}`;
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
