/**
 * A section of header lines on the wire: where it ends, and its fields (RFC 9112 sections 2 to 5).
 * Only this file decides what a line end, a field name and a field value are. It is strict, because
 * the client might parse a malformed line differently. Pure and incremental; called on server
 * threads, for each answer's head and trailers.
 */
import { badAnswer } from './answer-error.ts';

const HTAB = 9;
const LF = 10;
const CR = 13;
const SP = 32;
const COLON = 58;
const DEL = 127;

const BLANK_LINE = Buffer.from('\r\n\r\n');
const FIRST_BYTES = 1024;

/** 1 for each byte of a token (RFC 9110 section 5.6.2). */
const TOKEN = new Uint8Array(256);
for (const byte of Buffer.from(
  "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
)) {
  TOKEN[byte] = 1;
}
/** 1 for each byte that a field value or a reason phrase may contain: no control character except the tab. */
export const TEXT: Readonly<Uint8Array> = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === HTAB || (byte >= SP && byte !== DEL) ? 1 : 0,
);

/** Valid names that were received before: spelling → lower case. */
const knownNames = new Map<string, string>();
const KNOWN_NAMES_MAX = 512;
const KNOWN_NAME_CHARACTERS = 64;

/** Header lines as received. */
export interface Fields {
  /** Flat [name, value, …] in wire order, duplicates kept. One byte per character. */
  headers: string[];
  /** The names in lower case, one for each pair. */
  names: string[];
}

/** Finds the blank line that ends a section, however the section is divided into pieces. */
export class SectionReader {
  /** Position of the last section, from `start` up to the blank line at `end`. Valid until the next call. */
  bytes: Buffer = BLANK_LINE;
  start = 0;
  end = 0;

  /** The bytes of a section that did not arrive in one piece. */
  #kept: Buffer | null = null;
  #keptBytes = 0;
  /** Number of kept bytes whose lines were examined. */
  #seenBytes = 0;

  /** Number of bytes of an incomplete section. */
  get pending_bytes(): number {
    return this.#keptBytes;
  }

  /** Returns a byte of the incomplete section. */
  pendingByte(place: number): number {
    return this.#kept![place]!;
  }

  reset(): void {
    this.#kept = null;
    this.#keptBytes = 0;
    this.#seenBytes = 0;
  }

  /**
   * Reads the bytes from `at` to `end`, up to the blank line of the section.
   * @param room most bytes that the section may still take
   * @returns where the section's blank line ends; -1 when it has not arrived, then all bytes were taken
   * @throws UpstreamError for a section that is too long. Also for a line that ends with a bare LF, unless the section
   * arrived in one piece: then `parseFields` rejects the line.
   */
  take(bytes: Buffer, at: number, end: number, room: number): number {
    if (this.#kept === null) {
      const found = bytes.indexOf(BLANK_LINE, at);
      if (found >= 0 && found + 4 <= end) {
        if (found + 4 - at > room) throw badAnswer('too many bytes in headers or trailers');
        this.bytes = bytes;
        this.start = at;
        this.end = found + 2;
        return found + 4;
      }
    }
    const before = this.#keptBytes;
    this.#keep(bytes, at, end);
    const blankEnd = this.#findBlankLine();
    if ((blankEnd < 0 ? this.#keptBytes : blankEnd) - before > room)
      throw badAnswer('too many bytes in headers or trailers');
    if (blankEnd < 0) return -1;
    this.bytes = this.#kept!;
    this.start = 0;
    this.end = blankEnd - 2;
    this.reset();
    return at + blankEnd - before;
  }

  #keep(bytes: Buffer, at: number, end: number): void {
    const bytesNow = this.#keptBytes + end - at;
    if (this.#kept === null || this.#kept.length < bytesNow) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * bytesNow));
      this.#kept?.copy(larger, 0, 0, this.#keptBytes);
      this.#kept = larger;
    }
    bytes.copy(this.#kept, this.#keptBytes, at, end);
    this.#keptBytes = bytesNow;
  }

  /** Finds where the kept section's blank line ends; -1 if the line has not arrived. @throws UpstreamError */
  #findBlankLine(): number {
    const kept = this.#kept!;
    for (;;) {
      const found = kept.indexOf(LF, this.#seenBytes);
      if (found < 0 || found >= this.#keptBytes) {
        this.#seenBytes = this.#keptBytes;
        return -1;
      }
      if (found === 0 || kept[found - 1] !== CR) throw badAnswer('a line that ends with a bare LF');
      this.#seenBytes = found + 1;
      if (found >= 3 && kept[found - 2] === LF) return found + 1;
    }
  }
}

/**
 * Reads header lines, each with its line end.
 * @param end position after the line end of the last line; the bytes must contain a CR at this position or
 * before it
 * @throws UpstreamError for anything but header lines
 */
export function parseFields(bytes: Buffer, start: number, end: number): Fields {
  const headers: string[] = [];
  const names: string[] = [];
  const text = bytes.toString('latin1', start, end);
  let at = start;
  while (at < end) {
    const nameStart = at;
    while (TOKEN[bytes[at]!] === 1) at++;
    if (bytes[at] !== COLON || at === nameStart) throw badAnswer('a malformed header or trailer name');
    const name = text.slice(nameStart - start, at - start);
    at++;
    while (bytes[at] === SP || bytes[at] === HTAB) at++;
    const valueStart = at;
    while (TEXT[bytes[at]!] === 1) at++;
    if (bytes[at] !== CR || bytes[at + 1] !== LF) throw badAnswer('a malformed header or trailer value');
    let valueEnd = at;
    while (valueEnd > valueStart && (bytes[valueEnd - 1] === SP || bytes[valueEnd - 1] === HTAB)) valueEnd--;
    headers.push(name, text.slice(valueStart - start, valueEnd - start));
    names.push(knownNames.get(name) ?? learnName(name));
    at += 2;
  }
  return { headers, names };
}

function learnName(name: string): string {
  const lower = name.toLowerCase();
  if (knownNames.size < KNOWN_NAMES_MAX && name.length <= KNOWN_NAME_CHARACTERS) {
    // A copy of the text, because a slice of the head would keep the whole head in memory.
    knownNames.set(Buffer.from(name, 'latin1').toString('latin1'), Buffer.from(lower).toString('latin1'));
  }
  return lower;
}
