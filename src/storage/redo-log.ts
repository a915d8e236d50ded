/**
 * A file of records that are acknowledged before they are in their database. Each record is one `write` to the kernel,
 * so it survives the end of the process. When the database has all records, the log starts over at the beginning of the
 * file. So the file stays small, and its pages stay in memory. Server threads.
 *
 * Format, big-endian: [8 bytes mark][16 bytes identity][u32 CRC-32 of both], then records: [u32 length][u32 CRC-32 of
 * the rest][f64 number][payload]. Numbers continue when the log starts over, so records that were not overwritten yet
 * are recognized by their lower numbers. The database stores the identity with the number of the last record that it
 * has applied. With a data key, the mark is different and each payload is encrypted for its identity and number.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { SEAL_BYTES, SealError, type Sealer } from '../std/data-key.ts';
import { makeFolder } from '../std/folder.ts';

const MARK = Buffer.from('USREDO03', 'latin1');
const SEALED_MARK = Buffer.from('USREDO04', 'latin1');
/** Marks of logs from earlier versions, whose heads have no checksum. */
const OLD_MARK = Buffer.from('USREDO01', 'latin1');
const OLD_SEALED_MARK = Buffer.from('USREDO02', 'latin1');
const IDENTITY_BYTES = 16;
const OLD_HEAD_BYTES = MARK.length + IDENTITY_BYTES;
const HEAD_BYTES = OLD_HEAD_BYTES + 4;
const RECORD_HEAD_BYTES = 16;

interface RedoRecord {
  number: number;
  payload: Buffer;
}

export class RedoLog {
  /** Identifies this log while its file exists. */
  readonly identity: Buffer;
  /** Records in the file when it was opened, in order. */
  readonly found: readonly RedoRecord[];
  /** Whether the file is not a valid log; records acknowledged in it cannot be read. */
  readonly isDamaged: boolean;
  readonly #headBytes: number;
  readonly #file: number;
  /** Unencrypted records since the log last started over. Callers of `append` may keep views of these bytes. */
  readonly #bytes: Buffer;
  #end = 0;
  /** End of the record bytes in the file. Bytes after {@link #end} belong to obsolete records. */
  #usedEnd = 0;
  readonly #sealer: Sealer | null;
  /** Difference between the length of the records in the file and in memory. */
  #sealBytes = 0;
  /** Number of the next record. */
  #number: number;

  /**
   * Opens the file, or creates it with its folder.
   * @param capacity maximum size of the unencrypted records
   * @param sealer encrypts the payloads; null: no encryption
   * @throws a file system error
   */
  constructor(path: string, capacity: number, sealer: Sealer | null = null) {
    makeFolder(dirname(path));
    this.#sealer = sealer;
    this.#file = openSync(path, 'a+');
    closeSync(this.#file);
    this.#file = openSync(path, 'r+');
    try {
      const stored = readAll(this.#file);
      const headBytes = measureHead(stored, sealer !== null);
      this.isDamaged = headBytes === 0 && stored.length >= HEAD_BYTES;
      this.#headBytes = headBytes === 0 ? HEAD_BYTES : headBytes;
      if (headBytes > 0) {
        this.identity = stored.subarray(MARK.length, OLD_HEAD_BYTES);
        this.found = readRecords(stored.subarray(headBytes), sealer, this.identity);
      } else {
        this.identity = randomBytes(IDENTITY_BYTES);
        this.found = [];
        writeAll(this.#file, makeHead(this.identity, sealer !== null), 0);
      }
      this.#usedEnd = Math.max(stored.length - this.#headBytes, 0);
    } catch (thrown) {
      closeSync(this.#file);
      throw thrown;
    }
    this.#number = (this.found.at(-1)?.number ?? 0) + 1;
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Number of the last appended record. */
  get last(): number {
    return this.#number - 1;
  }

  /** Continues numbering after this number, unless a higher number was already used. */
  skipTo(number: number): void {
    if (this.#number <= number) this.#number = number + 1;
  }

  /**
   * Appends a record. The record is acknowledged when this returns.
   * @param write writes the payload into the bytes from `at` on and returns its end; −1 if the payload does not fit
   * @returns the record's number, or 0 when it does not fit
   * @throws a file system error; then the record is not acknowledged
   */
  append(write: (into: Buffer, at: number) => number): number {
    const bytes = this.#bytes;
    const start = this.#end;
    const from = start + RECORD_HEAD_BYTES;
    if (from > bytes.length) return 0;
    const end = write(bytes, from);
    if (end < 0) return 0;
    if (this.#sealer === null) {
      writeHead(bytes, start, end, this.#number);
      writeAll(this.#file, bytes.subarray(start, end), this.#headBytes + start);
    } else {
      const sealed = this.#sealer.seal(bytes.subarray(from, end), placeOf(this.identity, this.#number));
      const record = Buffer.allocUnsafe(RECORD_HEAD_BYTES + sealed.length);
      sealed.copy(record, RECORD_HEAD_BYTES);
      writeHead(record, 0, record.length, this.#number);
      writeAll(this.#file, record, this.#headBytes + start + this.#sealBytes);
      this.#sealBytes += SEAL_BYTES;
    }
    this.#end = end;
    this.#usedEnd = Math.max(this.#usedEnd, end + this.#sealBytes);
    return this.#number++;
  }

  get isEmpty(): boolean {
    return this.#end === 0;
  }

  /** Records that the database has all records: the next record overwrites the first. */
  beginAgain(): void {
    this.#end = 0;
    this.#sealBytes = 0;
  }

  /**
   * Overwrites the bytes of obsolete records.
   * @throws a file system error; the next call overwrites the rest
   */
  wipe(): void {
    const end = this.#end + this.#sealBytes;
    if (this.#usedEnd <= end) return;
    writeAll(this.#file, Buffer.alloc(this.#usedEnd - end), this.#headBytes + end);
    this.#usedEnd = end;
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Measures the log's head, in bytes; 0 if the file does not begin with a valid head. */
function measureHead(stored: Buffer, isSealed: boolean): number {
  const begins = (mark: Buffer) => stored.subarray(0, mark.length).equals(mark);
  if (stored.length >= OLD_HEAD_BYTES && begins(isSealed ? OLD_SEALED_MARK : OLD_MARK)) return OLD_HEAD_BYTES;
  if (stored.length < HEAD_BYTES || !begins(isSealed ? SEALED_MARK : MARK)) return 0;
  const checksum = crc32(stored.subarray(0, OLD_HEAD_BYTES));
  return stored.readUInt32BE(OLD_HEAD_BYTES) === checksum ? HEAD_BYTES : 0;
}

function makeHead(identity: Buffer, isSealed: boolean): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  (isSealed ? SEALED_MARK : MARK).copy(head);
  identity.copy(head, MARK.length);
  head.writeUInt32BE(crc32(head.subarray(0, OLD_HEAD_BYTES)), OLD_HEAD_BYTES);
  return head;
}

/** Writes the head of the record from `start` to `end`. */
function writeHead(bytes: Buffer, start: number, end: number, number: number): void {
  bytes.writeUInt32BE(end - start - RECORD_HEAD_BYTES, start);
  bytes.writeDoubleBE(number, start + 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(start + 8, end)), start + 4);
}

function placeOf(identity: Buffer, number: number): Buffer {
  const place = Buffer.allocUnsafe(IDENTITY_BYTES + 8);
  identity.copy(place);
  place.writeDoubleBE(number, IDENTITY_BYTES);
  return place;
}

/** Reads the records up to the first incomplete or out-of-order one. */
function readRecords(bytes: Buffer, sealer: Sealer | null, identity: Buffer): RedoRecord[] {
  const records: RedoRecord[] = [];
  for (let at = 0; at + RECORD_HEAD_BYTES <= bytes.length; ) {
    const end = at + RECORD_HEAD_BYTES + bytes.readUInt32BE(at);
    if (end > bytes.length || bytes.readUInt32BE(at + 4) !== crc32(bytes.subarray(at + 8, end))) break;
    const number = bytes.readDoubleBE(at + 8);
    const before = records.at(-1);
    if (before !== undefined && number !== before.number + 1) break;
    const stored = bytes.subarray(at + RECORD_HEAD_BYTES, end);
    const payload = sealer === null ? stored : openPayload(sealer, stored, placeOf(identity, number));
    if (payload === null) break;
    records.push({ number, payload });
    at = end;
  }
  return records;
}

function openPayload(sealer: Sealer, sealed: Buffer, place: Buffer): Buffer | null {
  try {
    return sealer.open(sealed, place);
  } catch (thrown) {
    if (thrown instanceof SealError) return null;
    throw thrown;
  }
}

function readAll(file: number): Buffer {
  const bytes = Buffer.alloc(fstatSync(file).size);
  let at = 0;
  while (at < bytes.length) {
    const read = readSync(file, bytes, at, bytes.length - at, at);
    if (read === 0) break;
    at += read;
  }
  return bytes.subarray(0, at);
}

function writeAll(file: number, bytes: Buffer, position: number): void {
  for (let at = 0; at < bytes.length; ) {
    at += writeSync(file, bytes, at, bytes.length - at, position + at);
  }
}
