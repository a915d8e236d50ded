/**
 * The bytes of a stored exchange, and of a block of exchanges. Runs in the capture process (write) and in readers
 * (read).
 *
 * Record (one exchange, before compression):
 *   varint base      0 without a base, or the distance to the base's id
 *   varint n, n × varint   delta ops of the request (none: the literals are the body)
 *   varint n, n × varint   delta ops of the response
 *   varint a, b, c   bytes of the three parts that follow:
 *   a bytes of request literals, b bytes of meta (JSON array, MetaArray in record.ts), c bytes of response literals
 *
 * Block (a value of the `blocks` table; its key is the id of its first exchange):
 *   u8 codec         0 plain, 1 zstd, 2 zstd with the base's record as dictionary, 3 zstd with both request and record
 *   u32 LE           CRC-32 of all that follows
 *   varint count, varint raw size, varint dictionary distance (0: none), then the payload
 * Payload, uncompressed: count × varint record size, then the records.
 *
 * A block of one exchange that has a base is compressed with a zstd dictionary. The dictionary is the last part of the
 * base's record: headers, event framing, and the answer's text, which the next request repeats. When there is time for
 * it, the dictionary also has the base's whole request, because agents read the same files again and again. Exchanges
 * that arrive fast share a block and are compressed together, because each compression call costs at least 50 to 100
 * µs.
 *
 * Pieces. If a value does not fit into half a page, LMDB stores it in separate whole pages, which wastes half a page on
 * average. So a block of 1,000 bytes to 64 KiB is cut into pieces of 1,000 bytes, four of which fill a page. The pieces
 * are in the table `pieces`; the value is then 128, the number of exchanges, the number of the first piece, the count
 * of pieces, and the rest of the block.
 *
 * Raw files. Under load, a block is stored uncompressed in a file beside the database (raw-files.ts) until it is
 * packed. The value is then 129, the number of exchanges, the file's number, the offset there and the length. For a
 * block in several pieces, the value is 130, the number of exchanges, the file's number, the offset of the first piece,
 * the number of pieces, and the length of each.
 *
 * Packs. The blocks of a sealed file whose content is in a bucket (src/storage/offload/) are in packs there. The value
 * is then 131, the number of exchanges, the number of the pack, the offset there and the length.
 */
import { constants, crc32 } from 'node:zlib';
import { byteEngine } from '../../../native/byte-engine.ts';
import { leaveRest } from '../../std/own-memory.ts';
import { compressZstd, decompressZstd } from '../../std/zstd.ts';
import type { DeltaOps } from './delta.ts';
import type { RawPlace } from './raw-files.ts';

/** The parts of one record. */
export interface RecordParts {
  /** 0: no base. */
  base_distance: number;
  request_ops: DeltaOps;
  response_ops: DeltaOps;
  request_literals: Buffer;
  meta: Buffer;
  response_literals: Buffer;
}

/** Maximum number of bytes of a base's record that serve as dictionary. */
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

/** A position in a buffer that advances as varints are read. */
class ByteCursor {
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

/** A record that is not joined into one buffer yet: its parts, in order. */
export interface RecordDraft {
  parts: readonly Buffer[];
  bytes: number;
}

/** Builds a record from its parts. The bodies are copied only once, when the block is written. */
export function draftRecord(
  baseDistance: number,
  requestOps: DeltaOps,
  requestLiterals: readonly Buffer[],
  responseOps: DeltaOps,
  responseLiterals: readonly Buffer[],
  meta: Buffer,
): RecordDraft {
  const requestBytes = countBytes(requestLiterals);
  const responseBytes = countBytes(responseLiterals);
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
  let headBytes = 0;
  for (const number of numbers) headBytes += varintSize(number);
  const head = Buffer.allocUnsafe(headBytes);
  let at = 0;
  for (const number of numbers) at = writeVarint(head, at, number);
  return {
    parts: [head, ...requestLiterals, meta, ...responseLiterals],
    bytes: headBytes + requestBytes + meta.length + responseBytes,
  };
}

/** Copies the last `out.length` bytes of the record into `out`, which is not longer than the record. */
export function writeRecordEnd(draft: RecordDraft, out: Buffer): void {
  let to = out.length;
  for (let i = draft.parts.length - 1; i >= 0 && to > 0; i--) {
    const part = draft.parts[i]!;
    const from = Math.max(0, part.length - to);
    to -= part.length - from;
    part.copy(out, to, from);
  }
}

function countBytes(parts: readonly Buffer[]): number {
  let bytes = 0;
  for (const part of parts) bytes += part.length;
  return bytes;
}

/** Splits a record into its parts. @throws {RangeError} if the bytes are not a record */
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

/** Maximum number of bytes of a base's request that serve as dictionary. */
const DICTIONARY_REQUEST_BYTES = 112 << 10;

/** The parts of a base that a dictionary uses. */
export interface DictionarySource {
  /** The base's record, or at least its last DICTIONARY_BYTES. */
  record: Buffer;
  /** The base's request as stored, for codec 3. */
  request: Buffer | null;
}

/**
 * Makes the dictionary: a newline, the end of the base's request if there is one, and the end of its record. Without
 * the newline, zstd could mistake the bytes for a formatted dictionary (RFC 8878, section 5).
 */
function makeDictionary(source: DictionarySource): Buffer {
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

/** Shorter content is not compressed, because compression would cost more than it saves. */
const MIN_COMPRESSED_BYTES = 96;

const LEVELS = {
  hurried: { [constants.ZSTD_c_compressionLevel]: 1 },
  steady: { [constants.ZSTD_c_compressionLevel]: 3 },
  patient: { [constants.ZSTD_c_compressionLevel]: 6 },
};

/**
 * Effort of compression. `none`: the block is stored uncompressed and packed later. `hurried` compresses about 250
 * MB/s, and `steady` half of that. `patient` takes a third of a millisecond per exchange.
 */
export type Pace = 'none' | keyof typeof LEVELS;

/**
 * Makes the block of these records, compressed if that makes it smaller. It is not cut into pieces yet.
 * @param dictionary parts of the base, if the block contains one exchange that has a base; otherwise null
 */
export function encodeBlock(
  records: readonly RecordDraft[],
  dictionary: (DictionarySource & { distance: number }) | null,
  pace: Pace,
): Buffer {
  const size = countPayloadBytes(records);
  if (pace !== 'none' && size >= MIN_COMPRESSED_BYTES) {
    const raw = Buffer.allocUnsafe(size);
    writePayload(records, raw, 0);
    const params = LEVELS[pace];
    // One output buffer. With the default chunk size of 16 KiB, zlib would make many buffers and join them.
    const chunkSize = Math.max(1_024, size);
    const packed =
      dictionary === null
        ? compressZstd(raw, { params, chunkSize })
        : compressZstd(raw, { params, chunkSize, dictionary: makeDictionary(dictionary) });
    const codec = dictionary === null ? 1 : dictionary.request === null ? 2 : 3;
    const distance = dictionary?.distance ?? 0;
    if (packed.length < size) {
      const out = makeBlock(codec, records.length, size, distance, packed.length);
      packed.copy(out, out.length - packed.length);
      return sealBlock(out);
    }
  }
  const out = makeBlock(0, records.length, size, 0, size);
  writePayload(records, out, out.length - size);
  return sealBlock(out);
}

/**
 * Makes the parts of an uncompressed block, in order. The first part is the head, whose checksum `sealParts` adds.
 * Bodies are not copied.
 */
export function draftBlock(records: readonly RecordDraft[]): Buffer[] {
  let sizesBytes = 0;
  for (const { bytes } of records) sizesBytes += varintSize(bytes);
  const head = makeBlock(0, records.length, countPayloadBytes(records), 0, sizesBytes);
  let at = head.length - sizesBytes;
  for (const { bytes } of records) at = writeVarint(head, at, bytes);
  const parts = [head];
  for (const record of records) parts.push(...record.parts);
  return parts;
}

/** Writes the checksum of a block in several parts into its first part, which begins with the head. */
export function sealParts(parts: readonly Buffer[]): void {
  const first = parts[0]!;
  let checksum = crc32(first.subarray(5));
  // zlib returns the initial checksum for an empty buffer, so empty parts are skipped.
  for (let i = 1; i < parts.length; i++) if (parts[i]!.length > 0) checksum = crc32(parts[i]!, checksum);
  first.writeUInt32LE(checksum, 1);
}

function countPayloadBytes(records: readonly RecordDraft[]): number {
  let size = 0;
  for (const { bytes } of records) size += varintSize(bytes) + bytes;
  return size;
}

function writePayload(records: readonly RecordDraft[], into: Buffer, from: number): void {
  let at = from;
  for (const { bytes } of records) at = writeVarint(into, at, bytes);
  for (const { parts } of records) {
    for (const part of parts) {
      byteEngine.copyBytes(part, into, at);
      at += part.length;
    }
  }
}

/** Makes a block with its head, and with space for the checksum and the payload. */
function makeBlock(
  codec: number,
  count: number,
  rawBytes: number,
  distance: number,
  payloadBytes: number,
): Buffer {
  const out = Buffer.allocUnsafe(
    5 + varintSize(count) + varintSize(rawBytes) + varintSize(distance) + payloadBytes,
  );
  out[0] = codec;
  writeVarint(out, writeVarint(out, writeVarint(out, 5, count), rawBytes), distance);
  return out;
}

function sealBlock(block: Buffer): Buffer {
  block.writeUInt32LE(crc32(block.subarray(5)), 1);
  return block;
}

/** The head of a block. The payload is still compressed. */
interface BlockHead {
  codec: number;
  count: number;
  raw_bytes: number;
  dictionary_distance: number;
  payload: Buffer;
}

/** Length of a piece: four pieces with their headers fill a page of 4 KiB. */
const PIECE_BYTES = 1_000;
/** Larger blocks are not cut, because they take many pages, and half a wasted page is little in comparison. */
const MAX_PIECED_BYTES = 64 << 10;
const IN_PIECES = 0x80;
const IN_RAW_FILE = 0x81;
const IN_RAW_PIECES = 0x82;
const IN_PACK = 0x83;

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
  // The first piece has the codec, the checksum and the counts. The value repeats only the number of exchanges, which
  // gives the last id.
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

/** Makes the value in `blocks` for a block in a raw file. */
export function pointToRawBlock(count: number, { file, offset, pieces }: RawPlace): Buffer {
  const isWhole = pieces.length === 1;
  const numbers = isWhole
    ? [count, file, offset, pieces[0]!]
    : [count, file, offset, pieces.length, ...pieces];
  let size = 1;
  for (const number of numbers) size += varintSize(number);
  const value = Buffer.allocUnsafe(size);
  value[0] = isWhole ? IN_RAW_FILE : IN_RAW_PIECES;
  let at = 1;
  for (const number of numbers) at = writeVarint(value, at, number);
  return value;
}

/** Reads the location of a block in a raw file; null if the block is elsewhere. @throws {RangeError} */
export function readRawPlace(value: Buffer): RawPlace | null {
  if (value[0] !== IN_RAW_FILE && value[0] !== IN_RAW_PIECES) return null;
  const cursor = new ByteCursor(value, 1);
  cursor.readVarint();
  const file = cursor.readVarint();
  const offset = cursor.readVarint();
  const count = value[0] === IN_RAW_FILE ? 1 : cursor.readVarint();
  const pieces: number[] = [];
  for (let i = 0; i < count; i++) pieces.push(cursor.readVarint());
  return { file, offset, pieces };
}

/** Location of a block in a bucket. */
export interface PackPlace {
  pack: number;
  offset: number;
  bytes: number;
}

/** Makes the value in `blocks` for a block in a pack. @param count number of exchanges in the block */
export function pointToPack(count: number, { pack, offset, bytes }: PackPlace): Buffer {
  const numbers = [count, pack, offset, bytes];
  let size = 1;
  for (const number of numbers) size += varintSize(number);
  const value = Buffer.allocUnsafe(size);
  value[0] = IN_PACK;
  let at = 1;
  for (const number of numbers) at = writeVarint(value, at, number);
  return value;
}

/** Reads the location of a block in a pack; null if the block is elsewhere. @throws {RangeError} */
export function readPackPlace(value: Buffer): PackPlace | null {
  if (value[0] !== IN_PACK) return null;
  const cursor = new ByteCursor(value, 1);
  cursor.readVarint();
  return { pack: cursor.readVarint(), offset: cursor.readVarint(), bytes: cursor.readVarint() };
}

/**
 * Returns the whole block of a value in `blocks`: the value itself, its joined pieces, or a block from elsewhere.
 * @param readPiece returns a piece by its number
 * @param readRaw returns a block of a raw file; throws if it does not exist
 * @param readPack returns a block of a pack; may be omitted if the file has all its blocks
 * @throws {RangeError} if a piece is missing
 */
export function joinBlock(
  value: Buffer,
  readPiece: (number: number) => Buffer | undefined,
  readRaw: (place: RawPlace) => Buffer,
  readPack: (place: PackPlace) => Buffer = failToReadPack,
): Buffer {
  if (value[0]! < IN_PIECES) return value;
  const packed = readPackPlace(value);
  if (packed !== null) return readPack(packed);
  const place = readRawPlace(value);
  if (place !== null) return readRaw(place);
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

function failToReadPack(): never {
  throw new RangeError('the block is in a bucket');
}

/**
 * Lists the numbers of the pieces of a value in `blocks`; empty if the block is not in pieces.
 * @throws {RangeError} if the value is cut off
 */
export function listPieces(value: Buffer): number[] {
  if (!isInPieces(value)) return [];
  const cursor = new ByteCursor(value, 1);
  cursor.readVarint();
  const first = cursor.readVarint();
  return Array.from({ length: cursor.readVarint() }, (_, i) => first + i);
}

/** Whether a value in `blocks` is that of a block in pieces. */
export function isInPieces(value: Buffer): boolean {
  return value[0] === IN_PIECES;
}

/** Whether a value in `blocks` is a whole uncompressed block of more than 64 KiB. */
export function isRawBlock(value: Buffer): boolean {
  return value.length > MAX_PIECED_BYTES && value[0] === 0;
}

/** Reads the number of exchanges in a block, without unpacking it. @throws {RangeError} */
export function readBlockCount(value: Buffer): number {
  return new ByteCursor(value, value[0]! < IN_PIECES ? 5 : 1).readVarint();
}

/** Reads the head of a block and checks its checksum. @throws {RangeError} if the bytes are damaged or not a block */
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
 * Returns the records of a block.
 * @param dictionary parts of the exchange to which `dictionary_distance` refers; null if the distance is 0
 * @throws {RangeError} or zlib's error if the bytes are damaged
 */
export function decodeBlock(head: BlockHead, dictionary: DictionarySource | null): Buffer[] {
  let raw = head.payload;
  if (head.codec !== 0) {
    const options = { maxOutputLength: Math.max(1, head.raw_bytes) };
    raw = decompressZstd(
      head.payload,
      dictionary === null ? options : { ...options, dictionary: makeDictionary(dictionary) },
    );
  }
  if (raw.length !== head.raw_bytes) throw new RangeError('block has the wrong size');
  const cursor = new ByteCursor(leaveRest(raw));
  const sizes: number[] = [];
  for (let i = 0; i < head.count; i++) sizes.push(cursor.readVarint());
  return sizes.map((size) => cursor.readBytes(size));
}
