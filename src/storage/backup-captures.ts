/**
 * Copies the capture database for a backup while the gateway writes and rotates: the live file, the files that it has sealed,
 * and those that it is sealing. Each exchange is in one of the copies. Command line.
 *
 * A rotation renames the live file, opens a new live file, and writes the renamed one anew under its final name, which takes a
 * while. So the list of moved and sealed files must be the same before and after the live file is
 * copied, and a file that is not sealed yet is copied as a database.
 */
import { rmSync } from 'node:fs';
import { extname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { countOf } from '../std/count-of.ts';
import { isThere } from '../std/file-place.ts';
import { type CopiedDatabase, copyDatabase, copyPlain } from './backup-copy.ts';
import { BackupError, CAPTURE, type FileEntry } from './backup-manifest.ts';
import { listSealed, rawFolder, type SealedFile, sealedPath } from './capture/layout.ts';
import { repackAll } from './capture/repacking.ts';

/** Attempts at a file that changes its place while it is copied. */
const ATTEMPTS = 5;
/** How long a rotation may need to open its new live file. */
const REOPEN_MS = 200;

export class CaptureCopy {
  readonly #db: string;
  readonly #dataKey: Uint8Array | null;
  /** Of the backup. */
  readonly #folder: string;

  constructor(db: string, dataKey: Uint8Array | null, folder: string) {
    this.#db = db;
    this.#dataKey = dataKey;
    this.#folder = folder;
  }

  /**
   * Copies the live file if it exists.
   * @returns its entry, and the other files whose exchanges are not in it
   * @throws BackupError when it is rotated all the time, or is damaged; Error of the file system or of LMDB
   */
  async copyLive(): Promise<{ entry: FileEntry | null; others: SealedFile[] }> {
    for (let attempt = 1; ; attempt++) {
      const others = this.#listOthers();
      if (others.length === 0 && !isThere(this.#db)) return { entry: null, others };
      const name = (files: readonly SealedFile[]) => files.map(({ first_id }) => first_id).join();
      if (isThere(this.#db)) {
        const copied = await this.#copyOpen(this.#db, CAPTURE);
        if (copied !== null && name(this.#listOthers()) === name(others))
          return { entry: { name: CAPTURE, kind: 'capture', ...copied }, others };
        rmSync(join(this.#folder, CAPTURE), { force: true });
      } else {
        // In the middle of a rotation the new file is not there yet.
        await delay(REOPEN_MS);
        if (!isThere(this.#db) && attempt > 1) return { entry: null, others: this.#listOthers() };
      }
      if (attempt >= ATTEMPTS)
        throw new BackupError('the capture database is rotated all the time; try again');
    }
  }

  /**
   * Copies a file that was moved aside or sealed.
   * @returns null when it was removed by age meanwhile
   * @throws BackupError; Error of the file system or of LMDB
   */
  async copyOther({ path, first_id, last_id }: SealedFile): Promise<FileEntry | null> {
    const name = `capture.${first_id}-${last_id}${extname(this.#db)}`;
    const sealed = sealedPath(this.#db, first_id, last_id, false);
    for (let attempt = 1; ; attempt++) {
      try {
        if (isThere(sealed)) return { name, kind: 'sealed', ...copyPlain(sealed, join(this.#folder, name)) };
        if (!isThere(path)) return null;
        const copied = await this.#copyOpen(path, name);
        if (!isThere(path)) rmSync(`${path}-lock`, { force: true });
        if (copied !== null) return { name, kind: 'sealed', ...copied };
      } catch (thrown) {
        // Sealed at this moment: then it is there under its final name.
        if (isThere(path) || attempt === ATTEMPTS) throw thrown;
      }
      rmSync(join(this.#folder, name), { force: true });
    }
  }

  /** A file that the gateway may write to. @returns null when it must be copied again */
  async #copyOpen(path: string, name: string): Promise<CopiedDatabase | null> {
    const copy = join(this.#folder, name);
    const raw = rawFolder(path);
    for (let attempt = 1; ; attempt++) {
      // What waits in raw files is packed into the copy. A block that the gateway has packed meanwhile is in the next copy.
      let unread = 0;
      const copied = await copyDatabase(path, copy, this.#dataKey, async () => {
        if (!isThere(raw)) return;
        unread = await repackAll(copy, raw, undefined, this.#dataKey);
        rmSync(`${copy}-lock`, { force: true });
      });
      if (unread === 0) return copied;
      rmSync(copy);
      if (!isThere(path)) return null;
      if (attempt === ATTEMPTS)
        throw new BackupError(
          `${countOf(unread, 'block')} of the capture database cannot be read from ${raw}`,
        );
    }
  }

  /** One of each range of ids: a file that has just been sealed may still be there under both names. */
  #listOthers(): SealedFile[] {
    const files = listSealed(this.#db);
    return files.filter(
      ({ sealing, first_id }) =>
        !sealing || !files.some((file) => !file.sealing && file.first_id === first_id),
    );
  }
}
