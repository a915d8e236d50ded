/**
 * A file of records that are promised before they are in their database: one `write` to the kernel each, so what was
 * appended survives any end of the process. When all of it is in the database, it begins again from its start. So
 * it stays as small as what is under way, and its pages stay in memory. Server threads.
 *
 * [8 bytes mark][16 bytes identity], then records: [u32 length][u32 CRC-32 of what follows][f64 number][payload],
 * big-endian. Numbers continue through new beginnings, so the number tells a record that is left over. The
 * identity ties the log to what has been taken out of it. With a data key the mark is another one and payloads are sealed, each
 * for its identity and number.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { SEAL_BYTES, SealError, type Sealer } from '../std/data-key.ts';
import { makeFolder } from '../std/folder.ts';

const MARK = Buffer.from('USREDO01', 'latin1');
const SEALED_MARK = Buffer.from('USREDO02', 'latin1');
const IDENTITY_BYTES = 16;
const HEAD_BYTES = MARK.length + IDENTITY_BYTES;
const RECORD_HEAD_BYTES = 16;

export interface RedoRecord {
  number: number;
  payload: Buffer;
}

export class RedoLog {
  /** Names this log, as long as its file is there. */
  readonly identity: Buffer;
  /** What the file held when it was opened, in order. */
  readonly found: readonly RedoRecord[];
  readonly #file: number;
  /** What was appended since the last beginning, not sealed: whoever appended may go on to use it. */
  readonly #bytes: Buffer;
  #end = 0;
  readonly #sealer: Sealer | null;
  /** By which the records are longer in the file. */
  #sealBytes = 0;
  /** Of the next record. */
  #number: number;

  /**
   * Opens the file, or makes it, with its folder.
   * @param capacity bytes of the records in it, at most, as long as they are not sealed
   * @param sealer of payloads; null: they stand as they are
   * @throws Error of the file system
   */
  constructor(path: string, capacity: number, sealer: Sealer | null = null) {
    makeFolder(dirname(path));
    this.#sealer = sealer;
    const mark = sealer === null ? MARK : SEALED_MARK;
    this.#file = openSync(path, 'a+');
    closeSync(this.#file);
    this.#file = openSync(path, 'r+');
    try {
      const stored = readAll(this.#file);
      if (stored.length >= HEAD_BYTES && stored.subarray(0, mark.length).equals(mark)) {
        this.identity = stored.subarray(MARK.length, HEAD_BYTES);
        this.found = readRecords(stored.subarray(HEAD_BYTES), sealer, this.identity);
      } else {
        this.identity = randomBytes(IDENTITY_BYTES);
        this.found = [];
        writeAll(this.#file, Buffer.concat([mark, this.identity]), 0);
      }
    } catch (thrown) {
      closeSync(this.#file);
      throw thrown;
    }
    this.#number = (this.found.at(-1)?.number ?? 0) + 1;
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Number of the last record that was appended. */
  get last(): number {
    return this.#number - 1;
  }

  /** Numbers go on behind this one, if they are not there yet. */
  skipTo(number: number): void {
    if (this.#number <= number) this.#number = number + 1;
  }

  /**
   * Appends a record; it counts once this has returned.
   * @param write puts the payload into the bytes from `at` on, and gives where it ends; −1: it does not fit
   * @returns the record's number, or 0 when it does not fit
   * @throws Error of the file system; then the record does not count
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
      writeAll(this.#file, bytes.subarray(start, end), HEAD_BYTES + start);
    } else {
      const sealed = this.#sealer.seal(bytes.subarray(from, end), placeOf(this.identity, this.#number));
      const record = Buffer.allocUnsafe(RECORD_HEAD_BYTES + sealed.length);
      sealed.copy(record, RECORD_HEAD_BYTES);
      writeHead(record, 0, record.length, this.#number);
      writeAll(this.#file, record, HEAD_BYTES + start + this.#sealBytes);
      this.#sealBytes += SEAL_BYTES;
    }
    this.#end = end;
    return this.#number++;
  }

  get isEmpty(): boolean {
    return this.#end === 0;
  }

  /** Everything in it is where it belongs: the next record is written over the first. */
  beginAgain(): void {
    this.#end = 0;
    this.#sealBytes = 0;
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** The head of the record from `start` to `end`. */
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

/** As far as they are whole and follow each other. */
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
