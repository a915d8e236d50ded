/**
 * The bytes of a stored exchange, and of a block of exchanges. Runs on the capture writer's actor thread (write) and in
 * readers (read).
 *
 * Record (one exchange, before compression):
 *   varint base      0, or how many ids back the base lies
 *   varint n, n × varint   delta ops of the request (none: the literals are the body)
 *   varint n, n × varint   delta ops of the response
 *   varint a, b, c   bytes of the three parts that follow:
 *   a bytes of request literals, b bytes of meta (JSON array, see META_FIELDS), c bytes of response literals
 *
 * Block (a value of the `blocks` table; its key is the id of its first exchange):
 *   u8 codec         0 plain, 1 zstd, 2 zstd with a dictionary
 *   u32 LE           CRC-32 of all that follows
 *   varint count, varint raw size, varint dictionary distance (0: none), then the payload
 * Payload, uncompressed: count × varint record size, then the records.
 *
 * A block of one exchange takes the last part of its base's record as zstd dictionary: headers, event framing and the
 * answer's text, which the next request repeats, then cost next to nothing. Exchanges that come in numbers share a
 * block and are compressed together, because one call costs 50 to 100 µs however little it is given.
 */
import { constants, crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { DeltaOps } from './delta.ts';

/** One exchange as it stands in a block. */
export interface RecordParts {
  /** 0: stands alone. */
  base_distance: number;
  request_ops: DeltaOps;
  response_ops: DeltaOps;
  request_literals: Buffer;
  meta: Buffer;
  response_literals: Buffer;
}

/** Most bytes of a base's record that serve as dictionary. */
export const DICTIONARY_BYTES = 16 << 10;

function varintSize(value: number): number {
  let size = 1;
  let rest = value;
  while (rest >= 0x80) {
    rest = Math.floor(rest / 128);
    size++;
  }
  return size;
}

function writeVarint(out: Buffer, at: number, value: number): number {
  let rest = value;
  let to = at;
  while (rest >= 0x80) {
    out[to++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  out[to++] = rest;
  return to;
}

/** A place in a buffer that moves on as varints are read. */
export class ByteCursor {
  readonly bytes: Buffer;
  at: number;

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  /** @throws {RangeError} at the end of the bytes */
  readVarint(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new RangeError('record is cut off');
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
      if (scale > 2 ** 49) throw new RangeError('number is too long');
    }
  }

  /** @throws {RangeError} at the end of the bytes */
  readBytes(size: number): Buffer {
    if (this.at + size > this.bytes.length) throw new RangeError('record is cut off');
    const part = this.bytes.subarray(this.at, this.at + size);
    this.at += size;
    return part;
  }
}

/** A record from its parts; literals come as lists so that they are copied once. */
export function encodeRecord(
  baseDistance: number,
  requestOps: DeltaOps,
  requestLiterals: Buffer[],
  responseOps: DeltaOps,
  responseLiterals: Buffer[],
  meta: Buffer,
): Buffer {
  const requestBytes = requestLiterals.reduce((sum, part) => sum + part.length, 0);
  const responseBytes = responseLiterals.reduce((sum, part) => sum + part.length, 0);
  const numbers = [
    baseDistance,
    requestOps.length,
    ...requestOps,
    responseOps.length,
    ...responseOps,
    requestBytes,
    meta.length,
    responseBytes,
  ];
  let size = requestBytes + meta.length + responseBytes;
  for (const number of numbers) size += varintSize(number);
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  for (const number of numbers) at = writeVarint(out, at, number);
  for (const part of requestLiterals) at += part.copy(out, at);
  at += meta.copy(out, at);
  for (const part of responseLiterals) at += part.copy(out, at);
  return out;
}

/** @throws {RangeError} when the bytes are no record */
export function decodeRecord(bytes: Buffer): RecordParts {
  const cursor = new ByteCursor(bytes);
  const baseDistance = cursor.readVarint();
  const readOps = (): DeltaOps => {
    const count = cursor.readVarint();
    if (count % 3 !== 0 || count > bytes.length) throw new RangeError('delta is malformed');
    const ops: DeltaOps = [];
    for (let i = 0; i < count; i++) ops.push(cursor.readVarint());
    return ops;
  };
  const requestOps = readOps();
  const responseOps = readOps();
  const requestBytes = cursor.readVarint();
  const metaBytes = cursor.readVarint();
  const responseBytes = cursor.readVarint();
  return {
    base_distance: baseDistance,
    request_ops: requestOps,
    response_ops: responseOps,
    request_literals: cursor.readBytes(requestBytes),
    meta: cursor.readBytes(metaBytes),
    response_literals: cursor.readBytes(responseBytes),
  };
}

/** The part of a base's record that serves as dictionary. A leading newline keeps it from passing for a made one. */
export function makeDictionary(record: Buffer): Buffer {
  const tail = record.subarray(Math.max(0, record.length - DICTIONARY_BYTES));
  const out = Buffer.allocUnsafe(tail.length + 1);
  out[0] = 0x0a;
  tail.copy(out, 1);
  return out;
}

/** Below this, compressing costs more than it saves. */
const MIN_COMPRESSED_BYTES = 96;

const LEVEL_3 = { [constants.ZSTD_c_compressionLevel]: 3 };
const LEVEL_1 = { [constants.ZSTD_c_compressionLevel]: 1 };

/** The value to store for these records. `dictionary` is the base's, when the block holds one exchange. */
export function encodeBlock(
  records: Buffer[],
  dictionary: { distance: number; record: Buffer } | null,
  fast = false,
): Buffer {
  let size = 0;
  for (const record of records) size += varintSize(record.length) + record.length;
  const raw = Buffer.allocUnsafe(size);
  let at = 0;
  for (const record of records) at = writeVarint(raw, at, record.length);
  for (const record of records) at += record.copy(raw, at);
  let codec = 0;
  let payload = raw;
  let distance = 0;
  if (size >= MIN_COMPRESSED_BYTES) {
    const packed =
      dictionary === null
        ? zstdCompressSync(raw, { params: fast ? LEVEL_1 : LEVEL_3 })
        : zstdCompressSync(raw, { params: LEVEL_3, dictionary: makeDictionary(dictionary.record) });
    if (packed.length < size) {
      payload = packed;
      codec = dictionary === null ? 1 : 2;
      distance = dictionary?.distance ?? 0;
    }
  }
  const head = 5 + varintSize(records.length) + varintSize(size) + varintSize(distance);
  const out = Buffer.allocUnsafe(head + payload.length);
  out[0] = codec;
  let to = writeVarint(out, 5, records.length);
  to = writeVarint(out, to, size);
  to = writeVarint(out, to, distance);
  payload.copy(out, to);
  out.writeUInt32LE(crc32(out.subarray(5)), 1);
  return out;
}

/** A block's own description, payload still packed. */
export interface BlockHead {
  codec: number;
  count: number;
  raw_bytes: number;
  dictionary_distance: number;
  payload: Buffer;
}

/** Number of exchanges in a block, without unpacking it. @throws {RangeError} */
export function readBlockCount(value: Buffer): number {
  return new ByteCursor(value, 5).readVarint();
}

/** @throws {RangeError} when the bytes are no block or are damaged */
export function readBlockHead(value: Buffer): BlockHead {
  if (value.length < 8 || crc32(value.subarray(5)) !== value.readUInt32LE(1)) throw new RangeError('damaged');
  const cursor = new ByteCursor(value, 5);
  const count = cursor.readVarint();
  const rawBytes = cursor.readVarint();
  const distance = cursor.readVarint();
  return {
    codec: value[0]!,
    count,
    raw_bytes: rawBytes,
    dictionary_distance: distance,
    payload: value.subarray(cursor.at),
  };
}

/**
 * The records of a block.
 * @param dictionary record of the exchange that `dictionary_distance` points to; null when it is 0
 * @throws {RangeError} or zlib's error when the bytes are damaged
 */
export function decodeBlock(head: BlockHead, dictionary: Buffer | null): Buffer[] {
  let raw = head.payload;
  if (head.codec !== 0) {
    const options = { maxOutputLength: Math.max(1, head.raw_bytes) };
    raw = zstdDecompressSync(
      head.payload,
      dictionary === null ? options : { ...options, dictionary: makeDictionary(dictionary) },
    );
  }
  if (raw.length !== head.raw_bytes) throw new RangeError('block has the wrong size');
  const cursor = new ByteCursor(raw);
  const sizes: number[] = [];
  for (let i = 0; i < head.count; i++) sizes.push(cursor.readVarint());
  return sizes.map((size) => cursor.readBytes(size));
}
