/**
 * Raw files: blocks stored uncompressed because exchanges arrive faster than they can be compressed. They wait in
 * separate files beside the database until they are packed into it. Where the system allows it, writes bypass the page
 * cache (O_DIRECT). On a virtual machine whose host provides memory page by page, adding a 4 KiB page to the page cache
 * takes up to 8 µs. Writing the page directly takes 0.25 µs. Direct writes also keep a burst of captured traffic from
 * evicting other files from memory.
 * `RawFiles` runs in the capture process, `readRawBlock` in every reader.
 *
 * The database records the location of each block (codec.ts). A block is written before the database commits, so every
 * committed block exists. An uncommitted block is garbage and is deleted with its file. A file is deleted when no block
 * in it waits to be packed.
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
import { announceSpare } from '../../std/spare-memory.ts';
import { syncPathAside } from '../../std/synced-path.ts';

/** Location of a block. */
export interface RawPlace {
  file: number;
  /** Offset of the first piece. */
  offset: number;
  /**
   * Length of each piece in bytes, in order. Each piece after the first starts at the page boundary that follows the
   * previous piece.
   */
  pieces: readonly number[];
}

/** Alignment of memory addresses, file offsets and lengths that a direct write requires: one page. */
const ALIGNMENT_BYTES = 4_096;
/** Parts of at least this size are not copied before they are written, except for their bytes outside whole pages. */
const DIRECT_BYTES = 32 << 10;
/** A write is due when this many bytes are gathered, or when this many of them are copied. */
const WRITE_BYTES = 2 << 20;
const COPIED_BYTES = 1 << 20;
/** Maximum number of concurrent writes. A disk is faster when the next write is already queued. */
const WRITES_MAX = 3;
/** Larger blocks, and blocks of which more bytes would have to be copied, go to the database instead. */
const BLOCK_BYTES_MAX = 64 << 20;
const BLOCK_COPIED_BYTES_MAX = 4 << 20;
/** A file of this size accepts no more blocks. */
const FILE_BYTES = 64 << 20;
/** If direct writes are slower than this, the next file is written through the page cache. */
const SLOW_BYTES_PER_MS = 48 << 10;
/** Number of bytes over which the write rate is measured. */
const SLOW_SAMPLE_BYTES = 16 << 20;

const NAME = /^(\d+)\.raw$/;

interface OpenFile {
  fd: number;
  number: number;
  /** Offset of the next write. */
  end: number;
  isDirect: boolean;
  /** The first descriptor, if the system refused direct writes to it; earlier writes may still use it. */
  refusing_fd: number | null;
  /** Number of writes in progress. */
  writes: number;
  /** Whether the file has writes since the last fsync began. */
  isDirty: boolean;
  isSyncing: boolean;
  /** Whether the file accepts no more data. It is closed when it has been synced or removed. */
  isRetired: boolean;
  isGone: boolean;
}

const fsyncFile = promisify(fsync);
const writeBuffers = promisify(writev);

/** Content of the next write: whole pages. Some consist of copied parts; the others are written from where they are. */
interface Gathering {
  /** Holds the copied parts. */
  memory: Buffer;
  used: number;
  /** Offset of the first copied byte that is not in `buffers` yet. */
  run_from: number;
  buffers: Buffer[];
  /** Total length of `buffers`. */
  bytes: number;
}

/** A gathered block. The caller may still change the copied first part. */
export interface StagedBlock {
  /** The bytes in order, in the memory that will be written; the first part is a copy. */
  memory: Buffer[];
  place: RawPlace;
}

export class RawFiles {
  readonly #folder: string;
  /** The gathering to which blocks are added. After its write it is moved to the spares. */
  #gathering: Gathering | null = null;
  readonly #spares: Gathering[] = [];
  /** Whether buffers start at page boundaries, which direct writes need. */
  #isAligned = false;
  #open: OpenFile | null = null;
  /** The writes in progress, and the error of the first one that failed. */
  readonly #underWay = new Set<Promise<void>>();
  #failure: unknown = null;
  /** Files with data that a power failure would lose, including retired files. */
  readonly #unsynced = new Set<OpenFile>();
  #isFolderNew = false;
  /** By file number: how many blocks wait to be packed, and the size of the file. */
  readonly #waiting = new Map<number, { blocks: number; bytes: number }>();
  #nextNumber = 1;
  /** File numbers of the blocks staged since the last `commit`. */
  #staged: number[] = [];
  #canDirect = constants.O_DIRECT !== undefined;
  #timedBytes = 0;
  #timedMs = 0;
  /** When the write time was last measured. The time since then is counted once for all concurrent writes. */
  #timedAt = 0;
  #isSlow = false;

  /**
   * @param waiting the file number of each block that waits to be packed; files without a waiting block are removed
   * @throws the storage's error
   */
  constructor(folder: string, waiting: readonly number[]) {
    this.#folder = folder;
    announceSpare(this);
    for (const file of waiting) this.#count(file).blocks++;
    for (const name of listNames(folder)) {
      const number = Number(NAME.exec(name)?.[1]);
      this.#nextNumber = Math.max(this.#nextNumber, number + 1);
      const known = this.#waiting.get(number);
      if (known === undefined) rmSync(join(folder, name), { force: true });
      else known.bytes = statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
    }
  }

  /** Frees the memory that no write uses at the moment. */
  releaseSpare(): void {
    this.#spares.length = 0;
  }

  /** Total size of all files. */
  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.#waiting.values()) sum += bytes;
    return sum;
  }

  /** Whether enough is gathered for a `write`. */
  get isFull(): boolean {
    const gathering = this.#gathering;
    return gathering !== null && (gathering.bytes >= WRITE_BYTES || gathering.used >= COPIED_BYTES);
  }

  /**
   * Gathers a block and returns its future location. The caller may complete the first part in the returned memory
   * before it calls another method. It must not change the given parts until `finish` has resolved.
   * @param parts the block's bytes in order; the first part is short
   * @returns null if the block is too large
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
   * Starts to write the gathered blocks as soon as fewer than WRITES_MAX writes are in progress. The write runs while
   * the next blocks are made.
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

  /** Writes all staged blocks. Resolves when the kernel has them. @throws the storage's error */
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
      // There is no other work during this write, so it runs on this thread.
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

  /** Reserves space in the open file. @returns the file to write to; null when there is nothing to write */
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

  /** Records that the database has committed the staged blocks. */
  commit(): void {
    for (const file of this.#staged) this.#count(file).blocks++;
    this.#staged = [];
    for (const { number, end } of this.#unsynced) {
      const count = this.#waiting.get(number);
      if (count !== undefined) count.bytes = end;
    }
  }

  /**
   * Drops everything staged since the last commit. Retires the open file, because it is unknown how much of the dropped
   * blocks was written. Files without other blocks are removed. After it resolves, the parts of dropped blocks are no
   * longer read.
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

  /** Records that a block no longer waits to be packed. */
  release(file: number): void {
    const count = this.#waiting.get(file);
    if (count === undefined) return;
    count.blocks--;
    // The file may also contain a staged block that is about to be committed, even if the file is retired.
    if (count.blocks > 0 || this.#staged.includes(file)) return;
    if (this.#open?.number === file) this.#retire();
    else this.#remove(file);
  }

  /**
   * Makes everything written before the call survive a power failure, except files that another call is still syncing.
   * Blocks may be staged, written and released meanwhile.
   * @throws the storage's error
   */
  async sync(): Promise<void> {
    for (const file of [...this.#unsynced]) {
      // A file that was removed during an earlier step of this loop is closed.
      if (file.isSyncing || !this.#unsynced.has(file)) continue;
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
    if (!this.#isFolderNew) return;
    this.#isFolderNew = false;
    try {
      await syncPathAside(this.#folder);
    } catch (error) {
      this.#isFolderNew = true;
      throw error;
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
        // The file system does not support O_DIRECT. The failed call may have created the file.
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
      // A short write usually means that the disk is full. The next attempt then fails with the error.
      at += written;
      rest = skipBytes(rest, written);
    }
  }

  /** Like `#writeNow`, but on a thread of the libuv pool. */
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
   * Reopens a file without O_DIRECT after the disk refused a direct write because of its alignment.
   * @param fd the descriptor of the failed write
   * @param isBegun whether a part was already written
   * @throws the given error, unless the file can be written through the page cache
   */
  #reopenUnaligned(file: OpenFile, fd: number, error: unknown, isBegun: boolean): void {
    if (isBegun || (error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
    // A concurrent write has already reopened the file.
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

  /** Closes a retired file once no write or sync of it is pending. */
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

/** Counts the bytes from the start of the memory to its first page boundary; 0 if the address is unknown. */
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

/**
 * Adds the bytes that were copied since the last buffer as a buffer, padded to a whole page.
 * @returns whether padding was needed
 */
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

/** Returns the buffers without their first `bytes` bytes. */
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

/** The raw file does not exist. The block may have been packed, and the file removed, since its location was read. */
export class RawFileGone extends Error {}

/**
 * Reads a block as it was staged.
 * @throws {RawFileGone} if the file does not exist
 * @throws {RangeError} if the file is too short
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
