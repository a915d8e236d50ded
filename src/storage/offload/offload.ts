/**
 * Moves sealed capture files into a bucket, and restores them for an erasure. A file is sent in the next pass after it
 * was sealed. Its blocks are removed from the local disk when CAPTURE_LOCAL_KEEP allows it, and only after the packs
 * and the draft that were sent were read back and compared with the file. Attachments are removed from the disk when
 * only files in the bucket refer to them. Each pass can be repeated, and continues the work of an earlier process.
 * Appends do not wait for a pass. Capture process, command line.
 *
 * A file is moved in these steps:
 *   1. make the draft (the file without its blocks) under a temporary name
 *   2. write the note
 *   3. rename the draft to its own name
 *   4. send the packs and the draft
 *   5. send the full-text segments
 *   6. write the manifest
 *   7. compare the packs and the draft in the bucket with the file
 *   8. rename the draft to the file's name
 * If the full-text index does not have all exchanges of the file yet, the manifest is first written without the
 * segments. Later passes then send the segments and write the manifest again. The content of a file in the bucket is
 * removed in these steps: write the note; write the manifest; remove the objects.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type LocalKeep, listDue } from '../../domain/local-keep.ts';
import { openDataKey } from '../../std/data-key.ts';
import { syncPath } from '../../std/synced-path.ts';
import { StoreError } from '../bucket/object-store.ts';
import { SealedObjects } from '../bucket/sealed-objects.ts';
import { removeUntouched } from '../capture/attachment-ages.ts';
import { hasOrder } from '../capture/erase-order.ts';
import { cacheFolder, listSealed, type SealedFile } from '../capture/layout.ts';
import { findRewriteOrder } from '../capture/rewrite-order.ts';
import { StaleDraftError, StoppedError } from './bucket-failures.ts';
import { BucketThread } from './bucket-thread.ts';
import {
  beginNote,
  filesFolder,
  GATEWAYS,
  MANIFEST_FORMAT,
  manifestName,
  manifestSchema,
  type NotedFile,
  type OffloadNote,
  readNote,
  writeNote,
} from './offload-note.ts';
import { OffloadedFiles } from './offloaded-file.ts';
import { removeFile } from './pack-files.ts';

interface OffloadOptions {
  /** The live file. */
  path: string;
  /** Secret; null: not encrypted. */
  data_key: Uint8Array | null;
  /** A bucket or folder; null: none is given, and the place in the note is used. */
  place: string | null;
  keep: LocalKeep;
  /** Tests pass a function that throws, so that work stops after a step. */
  fault?: ((point: OffloadStep) => void) | undefined;
}

/** The methods of the log that a pass needs. */
interface OffloadHost {
  /** Runs work while nothing reads or changes sealed files. */
  replace(work: () => void): Promise<void>;
  /**
   * Whether the full-text index has all exchanges of the file. If not, the blocks must stay on the disk until they are
   * indexed.
   */
  isSearchable(file: SealedFile): boolean;
  /** Reads when the first exchange of the live file began; null for an empty file. */
  readFirstStart(): Promise<number | null>;
}

/** Progress of moving files to the bucket. */
export interface OffloadState {
  /** Number and total size of the sealed files that are not in the bucket yet. */
  waiting_files: number;
  waiting_bytes: number;
  /** Number and total size of the files whose blocks are only in the bucket. */
  offloaded_files: number;
  offloaded_bytes: number;
  /** Number of objects and folders that are to be removed. */
  removing: number;
  /** Bytes that this process has sent. */
  sent_bytes: number;
  /** Why the last pass that was not stopped failed; null: it succeeded, or there was none. */
  failure: string | null;
}

/** Steps after which a test can stop. */
export type OffloadStep =
  | 'offload_noted'
  | 'offload_drafted'
  | 'offload_sent'
  | 'offload_text_sent'
  | 'offload_listed'
  | 'offload_compared'
  | 'offload_replaced'
  | 'offload_removed'
  | 'offload_restored'
  | 'offload_tidied';

/** Maximum number of earlier manifests whose writing failed, and which the bucket may have nevertheless. */
const NONCES_TRIED = 4;
const DRAFT = '.offload-draft';
const RESTORED = '.restored';

export class Offload {
  readonly #options: OffloadOptions;
  readonly #objects: SealedObjects;
  readonly #thread: BucketThread;
  #note: OffloadNote;
  readonly #offloaded: OffloadedFiles;
  #isManifestDue = false;
  /** Whether to search for attachments that can be removed from the disk. */
  #isTidyingDue = true;
  #sent = 0;
  #failure: string | null = null;
  /** The pass in progress. */
  #pass: Promise<void> | null = null;
  #isPaused = false;

  /**
   * Opens the bucket of a capture database. If the note lists no files, the configured place replaces the noted one.
   * @returns null if no bucket is configured or noted
   * @throws Error with a one-line message if the note is damaged, or lists files at another place than the configured
   *   one
   */
  static open(options: OffloadOptions): Offload | null {
    const note = readNote(options.path);
    if (note === null && options.place === null) return null;
    if (note !== null && options.place !== null && note.place !== options.place) {
      if (note.files.length > 0)
        throw new Error(
          `CAPTURE_BUCKET_URL names another place than ${note.place}, where captures of ${options.path} are: name that place, or copy ` +
            `captures/${note.gateway}/ to the new place and write the new place into ${options.path}.bucket`,
        );
      note.place = options.place;
    }
    return new Offload(options, note ?? beginNote(options.place!));
  }

  private constructor(options: OffloadOptions, note: OffloadNote) {
    this.#options = options;
    this.#note = note;
    this.#offloaded = new OffloadedFiles(options.data_key);
    this.#objects = new SealedObjects(openDataKey(options.data_key));
    this.#thread = new BucketThread(note.place);
  }

  /**
   * Runs a pass: sends files, removes objects, and moves blocks to the bucket or back, each when it is due. Does
   * nothing while passes are paused, or while an erasure, a compaction or a change of the key is ordered. Otherwise a
   * call during a pass waits for that pass.
   * @throws StoreError; a storage error
   */
  pass(host: OffloadHost): Promise<void> {
    // An order changes the files and their objects in the bucket.
    const { path } = this.#options;
    if (this.#isPaused || hasOrder(path) || findRewriteOrder(path) !== null) return Promise.resolve();
    this.#pass ??= this.#doPass(host)
      .then(
        () => {
          this.#failure = null;
        },
        (thrown: unknown) => {
          if (thrown instanceof StoppedError) return;
          this.#failure = (thrown as Error).message;
          throw thrown;
        },
      )
      .finally(() => {
        this.#pass = null;
      });
    return this.#pass;
  }

  async #doPass(host: OffloadHost): Promise<void> {
    this.#reconcile();
    // The data key was changed, so the manifest must be written with the new one.
    if (this.#note.nonces.length > 0 && this.#note.key_id !== this.#keyId()) this.#isManifestDue = true;
    if (this.#isManifestDue || this.#note.removing.length > 0) await this.#remove();
    // Without a configured place, nothing more goes to the noted one.
    if (this.#options.place !== null) await this.#sendFiles(host);
    if (this.#isPaused) return;
    if (this.#isManifestDue) await this.#writeManifest();
    for (const { file, entry } of this.#listDue()) {
      if (this.#isPaused) return;
      if (host.isSearchable(file)) await this.#evict(file, entry, host);
    }
    if (this.#options.keep === 'all') {
      for (const file of this.#listFiles()) {
        if (this.#isPaused) return;
        if (this.#offloaded.isOffloaded(file.path)) await this.#restore(file, host.replace);
      }
    } else if (this.#isTidyingDue && (await this.#removeAttachments(host))) this.#isTidyingDue = false;
  }

  /** Sends the files, and then their full-text index, unless the passes are paused. */
  async #sendFiles(host: OffloadHost): Promise<void> {
    for (const file of this.#listFiles()) {
      if (this.#isPaused) return;
      if (this.#offloaded.isOffloaded(file.path)) continue;
      const entry = this.#find(file);
      if (entry?.is_uploaded !== true) await this.#send(file, entry);
    }
    for (const file of this.#listFiles()) {
      if (this.#isPaused) return;
      if (host.isSearchable(file)) await this.#sendText(file);
    }
  }

  /**
   * Removes the attachments to which only files in the bucket refer.
   * @returns false if a file must be sealed or sent first
   */
  async #removeAttachments(host: OffloadHost): Promise<boolean> {
    let oldest = (await host.readFirstStart()) ?? Date.now();
    let hasAny = false;
    for (const file of listSealed(this.#options.path)) {
      if (!file.sealing && this.#offloaded.isOffloaded(file.path)) {
        hasAny = true;
        continue;
      }
      const entry = this.#find(file);
      if (file.sealing || entry === undefined) return false;
      oldest = Math.min(oldest, entry.from_ms);
    }
    if (hasAny) await removeUntouched(this.#options.path, oldest);
    this.#options.fault?.('offload_tidied');
    return true;
  }

  #keyId(): string | null {
    return openDataKey(this.#options.data_key)?.id ?? null;
  }

  /** Sealed files, oldest first. */
  #listFiles(): SealedFile[] {
    return listSealed(this.#options.path).filter(({ sealing }) => !sealing);
  }

  #find({ first_id, last_id }: SealedFile): NotedFile | undefined {
    return this.#note.files.find((entry) => entry.first_id === first_id && entry.last_id === last_id);
  }

  #save(): void {
    writeNote(this.#options.path, this.#note);
  }

  /**
   * Removes the note's entries of files that have their blocks on the disk, if the file is being rewritten, or was sent
   * and has no draft any more. A later step of the pass sends these files again.
   */
  #reconcile(): void {
    const files = new Map(this.#listFiles().map((file) => [`${file.first_id}-${file.last_id}`, file]));
    let hasChanged = false;
    for (const entry of [...this.#note.files]) {
      const file = files.get(`${entry.first_id}-${entry.last_id}`);
      // The content of a missing file stays in the bucket, because the file may be on a disk that is not mounted.
      if (file === undefined || this.#offloaded.isOffloaded(file.path)) continue;
      if (!entry.is_erasing && existsSync(`${file.path}${DRAFT}`)) continue;
      if (!entry.is_erasing && !entry.is_uploaded) continue;
      this.#drop(entry);
      removeFile(`${file.path}${DRAFT}`);
      hasChanged = true;
    }
    if (hasChanged) this.#save();
  }

  #drop(entry: NotedFile): void {
    this.#note.files = this.#note.files.filter((other) => other !== entry);
    this.#forgetCopies(entry.folder);
    this.#note.removing.push(`${entry.folder}/`);
    this.#isManifestDue = true;
  }

  async #send(file: SealedFile, known: NotedFile | undefined): Promise<void> {
    const { path, data_key } = { path: file.path, data_key: this.#options.data_key };
    const draft = `${path}${DRAFT}`;
    let entry = known;
    if (entry === undefined || !existsSync(draft)) {
      if (entry !== undefined) this.#drop(entry);
      const { first_id, last_id } = file;
      const version = randomBytes(6).toString('hex');
      const folder = `${filesFolder(this.#note.gateway)}/${first_id}-${last_id}.${version}`;
      const planned = await this.#thread.call({
        name: 'plan',
        path,
        draft: `${draft}.part`,
        folder,
        data_key,
      });
      if (planned === null) return;
      // Expiry may have removed the file in the meantime.
      if (!existsSync(path)) return removeFile(`${draft}.part`);
      entry = { first_id, last_id, folder, ...planned, is_uploaded: false, is_erasing: false };
      this.#note.files.push(entry);
      this.#save();
      this.#options.fault?.('offload_noted');
      renameSync(`${draft}.part`, draft);
      syncPath(dirname(draft));
      this.#options.fault?.('offload_drafted');
    }
    try {
      this.#sent += await this.#thread.call({
        name: 'upload',
        path,
        draft,
        folder: entry.folder,
        data_key,
      });
    } catch (thrown) {
      this.#forgetStale(thrown, file, entry);
      return;
    }
    this.#options.fault?.('offload_sent');
    entry.is_uploaded = true;
    this.#isManifestDue = true;
    this.#save();
  }

  /**
   * Sends the full-text segments of a file once, so that other machines can search it. They are sent after the file,
   * because they are made later.
   */
  async #sendText(file: SealedFile): Promise<void> {
    const entry = this.#find(file);
    if (entry?.is_uploaded !== true || entry.is_erasing || entry.text !== undefined) return;
    const text = await this.#thread.call({ name: 'upload_text', db: this.#options.path, file: entry });
    if (text === null) return;
    entry.text = text;
    this.#isManifestDue = true;
    this.#save();
    this.#options.fault?.('offload_text_sent');
  }

  /** Drops a draft that no longer matches its file, so that the next pass makes a new one. @throws any other error */
  #forgetStale(thrown: unknown, file: SealedFile, entry: NotedFile): void {
    if (!(thrown instanceof StaleDraftError)) throw thrown;
    this.#drop(entry);
    this.#save();
    removeFile(`${file.path}${DRAFT}`);
  }

  #listDue(): { file: SealedFile; entry: NotedFile }[] {
    const files = this.#listFiles()
      .filter(({ path }) => !this.#offloaded.isOffloaded(path))
      .flatMap((file) => {
        const entry = this.#find(file);
        const bytes = statSync(file.path).size;
        return [{ file, entry, bytes, to_ms: entry?.to_ms ?? Number.POSITIVE_INFINITY }];
      });
    return listDue(files, this.#options.keep, Date.now()).flatMap(({ file, entry }) =>
      entry?.is_uploaded === true && !entry.is_erasing ? [{ file, entry }] : [],
    );
  }

  /**
   * Compares the objects in the bucket with the file, then renames the draft to the file's name. If the draft no longer
   * matches the file, drops the draft instead.
   */
  async #evict(file: SealedFile, entry: NotedFile, host: OffloadHost): Promise<void> {
    const { path } = file;
    const draft = `${path}${DRAFT}`;
    const { folder, index } = entry;
    const { data_key } = this.#options;
    try {
      await this.#thread.call({ name: 'verify', path, draft, folder, index, data_key });
    } catch (thrown) {
      this.#forgetStale(thrown, file, entry);
      return;
    }
    this.#options.fault?.('offload_compared');
    await host.replace(() => {
      if (this.#isPaused || !existsSync(path) || !existsSync(draft)) return;
      renameSync(draft, path);
      syncPath(dirname(path));
    });
    rmSync(`${draft}-lock`, { force: true });
    this.#isTidyingDue = true;
    this.#options.fault?.('offload_replaced');
  }

  /** Rebuilds the sealed file with its blocks. The file without blocks becomes the draft again. */
  async #restore(file: SealedFile, replace: OffloadHost['replace']): Promise<void> {
    const { path } = file;
    const target = `${path}${RESTORED}`;
    await this.#thread.call({ name: 'restore', path, target, data_key: this.#options.data_key });
    await replace(() => {
      if (!existsSync(path)) return removeFile(target);
      // The file without blocks is kept as the draft.
      rmSync(`${path}${DRAFT}`, { force: true });
      linkSync(path, `${path}${DRAFT}`);
      renameSync(target, path);
      syncPath(dirname(path));
    });
    this.#options.fault?.('offload_restored');
  }

  /**
   * Removes the draft of a sealed file that expiry is about to remove, and notes that the file's objects are to be
   * removed, too. @throws a file system error
   */
  expire(file: SealedFile): void {
    const entry = this.#find(file);
    removeFile(`${file.path}${DRAFT}`);
    if (entry === undefined) return;
    this.#drop(entry);
    this.#save();
  }

  /** Stops the pass in progress. No pass starts until `go`. */
  async pause(): Promise<void> {
    this.#isPaused = true;
    this.#thread.stop();
    await this.#pass?.catch(() => undefined);
    this.#thread.go();
  }

  go(): void {
    this.#isPaused = false;
  }

  /**
   * Restores the files that an erasure or a rewrite will change. Call it while passes are paused, and call
   * `removeErased` after the work.
   * @throws StoreError if the bucket cannot be read
   */
  async restoreErasing(
    isMeant: (file: SealedFile) => Promise<boolean>,
    replace: OffloadHost['replace'],
  ): Promise<void> {
    for (const file of this.#listFiles()) {
      const entry = this.#find(file);
      if (entry === undefined || !(entry.is_erasing || (await isMeant(file)))) continue;
      entry.is_erasing = true;
      this.#save();
      if (this.#offloaded.isOffloaded(file.path)) await this.#restore(file, replace);
    }
  }

  /**
   * Removes the content of rewritten files from the bucket and the cache. Call it after the rewrite.
   * @throws StoreError
   */
  async removeErased(): Promise<void> {
    const folders = this.#note.files.filter(({ is_erasing }) => is_erasing).map(({ folder }) => folder);
    for (const entry of [...this.#note.files]) {
      if (!entry.is_erasing) continue;
      this.#drop(entry);
      const file = this.#listFiles().find(({ first_id }) => first_id === entry.first_id);
      if (file !== undefined) removeFile(`${file.path}${DRAFT}`);
    }
    this.#save();
    await this.#remove();
    // A reader may have fetched a pack in the meantime.
    for (const folder of folders) this.#forgetCopies(folder);
  }

  #forgetCopies(folder: string): void {
    const cache = cacheFolder(this.#options.path);
    if (!existsSync(cache)) return;
    for (const name of readdirSync(cache))
      if (name.startsWith(`${basename(folder)}-`)) rmSync(join(cache, name), { force: true });
  }

  /** Writes a manifest that no longer lists the noted objects, and then removes them. */
  async #remove(): Promise<void> {
    await this.#writeManifest();
    const names = [...this.#note.removing];
    if (names.length === 0) return;
    await this.#thread.call({ name: 'remove', names });
    this.#note.removing = this.#note.removing.filter((name) => !names.includes(name));
    this.#save();
    this.#options.fault?.('offload_removed');
  }

  /**
   * Replaces the manifest by one with all files that are completely in the bucket and are not being rewritten.
   * @throws StoreError, including when another service writes the same manifest
   */
  async #writeManifest(): Promise<void> {
    const object = manifestName(this.#note.gateway);
    const found = await this.#thread.call({ name: 'get', object });
    const known = found === null ? [] : [this.#refuseOther(object, Buffer.from(found))];
    const nonce = randomBytes(8).toString('hex');
    // From now on, the bucket has one of three manifests: the one that was found, one that an earlier pass tried to
    // write, or the one that this pass writes.
    this.#note.nonces = [...new Set([...known, ...this.#note.nonces.slice(-NONCES_TRIED), nonce])];
    this.#save();
    const files = this.#note.files
      .filter(({ is_uploaded, is_erasing }) => is_uploaded && !is_erasing)
      .map(({ is_uploaded: _sent, is_erasing: _back, ...file }) => file)
      .sort((a, b) => a.first_id - b.first_id);
    const { gateway } = this.#note;
    const plain = Buffer.from(JSON.stringify({ gateway, written_at: new Date().toISOString(), files }));
    const content = this.#objects.seal(object, plain);
    const bytes = Buffer.from(
      JSON.stringify({ format: MANIFEST_FORMAT, nonce, content: Buffer.from(content).toString('base64') }),
    );
    // Written before the first manifest, so that readers find every gateway that has a manifest.
    if (found === null)
      await this.#thread.call({ name: 'put', object: `${GATEWAYS}${gateway}`, bytes: new Uint8Array() });
    await this.#thread.call({ name: 'put', object, bytes });
    this.#note.nonces = [nonce];
    this.#note.key_id = this.#keyId();
    this.#save();
    this.#isManifestDue = false;
    this.#options.fault?.('offload_listed');
  }

  /**
   * Checks that this service has written a manifest.
   * @returns the manifest's nonce
   * @throws StoreError if another service has written it, or it cannot be read
   */
  #refuseOther(object: string, bytes: Buffer): string {
    const { place, gateway, nonces } = this.#note;
    let nonce: string;
    try {
      ({ nonce } = manifestSchema.parse(JSON.parse(bytes.toString())));
    } catch (cause) {
      throw new StoreError(`${object} in ${place} is damaged, or of a newer version`, { cause });
    }
    if (nonces.includes(nonce)) return nonce;
    throw new StoreError(
      `another service writes captures as ${gateway} to ${place}: a DATA_DIR was copied. Stop one of the two services, and ` +
        `remove ${this.#options.path}.bucket from the copy`,
    );
  }

  /** Returns the current progress. Does not access the bucket. */
  state(): OffloadState {
    const state: OffloadState = {
      waiting_files: 0,
      waiting_bytes: 0,
      offloaded_files: 0,
      offloaded_bytes: 0,
      removing: this.#note.removing.length,
      sent_bytes: this.#sent,
      failure: this.#failure,
    };
    for (const file of this.#listFiles()) {
      const entry = this.#find(file);
      if (entry?.is_uploaded !== true) {
        state.waiting_files++;
        state.waiting_bytes += statSync(file.path, { throwIfNoEntry: false })?.size ?? 0;
      } else if (this.#offloaded.isOffloaded(file.path)) {
        state.offloaded_files++;
        state.offloaded_bytes += entry.bytes;
      }
    }
    return state;
  }

  async close(): Promise<void> {
    await this.pause();
    await this.#thread.close();
  }
}
