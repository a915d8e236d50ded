/**
 * Manages the sealed files of the log, and seals files: packs the remaining raw blocks, completes the index, and writes
 * a compacted read-only copy, while new exchanges already go to the next file. The next start finishes an interrupted
 * seal. Capture process.
 */
import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncPath } from '../../std/synced-path.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { BlockReader } from './blocks.ts';
import { ExchangeIndex } from './exchange-index.ts';
import {
  closeEnv,
  listSealed,
  makeReadOnly,
  openCaptureEnv,
  rawFolder,
  type SealedFile,
  sealedPath,
  syncEnv,
} from './layout.ts';
import { listWaiting, repackAll } from './repacking.ts';
import type { DecodeExchange } from './stored-copy.ts';

/** A live file that was replaced by a new one and is not sealed yet. */
export type MovedFile = Pick<SealedFile, 'path' | 'first_id' | 'last_id'>;

interface SealedFilesOptions {
  /** Path of the live file. */
  path: string;
  data_key: Uint8Array | null;
  /** Called with the raw file of each block once the packed block is on disk. */
  release: (file: number) => void;
  /** Completes the index of a file before it is sealed; null: the index stays as it is. */
  decode: DecodeExchange | null;
  /** Pauses, so that exchanges can be stored. @param tookMs how long sealing has worked since the last call, ms */
  rest: (tookMs: number) => Promise<void>;
}

export class SealedFiles {
  readonly #path: string;
  readonly #dataKey: Uint8Array | null;
  readonly #release: (file: number) => void;
  readonly #decode: DecodeExchange | null;
  readonly #rest: (tookMs: number) => Promise<void>;
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

  constructor({ path, data_key, release, decode, rest }: SealedFilesOptions) {
    this.#path = path;
    this.#dataKey = data_key;
    this.#release = release;
    this.#decode = decode;
    this.#rest = rest;
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
   * How many exchanges the indexes of the files that are being sealed lack, and the last indexed one; null if the
   * indexes are complete.
   */
  get index_behind(): { exchanges: number; indexed_id: number } | null {
    let exchanges = 0;
    for (const [{ last_id }, indexed] of this.#indexed) exchanges += last_id - indexed;
    const [indexed_id] = this.#indexed.values();
    return indexed_id === undefined || exchanges === 0 ? null : { exchanges, indexed_id };
  }

  /**
   * The numbers of the raw files that the unfinished files still need. @throws {import('./layout.ts').CaptureFileError}
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
    if (indexed !== null && this.#decode !== null) this.#indexed.set(moved, indexed);
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

  /** Makes the sealed file. Can be repeated after an interruption, which leaves no incomplete sealed file. */
  async #compact(moved: MovedFile): Promise<string> {
    const { path: aside, first_id, last_id } = moved;
    const target = sealedPath(this.#path, first_id, last_id, false);
    if (!existsSync(target)) {
      await repackAll(aside, rawFolder(aside), this.#release, this.#dataKey, this.#rest);
      await this.#completeIndex(moved);
      const partial = `${target}.part`;
      rmSync(partial, { force: true });
      const env = openCaptureEnv(aside, 'read', this.#dataKey);
      try {
        await env.root.backup(partial, true);
      } finally {
        await env.root.close();
      }
      syncPath(partial);
      makeReadOnly(partial);
      renameSync(partial, target);
      syncPath(dirname(target));
    }
    rmSync(aside, { force: true });
    rmSync(`${aside}-lock`, { force: true });
    removeCheckpoint(aside);
    syncPath(dirname(target));
    return target;
  }

  /** Indexes the remaining exchanges of a file to which no more are added. */
  async #completeIndex(moved: MovedFile): Promise<void> {
    const decode = this.#decode;
    if (decode === null) return;
    const { path } = moved;
    const env = openCaptureEnv(path, 'write', this.#dataKey);
    try {
      const index = new ExchangeIndex(env, new BlockReader(env, path, CACHE_BYTES), decode);
      let start = performance.now();
      while (index.indexNext(decode)) {
        if (index.pending >= INDEX_BATCH) index.store();
        const tookMs = performance.now() - start;
        if (tookMs < INDEX_MS) continue;
        this.#indexed.set(moved, index.stored);
        await this.#rest(tookMs);
        start = performance.now();
      }
      index.store();
      this.#indexed.set(moved, index.stored);
      await syncEnv(env);
      removeCheckpoint(path);
    } finally {
      await closeEnv(env);
    }
  }
}

/** Maximum memory for blocks and bodies that the index reads. */
const CACHE_BYTES = 16 << 20;
/** Number of exchanges to index before each write. */
const INDEX_BATCH = 256;
/** Maximum time of indexing between two pauses. */
const INDEX_MS = 20;

/** The numbers of the raw files that a file needs until it is sealed. */
function readWaitingFiles(path: string, dataKey: Uint8Array | null): number[] {
  const env = openCaptureEnv(path, 'write', dataKey);
  try {
    return listWaiting(env).map(({ file }) => file);
  } finally {
    void closeEnv(env);
  }
}
