/**
 * Finds encoded characters of a token in a text: `\u002d`, `%2D` (also `%252D`), UTF-16. The fallback of
 * `native/bytes/escapes.h`. Any thread.
 */
import { CHARACTERS, KINDS } from './key-shapes.ts';

const { token: TOKEN } = CHARACTERS;
const BACKSLASH = 0x5c;
const PERCENT = 0x25;

/** The value of each hexadecimal digit; 16 for other bytes. */
const HEX_VALUES = new Uint8Array(256).fill(16);
for (const char of '0123456789abcdefABCDEF') HEX_VALUES[char.charCodeAt(0)] = parseInt(char, 16);

/** Reads the byte that two hexadecimal digits at `at` encode; -1 if they are not digits. */
export function readHexByte(bytes: Uint8Array, at: number): number {
  if (at + 2 > bytes.length) return -1;
  const high = HEX_VALUES[bytes[at]!]!;
  const low = HEX_VALUES[bytes[at + 1]!]!;
  return high === 16 || low === 16 ? -1 : high * 16 + low;
}

/**
 * Finds where the two digits after a percent sign at `at` begin: after the sign and its own percent-encodings
 * (`%2525…`).
 */
export function skipPercents(bytes: Uint8Array, at: number): number {
  let digits = at + 1;
  while (
    digits + 4 <= bytes.length &&
    bytes[digits] === 0x32 &&
    bytes[digits + 1] === 0x35 &&
    HEX_VALUES[bytes[digits + 2]!]! < 16 &&
    HEX_VALUES[bytes[digits + 3]!]! < 16
  )
    digits += 2;
  return digits;
}

/** Reads the character of an escape `u00XX` whose `u` is at `at`; -1 if there is no such escape. */
export function readUnicodeEscape(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== 0x75 || bytes[at + 1] !== 0x30 || bytes[at + 2] !== 0x30) return -1;
  return readHexByte(bytes, at + 3);
}

function isTokenByte(byte: number): boolean {
  return byte >= 0 && byte < 128 && (KINDS[byte]! & TOKEN) !== 0;
}

function isEscape(bytes: Uint8Array, at: number): boolean {
  const byte = bytes[at];
  if (byte === 0)
    return at + 2 < bytes.length && (KINDS[bytes[at + 1]!]! & TOKEN) !== 0 && bytes[at + 2] === 0;
  if (byte === BACKSLASH) return isTokenByte(readUnicodeEscape(bytes, at + 1));
  return byte === PERCENT && isTokenByte(readHexByte(bytes, skipPercents(bytes, at)));
}

/** Finds the first place in [from, to) with an encoded character of a token; -1 if no such place exists. */
export function findEscape(bytes: Uint8Array, from: number, to: number): number {
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if ((byte === 0 || byte === BACKSLASH || byte === PERCENT) && isEscape(bytes, at)) return at;
  }
  return -1;
}
