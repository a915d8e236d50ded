/**
 * A capture database as one source: its sealed files, a file that is being sealed, and the live file, in the order of
 * ids. It shows the content at the time of opening, without what the gateway writes later. Command line, main thread;
 * read-only.
 *
 * Memory: the live file's reader and OPEN_CAPTURE_FILES sealed files, each with bounded caches.
 */

import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ExchangeRecord } from '../domain/exchange.ts';
import type { StoredExchange } from '../providers/decode.ts';
import { listAttachmentNames, readCaptureKeys } from '../storage/capture/capture-keys.ts';
import { OPEN_CAPTURE_FILES } from '../storage/capture/followed-files.ts';
import { attachmentsFolder, CaptureFileError, listSealed, sealedPath } from '../storage/capture/layout.ts';
import { CaptureReader, type ReaderOptions } from '../storage/capture/reader.ts';
import { isErased } from '../storage/capture/record.ts';
import type { BodySide, ExchangeSource, ListedExchange } from './exchange-source.ts';
import type { UnreadableExchanges } from './unreadable-exchanges.ts';

/** `release` unmaps pages if at least this many bytes are mapped, of which about 60 MB belong to the program itself. */
const MAPPED_BYTES = 88 * 1024 * 1024;
/** Minimum time between two releases, because reading after a release must open the files again. */
const RELEASE_MS = 1_000;
/**
 * Page size of Linux on the machines for which Node is built. With larger pages, the mapped bytes are underestimated,
 * and pages are released later.
 */
const PAGE_BYTES = 4_096;

/** A file and the ids that are read from it. */
interface CapturePart {
  path: string;
  first_id: number;
  last_id: number;
}

/** How capture files are read. */
interface CaptureFilesOptions extends Pick<ReaderOptions, 'cache_bytes' | 'data_key'> {
  /**
   * Receives each damaged exchange. Listings then omit it, and `exchange` and `copy` return undefined; only `body` still
   * throws. Absent: a damaged exchange throws an error.
   */
  unreadable?: UnreadableExchanges;
}

/** The name of a file that is being sealed, with its first and last id. */
const SEALING = /\.(\d+)-(\d+)\.sealing\.[^.]*$/;

export class CaptureFiles implements ExchangeSource {
  readonly #db: string;
  readonly #options: CaptureFilesOptions;
  readonly #parts: CapturePart[];
  /** The live file's reader. It stays open until `release`, because after a rotation the path leads to another file. */
  #live: CaptureReader | null;
  /** Inode of the opened live file, which shows whether the path still leads to it; null: there is no live file. */
  #liveInode: bigint | null;
  /** Sealed files by path; the most recently used last. */
  readonly #open = new Map<string, CaptureReader>();
  readonly #closing = new Set<Promise<void>>();
  #releasedMs = Number.NEGATIVE_INFINITY;

  /**
   * Opens a database.
   * @param db the live file (its sealed files are found beside it), or one sealed file, which is then read alone
   * @param options `cache_bytes`: per open file; `data_key`: for all files
   * @throws CaptureFileError
   */
  static async open(db: string, options: CaptureFilesOptions = {}): Promise<CaptureFiles> {
    for (;;) {
      const before = listSealed(db);
      let live: CaptureReader | null = null;
      let range = { first_id: 1, last_id: 0 };
      // A process that died in the middle of a rotation leaves no live file; its next start creates one.
      if (existsSync(db) || before.length === 0) {
        live = openReader(db, options);
        const reader = live;
        range = reader.range();
      }
      // A concurrent rotation moves exchanges from the live file into a file that is not in the list: list again.
      const sealed = listSealed(db);
      if (sealed.length !== before.length) {
        await live?.close();
        continue;
      }
      const parts: CapturePart[] = [];
      for (const { path, first_id, last_id } of [...sealed, { path: db, ...range }]) {
        // A file that is half sealed may be listed twice.
        const from = Math.max(first_id, (parts.at(-1)?.last_id ?? 0) + 1);
        if (from <= last_id) parts.push({ path, first_id: from, last_id });
      }
      return new CaptureFiles(db, parts, live, options);
    }
  }

  private constructor(
    db: string,
    parts: CapturePart[],
    live: CaptureReader | null,
    options: CaptureFilesOptions,
  ) {
    this.#db = db;
    this.#options = options;
    this.#parts = parts;
    this.#live = live;
    this.#liveInode = live === null ? null : inodeOf(db);
  }

  /** Number of exchanges in all files together, erased ones included. */
  get count(): number {
    return this.#parts.reduce((sum, { first_id, last_id }) => sum + last_id - first_id + 1, 0);
  }

  /** Number of stored exchanges that are not indexed. Only the live file and a file that is being sealed have some. */
  get unlisted(): number {
    let count = 0;
    for (const part of this.#parts) {
      if (part.path !== this.#db && !SEALING.test(part.path)) continue;
      const { indexed_id } = this.#read(part).range();
      count += part.last_id - Math.min(part.last_id, Math.max(part.first_id - 1, indexed_id));
    }
    return count;
  }

  range(): { first_id: number; last_id: number } {
    return { first_id: this.#parts[0]?.first_id ?? 1, last_id: this.#parts.at(-1)?.last_id ?? 0 };
  }

  *summaries(filter: { run_id?: string; from_id?: number } = {}): Generator<ListedExchange> {
    for (const part of this.#parts) {
      const from = Math.max(part.first_id, filter.from_id ?? 1);
      if (from > part.last_id) continue;
      const summaries = this.#read(part).summaries({ ...filter, from_id: from });
      for (const summary of summaries) {
        if (summary.id > part.last_id) break;
        if (!isErased(summary)) yield summary;
      }
    }
  }

  *exchanges(filter: { run_id?: string } = {}): Generator<ExchangeRecord> {
    for (const summary of this.summaries(filter)) {
      const record = this.exchange(summary.id);
      if (record !== undefined) yield record;
    }
  }

  exchange(id: number): ExchangeRecord | undefined {
    const part = this.#partOf(id);
    if (part === undefined) return undefined;
    return this.#skipDamage(id, () => this.#read(part).exchange(id));
  }

  body(id: number, side: BodySide): Uint8Array | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#read(part).body(id, side);
  }

  copy(id: number): StoredExchange | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#skipDamage(id, () => this.#read(part).copy(id));
  }

  #skipDamage<T>(id: number, read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      const { unreadable } = this.#options;
      if (unreadable === undefined || !(error instanceof CaptureFileError)) throw error;
      // The exchange exists, but cannot be read now.
      if (error.code === 'remote') throw error;
      unreadable.note(id, error.path);
      return undefined;
    }
  }

  /** Whether an attachment with that SHA-256 is kept beside the database. */
  hasFile(sha256: string): boolean {
    const folder = attachmentsFolder(this.#db);
    const keys = readCaptureKeys(this.#db, this.#options.data_key ?? null);
    return listAttachmentNames(sha256, keys).some((name) => existsSync(join(folder, name)));
  }

  /**
   * Closes files and their caches when several files are open or many of their pages are mapped. The system would
   * reclaim the pages when memory is short, but until then they count as memory of this process. Later reads reopen the
   * files. Does nothing within RELEASE_MS after a release. Must not be called during a listing.
   * @param pages false to release only when several files are open
   */
  async release(pages = true): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#releasedMs < RELEASE_MS) return;
    const files = this.#open.size + (this.#live === null ? 0 : 1);
    if (files <= 1 && !(pages && measureMappedBytes() >= MAPPED_BYTES)) return;
    await this.close();
    this.#live = null;
    this.#releasedMs = nowMs;
  }

  async close(): Promise<void> {
    for (const reader of this.#open.values()) this.#letGo(reader);
    if (this.#live !== null) this.#letGo(this.#live);
    this.#open.clear();
    await Promise.all(this.#closing);
  }

  #partOf(id: number): CapturePart | undefined {
    return this.#parts.find(({ first_id, last_id }) => id >= first_id && id <= last_id);
  }

  #read(part: CapturePart): CaptureReader {
    if (part.path === this.#db) {
      const live = this.#readLive(part);
      if (live !== null) return live;
    }
    let reader = this.#open.get(part.path);
    if (reader === undefined) {
      if (this.#open.size >= OPEN_CAPTURE_FILES) {
        const [path, oldest] = this.#open.entries().next().value!;
        this.#open.delete(path);
        this.#letGo(oldest);
      }
      reader = this.#openPart(part);
    } else this.#open.delete(part.path);
    this.#open.set(part.path, reader);
    return reader;
  }

  /** Returns the live file's reader, reopened after a release; null: the path no longer leads to the opened file. */
  #readLive(part: CapturePart): CaptureReader | null {
    if (this.#live !== null) return this.#live;
    if (this.#liveInode !== null && inodeOf(this.#db) === this.#liveInode) {
      const live = openReader(this.#db, this.#options);
      // A rotation may have happened between the check and the opening.
      if (inodeOf(this.#db) === this.#liveInode) {
        this.#live = live;
        return live;
      }
      this.#letGo(live);
    }
    const sealed = listSealed(this.#db).find(
      ({ first_id, last_id }) => first_id <= part.first_id && last_id >= part.last_id,
    );
    // Without a sealed file, opening the file below reports that it has changed.
    if (sealed !== undefined) part.path = sealed.path;
    this.#liveInode = null;
    return null;
  }

  /** Opens the file of a part. @throws CaptureFileError also when the file holds less than its name says */
  #openPart(part: CapturePart): CaptureReader {
    const reader = openSealed(this.#db, part.path, this.#options);
    const { last_id: last } = reader.range();
    if (last >= part.last_id) return reader;
    this.#letGo(reader);
    const why = `holds exchanges up to ${last}, though its name says ${part.last_id}`;
    throw new CaptureFileError('damaged', part.path, why);
  }

  #letGo(reader: CaptureReader): void {
    const closed = reader.close().finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }
}

/**
 * Reads the inode of a file; null: the file is missing.
 */
function inodeOf(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

/** Bytes of mapped files in memory; 0 when unknown. */
function measureMappedBytes(): number {
  try {
    // Linux: total, resident and shared pages.
    return Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[2]) * PAGE_BYTES;
  } catch {
    return 0;
  }
}

function openReader(path: string, options: CaptureFilesOptions): CaptureReader {
  const { unreadable, ...rest } = options;
  const skipped = unreadable === undefined ? {} : { skipped: (id: number) => unreadable.note(id, path) };
  return CaptureReader.open(path, { ...rest, ...skipped });
}

/** Opens a sealed file. A file that was being sealed when it was listed has another name by now. */
function openSealed(db: string, path: string, options: CaptureFilesOptions): CaptureReader {
  try {
    return openReader(path, options);
  } catch (error) {
    const range = SEALING.exec(path);
    if (!(error instanceof CaptureFileError) || error.code !== 'missing' || range === null) throw error;
    return openReader(sealedPath(db, Number(range[1]), Number(range[2]), false), options);
  }
}
