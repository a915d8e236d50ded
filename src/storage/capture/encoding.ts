/**
 * Undoes a body's content-encoding so that secrets inside can be masked. Runs in the capture process.
 *
 * Rule. What decodes is stored decoded. Of a stream that is cut off or damaged, what decodes before the damage is
 * stored, and the exchange is marked truncated; the undecodable rest is not, because secrets in it cannot be masked.
 * A body that claims an encoding but plainly is not in it (JSON sent with `content-encoding: gzip`) is stored as it is.
 * What is left (an unknown encoding over binary bytes) is withheld. A body that begins like gzip or zstd without saying so is
 * decoded to be looked at; who asked decides what to keep.
 *
 * Bounds (`DECOMPRESSION`). What unpacks to far more than it is costs processor time, of which all bodies together get so much a
 * second: bombs spend that, and ordinary bodies, which need none of it, go on being decoded. A body that unpacks to more than the
 * most is stored up to there and marked truncated.
 */
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import type { WithheldCause } from '../../domain/exchange.ts';
import { ZSTD_FRAMES } from '../../limits.ts';
import { beginsLikeZstd, decompressFrames, measureZstd } from '../../std/zstd.ts';

/** Layers of compression of one body. */
const BODY_CODINGS_MAX = 4;
/**
 * How far a compressed body may expand. Each pair of bounds is a fixed number of bytes and a factor of the compressed size. Up to
 * the `free` bounds decompression costs nothing. Between them and the `most` bounds it takes processor time, of which all bodies
 * together get a budget per second and a burst. A body that finds no budget is withheld; one that expands
 * beyond the `most` bounds is kept up to there.
 */
export const DECOMPRESSION = {
  free_bytes: 64 << 10,
  free_for_each_byte: 12,
  most_bytes: 2 << 20,
  most_for_each_byte: 256,
  ms_per_second: 100,
  burst_ms: 500,
} as const;

/** What became of a body. */
export interface DecodedBody {
  body: Buffer;
  /** The stored copy is not in the encoding that its header names. */
  decoded: boolean;
  /** Something at the end is missing. */
  cut: boolean;
  /** The body is empty, for this reason. */
  withheld: WithheldCause | null;
}

/** A body without the compression that no header names. */
type UnpackedBody = Pick<DecodedBody, 'body' | 'withheld'>;

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

/** Which encoding the bytes begin like, whatever a header says; null for none that can be known so. */
function readMagic(body: Buffer): Coding | null {
  if (body.length < 8) return null;
  if (body[0] === 0x1f && body[1] === 0x8b && body[2] === 0x08) return 'gzip';
  return beginsLikeZstd(body) ? 'zstd' : null;
}

/** The sure sign of an encoding that has one; true for those that have none. */
function hasMagic(body: Buffer, coding: Coding): boolean {
  if (coding === 'gzip') return body[0] === 0x1f && body[1] === 0x8b;
  if (coding === 'zstd') return body.length < 4 || beginsLikeZstd(body);
  return true;
}

/** Largest window that a decoder needs over HTTP (RFC 9659): a frame's head must not have us fetch more memory. */
const ZSTD_PARAMS = { [zlib.constants.ZSTD_d_windowLogMax]: 23 };

/** What a synchronous zlib call gives with `info`: the bytes, and the decoder that knows how many it took. */
interface Inflated {
  buffer: Buffer;
  engine: { bytesWritten: number };
}

/** @throws zlib's error, also when the result is larger than `max` bytes, and when bytes follow the stream */
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
      return zlib.createZstdDecompress({ params: ZSTD_PARAMS });
    case 'deflate':
      return hasZlibHead(body) ? zlib.createInflate() : zlib.createInflateRaw();
  }
}

/** Decodes as far as it goes: up to damage, to the end of a cut-off stream, or to `max` bytes. */
async function decodeWhatCanBe(body: Buffer, coding: Coding, max: number): Promise<Buffer> {
  if (coding !== 'zstd') return await decodeStream(body, coding, max);
  let whole: { bytes: Buffer; end: number };
  try {
    whole = decompressFrames(body, { maxOutputLength: max, params: ZSTD_PARAMS }, ZSTD_FRAMES.most);
  } catch {
    // The frame with which it becomes too large is among the others.
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
    // In small pieces with a flush after each: a decoder that meets damage gives out nothing of the piece at hand.
    void feed(stream, body).then(undefined, () => resolve());
  });
  stream.destroy();
  return Buffer.concat(parts);
}

/** A damaged body is fed in so many pieces at most: each takes a turn of the thread. */
const PIECES_MAX = 512;
const PIECE_BYTES_MIN = 256;

async function feed(stream: ReturnType<typeof makeStream>, body: Buffer): Promise<void> {
  const write = promisify<Buffer, void>((piece, done) => stream.write(piece, (error) => done(error ?? null)));
  const size = Math.max(PIECE_BYTES_MIN, Math.ceil(body.length / PIECES_MAX));
  for (let at = 0; at < body.length && !stream.destroyed; at += size)
    await write(body.subarray(at, at + size));
  stream.end();
}

/** Whether zlib gave up because more came out than it was allowed. */
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

/** What a partly decoded body costs, by what comes out: the work itself is done on other threads. */
const PARTLY_BYTES_PER_MS = 200_000;

/** Decodes bodies, one after the other, within the time that there is for such as unpack to far more than they are. */
export class BodyDecoder {
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** Milliseconds that may be spent, as of `#leftAt`. */
  #left: number = DECOMPRESSION.burst_ms;
  #leftAt: number;

  /**
   * @param maxBytes most bytes of a result
   * @param now for tests: a clock that only goes on
   */
  constructor(maxBytes: number, now: () => number = () => performance.now()) {
    this.#maxBytes = maxBytes;
    this.#now = now;
    this.#leftAt = now();
  }

  /** Whether there is time for a body that unpacks to far more than it is. */
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
   * One layer of a whole stream.
   * @returns null when there is no time for it
   * @throws zlib's error, also when more comes out than may
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
   * The body without its content-encoding, by the rule above. Synchronous for whole streams, which nearly all are.
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
      // Nothing came out, and brotli and deflate have no mark: perhaps it never was in that encoding.
      if (part.length === 0)
        return looksLikeText(current)
          ? { body: current, decoded: i < codings.length - 1, cut: false, withheld: null }
          : withhold('undecodable');
      current = part;
    }
    return { body: current, decoded: true, cut: true, withheld: null };
  }

  /**
   * What lies in a body that begins like a compressed one without a header that says so, all layers of it.
   * @returns null for a body that does not
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
