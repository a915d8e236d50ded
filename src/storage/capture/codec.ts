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
 *   u8 codec         0 plain, 1 zstd, 2 zstd with the base's record as dictionary, 3 with its request and record
 *   u32 LE           CRC-32 of all that follows
 *   varint count, varint raw size, varint dictionary distance (0: none), then the payload
 * Payload, uncompressed: count × varint record size, then the records.
 *
 * A block of one exchange takes its base as zstd dictionary: the last part of the base's record (headers, event framing,
 * and the answer's text, which the next request repeats), and, when there is time for it, the base's whole request
 * (agents read the same files again and again). Exchanges that come in numbers share a block and are compressed
 * together, because one call costs 50 to 100 µs however little it is given.
 *
 * Pieces. LMDB gives a value that does not fit into half a page whole pages of its own, which wastes half a page each
 * time. So what a block has beyond 1,000 bytes is cut into pieces of that size, four of which fill a page, and
 * kept in the table `pieces`; the value then begins with codec + 128 and the number of the first piece and their count.
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

/** Most bytes of a base's request that serve as dictionary. */
const DICTIONARY_REQUEST_BYTES = 112 << 10;

/** What a base gives to a dictionary. */
export interface DictionarySource {
  /** The base's record, or at least its last DICTIONARY_BYTES. */
  record: Buffer;
  /** The base's request as stored, for codec 3. */
  request: Buffer | null;
}

/** The dictionary's bytes. A leading newline keeps it from passing for a made one (RFC 8878, section 5). */
export function makeDictionary(source: DictionarySource): Buffer {
  const record = source.record.subarray(Math.max(0, source.record.length - DICTIONARY_BYTES));
  const request =
    source.request?.subarray(Math.max(0, source.request.length - DICTIONARY_REQUEST_BYTES)) ?? EMPTY;
  const out = Buffer.allocUnsafe(1 + request.length + record.length);
  out[0] = 0x0a;
  request.copy(out, 1);
  record.copy(out, 1 + request.length);
  return out;
}

const EMPTY = Buffer.alloc(0);

/** Below this, compressing costs more than it saves. */
const MIN_COMPRESSED_BYTES = 96;

const LEVELS = {
  hurried: { [constants.ZSTD_c_compressionLevel]: 1 },
  steady: { [constants.ZSTD_c_compressionLevel]: 3 },
  patient: { [constants.ZSTD_c_compressionLevel]: 6 },
};

/**
 * How much time compression may take: none (the block is stored as it is and repacked later), hurried about 250 MB/s,
 * steady half of that, patient a third of a millisecond an exchange.
 */
export type Pace = 'none' | keyof typeof LEVELS;

/**
 * The block for these records, not yet cut into pieces.
 * @param dictionary the base's, when the block holds one exchange
 */
export function encodeBlock(
  records: Buffer[],
  dictionary: (DictionarySource & { distance: number }) | null,
  pace: Pace,
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
  if (pace !== 'none' && size >= MIN_COMPRESSED_BYTES) {
    const params = LEVELS[pace];
    // One output buffer; the default of 16 KiB makes many and joins them.
    const chunkSize = Math.max(1_024, size);
    const packed =
      dictionary === null
        ? zstdCompressSync(raw, { params, chunkSize })
        : zstdCompressSync(raw, { params, chunkSize, dictionary: makeDictionary(dictionary) });
    if (packed.length < size) {
      payload = packed;
      codec = dictionary === null ? 1 : dictionary.request === null ? 2 : 3;
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

/** Bytes of a piece: four fill a page of 4 KiB, with their heads. */
export const PIECE_BYTES = 1_000;
/** Blocks from this size on keep their pages of their own: of so many, half a page is little. */
const MAX_PIECED_BYTES = 64 << 10;
const IN_PIECES = 0x80;

/**
 * Cuts a block for storage.
 * @param firstPiece number of the next free piece
 * @returns the value for `blocks`, and the pieces that go under `firstPiece` and the numbers after it
 */
export function cutBlock(block: Buffer, firstPiece: number): { value: Buffer; pieces: Buffer[] } {
  const count = Math.floor(block.length / PIECE_BYTES);
  if (count === 0 || block.length > MAX_PIECED_BYTES) return { value: block, pieces: [] };
  const pieces: Buffer[] = [];
  for (let i = 0; i < count; i++) pieces.push(block.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES));
  const rest = block.subarray(count * PIECE_BYTES);
  // The codec, checksum and counts lead the first piece; only the exchange count is repeated here, for the last id.
  const head = new ByteCursor(block, 5).readVarint();
  const value = Buffer.allocUnsafe(
    1 + varintSize(head) + varintSize(firstPiece) + varintSize(count) + rest.length,
  );
  value[0] = IN_PIECES;
  let at = writeVarint(value, 1, head);
  at = writeVarint(value, at, firstPiece);
  at = writeVarint(value, at, count);
  rest.copy(value, at);
  return { value, pieces };
}

/**
 * The whole block again.
 * @param readPiece gives a piece by its number
 * @throws {RangeError} when a piece is missing
 */
export function joinBlock(value: Buffer, readPiece: (number: number) => Buffer | undefined): Buffer {
  if (value[0]! < IN_PIECES) return value;
  const cursor = new ByteCursor(value, 1);
  cursor.readVarint();
  const first = cursor.readVarint();
  const count = cursor.readVarint();
  const parts: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    const piece = readPiece(first + i);
    if (piece === undefined) throw new RangeError(`piece ${first + i} is missing`);
    parts.push(piece);
  }
  parts.push(value.subarray(cursor.at));
  return Buffer.concat(parts);
}

/** Whether a stored value is a whole block that was not compressed. */
export function isRawBlock(value: Buffer): boolean {
  return value.length > MAX_PIECED_BYTES && value[0] === 0;
}

/** Number of exchanges in a block, without unpacking it. @throws {RangeError} */
export function readBlockCount(value: Buffer): number {
  return new ByteCursor(value, value[0]! < IN_PIECES ? 5 : 1).readVarint();
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
 * @param dictionary of the exchange that `dictionary_distance` points to; null when it is 0
 * @throws {RangeError} or zlib's error when the bytes are damaged
 */
export function decodeBlock(head: BlockHead, dictionary: DictionarySource | null): Buffer[] {
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
