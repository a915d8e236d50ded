/**
 * A capture database as one and as it grows: its sealed files, one that is being sealed, and the live file, in the order of
 * ids. Unlike a command, which reads what is there at its start, this goes on over rotations and over a file that was set
 * aside. Capture reader; synchronous, read-only.
 *
 * Memory: the live file's reader and OPEN_CAPTURE_FILES of sealed files, each with its own bounded caches.
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import { OPEN_CAPTURE_FILES } from '../../limits.ts';
import { openDataKey } from '../../std/data-key.ts';
import { nameAttachment } from './attachments.ts';
import type { DecodeExchange, StoredCopy } from './exchange-index.ts';
import { attachmentsFolder, CaptureFileError, listSealed } from './layout.ts';
import { CaptureReader } from './reader.ts';
import type { ExchangeSummary } from './record.ts';

export interface FollowedOptions {
  decode: DecodeExchange;
  /** Under which the files are; null: under none. */
  data_key: Uint8Array | null;
}

/** A file and the ids that are read from it. */
interface Part {
  path: string;
  first_id: number;
  last_id: number;
}

/** Looks at the files that a rotation is about to change so often. */
const LOOKS = 10;

export class FollowedFiles {
  readonly #db: string;
  readonly #options: FollowedOptions;
  #parts: Part[] = [];
  #live: CaptureReader | null = null;
  #liveInode: bigint | null = null;
  /** Of sealed files, by path; the latest used last. */
  readonly #open = new Map<string, CaptureReader>();
  #epoch = 0;

  /** @param db the live file; it need not be there yet */
  constructor(db: string, options: FollowedOptions) {
    this.#db = db;
    this.#options = options;
  }

  /** Another number when the files are others: what was being gone through then is to be begun anew. */
  get epoch(): number {
    return this.#epoch;
  }

  /**
   * Looks at what is there now.
   * @returns the last id; 0 when nothing was ever captured
   * @throws CaptureFileError
   */
  refresh(): number {
    const inode = inodeOf(this.#db);
    const oldest = this.#parts[0]?.path;
    // Files go by age, the oldest first.
    const isGone = oldest !== undefined && oldest !== this.#db && !existsSync(oldest);
    if (this.#live === null || inode !== this.#liveInode || isGone) this.#reopen();
    else {
      const live = this.#parts.at(-1);
      const range = this.#live.range();
      if (live?.path === this.#db) live.last_id = range.last_id;
      else if (range.last_id >= range.first_id) this.#parts.push({ path: this.#db, ...range });
    }
    return this.#parts.at(-1)?.last_id ?? 0;
  }

  /** The first id that is there, as of the last look; 1 when nothing is. */
  get first_id(): number {
    return this.#parts[0]?.first_id ?? 1;
  }

  /** Records without headers by id, ascending; what is damaged is left out. @throws CaptureFileError */
  *summaries(filter: { run_id?: string; from_id?: number } = {}): Generator<ExchangeSummary> {
    for (const part of this.#parts) {
      const from = Math.max(part.first_id, filter.from_id ?? 1);
      if (from > part.last_id) continue;
      let reader: CaptureReader;
      try {
        reader = this.#read(part);
      } catch (error) {
        // Gone by age since the last look.
        if (error instanceof CaptureFileError && error.code === 'missing') continue;
        throw error;
      }
      for (const summary of reader.summaries({ ...filter, from_id: from })) {
        if (summary.id > part.last_id) break;
        yield summary;
      }
    }
  }

  *exchanges(filter: { run_id?: string; from_id?: number } = {}): Generator<ExchangeRecord> {
    for (const { id } of this.summaries(filter)) {
      const record = this.exchange(id);
      if (record !== undefined) yield record;
    }
  }

  /** The record; undefined when it is not there or damaged. */
  exchange(id: number): ExchangeRecord | undefined {
    return skipDamage(() => this.record(id));
  }

  /** The stored copy as the decoders take it; undefined when it is not there or damaged. */
  copy(id: number): StoredCopy | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : skipDamage(() => this.#read(part).copy(id));
  }

  /** As `exchange`. @throws CaptureFileError when it is damaged */
  record(id: number): ExchangeRecord | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#read(part).exchange(id);
  }

  /** The stored body's exact bytes. @throws CaptureFileError when it is damaged */
  body(id: number, side: 'request' | 'response'): Uint8Array | undefined {
    const part = this.#partOf(id);
    return part === undefined ? undefined : this.#read(part).body(id, side);
  }

  /** Whether the bytes with that SHA-256 are kept beside the database. */
  hasFile(sha256: string): boolean {
    const name = nameAttachment(sha256, openDataKey(this.#options.data_key));
    return existsSync(join(attachmentsFolder(this.#db), name));
  }

  /** Lets go of all files; the next look opens them again. */
  close(): void {
    for (const reader of [...this.#open.values(), this.#live]) void reader?.close();
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
      // A rotation in between moves exchanges from the live file into one that is not in the list: look again.
      const sealed = listSealed(this.#db);
      if (look < LOOKS && (sealed.length !== before.length || inodeOf(this.#db) !== inode)) {
        void live?.close();
        continue;
      }
      this.#live = live;
      this.#liveInode = inode;
      const parts = live === null ? sealed : [...sealed, { path: this.#db, ...live.range() }];
      for (const { path, first_id, last_id } of parts) {
        // A file half sealed may be there twice.
        const from = Math.max(first_id, (this.#parts.at(-1)?.last_id ?? 0) + 1);
        if (from <= last_id) this.#parts.push({ path, first_id: from, last_id });
      }
      return;
    }
  }

  #partOf(id: number): Part | undefined {
    return this.#parts.find(({ first_id, last_id }) => id >= first_id && id <= last_id);
  }

  #read(part: Part): CaptureReader {
    if (part.path === this.#db && this.#live !== null) return this.#live;
    let reader = this.#open.get(part.path);
    if (reader === undefined) {
      if (this.#open.size >= OPEN_CAPTURE_FILES) {
        const [path, oldest] = this.#open.entries().next().value!;
        this.#open.delete(path);
        void oldest.close();
      }
      reader = this.#openSealed(part);
    } else this.#open.delete(part.path);
    this.#open.set(part.path, reader);
    return reader;
  }

  /** One that was being sealed when it was listed has another name by now. */
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
    return CaptureReader.open(path, { ...this.#options, skipped: () => {} });
  }
}

function skipDamage<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof CaptureFileError) return undefined;
    throw error;
  }
}

/** @returns null when there is no such file */
function inodeOf(path: string): bigint | null {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}
