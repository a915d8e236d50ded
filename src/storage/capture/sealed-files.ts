/**
 * Counts the sealed files of the log, and seals files one after the other while the next file already takes new
 * exchanges. The next start finishes an interrupted seal. Capture process.
 */
import { renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncPathAside } from '../../std/synced-path.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { closeEnv, listSealed, openCaptureEnv, type SealedFile, sealedPath } from './layout.ts';
import { listWaiting } from './repacking.ts';
import type { Seal } from './seal-work.ts';

/** Longest time of releasing raw files between two rests. */
const RELEASE_SLICE_MS = 5;

/** A live file that was replaced by a new one and is not sealed yet. */
export type MovedFile = Pick<SealedFile, 'path' | 'first_id' | 'last_id'>;

interface SealedFilesOptions {
  /** Path of the live file. */
  path: string;
  data_key: Uint8Array | null;
  /** Called with the raw file of each block once the packed block is on disk. May remove the file. */
  release: (file: number) => void;
  /** Called about every 5 ms of releasing with the time since its last call, ms; lets exchanges be stored. */
  rest: (tookMs: number) => Promise<void>;
  /** Whether sealing completes the index of a file. */
  completes_index: boolean;
  seal: Seal;
}

export class SealedFiles {
  readonly #path: string;
  readonly #dataKey: Uint8Array | null;
  readonly #release: (file: number) => void;
  readonly #rest: (tookMs: number) => Promise<void>;
  readonly #completesIndex: boolean;
  readonly #seal: Seal;
  /** Interrupts the sealing. */
  readonly #ending = new AbortController();
  #count: number;
  #lastId: number;
  /** Number of files whose sealing has neither succeeded nor failed. */
  #pending = 0;
  /** Files that an earlier process had begun to seal when it ended. */
  readonly #unfinished: readonly SealedFile[];
  /** Resolves after the last seal. Files are sealed one after the other. */
  #work: Promise<unknown> = Promise.resolve();
  /** The last indexed exchange of each file whose index is not complete, in the order of the files. */
  readonly #indexed = new Map<MovedFile, number>();

  constructor({ path, data_key, release, rest, completes_index, seal }: SealedFilesOptions) {
    this.#path = path;
    this.#dataKey = data_key;
    this.#release = release;
    this.#rest = rest;
    this.#completesIndex = completes_index;
    this.#seal = seal;
    const sealed = listSealed(path);
    this.#count = new Set(sealed.map((file) => file.first_id)).size;
    this.#lastId = sealed.reduce((last, file) => Math.max(last, file.last_id), 0);
    this.#unfinished = sealed.filter((file) => file.sealing);
  }

  /** Records that a sealed file was removed. */
  forget(): void {
    this.#count--;
  }

  /** Number of sealed files, including those that are being sealed. */
  get count(): number {
    return this.#count;
  }

  /** The highest id in a sealed file; 0 if no file is sealed. */
  get last_id(): number {
    return this.#lastId;
  }

  get is_sealing(): boolean {
    return this.#pending > 0;
  }

  /**
   * How many exchanges the indexes of the files that are being sealed lack, and the last indexed exchange of the oldest
   * of these files; null if the indexes are complete.
   */
  get index_behind(): { exchanges: number; indexed_id: number } | null {
    let exchanges = 0;
    for (const [{ last_id }, indexed] of this.#indexed) exchanges += last_id - indexed;
    const [indexed_id] = this.#indexed.values();
    return indexed_id === undefined || exchanges === 0 ? null : { exchanges, indexed_id };
  }

  /**
   * Lists the numbers of the raw files that the unfinished files still need.
   * @throws {import('./layout.ts').CaptureFileError}
   */
  listWaitingFiles(): number[] {
    return this.#unfinished.flatMap(({ path }) => readWaitingFiles(path, this.#dataKey));
  }

  /** Starts to seal the files that an earlier process left. If a file cannot be sealed, the next start tries again. */
  resume(): void {
    for (const file of this.#unfinished) this.seal(file).catch(() => undefined);
  }

  /**
   * Renames the live file, which must be closed.
   * @throws the file system's error
   */
  moveAside(firstId: number, lastId: number): MovedFile {
    const path = sealedPath(this.#path, firstId, lastId, true);
    removeCheckpoint(this.#path);
    renameSync(this.#path, path);
    this.#count++;
    this.#lastId = lastId;
    return { path, first_id: firstId, last_id: lastId };
  }

  /** Undoes `moveAside`, because the new file could not be made. @param lastId the highest id of the earlier files */
  moveBack({ path }: MovedFile, lastId: number): void {
    renameSync(path, this.#path);
    this.#count--;
    this.#lastId = lastId;
  }

  /**
   * Seals a renamed file after all files that were passed earlier.
   * @param indexed the last exchange in its index; null: read from the file when it is sealed
   * @returns its final path
   * @throws the storage's error; the next start tries again
   */
  seal(moved: MovedFile, indexed: number | null = null): Promise<string> {
    if (indexed !== null && this.#completesIndex) this.#indexed.set(moved, indexed);
    this.#pending++;
    const sealed = this.#work
      .then(() => this.#compact(moved))
      .finally(() => {
        this.#pending--;
        this.#indexed.delete(moved);
      });
    this.#work = sealed.catch(() => undefined);
    return sealed;
  }

  /** Resolves when every pending seal has succeeded or failed. */
  async settle(): Promise<void> {
    await this.#work;
  }

  /** Interrupts the sealing, and prevents further sealing. The next start finishes it. */
  async end(): Promise<void> {
    this.#ending.abort(new Error('the sealing is interrupted: the next start finishes it'));
    await this.#work;
  }

  async #compact(moved: MovedFile): Promise<string> {
    const { path: aside, first_id, last_id } = moved;
    const target = sealedPath(this.#path, first_id, last_id, false);
    const { signal } = this.#ending;
    signal.throwIfAborted();
    let releasing = Promise.resolve();
    const events = {
      released: (files: readonly number[]) => {
        releasing = releasing.then(() => this.#releaseAll(files)).catch(ignore);
      },
      indexed: (id: number) => void this.#indexed.set(moved, id),
    };
    const job = { path: aside, target, data_key: this.#dataKey, completes_index: this.#completesIndex };
    try {
      await this.#seal(job, events, signal);
    } finally {
      await releasing;
    }
    // Removing a file of gigabytes may take a second, in which no exchange would be stored.
    await rm(aside, { force: true });
    await rm(`${aside}-lock`, { force: true });
    removeCheckpoint(aside);
    await syncPathAside(dirname(target));
    return target;
  }

  /**
   * Releases raw files. A large file has a hundred of them, whose removal takes seconds.
   * @throws the storage's error. The next start removes the rest
   */
  async #releaseAll(files: readonly number[]): Promise<void> {
    let start = performance.now();
    for (const file of files) {
      this.#release(file);
      const tookMs = performance.now() - start;
      if (tookMs < RELEASE_SLICE_MS) continue;
      await this.#rest(tookMs);
      start = performance.now();
    }
  }
}

function ignore(): void {}

/** Reads the raw files that a file needs until it is sealed. */
function readWaitingFiles(path: string, dataKey: Uint8Array | null): number[] {
  const env = openCaptureEnv(path, 'write', dataKey);
  try {
    return listWaiting(env).map(({ file }) => file);
  } finally {
    void closeEnv(env);
  }
}
