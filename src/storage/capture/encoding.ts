/**
 * Removes a body's content-encoding so that secrets inside can be masked. Runs in the capture process.
 * Rule. A body that decodes is stored decoded. If a stream is cut off or damaged, the part before the damage is stored
 * and the exchange is marked truncated; the rest is dropped, because secrets in it could not be masked. A body that
 * names an encoding but is plain text (JSON sent with `content-encoding: gzip`) is stored unchanged. Any other body
 * (binary bytes in an unknown encoding) is withheld. A body that begins like gzip or zstd, although no header says so,
 * is decoded so that it can be searched; the caller decides which form to store.
 * Bounds (`DECOMPRESSION`). Bodies that expand to many times their size use a budget of processor time per second,
 * which all bodies share. Decompression bombs use it up; ordinary bodies do not need it, so they are still decoded. A
 * body that expands beyond the largest size is stored up to that size and marked truncated.
 */
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import type { WithheldCause } from '../../domain/exchange.ts';
import { ZSTD_FRAMES } from '../../limits.ts';
import { beginsLikeZstd, decompressFrames, measureZstd } from '../../std/zstd.ts';

/** Maximum number of layers of compression of one body. */
const BODY_CODINGS_MAX = 4;
/**
 * How far a compressed body may expand. Each bound is a fixed number of bytes plus a multiple of the compressed size,
 * so it has two numbers here. Up to the `free` bound, decompression does not count. Beyond that, and for zstd of more
 * frames than `ZSTD_FRAMES.free`, its processor time counts against a budget: `ms_per_second` for all bodies together,
 * and `burst_ms` at once. If the budget is used up, a body that needs it is withheld. A body that expands beyond the
 * `most` bound is cut there.
 */
export const DECOMPRESSION = {
  free_bytes: 64 << 10,
  free_for_each_byte: 12,
  most_bytes: 2 << 20,
  most_for_each_byte: 256,
  ms_per_second: 100,
  burst_ms: 500,
} as const;

/** The result of decoding a body. */
export interface DecodedBody {
  body: Buffer;
  /** Whether a coding was removed, so that the header names an encoding that `body` no longer has. */
  decoded: boolean;
  /** Whether the end of the body is missing. */
  cut: boolean;
  /** Why the body is withheld (and empty); null if it is not. */
  withheld: WithheldCause | null;
}

/** A decompressed body that no header declared as compressed. */
type UnpackedBody = Pick<DecodedBody, 'body' | 'withheld'>;

type Coding = 'gzip' | 'deflate' | 'br' | 'zstd';

const CODINGS: Record<string, Coding> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'br',
  zstd: 'zstd',
};

/** Reads the encodings in a content-encoding header, outermost last, without `identity` and `aws-chunked`. */
export function readCodings(header: string | null): string[] {
  if (header === null) return [];
  return header
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity' && name !== 'aws-chunked');
}

/** Whether the first 4 KiB are text: valid UTF-8 without control characters except white space. */
function looksLikeText(body: Buffer): boolean {
  const head = body.subarray(0, 4_096);
  for (const byte of head) {
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  }
  // The cut after 4 KiB may have split a character, so invalid bytes at the very end are ignored.
  const text = head.toString('utf8');
  const bad = text.indexOf('�');
  return bad < 0 || bad >= text.length - 3;
}

/** Reads the encoding that the first bytes indicate, whatever a header says; null if they indicate none. */
function readMagic(body: Buffer): Coding | null {
  if (body.length < 8) return null;
  if (body[0] === 0x1f && body[1] === 0x8b && body[2] === 0x08) return 'gzip';
  return beginsLikeZstd(body) ? 'zstd' : null;
}

/**
 * Whether the body begins with the signature of the encoding; true for encodings without a signature, and for zstd if
 * the body is shorter than the signature.
 */
function hasMagic(body: Buffer, coding: Coding): boolean {
  if (coding === 'gzip') return body[0] === 0x1f && body[1] === 0x8b;
  if (coding === 'zstd') return body.length < 4 || beginsLikeZstd(body);
  return true;
}

/**
 * The largest window that a decoder must support over HTTP (RFC 9659). A frame that needs a larger one is refused, so
 * that it cannot make the decoder allocate more.
 */
const ZSTD_PARAMS = { [zlib.constants.ZSTD_d_windowLogMax]: 23 };

/**
 * The result of a synchronous zlib call with the option `info`: the output, and the decoder with the number of input
 * bytes that it read.
 */
interface Inflated {
  buffer: Buffer;
  engine: { bytesWritten: number };
}

/**
 * Decodes one layer of a whole stream synchronously.
 * @throws zlib's error, also if the result is larger than `max` bytes; RangeError if other bytes follow the stream
 */
function decodeAtOnce(body: Buffer, coding: Coding, max: number): Buffer {
  const options = { maxOutputLength: max, info: true };
  if (coding === 'zstd') {
    const decoded = decompressFrames(body, { maxOutputLength: max, params: ZSTD_PARAMS }, ZSTD_FRAMES.most);
    if (decoded.end < body.length) throw new RangeError('the last zstd frame is not whole');
    return decoded.bytes;
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
 * `deflate` means the zlib format, but some servers send raw deflate. RFC 1950: method 8 is in the low half of the
 * first byte, and the first two bytes are a multiple of 31.
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
      return zlib.createZstdDecompress({ params: ZSTD_PARAMS });
    case 'deflate':
      return hasZlibHead(body) ? zlib.createInflate() : zlib.createInflateRaw();
  }
}

/** Decodes as much as possible: up to the first damaged byte, to the end of a cut-off stream, or up to `max` bytes. */
async function decodeWhatCanBe(body: Buffer, coding: Coding, max: number): Promise<Buffer> {
  if (coding !== 'zstd') return await decodeStream(body, coding, max);
  let whole: { bytes: Buffer; end: number };
  try {
    whole = decompressFrames(body, { maxOutputLength: max, params: ZSTD_PARAMS }, ZSTD_FRAMES.most);
  } catch {
    // Decoded again as a stream, which also returns the beginning of the frame that failed.
    return await decodeStream(body, coding, max);
  }
  const rest = await decodeStream(body.subarray(whole.end), coding, max - whole.bytes.length);
  return Buffer.concat([whole.bytes, rest]);
}

async function decodeStream(body: Buffer, coding: Coding, max: number): Promise<Buffer> {
  if (body.length === 0 || max === 0) return NOTHING;
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
    // The pieces are small, and each is flushed, because a decoder that finds damage returns nothing of the current
    // piece.
    void feed(stream, body).then(undefined, () => resolve());
  });
  stream.destroy();
  return Buffer.concat(parts);
}

/** Maximum number of pieces for a damaged body. Each piece costs a turn of the event loop. */
const PIECES_MAX = 512;
const PIECE_BYTES_MIN = 256;

async function feed(stream: ReturnType<typeof makeStream>, body: Buffer): Promise<void> {
  const write = promisify<Buffer, void>((piece, done) => stream.write(piece, (error) => done(error ?? null)));
  const size = Math.max(PIECE_BYTES_MIN, Math.ceil(body.length / PIECES_MAX));
  for (let at = 0; at < body.length && !stream.destroyed; at += size)
    await write(body.subarray(at, at + size));
  stream.end();
}

/** Whether zlib stopped because the output exceeded the limit. */
function isTooLarge(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'ERR_BUFFER_TOO_LARGE';
}

const NOTHING = Buffer.alloc(0);

function withhold(cause: WithheldCause): DecodedBody {
  return { body: NOTHING, decoded: true, cut: true, withheld: cause };
}

function judgeOpaque(body: Buffer, decoded: boolean): DecodedBody {
  return looksLikeText(body) ? { body, decoded, cut: false, withheld: null } : withhold('undecodable');
}

/** The cost of a partly decoded body is estimated from the length of its output, because threads of libuv decode it. */
const PARTLY_BYTES_PER_MS = 200_000;

/** Decodes bodies one after the other. Bodies that expand to many times their size share a time budget. */
export class BodyDecoder {
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** Milliseconds left in the budget, as of `#leftAt`. */
  #left: number = DECOMPRESSION.burst_ms;
  #leftAt: number;

  /**
   * @param maxBytes maximum length of a decoded body
   * @param now a monotonic clock; tests replace it
   */
  constructor(maxBytes: number, now: () => number = () => performance.now()) {
    this.#maxBytes = maxBytes;
    this.#now = now;
    this.#leftAt = now();
  }

  /** Whether the budget allows a body that expands to many times its size. */
  #hasTime(): boolean {
    const now = this.#now();
    const earned = ((now - this.#leftAt) * DECOMPRESSION.ms_per_second) / 1_000;
    this.#left = Math.min(DECOMPRESSION.burst_ms, this.#left + Math.max(0, earned));
    this.#leftAt = now;
    return this.#left > 0;
  }

  #most(body: Buffer): number {
    const { most_bytes, most_for_each_byte } = DECOMPRESSION;
    return Math.min(this.#maxBytes, most_bytes + most_for_each_byte * body.length);
  }

  /**
   * Decodes one layer of a whole stream.
   * @returns null if the budget is used up
   * @throws zlib's error, including when the output exceeds the limit
   */
  #decodeLayer(body: Buffer, coding: Coding): Buffer | null {
    const { free_bytes, free_for_each_byte } = DECOMPRESSION;
    const free = Math.min(this.#maxBytes, free_bytes + free_for_each_byte * body.length);
    const frames = coding === 'zstd' ? measureZstd(body).frames : 1;
    try {
      if (frames <= ZSTD_FRAMES.free) return decodeAtOnce(body, coding, free);
    } catch (error) {
      if (!isTooLarge(error)) throw error;
    }
    if (!this.#hasTime()) return null;
    const start = this.#now();
    try {
      return decodeAtOnce(body, coding, this.#most(body));
    } finally {
      this.#left -= this.#now() - start;
    }
  }

  /**
   * Removes the content-encoding of a body by the rule in this file's header. Synchronous for complete streams, which
   * nearly all are.
   * @param header the content-encoding header's value, or null
   */
  decode(body: Buffer, header: string | null): DecodedBody | Promise<DecodedBody> {
    const codings = header === null || body.length === 0 ? [] : readCodings(header);
    if (codings.length === 0) return { body, decoded: false, cut: false, withheld: null };
    if (codings.length > BODY_CODINGS_MAX) return judgeOpaque(body, false);
    let current = body;
    for (let i = codings.length - 1; i >= 0; i--) {
      const coding = CODINGS[codings[i]!];
      if (coding === undefined || !hasMagic(current, coding))
        return judgeOpaque(current, i < codings.length - 1);
      try {
        const next = this.#decodeLayer(current, coding);
        if (next === null) return withhold('decompression_budget');
        current = next;
      } catch {
        return this.#decodePartly(current, codings.slice(0, i + 1));
      }
    }
    return { body: current, decoded: true, cut: false, withheld: null };
  }

  async #decodePartly(body: Buffer, codings: string[]): Promise<DecodedBody> {
    let current = body;
    for (let i = codings.length - 1; i >= 0; i--) {
      const coding = CODINGS[codings[i]!];
      if (coding === undefined || !hasMagic(current, coding)) {
        return { ...judgeOpaque(current, true), cut: true };
      }
      if (!this.#hasTime()) return withhold('decompression_budget');
      const part = await decodeWhatCanBe(current, coding, this.#most(current));
      this.#left -= part.length / PARTLY_BYTES_PER_MS;
      // Brotli and deflate have no signature. If the decoder returned nothing, the body may never have been in that
      // encoding.
      if (part.length === 0)
        return looksLikeText(current)
          ? { body: current, decoded: i < codings.length - 1, cut: false, withheld: null }
          : withhold('undecodable');
      current = part;
    }
    return { body: current, decoded: true, cut: true, withheld: null };
  }

  /**
   * Decodes all layers of a body that begins like a compressed one although no header says so. A body that cannot be
   * decoded completely is withheld, because `unpack` does not cut bodies.
   * @returns null if the body does not begin like that
   */
  unpack(body: Buffer): UnpackedBody | null {
    let coding = readMagic(body);
    if (coding === null) return null;
    let current = body;
    for (let layer = 0; coding !== null; layer++) {
      if (layer === BODY_CODINGS_MAX) return { body: NOTHING, withheld: 'undecodable' };
      try {
        const next = this.#decodeLayer(current, coding);
        if (next === null) return { body: NOTHING, withheld: 'decompression_budget' };
        current = next;
      } catch (error) {
        return { body: NOTHING, withheld: isTooLarge(error) ? 'decompression_budget' : 'undecodable' };
      }
      coding = readMagic(current);
    }
    return { body: current, withheld: null };
  }
}
