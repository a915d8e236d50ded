/**
 * Removes the framing of a chunked body (RFC 9112 section 7.1), however it is divided into pieces. Extensions are
 * checked for length and control characters and dropped. Pure; server threads.
 */
import { UPSTREAM_HEAD_BYTES } from '../../limits.ts';
import { badAnswer } from './answer-error.ts';
import { type Fields, parseFields, SectionReader, TEXT } from './field-section.ts';

/** Maximum bytes of a chunk's extension. No provider is known to send any. */
export const UPSTREAM_CHUNK_LINE_BYTES = 4 << 10;

const LF = 10;
const CR = 13;
const SEMICOLON = 59;

/** Maximum number of digits of a chunk size: 13 hexadecimal digits still are an exact double. */
const SIZE_DIGITS_MAX = 13;

/** The value of each hexadecimal digit, 255 for any other byte. */
const DIGIT = new Uint8Array(256).fill(255);
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16);
  DIGIT[digit.charCodeAt(0)] = value;
  DIGIT[digit.toUpperCase().charCodeAt(0)] = value;
}

/** The expected next element. */
type Place =
  | 'size'
  | 'extension'
  | 'size LF'
  | 'data'
  | 'data CR'
  | 'data LF'
  | 'trailers'
  | 'last LF'
  | 'end';

export class ChunkedDecoder {
  /** The trailers of the body; null if the body has no trailers, or they have not arrived. */
  trailers: Fields | null = null;

  readonly #section = new SectionReader();
  readonly #onData: (chunk: Buffer) => void;
  #place: Place = 'size';
  /** Remaining bytes of the chunk. */
  #left = 0;
  #digits = 0;
  #lineBytes = 0;
  #trailerBytes = 0;

  /** @param onData called with each piece of the body, a view on the given bytes */
  constructor(onData: (chunk: Buffer) => void) {
    this.#onData = onData;
  }

  get isComplete(): boolean {
    return this.#place === 'end';
  }

  /** Begins a new body. */
  begin(): void {
    this.trailers = null;
    this.#section.reset();
    this.#place = 'size';
    this.#left = 0;
    this.#digits = 0;
    this.#lineBytes = 0;
    this.#trailerBytes = 0;
  }

  /** Stops decoding: no more bytes are accepted or emitted. */
  stop(): void {
    this.#place = 'end';
  }

  /**
   * Reads the bytes from `at` to `end`, and passes on the pieces of the body that they contain.
   * @returns where the body ended, or `end` if it has not ended
   * @throws UpstreamError for malformed framing, and for an extension or trailers that are too long
   */
  decode(bytes: Buffer, at: number, end: number): number {
    while (at < end) {
      switch (this.#place) {
        case 'data': {
          const stop = Math.min(end, at + this.#left);
          this.#left -= stop - at;
          if (this.#left === 0) this.#place = 'data CR';
          this.#onData(bytes.subarray(at, stop));
          at = stop;
          break;
        }
        case 'data CR':
          if (bytes[at++] !== CR) throw badAnswer('a chunk that is longer than its size');
          this.#place = 'data LF';
          break;
        case 'data LF':
          if (bytes[at++] !== LF) throw badAnswer('a chunk without its line end');
          this.#digits = 0;
          this.#lineBytes = 0;
          this.#place = 'size';
          break;
        case 'size':
          at = this.#takeSize(bytes, at, end);
          break;
        case 'extension':
          at = this.#skipExtension(bytes, at, end);
          break;
        case 'size LF':
          if (bytes[at++] !== LF) throw badAnswer('a chunk size without its line end');
          this.#place = this.#left > 0 ? 'data' : 'trailers';
          break;
        case 'trailers':
          at = this.#takeTrailers(bytes, at, end);
          break;
        case 'last LF':
          if (bytes[at++] !== LF) throw badAnswer('a chunked body without its last line end');
          this.#place = 'end';
          return at;
        case 'end':
          return at;
      }
    }
    return at;
  }

  #takeSize(bytes: Buffer, from: number, end: number): number {
    let at = from;
    while (at < end) {
      const byte = bytes[at++]!;
      const value = DIGIT[byte]!;
      if (value < 16) {
        if (++this.#digits > SIZE_DIGITS_MAX) throw badAnswer('a chunk size with too many digits');
        this.#left = this.#left * 16 + value;
        continue;
      }
      if (this.#digits === 0) throw badAnswer('a chunk without a size');
      if (byte === CR) this.#place = 'size LF';
      else if (byte === SEMICOLON) this.#place = 'extension';
      else throw badAnswer('a malformed chunk size');
      break;
    }
    return at;
  }

  #skipExtension(bytes: Buffer, from: number, end: number): number {
    let at = from;
    while (at < end && TEXT[bytes[at]!] === 1) at++;
    this.#lineBytes += at - from;
    if (this.#lineBytes > UPSTREAM_CHUNK_LINE_BYTES) throw badAnswer('a chunk extension that is too long');
    if (at === end) return at;
    if (bytes[at] !== CR) throw badAnswer('a malformed chunk extension');
    this.#place = 'size LF';
    return at + 1;
  }

  #takeTrailers(bytes: Buffer, from: number, end: number): number {
    if (this.#section.pending_bytes === 0 && bytes[from] === CR) {
      this.#place = 'last LF';
      return from + 1;
    }
    const before = this.#section.pending_bytes;
    const behind = this.#section.take(bytes, from, end, UPSTREAM_HEAD_BYTES - this.#trailerBytes);
    if (behind < 0) {
      this.#trailerBytes += this.#section.pending_bytes - before;
      return end;
    }
    this.trailers = parseFields(this.#section.bytes, this.#section.start, this.#section.end);
    this.#place = 'end';
    return behind;
  }
}
