/**
 * Blocks that are stored as they are because exchanges come faster than they can be compressed. They wait beside the
 * database, in files of their own, until they are packed into it: written past the page cache, where the system allows it.
 * To take a page of 4 KiB into the page cache costs up to 8 µs on a virtual machine whose host lends it memory page by
 * page, to hand it to the disk a quarter of one; and a burst of captured traffic does not push other files out of memory.
 * `RawFiles` runs on the capture writer's actor thread, `readRawBlock` in every reader.
 *
 * The database says where a block stands (codec.ts). It is written before the database's commit, so that what is
 * committed is there; what is not is garbage, and goes with its file. A file goes when nothing in it is waited for.
 */
import {
  closeSync,
  constants,
  fstatSync,
  fsync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { byteEngine } from '../../../native/byte-engine.ts';
import { makeFolder } from '../../std/folder.ts';
import { syncPath } from './attachments.ts';

/** Where a block stands. */
export interface RawPlace {
  file: number;
  offset: number;
  bytes: number;
}

/** Of memory, of places in a file and of lengths, for a write that passes the page cache by. */
const ALIGNMENT_BYTES = 4_096;
/** What is gathered before it is written. */
const WRITE_BYTES = 1 << 20;
/** Larger blocks are for the database itself. */
const BLOCK_BYTES_MAX = 4 << 20;
/** A file takes no more blocks from here on. */
const FILE_BYTES = 64 << 20;
/** A disk that takes less in this time is written to through the page cache for the length of a file. */
const SLOW_BYTES_PER_MS = 48 << 10;
/** Over so many bytes. */
const SLOW_SAMPLE_BYTES = 16 << 20;

const NAME = /^(\d+)\.raw$/;

interface OpenFile {
  fd: number;
  number: number;
  /** Where the next write goes. */
  end: number;
  isDirect: boolean;
  /** Written to since the last fsync began. */
  isDirty: boolean;
  isSyncing: boolean;
  /** Nothing more is written to it: it is closed when it is synced, or gone. */
  isRetired: boolean;
  isGone: boolean;
}

const fsyncFile = promisify(fsync);

export class RawFiles {
  readonly #folder: string;
  #memory: Buffer | null = null;
  /** The memory begins at such an address that it may pass the page cache by. */
  #isAligned = false;
  #used = 0;
  #open: OpenFile | null = null;
  /** Those with something that a power cut would take, retired ones too. */
  readonly #unsynced = new Set<OpenFile>();
  #isFolderNew = false;
  /** By file: the blocks that somebody waits for, and the bytes. */
  readonly #waiting = new Map<number, { blocks: number; bytes: number }>();
  #nextNumber = 1;
  /** Staged since the last `commit`, by file. */
  #staged: number[] = [];
  #canDirect = constants.O_DIRECT !== undefined;
  #timedBytes = 0;
  #timedMs = 0;
  #isSlow = false;

  /**
   * @param waiting for every block in raw files that somebody waits for, its file; files without one are removed
   * @throws the storage's error
   */
  constructor(folder: string, waiting: readonly number[]) {
    this.#folder = folder;
    for (const file of waiting) this.#count(file).blocks++;
    for (const name of listNames(folder)) {
      const number = Number(NAME.exec(name)?.[1]);
      this.#nextNumber = Math.max(this.#nextNumber, number + 1);
      const known = this.#waiting.get(number);
      if (known === undefined) rmSync(join(folder, name), { force: true });
      else known.bytes = statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
    }
  }

  /** Of all files together. */
  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.#waiting.values()) sum += bytes;
    return sum;
  }

  /**
   * Memory for a block, and where it will stand. The block must be whole before the next call of any kind.
   * @returns null for a block that is too large
   * @throws the storage's error
   */
  stage(bytes: number): { memory: Buffer; place: RawPlace } | null {
    if (bytes > BLOCK_BYTES_MAX) return null;
    if (this.#used > 0 && this.#used + bytes > WRITE_BYTES) this.#write();
    const memory = this.#allocate();
    const file = this.#openFile();
    const place = { file: file.number, offset: file.end + this.#used, bytes };
    const part = memory.subarray(this.#used, this.#used + bytes);
    this.#used += bytes;
    this.#staged.push(file.number);
    return { memory: part, place };
  }

  /** All staged blocks are with the system. @throws the storage's error */
  write(): void {
    if (this.#used > 0) this.#write();
  }

  /** The database knows of the staged blocks now. */
  commit(): void {
    for (const file of this.#staged) this.#count(file).blocks++;
    this.#staged = [];
    const open = this.#open;
    if (open !== null) this.#count(open.number).bytes = open.end;
  }

  /** What was staged since the last commit is given up, and its file takes no more: nobody knows how much of it is there. */
  abandon(): void {
    this.#used = 0;
    this.#staged = [];
    this.#retire();
  }

  /** A block was packed, or is not waited for any more. */
  release(file: number): void {
    const count = this.#waiting.get(file);
    if (count === undefined) return;
    count.blocks--;
    if (count.blocks > 0) return;
    // More is about to be committed in the one that is written to.
    if (this.#open?.number === file) {
      if (this.#staged.length === 0) this.#retire();
    } else this.#remove(file);
  }

  /** What was written outlasts the machine. @throws the storage's error */
  async sync(): Promise<void> {
    for (const file of [...this.#unsynced]) {
      if (file.isSyncing) continue;
      file.isSyncing = true;
      file.isDirty = false;
      try {
        await fsyncFile(file.fd);
      } catch (error) {
        if (file.isGone) continue;
        file.isDirty = true;
        throw error;
      } finally {
        file.isSyncing = false;
        this.#settle(file);
      }
    }
    if (this.#isFolderNew && this.#unsynced.size === 0) {
      this.#isFolderNew = false;
      syncPath(this.#folder);
    }
  }

  #count(file: number): { blocks: number; bytes: number } {
    let count = this.#waiting.get(file);
    if (count === undefined) {
      count = { blocks: 0, bytes: 0 };
      this.#waiting.set(file, count);
    }
    return count;
  }

  #allocate(): Buffer {
    if (this.#memory === null) {
      const memory = Buffer.allocUnsafeSlow(BLOCK_BYTES_MAX + 2 * ALIGNMENT_BYTES);
      const beyond = byteEngine.measureMisalignment(memory, ALIGNMENT_BYTES);
      this.#isAligned = beyond >= 0;
      const from = beyond > 0 ? ALIGNMENT_BYTES - beyond : 0;
      this.#memory = memory.subarray(from, from + BLOCK_BYTES_MAX + ALIGNMENT_BYTES);
    }
    return this.#memory;
  }

  #openFile(): OpenFile {
    if (this.#open !== null) {
      if (this.#open.end < FILE_BYTES || this.#used > 0) return this.#open;
      this.#retire();
    }
    makeFolder(this.#folder);
    const number = this.#nextNumber++;
    const path = join(this.#folder, `${number}.raw`);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    const wantsDirect = this.#canDirect && this.#isAligned && !this.#isSlow;
    this.#isSlow = false;
    let fd: number | null = null;
    if (wantsDirect) {
      try {
        fd = openSync(path, flags | constants.O_DIRECT, 0o600);
      } catch (error) {
        // A file system that knows no such thing; it may have made the file before it found out.
        if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
        this.#canDirect = false;
        rmSync(path, { force: true });
      }
    }
    const isDirect = fd !== null;
    fd ??= openSync(path, flags, 0o600);
    this.#isFolderNew = true;
    this.#open = {
      fd,
      number,
      end: 0,
      isDirect,
      isDirty: false,
      isSyncing: false,
      isRetired: false,
      isGone: false,
    };
    this.#timedBytes = 0;
    this.#timedMs = 0;
    return this.#open;
  }

  #write(): void {
    const open = this.#openFile();
    const memory = this.#allocate();
    const bytes = Math.ceil(this.#used / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    memory.fill(0, this.#used, bytes);
    const start = performance.now();
    open.isDirty = true;
    this.#unsynced.add(open);
    for (let at = 0; at < bytes; ) {
      try {
        // A disk that takes a part only has no room for the rest, and says so at the next try.
        at += writeSync(open.fd, memory, at, bytes - at, open.end + at);
      } catch (error) {
        if (!open.isDirect || at > 0 || (error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
        // A disk that wants more than pages.
        this.#canDirect = false;
        open.isDirect = false;
        closeSync(open.fd);
        open.fd = openSync(join(this.#folder, `${open.number}.raw`), constants.O_WRONLY);
      }
    }
    open.end += bytes;
    this.#used = 0;
    if (!open.isDirect) return;
    this.#timedBytes += bytes;
    this.#timedMs += performance.now() - start;
    if (this.#timedBytes < SLOW_SAMPLE_BYTES) return;
    this.#isSlow = this.#timedBytes < this.#timedMs * SLOW_BYTES_PER_MS;
    this.#timedBytes = 0;
    this.#timedMs = 0;
  }

  #retire(): void {
    const open = this.#open;
    if (open === null) return;
    this.#open = null;
    open.isRetired = true;
    if ((this.#waiting.get(open.number)?.blocks ?? 0) === 0 && !this.#staged.includes(open.number)) {
      this.#unsynced.add(open);
      this.#remove(open.number);
    } else this.#settle(open);
  }

  #remove(file: number): void {
    this.#waiting.delete(file);
    rmSync(join(this.#folder, `${file}.raw`), { force: true });
    for (const open of this.#unsynced) {
      if (open.number !== file) continue;
      open.isGone = true;
      open.isDirty = false;
      this.#settle(open);
    }
  }

  /** Closes the file when nothing is to be done with it any more. */
  #settle(file: OpenFile): void {
    if (file.isDirty || file.isSyncing) return;
    this.#unsynced.delete(file);
    if (file.isRetired) closeSync(file.fd);
  }
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => NAME.test(name));
  } catch {
    return [];
  }
}

/** A place in a raw file that is not there, or not any more: a block may have been packed meanwhile. */
export class RawFileGone extends Error {}

/**
 * A block as it was staged.
 * @throws {RawFileGone} when there is no such file
 * @throws {RangeError} when the file is shorter than that
 */
export function readRawBlock(folder: string, { file, offset, bytes }: RawPlace): Buffer {
  let fd: number;
  try {
    fd = openSync(join(folder, `${file}.raw`), constants.O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new RawFileGone(`raw file ${file} is missing`, { cause: error });
  }
  try {
    if (fstatSync(fd).size < offset + bytes) throw new RangeError(`raw file ${file} is cut off`);
    const block = Buffer.allocUnsafe(bytes);
    for (let at = 0; at < bytes; ) {
      const read = readSync(fd, block, at, bytes - at, offset + at);
      if (read === 0) throw new RangeError(`raw file ${file} is cut off`);
      at += read;
    }
    return block;
  } finally {
    closeSync(fd);
  }
}
