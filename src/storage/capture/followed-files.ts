/**
 * Presents the files of a growing capture database as one: the sealed files, a file that is being sealed, and the live
 * file, in id order. This class also follows rotations and the replacement of a damaged file. Lists contain only
 * indexed exchanges; `newestUnlisted` returns the newest of the others. Capture reader; synchronous, read-only. Memory:
 * the live file's reader and up to OPEN_CAPTURE_FILES readers of sealed files, with one cache in common.
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import { listAttachmentNames, readCaptureKeys } from './capture-keys.ts';
import { attachmentsFolder, CaptureFileError, listSealed, type SealedFile } from './layout.ts';
import type { NewestExchange } from './newest-exchanges.ts';
import { ReadCache } from './read-cache.ts';
import { CaptureReader } from './reader.ts';
import { type ExchangeSummary, isErased } from './record.ts';
import type { StoredCopy } from './stored-copy.ts';
import type { RunMoves } from './summary-table.ts';

/** Maximum number of sealed files that are open at once. */
export const OPEN_CAPTURE_FILES = 2;
/** Maximum memory for decompressed blocks and bodies of all files. */
const CACHE_BYTES = 32 << 20;

/** A growing capture database, or captures that are gathered from others (../offload/gathered-files.ts). */
export type FollowedCaptures = Pick<FollowedFiles, keyof FollowedFiles>;

interface FollowedOptions {
  /** The key of the files; null: they are not encrypted. */
  data_key: Uint8Array | null;
}

/** A file, and the ids to read from it. */
interface Part {
  path: string;
  first_id: number;
  last_id: number;
  /** The last listed exchange. In a file that is still written, that is the last indexed one. */
  listed_id: number;
  /** Whether the file is being sealed, and its last exchanges may not be indexed yet. */
  is_sealing: boolean;
}

/** Maximum number of attempts to list the files while a rotation changes them. */
const LOOKS = 10;

export class FollowedFiles {
  readonly #db: string;
  readonly #options: FollowedOptions;
  readonly #cache = new ReadCache(CACHE_BYTES);
  #parts: Part[] = [];
  #live: CaptureReader | null = null;
  #liveInode: bigint | null = null;
  /** Open sealed files by path, the most recently used last. */
  readonly #open = new Map<string, { reader: CaptureReader; inode: bigint | null }>();
  #epoch = 0;
  /** Number of completed erasures, as the live file counts them. */
  #liveErasures = 0;
  /** First id of the live file that was read last; null if no live file was read. */
  #liveFirstId: number | null = null;
  #erasures = 0;

  /**
   * @param db path of the live file, which need not exist yet
   */
  constructor(db: string, options: FollowedOptions) {
    this.#db = db;
    this.#options = options;
  }

  /**
   * Like `GatheredFiles.endedBefore`, which is needed because gathered ids are not in the order of time. Here ids are
   * in the order of the exchanges' ends, so it returns minus infinity.
   */
  endedBefore(_id: number): number {
    return Number.NEGATIVE_INFINITY;
  }

  /** Grows when the files change. Iterations must then start again. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Grows when exchanges were erased. Cached results must then be read again. */
  get erasures(): number {
    return this.#erasures;
  }

  /**
   * Finds out which files and exchanges exist now.
   * @returns the last listed id; 0 if no exchange is listed
   * @throws CaptureFileError
   */
  refresh(): number {
    const inode = inodeOf(this.#db);
    const oldest = this.#parts[0]?.path;
    // Expiry removes the oldest file first.
    const isGone = oldest !== undefined && oldest !== this.#db && !existsSync(oldest);
    const isSealing = this.#parts.some(({ is_sealing }) => is_sealing);
    if (this.#live === null || inode !== this.#liveInode || isGone || isSealing) this.#reopen();
    else {
      this.#addLive(this.#live);
      this.#noteErasures(this.#live);
      this.#closeReplaced();
    }
    return this.#listedId();
  }

  /** Closes sealed files that were replaced because their blocks were moved to a bucket or back. */
  #closeReplaced(): void {
    for (const [path, { reader, inode }] of this.#open) {
      if (inodeOf(path) === inode) continue;
      this.#open.delete(path);
      void reader.close();
    }
  }

  #noteErasures({ erasures }: CaptureReader): void {
    if (erasures === this.#liveErasures) return;
    this.#liveErasures = erasures;
    this.#erasures += 1;
    this.#epoch += 1;
  }

  /** Number of stored exchanges that are not listed yet, as of the last `refresh`. */
  get unlisted(): number {
    return (this.#parts.at(-1)?.last_id ?? 0) - this.#listedId();
  }

  /**
   * Returns the newest exchanges that are stored and not listed yet, newest first, at most CAPTURE_NEWEST.exchanges.
   * The cost does not depend on how many wait.
   * @throws CaptureFileError
   */
  newestUnlisted(): NewestExchange[] {
    const listed = this.#listedId();
    const newest = this.unlisted === 0 ? [] : (this.#live?.newest() ?? []);
    return newest.filter(({ id }) => id > listed && this.#partOf(id) !== undefined).reverse();
  }

  /** The ids of all stored exchanges, as of the last `refresh`. */
  get ranges(): { first_id: number; last_id: number }[] {
    return [{ first_id: this.first_id, last_id: this.last_stored_id }];
  }

  /** The last stored exchange, listed or not, as of the last `refresh`; 0 if no exchange is stored. */
  get last_stored_id(): number {
    return this.#parts.at(-1)?.last_id ?? 0;
  }

  /** Returns the last id that is listed. Exchanges after the first gap in the index are not listed. */
  #listedId(): number {
    const open = this.#parts.find(({ listed_id, last_id }) => listed_id < last_id) ?? this.#parts.at(-1);
    return open?.listed_id ?? 0;
  }

  #addLive(reader: CaptureReader): void {
    const { first_id, last_id, indexed_id } = reader.range();
    const known = this.#parts.at(-1);
    if (known?.path === this.#db) Object.assign(known, { last_id, listed_id: indexed_id });
    else if (last_id >= first_id) {
      const part = { path: this.#db, first_id, last_id, listed_id: indexed_id, is_sealing: false };
      this.#parts.push(part);
    }
  }

  /** The first existing id as of the last `refresh`; 1 if there is no exchange. */
  get first_id(): number {
    return this.#parts[0]?.first_id ?? 1;
  }

  /**
   * Yields records without headers by ascending id, without damaged, unindexed or erased exchanges, and without files
   * that were removed after the last `refresh`. @throws CaptureFileError
   */
  *summaries(filter: { run_id?: string; from_id?: number } = {}): Generator<ExchangeSummary> {
    const listed = this.#listedId();
    for (const part of this.#parts) {
      const from = Math.max(part.first_id, filter.from_id ?? 1);
      if (from > Math.min(part.last_id, listed)) continue;
      let reader: CaptureReader;
      try {
        reader = this.#read(part);
      } catch (error) {
        // Expiry removed the file after the last `refresh`.
        if (error instanceof CaptureFileError && error.code === 'missing') continue;
        throw error;
      }
      for (const summary of reader.summaries({ ...filter, from_id: from })) {
        if (summary.id > Math.min(part.last_id, listed)) break;
        if (!isErased(summary)) yield summary;
      }
    }
  }

  /**
   * Collects the moves of turns to another run that exchanges after `id` caused.
   * @returns the moves, and `forgotten_to`: moves that exchanges up to this id caused may be missing. @throws
   *   CaptureFileError
   */
  movesAfter(id: number): RunMoves {
    const all: RunMoves = { moves: [], forgotten_to: 0 };
    for (const part of this.#parts) {
      if (part.last_id <= id) continue;
      const { moves, forgotten_to } = this.#read(part).moves(id);
      all.moves.push(...moves);
      all.forgotten_to = Math.max(all.forgotten_to, forgotten_to);
    }
    return all;
  }

  /**
   * Returns the record of an exchange; undefined if the exchange does not exist or is damaged.
   * @throws CaptureFileError `remote` if the bucket with the exchange cannot be read now
   */
  exchange(id: number): ExchangeRecord | undefined {
    return skipDamage(() => this.record(id));
  }

  /** Returns the stored copy in the form that decoders take; otherwise like `exchange`. */
  copy(id: number): StoredCopy | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : skipDamage(() => this.#read(part).copy(id));
  }

  /** Like `exchange`. @throws CaptureFileError if it is damaged */
  record(id: number): ExchangeRecord | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#read(part).exchange(id);
  }

  /** Returns the exact bytes of the stored body. @throws CaptureFileError if it is damaged */
  body(id: number, side: 'request' | 'response'): Uint8Array | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#read(part).body(id, side);
  }

  /** Whether the attachment with that SHA-256 is stored on this machine. */
  hasFile(sha256: string): boolean {
    const folder = attachmentsFolder(this.#db);
    const keys = readCaptureKeys(this.#db, this.#options.data_key);
    return listAttachmentNames(sha256, keys).some((name) => existsSync(join(folder, name)));
  }

  /** Closes all files. The next `refresh` opens them again. */
  close(): void {
    for (const { reader } of this.#open.values()) void reader.close();
    void this.#live?.close();
    this.#open.clear();
    this.#live = null;
    this.#liveInode = null;
    this.#parts = [];
    this.#epoch += 1;
  }

  #reopen(): void {
    this.close();
    for (let look = 1; ; look++) {
      const before = listSealed(this.#db);
      const inode = inodeOf(this.#db);
      const live = inode === null ? null : this.#openReader(this.#db);
      // If the live file was rotated in the meantime, the list lacks the new sealed file. So list again.
      const sealed = listSealed(this.#db);
      if (look < LOOKS && (sealed.length !== before.length || inodeOf(this.#db) !== inode)) {
        void live?.close();
        continue;
      }
      this.#live = live;
      this.#liveInode = inode;
      for (const file of sealed) this.#addSealed(file);
      if (live !== null) this.#addLive(live);
      this.#noteErasuresAnew();
      return;
    }
  }

  /**
   * Notes an erasure that was completed since the last `refresh`, although files were rotated or sealed meanwhile. Each
   * live file counts from 0, and keeps its count when it is sealed.
   */
  #noteErasuresAnew(): void {
    const [firstId, known] = [this.#liveFirstId, this.#liveErasures];
    this.#liveErasures = this.#live?.erasures ?? 0;
    this.#liveFirstId = this.#live?.range().first_id ?? null;
    if (firstId === null) return;
    const isNew = (from: number, erasures: number) => erasures !== (from <= firstId ? known : 0);
    const isNewInPart = (part: Part): boolean => {
      try {
        return part.last_id >= firstId && isNew(part.first_id, this.#read(part).erasures);
      } catch (error) {
        // The file was removed, or its count cannot be read, so it is unknown whether the count has changed.
        if (error instanceof CaptureFileError) return true;
        throw error;
      }
    };
    const isErased = isNew(this.#liveFirstId ?? firstId, this.#liveErasures) || this.#parts.some(isNewInPart);
    if (isErased) this.#erasures += 1;
  }

  #addSealed({ path, first_id: first, last_id, sealing: is_sealing }: SealedFile): void {
    // A file that is being sealed may be listed twice.
    const first_id = Math.max(first, (this.#parts.at(-1)?.last_id ?? 0) + 1);
    if (first_id > last_id) return;
    const part = { path, first_id, last_id, listed_id: last_id, is_sealing };
    if (is_sealing) part.listed_id = Math.min(last_id, this.#read(part).range().indexed_id);
    this.#parts.push(part);
  }

  #partOf(id: number): Part | undefined {
    return this.#parts.find(({ first_id, last_id }) => id >= first_id && id <= last_id);
  }

  #read(part: Part): CaptureReader {
    if (part.path === this.#db && this.#live !== null) return this.#live;
    let open = this.#open.get(part.path);
    if (open === undefined) {
      if (this.#open.size >= OPEN_CAPTURE_FILES) {
        const [path, oldest] = this.#open.entries().next().value!;
        this.#open.delete(path);
        void oldest.reader.close();
      }
      const reader = this.#openSealed(part);
      open = { reader, inode: inodeOf(part.path) };
    } else this.#open.delete(part.path);
    this.#open.set(part.path, open);
    return open.reader;
  }

  /** Opens a sealed file. A file that was being sealed when it was listed may have its final name now. */
  #openSealed(part: Part): CaptureReader {
    try {
      return this.#openReader(part.path);
    } catch (error) {
      if (!(error instanceof CaptureFileError) || error.code !== 'missing') throw error;
      const moved = listSealed(this.#db).find(
        ({ first_id, last_id }) => first_id <= part.first_id && last_id >= part.last_id,
      );
      if (moved === undefined || moved.path === part.path) throw error;
      part.path = moved.path;
      return this.#openReader(part.path);
    }
  }

  #openReader(path: string): CaptureReader {
    return CaptureReader.open(path, { ...this.#options, cache: this.#cache, skipped: () => {} });
  }
}

function skipDamage<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    // An exchange in a bucket exists even if it cannot be read now, so it is not reported as missing.
    if (error instanceof CaptureFileError && error.code !== 'remote') return undefined;
    throw error;
  }
}

/** Reads the inode of a file; null if the file does not exist. */
function inodeOf(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}
