/**
 * Checkpoints of an LMDB file whose commits are not synced. After a power failure, the file returns to its last
 * checkpoint. Any thread; for each file, one thread makes the checkpoints.
 * Without a sync for each commit, LMDB guarantees nothing after a power failure: the kernel may have written a head
 * before the pages to which it refers, or pages of a later commit over those of an earlier one. A checkpoint limits the
 * loss:
 *   1. open a read transaction, so that LMDB reuses no page of the current snapshot
 *   2. copy the newest head from the file
 *   3. sync the file, so that every page that the copied head uses is on the disk
 *   4. write the copy into `<file>-safe` and sync that
 *   5. close the read transaction of the previous checkpoint
 * The next process compares the machine's boot id with the one in `<file>-safe`. If they differ, the machine has
 * restarted. The copied head then replaces both heads of the file, so that the file has the content of the checkpoint.
 * If only the process ended, no commit is lost, and the heads stay. `<file>-safe` has two slots of 512 bytes that are
 * written in turn, so that a torn write leaves the other slot intact: [8 mark][8 number][8 inode][40 boot id][4 page
 * size][4 head length][head][…][4 CRC-32 of all before], little-endian.
 */
import {
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { open, type RootDatabase } from 'lmdb';
import { syncPath } from '../../std/synced-path.ts';
import { copyNewestHead, HEAD_AT, type HeadCopy } from './file-head.ts';

const MARK = Buffer.from('USSAFE01', 'latin1');
const SLOT_BYTES = 512;
const NUMBER_AT = 8;
const INODE_AT = 16;
const BOOT_AT = 24;
const BOOT_BYTES = 40;
const PAGE_SIZE_AT = BOOT_AT + BOOT_BYTES;
const HEAD_BYTES_AT = PAGE_SIZE_AT + 4;
const SLOT_HEAD_AT = HEAD_BYTES_AT + 4;
const CRC_AT = SLOT_BYTES - 4;

const sync = promisify(fdatasync);

/** A read transaction of lmdb. */
interface HeldRead {
  done(): void;
}

/** The content of a slot. */
interface CheckpointSlot {
  /** Sequence number of the checkpoint. Of two undamaged slots, the one with the higher number counts. */
  number: number;
  inode: bigint;
  boot_id: string;
  head: HeadCopy;
}

/** Returns the path of a database file's checkpoint. */
export function checkpointPath(path: string): string {
  return `${path}-safe`;
}

/** Identifies the machine's current boot; '' if the system has no such id. Without an id, no checkpoint is restored. */
export function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    return '';
  }
}

/** Removes the file's checkpoint. The file has no checkpoint until the next one is made. */
export function removeCheckpoint(path: string): void {
  rmSync(checkpointPath(path), { force: true });
}

export function encodeSlot({ number, inode, boot_id, head }: CheckpointSlot): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  MARK.copy(slot);
  slot.writeDoubleLE(number, NUMBER_AT);
  slot.writeBigUInt64LE(inode, INODE_AT);
  slot.write(boot_id, BOOT_AT, BOOT_BYTES, 'latin1');
  slot.writeUInt32LE(head.page_size, PAGE_SIZE_AT);
  slot.writeUInt32LE(head.bytes.length, HEAD_BYTES_AT);
  head.bytes.copy(slot, SLOT_HEAD_AT);
  slot.writeUInt32LE(crc32(slot.subarray(0, CRC_AT)), CRC_AT);
  return slot;
}

/**
 * Reads a database file's checkpoint.
 * @returns the newer of the two slots; null if there is no checkpoint, or both slots are damaged
 * @throws a file system error
 */
export function readCheckpoint(path: string): CheckpointSlot | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(checkpointPath(path));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw thrown;
  }
  const slots = [0, SLOT_BYTES].map((at) => decodeSlot(bytes.subarray(at, at + SLOT_BYTES)));
  return slots.reduce((newest, slot) => ((slot?.number ?? 0) > (newest?.number ?? 0) ? slot : newest), null);
}

function decodeSlot(slot: Buffer): CheckpointSlot | null {
  if (slot.length < SLOT_BYTES || !slot.subarray(0, MARK.length).equals(MARK)) return null;
  if (slot.readUInt32LE(CRC_AT) !== crc32(slot.subarray(0, CRC_AT))) return null;
  const headBytes = slot.readUInt32LE(HEAD_BYTES_AT);
  return {
    number: slot.readDoubleLE(NUMBER_AT),
    inode: slot.readBigUInt64LE(INODE_AT),
    boot_id: slot.toString('latin1', BOOT_AT, BOOT_AT + BOOT_BYTES).replace(/\0+$/, ''),
    head: {
      page_size: slot.readUInt32LE(PAGE_SIZE_AT),
      bytes: Buffer.from(slot.subarray(SLOT_HEAD_AT, SLOT_HEAD_AT + headBytes)),
    },
  };
}

/**
 * Whether the machine has restarted since the file's last checkpoint, and the file has another head than the checkpoint
 * or no readable head. If so, nothing can be read safely from the file until the checkpoint is restored.
 */
export function needsRestore(path: string, bootId = readBootId()): boolean {
  const slot = findStale(path, bootId);
  if (slot === null) return false;
  const file = openSync(path, constants.O_RDONLY);
  try {
    return !copyNewestHead(file).bytes.equals(slot.head.bytes);
  } catch {
    return true;
  } finally {
    closeSync(file);
  }
}

/**
 * Finds the checkpoint of the file at the path if it was made before the last restart of the machine; otherwise null.
 */
function findStale(path: string, bootId: string): CheckpointSlot | null {
  const slot = existsSync(path) ? readCheckpoint(path) : null;
  if (slot === null || bootId === '' || slot.boot_id === '' || slot.boot_id === bootId) return null;
  // The file may have been replaced since the checkpoint was made.
  return statSync(path, { bigint: true }).ino === slot.inode ? slot : null;
}

/**
 * Restores a file's checkpoint if the machine has restarted since. No process may have the file open. After an
 * interruption, it can be repeated.
 * @returns whether it was restored
 * @throws a file system error
 */
export function restoreCheckpoint(path: string, bootId = readBootId()): boolean {
  const slot = findStale(path, bootId);
  if (slot === null) return false;
  const file = openSync(path, constants.O_RDWR);
  try {
    const { page_size, bytes } = slot.head;
    for (const page of [0, 1]) writeSync(file, bytes, 0, bytes.length, page * page_size + HEAD_AT);
    fdatasyncSync(file);
  } finally {
    closeSync(file);
  }
  // The lock file refers to a commit that no longer exists.
  rmSync(`${path}-lock`, { force: true });
  return true;
}

/** Makes the checkpoints of one open file. */
export class Checkpoints {
  readonly #path: string;
  /**
   * A separate handle, which is not used for other reads. lmdb-js would share the open transaction with later reads of
   * the same handle, and close it with them. All handles of a process share one environment, so the transaction keeps
   * pages from being reused by any of them.
   */
  readonly #root: RootDatabase;
  readonly #file: number;
  readonly #safe: number;
  readonly #inode: bigint;
  readonly #bootId = readBootId();
  #number: number;
  /** Number of the last checkpoint's transaction. */
  #txn = -1;
  /** Keeps the pages of the last checkpoint from being reused. */
  #held: HeldRead | null = null;
  #isClosed = false;
  /**
   * The error of a failed sync. The kernel has dropped the pages that it could not write, and later syncs do not
   * report that.
   */
  #failure: Error | null = null;
  #writing: Promise<void> = Promise.resolve();

  /**
   * Makes the first checkpoint before it returns. From then on, only commits after the last checkpoint are lost in a
   * power failure.
   * @param path a file that this thread has open without syncs, and to which nothing was written since
   * @throws a file system error
   */
  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, constants.O_RDONLY);
    try {
      this.#inode = fstatSync(this.#file, { bigint: true }).ino;
      this.#number = readCheckpoint(path)?.number ?? 0;
      this.#safe = openSync(checkpointPath(path), constants.O_RDWR | constants.O_CREAT, 0o600);
    } catch (thrown) {
      closeSync(this.#file);
      throw thrown;
    }
    this.#root = open({ path, noSubdir: true, cache: false, overlappingSync: false, noSync: true });
    try {
      const { head, held } = this.#begin();
      fdatasyncSync(this.#file);
      this.#writeSlot(head);
      fdatasyncSync(this.#safe);
      syncPath(dirname(path));
      this.#finish(head, held);
    } catch (thrown) {
      void this.close();
      throw thrown;
    }
  }

  /**
   * Waits for a running checkpoint. Then makes a checkpoint of everything committed, unless the last checkpoint already
   * covers it. Commits may continue meanwhile, and belong to the next checkpoint.
   * @param syncOthers syncs what the committed rows refer to outside this file; runs when it is decided which commits
   *   the checkpoint covers
   * @throws a file system error; what `syncOthers` throws; Error after `close`. After a failed sync of the file, no
   *   checkpoint is possible, and every later call throws.
   */
  write(syncOthers?: () => Promise<void>): Promise<void> {
    const written = this.#writing.then(() => this.#write(syncOthers));
    this.#writing = written.catch(() => undefined);
    return written;
  }

  async #write(syncOthers?: () => Promise<void>): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    if (this.#isClosed) throw new Error(`${this.#path} is not open`);
    if (copyNewestHead(this.#file).txn === this.#txn) return syncOthers?.();
    const { head, held } = this.#begin();
    try {
      await syncOthers?.();
    } catch (thrown) {
      held.done();
      throw thrown;
    }
    try {
      await sync(this.#file);
    } catch (thrown) {
      held.done();
      this.#fail(thrown as Error);
      throw thrown;
    }
    try {
      this.#writeSlot(head);
      await sync(this.#safe);
    } catch (thrown) {
      // The disk may be full. The previous checkpoint is in the other slot, and its pages are still held.
      held.done();
      this.#number -= 1;
      throw thrown;
    }
    this.#finish(head, held);
  }

  /** Ends the checkpoints. The last one stays on the disk; call `write` first to make it cover the last commit. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#writing;
    this.#held?.done();
    this.#held = null;
    closeSync(this.#file);
    closeSync(this.#safe);
    await this.#root.close();
  }

  /** Opens a read transaction, and then copies the head, which is that of the same commit or of a later one. */
  #begin(): { head: HeadCopy & { txn: number }; held: HeldRead } {
    const held = this.#root.useReadTransaction() as HeldRead;
    return { held, head: copyNewestHead(this.#file) };
  }

  #writeSlot(head: HeadCopy): void {
    this.#number += 1;
    const slot = encodeSlot({ number: this.#number, inode: this.#inode, boot_id: this.#bootId, head });
    const place = (this.#number % 2) * SLOT_BYTES;
    // If a write is short, the next one throws the reason.
    for (let at = 0; at < SLOT_BYTES; ) at += writeSync(this.#safe, slot, at, SLOT_BYTES - at, place + at);
  }

  #finish({ txn }: { txn: number }, held: HeldRead): void {
    this.#held?.done();
    this.#held = held;
    this.#txn = txn;
  }

  #fail(failure: Error): void {
    this.#failure = failure;
    removeCheckpoint(this.#path);
    this.#held?.done();
    this.#held = null;
  }
}
