/**
 * A capture database as one and as it grows: its sealed files, one that is being sealed, and the live file, in the order of
 * ids. Unlike a command, which reads what is there at its start, this goes on over rotations and over a file that was set
 * aside. Lists hold indexed exchanges only: an exchange that is not indexed yet is listed once it is. Capture reader;
 * synchronous, read-only.
 *
 * Memory: the live file's reader and OPEN_CAPTURE_FILES of sealed files, each with its own bounded caches.
 */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ExchangeRecord } from '../../domain/exchange.ts';
import { openDataKey } from '../../std/data-key.ts';
import { nameAttachment } from './attachments.ts';
import { attachmentsFolder, CaptureFileError, listSealed, type SealedFile } from './layout.ts';
import { CaptureReader } from './reader.ts';
import type { ExchangeSummary } from './record.ts';
import type { StoredCopy } from './stored-copy.ts';
import type { RunMoves } from './summary-table.ts';

/** Sealed files that a command has open at once. Each keeps up to 64 MiB unpacked. */
export const OPEN_CAPTURE_FILES = 2;

interface FollowedOptions {
  /** Under which the files are; null: under none. */
  data_key: Uint8Array | null;
}

/** A file and the ids that are read from it. */
interface Part {
  path: string;
  first_id: number;
  last_id: number;
  /** The last exchange that is listed: of a file that is still written, the last that is indexed. */
  listed_id: number;
  /** It is being sealed, which ends with the index of its last exchanges. */
  is_sealing: boolean;
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
   * @returns the last id that is listed; 0 when nothing is
   * @throws CaptureFileError
   */
  refresh(): number {
    const inode = inodeOf(this.#db);
    const oldest = this.#parts[0]?.path;
    // Files go by age, the oldest first.
    const isGone = oldest !== undefined && oldest !== this.#db && !existsSync(oldest);
    const isSealing = this.#parts.some(({ is_sealing }) => is_sealing);
    if (this.#live === null || inode !== this.#liveInode || isGone || isSealing) this.#reopen();
    else this.#addLive(this.#live);
    return this.#listedId();
  }

  /** Stored exchanges that are not listed yet, as of the last look. */
  get unlisted(): number {
    return (this.#parts.at(-1)?.last_id ?? 0) - this.#listedId();
  }

  /** The last stored exchange, listed or not, as of the last look; 0 when nothing is. */
  get last_stored_id(): number {
    return this.#parts.at(-1)?.last_id ?? 0;
  }

  /** Up to the first file whose index is not complete. */
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

  /** The first id that is there, as of the last look; 1 when nothing is. */
  get first_id(): number {
    return this.#parts[0]?.first_id ?? 1;
  }

  /** Records without headers by id, ascending; what is damaged or not indexed is left out. @throws CaptureFileError */
  *summaries(filter: { run_id?: string; from_id?: number } = {}): Generator<ExchangeSummary> {
    const listed = this.#listedId();
    for (const part of this.#parts) {
      const from = Math.max(part.first_id, filter.from_id ?? 1);
      if (from > Math.min(part.last_id, listed)) continue;
      let reader: CaptureReader;
      try {
        reader = this.#read(part);
      } catch (error) {
        // Gone by age since the last look.
        if (error instanceof CaptureFileError && error.code === 'missing') continue;
        throw error;
      }
      for (const summary of reader.summaries({ ...filter, from_id: from })) {
        if (summary.id > Math.min(part.last_id, listed)) break;
        yield summary;
      }
    }
  }

  /** Which runs have exchanged turns because of a turn that was stored late, behind that exchange. @throws CaptureFileError */
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
      for (const file of sealed) this.#addSealed(file);
      if (live !== null) this.#addLive(live);
      return;
    }
  }

  #addSealed({ path, first_id: first, last_id, sealing: is_sealing }: SealedFile): void {
    // A file half sealed may be there twice.
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
