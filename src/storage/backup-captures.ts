/**
 * Copies the capture database for a backup while the gateway writes and rotates: the live file, the sealed files, and
 * the files that are being sealed. Each exchange is in at least one of the copies. Command line.
 * A rotation renames the live file, opens a new live file, and then rewrites the renamed file under its final name,
 * which takes a while. So the copy of the live file is used only if the list of renamed and sealed files was the same
 * before and after the copy. A file that is not sealed yet is copied through LMDB.
 */
import { rmSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { countOf } from '../std/count-of.ts';
import { isThere } from '../std/file-place.ts';
import { type CopiedDatabase, copyDatabase, copyPlain } from './backup-copy.ts';
import { BackupError, CAPTURE, type FileEntry } from './backup-manifest.ts';
import { hasOrder } from './capture/erase-order.ts';
import { listSealed, rawFolder, type SealedFile, sealedPath } from './capture/layout.ts';
import { repackAll } from './capture/repacking.ts';

/** Maximum number of attempts to copy a file that is renamed during the copy. */
const ATTEMPTS = 5;
/** How long a rotation may take to open the new live file. */
const REOPEN_MS = 200;

export class CaptureCopy {
  readonly #db: string;
  readonly #dataKey: Uint8Array | null;
  /** The backup's folder. */
  readonly #folder: string;

  constructor(db: string, dataKey: Uint8Array | null, folder: string) {
    this.#db = db;
    this.#dataKey = dataKey;
    this.#folder = folder;
  }

  /**
   * Copies the live file if it exists.
   * @returns the manifest's entry for the live file (null if the file does not exist), and the other files, which have
   * the remaining exchanges
   * @throws BackupError if a rotation disturbed every attempt, or if the file is damaged; a file system or LMDB error
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
        // Either a rotation is in progress, and its new live file does not exist yet, or there is no live file.
        await delay(REOPEN_MS);
        if (!isThere(this.#db) && attempt > 1) return { entry: null, others: this.#listOthers() };
      }
      if (attempt >= ATTEMPTS) throw new BackupError('the capture database is rotated too often; try again');
    }
  }

  /**
   * Copies a file that was renamed or sealed.
   * @returns null if the file expired in the meantime
   * @throws BackupError; a file system or LMDB error
   */
  async copyOther({ path, first_id, last_id }: SealedFile): Promise<FileEntry | null> {
    const name = `capture.${first_id}-${last_id}${extname(this.#db)}`;
    const sealed = sealedPath(this.#db, first_id, last_id, false);
    for (let attempt = 1; ; attempt++) {
      try {
        if (isThere(sealed)) {
          const copied = await this.#copySealed(sealed, name);
          if (copied !== null) return { name, kind: 'sealed', ...copied };
        }
        if (!isThere(path)) return null;
        const copied = await this.#copyOpen(path, name);
        if (!isThere(path)) rmSync(`${path}-lock`, { force: true });
        if (copied !== null) return { name, kind: 'sealed', ...copied };
      } catch (thrown) {
        // If the file is gone, it got its final name or expired in the meantime. The next attempt looks for that name.
        if (isThere(path) || attempt === ATTEMPTS) throw thrown;
      }
      rmSync(join(this.#folder, name), { force: true });
    }
  }

  /** Copies a sealed file, also while exchanges are erased from it. @returns null if the copy must be repeated */
  async #copySealed(path: string, name: string): Promise<CopiedDatabase | null> {
    const copy = join(this.#folder, name);
    const before = statSync(path).mtimeMs;
    if (!hasOrder(this.#db)) {
      const copied = copyPlain(path, copy);
      if (!hasOrder(this.#db) && statSync(path).mtimeMs === before) return copied;
      rmSync(copy, { force: true });
    }
    return this.#copyOpen(path, name);
  }

  /** Copies a file that the gateway may be writing. @returns null if the copy must be repeated */
  async #copyOpen(path: string, name: string): Promise<CopiedDatabase | null> {
    const copy = join(this.#folder, name);
    const raw = rawFolder(path);
    for (let attempt = 1; ; attempt++) {
      // Blocks in raw files are packed into the copy. If the gateway packed a block and removed its raw file in the
      // meantime, the next attempt finds the block in the database.
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

  /** Lists one file for each range of ids, because a file that was just sealed may exist under both names. */
  #listOthers(): SealedFile[] {
    const files = listSealed(this.#db);
    return files.filter(
      ({ sealing, first_id }) =>
        !sealing || !files.some((file) => !file.sealing && file.first_id === first_id),
    );
  }
}
