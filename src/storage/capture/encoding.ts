/**
 * Undoes a body's content-encoding so that secrets inside can be masked. Runs on the capture writer's actor thread.
 *
 * Rule. What decodes is stored decoded. Of a stream that is cut off or damaged, what decodes before the damage is
 * stored, and the exchange is marked truncated; the undecodable rest is not, because nobody could mask a secret in it.
 * A body that claims an encoding but plainly is not in it (JSON sent with `content-encoding: gzip`) is stored as it is.
 * What is left (an unknown encoding over binary bytes) is not stored at all and marked truncated. A body that unfolds
 * to more than the cap (a decompression bomb) is stored up to the cap and marked truncated.
 */
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { decompressZstd } from '../../std/zstd.ts';

/** What became of a body. */
export interface DecodedBody {
  body: Buffer;
  /** The stored copy is not in the encoding that its header names. */
  decoded: boolean;
  /** Something at the end is missing. */
  cut: boolean;
}

type Coding = 'gzip' | 'deflate' | 'br' | 'zstd';

const CODINGS: Record<string, Coding> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'br',
  zstd: 'zstd',
};

/** Encodings named by a content-encoding header, outermost last; identity left out. */
export function readCodings(header: string | null): string[] {
  if (header === null) return [];
  return header
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity' && name !== 'aws-chunked');
}

/** Whether bytes read as text: no control bytes but white space in the first 4 KiB, and UTF-8 there. */
function looksLikeText(body: Buffer): boolean {
  const head = body.subarray(0, 4_096);
  for (const byte of head) {
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  }
  // The cut may have split a character: up to three bytes at the end do not count.
  const text = head.toString('utf8');
  const bad = text.indexOf('�');
  return bad < 0 || bad >= text.length - 3;
}

/** The sure sign of an encoding that has one; true for those that have none. */
function hasMagic(body: Buffer, coding: Coding): boolean {
  if (coding === 'gzip') return body[0] === 0x1f && body[1] === 0x8b;
  if (coding === 'zstd') {
    if (body.length < 4) return true;
    const magic = body.readUInt32LE(0);
    // A frame, or a skippable frame before it.
    return magic === 0xfd2fb528 || (magic & 0xfffffff0) >>> 0 === 0x184d2a50;
  }
  return true;
}

/**
 * Whether a zstd stream is there to its end: node:zlib takes a cut-off one for whole. Follows frames and blocks by
 * their heads (RFC 8878, section 3.1.1), without decoding.
 */
function isWholeZstd(body: Buffer): boolean {
  let at = 0;
  while (at < body.length) {
    if (at + 5 > body.length) return false;
    const magic = body.readUInt32LE(at);
    if ((magic & 0xfffffff0) >>> 0 === 0x184d2a50) {
      if (at + 8 > body.length) return false;
      at += 8 + body.readUInt32LE(at + 4);
      continue;
    }
    if (magic !== 0xfd2fb528) return false;
    const descriptor = body[at + 4]!;
    const singleSegment = (descriptor & 0x20) !== 0;
    const sizeFlag = descriptor >> 6;
    const sizeBytes = sizeFlag === 0 ? (singleSegment ? 1 : 0) : 1 << sizeFlag;
    at += 5 + (singleSegment ? 0 : 1) + [0, 1, 2, 4][descriptor & 3]! + sizeBytes;
    for (let last = false; !last; ) {
      if (at + 3 > body.length) return false;
      const head = body.readUIntLE(at, 3);
      last = (head & 1) === 1;
      // A run-length block holds one byte, whatever its size says.
      at += 3 + (((head >> 1) & 3) === 1 ? 1 : head >> 3);
    }
    if ((descriptor & 4) !== 0) at += 4;
  }
  return at === body.length;
}

/** What a synchronous zlib call gives with `info`: the bytes, and the decoder that knows how many it took. */
interface Inflated {
  buffer: Buffer;
  engine: { bytesWritten: number };
}

/** @throws zlib's error, also when the result is larger than `max` bytes, and when bytes follow the stream */
function decodeAtOnce(body: Buffer, coding: Coding, max: number): Buffer {
  const options = { maxOutputLength: max, info: true };
  if (coding === 'zstd') {
    if (!isWholeZstd(body)) throw new RangeError('not one whole zstd stream');
    return decompressZstd(body, { maxOutputLength: max });
  }
  let inflated: Inflated;
  if (coding === 'gzip') inflated = zlib.gunzipSync(body, options) as unknown as Inflated;
  else if (coding === 'br') inflated = zlib.brotliDecompressSync(body, options) as unknown as Inflated;
  else if (hasZlibHead(body)) inflated = zlib.inflateSync(body, options) as unknown as Inflated;
  else inflated = zlib.inflateRawSync(body, options) as unknown as Inflated;
  if (inflated.engine.bytesWritten < body.length) throw new RangeError('bytes follow the stream');
  return inflated.buffer;
}

/**
 * `deflate` means the zlib format, and some servers send the bare one. RFC 1950: method 8 in the low half of the first
 * byte, and the first two bytes a multiple of 31.
 */
function hasZlibHead(body: Buffer): boolean {
  return (body[0]! & 0x0f) === 8 && ((body[0]! << 8) | (body[1] ?? 0)) % 31 === 0;
}

function makeStream(body: Buffer, coding: Coding): zlib.Gunzip | zlib.BrotliDecompress | zlib.ZstdDecompress {
  switch (coding) {
    case 'gzip':
      return zlib.createGunzip();
    case 'br':
      return zlib.createBrotliDecompress();
    case 'zstd':
      return zlib.createZstdDecompress();
    case 'deflate':
      return hasZlibHead(body) ? zlib.createInflate() : zlib.createInflateRaw();
  }
}

/** Decodes as far as it goes: up to damage, to the end of a cut-off stream, or to `max` bytes. */
async function decodeWhatCanBe(body: Buffer, coding: Coding, max: number): Promise<Buffer> {
  const stream = makeStream(body, coding);
  const parts: Buffer[] = [];
  let size = 0;
  await new Promise<void>((resolve) => {
    stream.on('data', (part: Buffer) => {
      if (size >= max) return;
      parts.push(size + part.length > max ? part.subarray(0, max - size) : part);
      size += part.length;
      if (size >= max) {
        stream.destroy();
        resolve();
      }
    });
    stream.on('error', () => resolve());
    stream.on('end', () => resolve());
    // In small pieces with a flush after each: a decoder that meets damage gives out nothing of the piece at hand.
    void feed(stream, body).then(undefined, () => resolve());
  });
  stream.destroy();
  return Buffer.concat(parts);
}

async function feed(stream: ReturnType<typeof makeStream>, body: Buffer): Promise<void> {
  const write = promisify<Buffer, void>((piece, done) => stream.write(piece, (error) => done(error ?? null)));
  for (let at = 0; at < body.length && !stream.destroyed; at += 256) await write(body.subarray(at, at + 256));
  stream.end();
}

/**
 * The body without its content-encoding, by the rule above. Synchronous for whole streams, which nearly all are.
 * @param header the content-encoding header's value, or null
 * @param max most bytes of the result
 */
export function decodeBody(
  body: Buffer,
  header: string | null,
  max: number,
): DecodedBody | Promise<DecodedBody> {
  if (header === null || body.length === 0) return { body, decoded: false, cut: false };
  const codings = readCodings(header);
  if (codings.length === 0) return { body, decoded: false, cut: false };
  let current = body;
  for (let i = codings.length - 1; i >= 0; i--) {
    const coding = CODINGS[codings[i]!];
    if (coding === undefined || !hasMagic(current, coding))
      return judgeOpaque(current, i < codings.length - 1);
    try {
      current = decodeAtOnce(current, coding, max);
    } catch {
      return decodePartly(current, codings.slice(0, i + 1), max);
    }
  }
  return { body: current, decoded: true, cut: false };
}

function judgeOpaque(body: Buffer, decoded: boolean): DecodedBody {
  if (looksLikeText(body)) return { body, decoded, cut: false };
  return { body: Buffer.alloc(0), decoded: true, cut: true };
}

async function decodePartly(body: Buffer, codings: string[], max: number): Promise<DecodedBody> {
  let current = body;
  for (let i = codings.length - 1; i >= 0; i--) {
    const coding = CODINGS[codings[i]!];
    if (coding === undefined || !hasMagic(current, coding)) {
      return { ...judgeOpaque(current, true), cut: true };
    }
    const part = await decodeWhatCanBe(current, coding, max);
    // Nothing came out, and brotli and deflate have no mark: perhaps it never was in that encoding.
    if (part.length === 0 && looksLikeText(current))
      return { body: current, decoded: i < codings.length - 1, cut: false };
    current = part;
  }
  return { body: current, decoded: true, cut: true };
}
