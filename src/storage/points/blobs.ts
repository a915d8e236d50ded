/**
 * Stores files that rarely change in a place of restore points (point.ts): sealed capture files, secrets and
 * attachments. Each file is stored once, under its digest, even if several points refer to it. Command line.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isThere } from '../../std/file-place.ts';
import { BackupError } from '../backup-manifest.ts';
import type { ObjectStore } from '../bucket/object-store.ts';
import type { SealedObjects } from '../bucket/sealed-objects.ts';
import { LayerWriter } from './page-layer.ts';
import { type EachPage, openPlainPages, type PageSource } from './page-source.ts';
import { PageTable } from './page-table.ts';
import { isAttachmentName, type PointFile } from './point.ts';

export class Blobs {
  readonly #store: ObjectStore;
  readonly #objects: SealedObjects;
  /** For each file of the last point, by path: a stamp of its state at that time, and its entry. */
  #known = new Map<string, { stamp: string; entry: PointFile }>();
  /** Attachments that are in the place; null: the place was not listed yet. */
  #attachments: Set<string> | null = null;
  /**
   * The attachments of the last point, in the order in which they were found, so that later lists differ only at the
   * end.
   */
  #listed: string[] = [];
  #isListed: ReadonlySet<string> = new Set();
  /** Attachments that are in the place but not in the folder any more, and whose removal was recorded in the place. */
  #gone = new Set<string>();

  constructor(store: ObjectStore, objects: SealedObjects) {
    this.#store = store;
    this.#objects = objects;
  }

  /**
   * Sends the files that are not in the place yet.
   * @returns the entries of all files for a point
   * @throws BackupError if a file changes meanwhile; StoreError; a file system error; the reason of the signal
   */
  async addFiles(
    files: readonly (Pick<PointFile, 'name' | 'kind'> & { path: string })[],
    nowMs: number,
    stop: AbortSignal,
  ): Promise<PointFile[]> {
    const known = new Map<string, { stamp: string; entry: PointFile }>();
    const entries: PointFile[] = [];
    for (const { path, name, kind } of files) {
      const { mtimeMs } = statSync(path);
      const source = openPlainPages(path, nowMs);
      try {
        const before = this.#known.get(path);
        const entry =
          before !== undefined && before.stamp === source.stamp
            ? before.entry
            : await this.#add({ name, kind }, source, stop);
        // An erasure may have changed the file in place.
        if (statSync(path).mtimeMs !== mtimeMs)
          throw new BackupError(`${path} was changed while it was read: the next point has the change`);
        if (source.stamp !== null) known.set(path, { stamp: source.stamp, entry });
        entries.push(entry);
      } finally {
        await source.close();
      }
    }
    this.#known = known;
    return entries;
  }

  async #add(
    file: Pick<PointFile, 'name' | 'kind'>,
    source: PageSource,
    stop: AbortSignal,
  ): Promise<PointFile> {
    const { page_bytes, bytes } = source;
    const table = new PageTable(page_bytes, Math.ceil(bytes / page_bytes));
    await source.read((page, content) => {
      stop.throwIfAborted();
      table.note(page, content);
    });
    const digest = table.digest(bytes);
    const layer = `blobs/${this.#objects.nameOf(digest)}`;
    const pieces = (await this.#readDone(layer)) ?? (await this.#send(layer, digest, source, stop));
    return { ...file, bytes, page_bytes, digest, layers: [{ name: layer, pieces }] };
  }

  /** Reads the number of pieces of a layer; null if the layer is not complete. */
  async #readDone(layer: string): Promise<number | null> {
    const done = await this.#store.get(`${layer}/done`);
    const pieces = done === null ? Number.NaN : Number(done.toString('utf8'));
    return Number.isSafeInteger(pieces) && pieces >= 0 ? pieces : null;
  }

  async #send(layer: string, digest: string, source: PageSource, stop: AbortSignal): Promise<number> {
    const there = new Set<string>();
    for await (const { name } of this.#store.list(`${layer}/`)) there.add(name);
    let pieces = 0;
    const writer = new LayerWriter(async (piece) => {
      stop.throwIfAborted();
      const name = `${layer}/${pieces++}`;
      // The pieces are the same at each attempt, so an interrupted upload is continued.
      if (!there.has(name)) await this.#store.put(name, this.#objects.seal(name, piece));
    });
    const table = new PageTable(source.page_bytes, Math.ceil(source.bytes / source.page_bytes));
    const each: EachPage = async (page, content) => {
      table.note(page, content);
      const whole = Buffer.alloc(source.page_bytes);
      content.copy(whole);
      if (!table.isZeroPage(page)) await writer.add(page, whole);
    };
    await source.read(each);
    await writer.finish();
    if (table.digest(source.bytes) !== digest) {
      // The file was changed after its digest was computed.
      await this.#store.remove(Array.from({ length: pieces }, (_, piece) => `${layer}/${piece}`));
      throw new BackupError('a file was changed while it was read: the next point has the change');
    }
    await this.#store.put(`${layer}/done`, Buffer.from(String(pieces)));
    return pieces;
  }

  /**
   * Sends the attachments of a folder that are not in the place yet.
   * @returns the list for a point, and the attachments that only earlier points have and whose removal was not recorded
   *   in the place yet
   */
  async addAttachments(folder: string, stop: AbortSignal): Promise<{ list: Buffer; gone: string[] }> {
    this.#attachments ??= await this.#listPlace();
    const local = isThere(folder) ? readdirSync(folder).filter(isAttachmentName) : [];
    const isLocal = new Set(local);
    const kept = this.#listed.filter((name) => isLocal.has(name));
    const isKept = new Set(kept);
    for (const name of local) {
      if (isKept.has(name)) continue;
      stop.throwIfAborted();
      if (!this.#attachments.has(name) && !(await this.#sendAttachment(folder, name))) continue;
      kept.push(name);
    }
    this.#listed = kept;
    this.#isListed = new Set(kept);
    return {
      list: Buffer.from(kept.join(''), 'hex'),
      gone: [...this.#attachments].filter((name) => !isLocal.has(name) && !this.#gone.has(name)),
    };
  }

  /** Whether the last list of {@link addAttachments} has the attachment. */
  isListed(attachment: string): boolean {
    return this.#isListed.has(attachment);
  }

  /**
   * Records attachments that are not in the folder any more, after their removal was recorded in the place. Forgets
   * those that are in the folder again.
   */
  noteGone(gone: readonly string[]): void {
    for (const name of this.#gone) if (this.#isListed.has(name)) this.#gone.delete(name);
    for (const name of gone) this.#gone.add(name);
  }

  /** Records that attachments were removed from the place. */
  forgetAttachments(names: readonly string[]): void {
    for (const name of names) {
      this.#attachments?.delete(name);
      this.#gone.delete(name);
    }
  }

  async #listPlace(): Promise<Set<string>> {
    const names = new Set<string>();
    for await (const { name } of this.#store.list('attachments/'))
      names.add(name.slice('attachments/'.length));
    return names;
  }

  /** Sends an attachment. @returns false if its file was removed in the meantime */
  async #sendAttachment(folder: string, name: string): Promise<boolean> {
    const path = join(folder, name);
    if (!isThere(path)) return false;
    const object = `attachments/${name}`;
    await this.#store.put(object, this.#objects.seal(object, readFileSync(path)));
    this.#attachments!.add(name);
    return true;
  }
}
