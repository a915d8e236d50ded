/**
 * Finds secrets whose characters are encoded differently: as `\u002d`, as `%2D`, or as UTF-16. Words with such
 * encodings are decoded, and the place of each secret that is found is mapped back to the text. Pure; any thread.
 */
import { byteEngine } from '../../native/byte-engine.ts';
import type { ByteRange } from './byte-range.ts';
import { readHexByte, readUnicodeEscape, skipPercents } from './escapes.ts';
import { type Work, WorkExceededError } from './work.ts';

const BACKSLASH = 0x5c;
const PERCENT = 0x25;
const SLASH = 0x2f;
const QUOTE = 0x22;
const LINE_END = 0x0a;

/** Number of bytes before a stretch that are copied unchanged, because they may be a label or a scheme. */
const CONTEXT_BYTES = 64;
/**
 * Stretches, which are words with encoded characters, are decoded into one buffer and searched together once they have
 * WINDOW_BYTES. A long stretch makes the buffer grow fourfold, as long as it stays within STRETCH_BYTES_MAX.
 */
const WINDOW_BYTES = 256 << 10;
const STRETCH_BYTES_MAX = 32 << 20;

/** The decoded text, and the source position of each of its bytes. */
class Reading {
  bytes = Buffer.allocUnsafe(4_096);
  length = 0;
  #starts = new Uint32Array(4_096);
  #ends = new Uint32Array(4_096);

  add(byte: number, start: number, end: number): void {
    if (this.length === this.bytes.length) this.#grow();
    this.bytes[this.length] = byte;
    this.#starts[this.length] = start;
    this.#ends[this.length++] = end;
  }

  #grow(): void {
    const size = 4 * this.bytes.length;
    if (size > STRETCH_BYTES_MAX) throw new WorkExceededError();
    const bytes = Buffer.allocUnsafe(size);
    const starts = new Uint32Array(size);
    const ends = new Uint32Array(size);
    bytes.set(this.bytes);
    starts.set(this.#starts);
    ends.set(this.#ends);
    this.bytes = bytes;
    this.#starts = starts;
    this.#ends = ends;
  }

  /** Finds the source range from which a range of the decoded text was read. */
  locate({ start, end }: ByteRange): ByteRange {
    return { start: this.#starts[start]!, end: this.#ends[end - 1]! };
  }
}

/**
 * Finds the encoded secrets in bytes.
 * @param search finds the secrets of a text
 * @param from first byte to examine; a stretch that begins before `to` is read to its end
 * @returns ranges of the bytes, unordered
 * @throws {WorkExceededError}
 */
export function findEscapedSecrets(
  bytes: Uint8Array,
  search: (text: Buffer) => readonly ByteRange[],
  work: Work,
  from: number,
  to: number,
): ByteRange[] {
  let at = byteEngine.findEscape(bytes, from, to);
  if (at < 0) return [];
  const found: ByteRange[] = [];
  const reading = new Reading();
  const finish = (): void => {
    const text = reading.bytes.subarray(0, reading.length);
    for (const range of search(text)) found.push(reading.locate(range));
    reading.length = 0;
  };
  let lowest = from;
  while (at >= 0) {
    const before = reading.length;
    const end =
      bytes[at] === 0 ? readWide(bytes, at, lowest, reading) : readEscapes(bytes, at, lowest, reading);
    work.add(2 * (reading.length - before) + 8);
    // No token contains a line end.
    reading.add(LINE_END, end, end);
    if (reading.length >= WINDOW_BYTES) finish();
    lowest = end;
    at = end < to ? byteEngine.findEscape(bytes, end, to) : -1;
  }
  finish();
  return found;
}

/** Whether the byte continues a word: any byte above 0x20, but `"` only after a backslash. */
function isOfWord(bytes: Uint8Array, at: number, lowest: number): boolean {
  const byte = bytes[at]!;
  return byte > 0x20 && (byte !== QUOTE || (at > lowest && bytes[at - 1] === BACKSLASH));
}

/**
 * Decodes the word around an escape, and copies what precedes it.
 * @returns the end of the word
 */
function readEscapes(bytes: Uint8Array, at: number, lowest: number, into: Reading): number {
  let start = at;
  while (start > lowest && isOfWord(bytes, start - 1, lowest)) start--;
  for (let i = Math.max(lowest, start - CONTEXT_BYTES); i < start; i++) into.add(bytes[i]!, i, i + 1);
  let place = start;
  while (place < bytes.length && isOfWord(bytes, place, start)) {
    const byte = bytes[place]!;
    if (byte === BACKSLASH) {
      place = readBackslashes(bytes, place, into);
    } else {
      const digits = byte === PERCENT ? skipPercents(bytes, place) : 0;
      const value = byte === PERCENT ? readHexByte(bytes, digits) : -1;
      const end = value < 0 ? place + 1 : digits + 2;
      into.add(value < 0 ? byte : value, place, end);
      place = end;
    }
  }
  return place;
}

/**
 * Decodes a JSON escape, even if it was escaped again.
 * @returns the end of the escape
 */
function readBackslashes(bytes: Uint8Array, at: number, into: Reading): number {
  let behind = at + 1;
  while (bytes[behind] === BACKSLASH) behind++;
  const value = readUnicodeEscape(bytes, behind);
  if (value >= 0) {
    // Each repeated escaping doubles the number of backslashes. The largest power of two that divides this number is
    // the number of backslashes of the escape; those before them are text.
    const run = behind - at;
    const start = behind - (run & -run);
    if (start > at) into.add(BACKSLASH, at, start);
    into.add(value, start, behind + 5);
    return behind + 5;
  }
  const next = bytes[behind];
  if (next === SLASH || next === QUOTE) {
    into.add(next, at, behind + 1);
    return behind + 1;
  }
  // A backslash that was escaped repeatedly stands for one backslash. An unescaped one begins another escape, after
  // which a token may begin.
  into.add(BACKSLASH, at, behind);
  return behind;
}

/**
 * Decodes UTF-16 text with a zero byte at `at`, in either byte order.
 * @returns the end of that text
 */
function readWide(bytes: Uint8Array, at: number, lowest: number, into: Reading): number {
  let first = at + 1;
  while (first - 2 >= lowest && bytes[first - 1] === 0 && bytes[first - 2] !== 0) first -= 2;
  let place = first;
  for (;;) {
    into.add(bytes[place]!, place, Math.min(bytes.length, place + 2));
    if (bytes[place + 1] !== 0 || place + 2 >= bytes.length || bytes[place + 2] === 0) break;
    place += 2;
  }
  return Math.max(at + 1, Math.min(bytes.length, place + 2));
}
