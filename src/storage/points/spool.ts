/**
 * Keeps the objects of a point on the local disk until they were sent to the place (point.ts), so that read
 * transactions need not stay open during the upload. Objects that were sent are not sent again. Command line.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { namePlace } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import type { ObjectStore } from '../bucket/object-store.ts';

/** Maximum number of objects that are sent at the same time. */
const LANES = 4;

export class Spool {
  readonly #folder: string;
  #waiting: { name: string; path: string }[] = [];
  #count = 0;

  /** @param folder only for this spool; remnants of an earlier process in it are removed */
  constructor(folder: string) {
    this.#folder = folder;
    rmSync(folder, { recursive: true, force: true });
    makeFolder(folder, 0o700);
  }

  /** Writes an object to the disk, where it waits. @throws a file system error that names the path */
  add(name: string, bytes: Uint8Array): void {
    const path = join(this.#folder, String(this.#count++));
    try {
      writeFileSync(path, bytes, { mode: 0o600 });
    } catch (thrown) {
      rmSync(path, { force: true });
      throw namePlace(thrown, path);
    }
    this.#waiting.push({ name, path });
  }

  /**
   * Sends all waiting objects.
   * @param stop ends the upload before the next object
   * @returns the number of bytes sent by this call
   * @throws StoreError; the reason of the signal. A further call sends the remaining objects.
   */
  async send(store: ObjectStore, stop: AbortSignal): Promise<number> {
    let bytes = 0;
    const rest = [...this.#waiting];
    const lane = async (): Promise<void> => {
      for (let next = rest.shift(); next !== undefined; next = rest.shift()) {
        stop.throwIfAborted();
        const content = readFileSync(next.path);
        await store.put(next.name, content);
        bytes += content.length;
        const sent = next;
        this.#waiting = this.#waiting.filter((object) => object !== sent);
        rmSync(sent.path, { force: true });
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: LANES }, lane));
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    return bytes;
  }

  /** Removes the objects that were not sent. */
  clear(): void {
    for (const { path } of this.#waiting) rmSync(path, { force: true });
    this.#waiting = [];
  }

  remove(): void {
    if (existsSync(this.#folder)) rmSync(this.#folder, { recursive: true, force: true });
  }
}
