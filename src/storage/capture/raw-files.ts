/**
 * Blocks that are stored as they are because exchanges come faster than they can be compressed. They wait beside the
 * database, in files of their own, until they are packed into it: written past the page cache, where the system allows it.
 * To take a page of 4 KiB into the page cache costs up to 8 µs on a virtual machine whose host lends it memory page by
 * page, to hand it to the disk a quarter of one; and a burst of captured traffic does not push other files out of memory.
 * `RawFiles` runs in the capture process, `readRawBlock` in every reader.
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
  writev,
  writevSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { byteEngine } from '../../../native/byte-engine.ts';
import { makeFolder } from '../../std/folder.ts';
import { syncPath } from './attachments.ts';

/** Where a block stands. */
export interface RawPlace {
  file: number;
  /** Of the first piece. */
  offset: number;
  /** Bytes of its pieces in their order. Each but the first begins with the next page behind the one before. */
  pieces: readonly number[];
}

/** Of memory, of places in a file and of lengths, for a write that passes the page cache by: a page. */
const ALIGNMENT_BYTES = 4_096;
/** Parts of blocks from here on are written from where they are, but for what is not in whole pages. */
const DIRECT_BYTES = 32 << 10;
/** What is gathered before it is written: in all, and copied together. */
const WRITE_BYTES = 2 << 20;
const COPIED_BYTES = 1 << 20;
/** Writes that may go on at once: a disk takes more while it knows of the next one. */
const WRITES_MAX = 3;
/** Larger blocks are for the database itself, and those of which more would have to be copied. */
const BLOCK_BYTES_MAX = 64 << 20;
const BLOCK_COPIED_BYTES_MAX = 4 << 20;
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
  /** What it was opened as first, where the system did not take such writes; others may still be under way there. */
  refusing_fd: number | null;
  /** Under way. */
  writes: number;
  /** Written to since the last fsync began. */
  isDirty: boolean;
  isSyncing: boolean;
  /** Nothing more is written to it: it is closed when it is synced, or gone. */
  isRetired: boolean;
  isGone: boolean;
}

const fsyncFile = promisify(fsync);
const writeBuffers = promisify(writev);

/** What the next write takes: whole pages, some of them copied together, the others where they were. */
interface Gathering {
  /** For what is copied. */
  memory: Buffer;
  used: number;
  /** Where in the memory the run begins that is not among the buffers yet. */
  run_from: number;
  buffers: Buffer[];
  /** Of the buffers. */
  bytes: number;
}

/** A block that is gathered, before it is whole. */
export interface StagedBlock {
  /** Its bytes in order, in the memory that they will be written from; the first part is a copy. */
  memory: Buffer[];
  place: RawPlace;
}

export class RawFiles {
  readonly #folder: string;
  /** One that is filled; those that are written come back to the spares. */
  #gathering: Gathering | null = null;
  readonly #spares: Gathering[] = [];
  /** Memory begins at such addresses that it may pass the page cache by. */
  #isAligned = false;
  #open: OpenFile | null = null;
  /** The writes that go on beside, and what the first that failed did so with. */
  readonly #underWay = new Set<Promise<void>>();
  #failure: unknown = null;
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
  /** When the time of a write was last counted: those that go on at once share it. */
  #timedAt = 0;
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

  /** So much is gathered that it should be written: see `write`. */
  get isFull(): boolean {
    const gathering = this.#gathering;
    return gathering !== null && (gathering.bytes >= WRITE_BYTES || gathering.used >= COPIED_BYTES);
  }

  /**
   * Gathers a block and says where it will stand. It must be whole before the next call of any kind, and its parts must
   * stay as they are until `finish` has resolved.
   * @param parts its bytes in order; the first is short
   * @returns null for a block that is too large
   * @throws the storage's error
   */
  stage(parts: readonly Buffer[]): StagedBlock | null {
    let bytes = 0;
    let copied = ALIGNMENT_BYTES;
    for (const part of parts) {
      bytes += part.length;
      copied += part.length < DIRECT_BYTES ? part.length : 3 * ALIGNMENT_BYTES;
    }
    const gathering = this.#gather();
    if (bytes > BLOCK_BYTES_MAX || copied > BLOCK_COPIED_BYTES_MAX) return null;
    if (copied > gathering.memory.length - gathering.used) return null;
    const file = this.#openFile();
    const offset = file.end + gathering.bytes + gathering.used - gathering.run_from;
    const memory: Buffer[] = [];
    const pieces: number[] = [];
    let piece = 0;
    let copiedFrom = gathering.used;
    for (const part of parts) {
      const from = part.length < DIRECT_BYTES ? part.length : findPage(part);
      const to = from + Math.floor((part.length - from) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
      copyPart(gathering, part, 0, from);
      piece += from;
      if (to === from) continue;
      if (gathering.used > copiedFrom) memory.push(gathering.memory.subarray(copiedFrom, gathering.used));
      if (closeRun(gathering)) {
        pieces.push(piece);
        piece = 0;
      }
      copiedFrom = gathering.used;
      const direct = part.subarray(from, to);
      memory.push(direct);
      gathering.buffers.push(direct);
      gathering.bytes += direct.length;
      copyPart(gathering, part, to, part.length);
      piece += part.length - from;
    }
    if (gathering.used > copiedFrom) memory.push(gathering.memory.subarray(copiedFrom, gathering.used));
    pieces.push(piece);
    this.#staged.push(file.number);
    return { memory, place: { file: file.number, offset, pieces } };
  }

  /**
   * Begins to write what is gathered, once there is room for one more write: the disk works while the next blocks are made.
   * @throws the storage's error
   */
  async write(): Promise<void> {
    while (this.#underWay.size >= WRITES_MAX) await Promise.race(this.#underWay);
    this.#throwFailure();
    const gathering = this.#gathering;
    if (gathering === null) return;
    const file = this.#beginWrite(gathering);
    if (file === null) return;
    this.#gathering = this.#spares.pop() ?? makeGathering();
    const underWay = this.#writeBeside(file, gathering.buffers, file.end - gathering.bytes)
      .then(
        () => this.#noteSpeed(file, gathering.bytes),
        (error: unknown) => {
          this.#failure ??= error;
        },
      )
      .finally(() => {
        file.writes--;
        this.#spares.push(empty(gathering));
        this.#underWay.delete(underWay);
      });
    this.#underWay.add(underWay);
  }

  /** All staged blocks are with the system. @throws the storage's error */
  async finish(): Promise<void> {
    if (this.#underWay.size > 0) {
      await this.write();
      await Promise.all(this.#underWay);
    }
    this.#throwFailure();
    const gathering = this.#gathering;
    const file = gathering === null ? null : this.#beginWrite(gathering);
    if (gathering === null || file === null) return;
    try {
      // Nothing is left to be done meanwhile.
      this.#writeNow(file, gathering.buffers, file.end - gathering.bytes);
      this.#noteSpeed(file, gathering.bytes);
    } finally {
      file.writes--;
      empty(gathering);
    }
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure;
  }

  /** @returns the file that it goes to, its end moved on; null when there is nothing to write */
  #beginWrite(gathering: Gathering): OpenFile | null {
    closeRun(gathering);
    if (gathering.bytes === 0) return null;
    const file = this.#openFile();
    file.end += gathering.bytes;
    file.writes++;
    file.isDirty = true;
    if (this.#underWay.size === 0) this.#timedAt = performance.now();
    this.#unsynced.add(file);
    return file;
  }

  /** The database knows of the staged blocks now. */
  commit(): void {
    for (const file of this.#staged) this.#count(file).blocks++;
    this.#staged = [];
    for (const { number, end } of this.#unsynced) {
      const count = this.#waiting.get(number);
      if (count !== undefined) count.bytes = end;
    }
  }

  /**
   * What was staged since the last commit is given up, and the open file takes no more: nobody knows how much of it is there.
   * Files with nothing else in them go. When it resolves, nothing looks at the parts of blocks any more.
   */
  async abandon(): Promise<void> {
    await Promise.all(this.#underWay);
    this.#failure = null;
    if (this.#gathering !== null) empty(this.#gathering);
    const staged = new Set(this.#staged);
    this.#staged = [];
    this.#retire();
    for (const file of staged) if ((this.#waiting.get(file)?.blocks ?? 0) === 0) this.#remove(file);
  }

  /** A block was packed, or is not waited for any more. */
  release(file: number): void {
    const count = this.#waiting.get(file);
    if (count === undefined) return;
    count.blocks--;
    // More may be about to be committed in it, also when it takes no more by now.
    if (count.blocks > 0 || this.#staged.includes(file)) return;
    if (this.#open?.number === file) this.#retire();
    else this.#remove(file);
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

  #gather(): Gathering {
    if (this.#gathering === null) {
      this.#gathering = makeGathering();
      this.#isAligned = byteEngine.measureMisalignment(this.#gathering.memory, ALIGNMENT_BYTES) === 0;
    }
    return this.#gathering;
  }

  #openFile(): OpenFile {
    if (this.#open !== null) {
      if (this.#open.end < FILE_BYTES || this.#isGathering) return this.#open;
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
      refusing_fd: null,
      writes: 0,
      isDirty: false,
      isSyncing: false,
      isRetired: false,
      isGone: false,
    };
    this.#timedBytes = 0;
    this.#timedMs = 0;
    return this.#open;
  }

  get #isGathering(): boolean {
    return this.#gathering !== null && this.#gathering.bytes + this.#gathering.used > 0;
  }

  #writeNow(file: OpenFile, buffers: readonly Buffer[], offset: number): void {
    let rest = buffers;
    for (let at = offset; rest.length > 0; ) {
      const { fd } = file;
      let written: number;
      try {
        written = writevSync(fd, rest, at);
      } catch (error) {
        this.#reopenUnaligned(file, fd, error, at > offset);
        continue;
      }
      // A disk that takes a part only has no room for the rest, and says so at the next try.
      at += written;
      rest = skipBytes(rest, written);
    }
  }

  /** The same, on another thread. */
  async #writeBeside(file: OpenFile, buffers: readonly Buffer[], offset: number): Promise<void> {
    let rest = buffers;
    for (let at = offset; rest.length > 0; ) {
      const { fd } = file;
      let written: number;
      try {
        written = (await writeBuffers(fd, rest, at)).bytesWritten;
      } catch (error) {
        this.#reopenUnaligned(file, fd, error, at > offset);
        continue;
      }
      at += written;
      rest = skipBytes(rest, written);
    }
  }

  /**
   * @param fd what was written to
   * @throws the error, unless it is that of a disk that wants more than pages and may be written to in another way
   */
  #reopenUnaligned(file: OpenFile, fd: number, error: unknown, isBegun: boolean): void {
    if (isBegun || (error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
    // Another write that was under way has found out.
    if (fd !== file.fd) return;
    if (!file.isDirect) throw error;
    this.#canDirect = false;
    file.isDirect = false;
    file.refusing_fd = fd;
    file.fd = openSync(join(this.#folder, `${file.number}.raw`), constants.O_WRONLY);
  }

  #noteSpeed(file: OpenFile, bytes: number): void {
    const now = performance.now();
    const ms = now - this.#timedAt;
    this.#timedAt = now;
    if (!file.isDirect) return;
    this.#timedBytes += bytes;
    this.#timedMs += ms;
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
    if (file.isDirty || file.isSyncing || file.writes > 0) return;
    this.#unsynced.delete(file);
    if (!file.isRetired) return;
    closeSync(file.fd);
    if (file.refusing_fd !== null) closeSync(file.refusing_fd);
  }
}

function makeGathering(): Gathering {
  const memory = Buffer.allocUnsafeSlow(COPIED_BYTES + BLOCK_COPIED_BYTES_MAX + ALIGNMENT_BYTES);
  return { memory: memory.subarray(findPage(memory)), used: 0, run_from: 0, buffers: [], bytes: 0 };
}

function empty(gathering: Gathering): Gathering {
  gathering.used = 0;
  gathering.run_from = 0;
  gathering.buffers = [];
  gathering.bytes = 0;
  return gathering;
}

/** How far behind its beginning a memory's first whole page begins; 0 where nobody can tell. */
function findPage(memory: Buffer): number {
  const beyond = byteEngine.measureMisalignment(memory, ALIGNMENT_BYTES);
  return beyond > 0 ? ALIGNMENT_BYTES - beyond : 0;
}

function copyPart(gathering: Gathering, part: Buffer, from: number, to: number): void {
  if (to === from) return;
  const copied = from === 0 && to === part.length ? part : part.subarray(from, to);
  byteEngine.copyBytes(copied, gathering.memory, gathering.used);
  gathering.used += copied.length;
}

/** What was copied since the last buffer becomes one, filled up to a whole page. @returns whether it had to be filled up */
function closeRun(gathering: Gathering): boolean {
  const { memory, used, run_from } = gathering;
  if (used === run_from) return false;
  const end = Math.ceil(used / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
  memory.fill(0, used, end);
  gathering.buffers.push(memory.subarray(run_from, end));
  gathering.bytes += end - run_from;
  gathering.used = end;
  gathering.run_from = end;
  return end > used;
}

/** What is left of the buffers behind so many bytes. */
function skipBytes(buffers: readonly Buffer[], bytes: number): readonly Buffer[] {
  let at = 0;
  let left = bytes;
  while (at < buffers.length && left >= buffers[at]!.length) left -= buffers[at++]!.length;
  if (left === 0) return buffers.slice(at);
  return [buffers[at]!.subarray(left), ...buffers.slice(at + 1)];
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
export function readRawBlock(folder: string, { file, offset, pieces }: RawPlace): Buffer {
  let fd: number;
  try {
    fd = openSync(join(folder, `${file}.raw`), constants.O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new RawFileGone(`raw file ${file} is missing`, { cause: error });
  }
  try {
    let bytes = 0;
    for (const piece of pieces) bytes += piece;
    const { size } = fstatSync(fd);
    if (size < offset + bytes) throw new RangeError(`raw file ${file} is cut off`);
    const block = Buffer.allocUnsafe(bytes);
    let from = offset;
    let to = 0;
    for (const piece of pieces) {
      for (const end = to + piece; to < end; ) {
        const read = readSync(fd, block, to, end - to, from);
        if (read === 0) throw new RangeError(`raw file ${file} is cut off`);
        from += read;
        to += read;
      }
      from = Math.ceil(from / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    }
    return block;
  } finally {
    closeSync(fd);
  }
}
