/**
 * A section of header lines on the wire: where it ends, and what is in it (RFC 9112 sections 2 to 5). The one place that
 * decides what a line end, a field name and a field value are. It is never lenient, since the other side of the gateway
 * might read a strange line differently. Pure, incremental; server threads, for each answer's head and trailers.
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
/** 1 for each byte that may stand in a field value or a reason phrase: no control but the tab. */
export const TEXT: Readonly<Uint8Array> = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === HTAB || (byte >= SP && byte !== DEL) ? 1 : 0,
);

/** Names seen before, by how they were written: their lower case, already known to be tokens. */
const knownNames = new Map<string, string>();
const KNOWN_NAMES_MAX = 512;
const KNOWN_NAME_CHARACTERS = 64;

/** Header lines as they came. */
export interface Fields {
  /** Flat [name, value, …] in wire order, duplicates kept. One byte a character. */
  headers: string[];
  /** The names in lower case, one for each pair. */
  names: string[];
}

/** Finds the blank line that ends a section, whatever pieces it comes in. */
export class SectionReader {
  /** Where the last section lies, from `start` up to the blank line at `end`. Valid until the next call. */
  bytes: Buffer = BLANK_LINE;
  start = 0;
  end = 0;

  /** A section that did not come in one piece. */
  #kept: Buffer | null = null;
  #keptBytes = 0;
  /** Of the kept bytes, those whose lines were looked at. */
  #seenBytes = 0;

  /** Bytes of a section that is not complete. */
  get pending_bytes(): number {
    return this.#keptBytes;
  }

  /** A byte of the section that is not complete. */
  pendingByte(place: number): number {
    return this.#kept![place]!;
  }

  reset(): void {
    this.#kept = null;
    this.#keptBytes = 0;
    this.#seenBytes = 0;
  }

  /**
   * @param end where the bytes end; what lies behind is none of ours
   * @param room bytes that the section may still have
   * @returns where the section's blank line ends, or -1 when it is not there yet; then all bytes were taken
   * @throws UpstreamError for a section without end or a line that ends in LF alone
   */
  take(bytes: Buffer, at: number, end: number, room: number): number {
    if (this.#kept === null) {
      const found = bytes.indexOf(BLANK_LINE, at);
      if (found >= 0 && found + 4 <= end) {
        if (found + 4 - at > room) throw badAnswer('too many header bytes');
        this.bytes = bytes;
        this.start = at;
        this.end = found + 2;
        return found + 4;
      }
    }
    const before = this.#keptBytes;
    this.#keep(bytes, at, end);
    const blankEnd = this.#findBlankLine();
    if ((blankEnd < 0 ? this.#keptBytes : blankEnd) - before > room) throw badAnswer('too many header bytes');
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

  /** @returns where the kept section's blank line ends, or -1 */
  #findBlankLine(): number {
    const kept = this.#kept!;
    for (;;) {
      const found = kept.indexOf(LF, this.#seenBytes);
      if (found < 0 || found >= this.#keptBytes) {
        this.#seenBytes = this.#keptBytes;
        return -1;
      }
      if (found === 0 || kept[found - 1] !== CR) throw badAnswer('a line that ends in LF alone');
      this.#seenBytes = found + 1;
      if (found >= 3 && kept[found - 2] === LF) return found + 1;
    }
  }
}

/**
 * Reads header lines, each with its line end.
 * @param end where they end; a line end of their own or a blank line must stand before or at it
 * @throws UpstreamError for whatever is no header line
 */
export function parseFields(bytes: Buffer, start: number, end: number): Fields {
  const headers: string[] = [];
  const names: string[] = [];
  const text = bytes.toString('latin1', start, end);
  let at = start;
  while (at < end) {
    const nameStart = at;
    while (TOKEN[bytes[at]!] === 1) at++;
    if (bytes[at] !== COLON || at === nameStart) throw badAnswer('a malformed header name');
    const name = text.slice(nameStart - start, at - start);
    at++;
    while (bytes[at] === SP || bytes[at] === HTAB) at++;
    const valueStart = at;
    while (TEXT[bytes[at]!] === 1) at++;
    if (bytes[at] !== CR || bytes[at + 1] !== LF) throw badAnswer('a malformed header value');
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
    // A text of its own: a part of the head would keep the whole of it in memory.
    knownNames.set(Buffer.from(name, 'latin1').toString('latin1'), Buffer.from(lower).toString('latin1'));
  }
  return lower;
}
