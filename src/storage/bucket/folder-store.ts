/** Implements `ObjectStore` with a folder, for example on another disk or a mounted share. Any thread. */
import { readdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describeRefusal, isThere, namePlace } from '../../std/file-place.ts';
import { makeFolder, syncFolder } from '../../std/folder.ts';
import { OBJECT_BYTES_MAX, type ObjectStore, type StoredObject, StoreError } from './object-store.ts';

/** Suffix of an object that is still being written. */
const PARTIAL = '.partial';

export class FolderStore implements ObjectStore {
  readonly name: string;
  /** Folders that exist and are synced. */
  readonly #made = new Set<string>();

  /** @param root the folder, which need not exist */
  constructor(root: string) {
    this.name = root;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.name, name);
    await this.#try(path, () => {
      const folder = dirname(path);
      if (!this.#made.has(folder)) this.#makeFolder(folder);
      const partial = `${path}${PARTIAL}`;
      try {
        writeFileSync(partial, bytes, { mode: 0o600, flush: true });
        renameSync(partial, path);
      } catch (thrown) {
        this.#made.delete(folder);
        rmSync(partial, { force: true });
        throw thrown;
      }
      syncFolder(folder);
    });
  }

  async get(name: string): Promise<Buffer | null> {
    const path = join(this.name, name);
    return this.#try(path, () => {
      if (!isThere(path)) return null;
      if (statSync(path).size > OBJECT_BYTES_MAX) throw new StoreError(`${path} is too large`);
      return readFileSync(path);
    });
  }

  async *list(prefix: string): AsyncGenerator<StoredObject> {
    const folder = join(this.name, prefix);
    const entries = await this.#try(folder, () =>
      isThere(folder) ? readdirSync(folder, { withFileTypes: true }) : [],
    );
    for (const entry of entries) {
      if (entry.isDirectory()) yield* this.list(`${prefix}${entry.name}/`);
      else if (entry.isFile() && !entry.name.endsWith(PARTIAL)) {
        const stat = statSync(join(folder, entry.name), { throwIfNoEntry: false });
        if (stat !== undefined) yield { name: `${prefix}${entry.name}`, written_ms: stat.mtimeMs };
      }
    }
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const path = join(this.name, name);
      await this.#try(path, () => rmSync(path, { force: true }));
      this.#removeEmpty(dirname(path));
    }
  }

  /**
   * Removes a folder if it is empty, and parent folders that are then empty, because each layer of a restore point has
   * a folder.
   */
  #removeEmpty(folder: string): void {
    try {
      for (let at = folder; at.length > this.name.length; at = dirname(at)) {
        rmdirSync(at);
        this.#made.delete(at);
      }
    } catch {
      // The folder contains other objects, or does not exist.
    }
  }

  close(): void {}

  #makeFolder(folder: string): void {
    const top = makeFolder(folder, 0o700);
    if (top !== undefined)
      for (let at = folder; at.length >= top.length; at = dirname(at)) syncFolder(dirname(at));
    this.#made.add(folder);
  }

  async #try<Result>(path: string, work: () => Result): Promise<Result> {
    try {
      return work();
    } catch (thrown) {
      if (thrown instanceof StoreError) throw thrown;
      const why = describeRefusal(namePlace(thrown, path)) ?? `${path}: ${(thrown as Error).message}`;
      throw new StoreError(why, { cause: thrown });
    }
  }
}
