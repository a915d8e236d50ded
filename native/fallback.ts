/**
 * The capture writer's byte functions in TypeScript (`byte-functions.ts` documents them). `bytes.cc` has functions with
 * the same names and results, which are several times faster. Only those of `bytes.cc` limit how many bytes they
 * compare. This file is used if the addon could not be loaded. Pure; any thread.
 */
import { findEscape } from '../src/redaction/escapes.ts';
import { beginsLikeKey, holdsBeginning } from '../src/redaction/key-beginnings.ts';
import { CHARACTERS, KINDS, RUN_BYTES } from '../src/redaction/key-shapes.ts';
import type { ByteEngine } from './byte-functions.ts';

/** Maximum number of bytes before a token that are searched for a label or a scheme. */
const CONTEXT_BYTES = 64;
/** Maximum number of bytes before the first run that are searched for the beginning of the run's token. */
const TOKEN_BACK_BYTES = 2_048;

/** 1 for the bytes of base64, base64url and escaped slashes. */
const BASE64_BYTE = new Uint8Array(256);
/** 1 for the bytes between a label (or a scheme) and its token, including percent-encoding. */
const AFTER_LABEL = new Uint8Array(256);
const AFTER_SCHEME = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const char = String.fromCharCode(byte);
  if (/[A-Za-z0-9+/=\-_\\]/.test(char)) BASE64_BYTE[byte] = 1;
  if (/[\s"'\\:=%023adAD]/.test(char)) AFTER_LABEL[byte] = 1;
  if (/[\s%20+\\tnTN]/.test(char)) AFTER_SCHEME[byte] = 1;
}

const { run: RUN, token: TOKEN } = CHARACTERS;

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Whether the word ends at `at` and begins at `lowest` or later, ignoring case. */
function endsWith(bytes: Uint8Array, lowest: number, at: number, word: string): boolean {
  if (at - lowest < word.length) return false;
  for (let i = 0; i < word.length; i++)
    if ((bytes[at - word.length + i]! | 0x20) !== word.charCodeAt(i)) return false;
  return true;
}

/** Remembers the token of the last run, so that each byte of a long token is read only once. */
class TokenWalk {
  #token = 0;
  /** End of the last run; -1 before the first. */
  #runEnd = -1;
  #isLabelled = false;

  /** Whether a label or a scheme precedes the run's token or is part of it. */
  isLabelled(bytes: Uint8Array, start: number, end: number): boolean {
    const lowest = this.#runEnd >= 0 ? this.#runEnd : Math.max(0, start - TOKEN_BACK_BYTES);
    let token = start;
    let isGlued = false;
    while (token > lowest && (KINDS[bytes[token - 1]!]! & TOKEN) !== 0) {
      token--;
      isGlued ||=
        bytes[token] === 0x3d &&
        (endsWith(bytes, 0, token, 'key') ||
          endsWith(bytes, 0, token, 'token') ||
          endsWith(bytes, 0, token, 'secret') ||
          endsWith(bytes, 0, token, 'signature'));
    }
    if (this.#runEnd < 0 || token > this.#runEnd) {
      this.#token = token;
      this.#isLabelled = this.#hasLabelBefore(bytes);
    }
    this.#isLabelled ||= isGlued;
    this.#runEnd = end;
    return this.#isLabelled;
  }

  #hasLabelBefore(bytes: Uint8Array): boolean {
    const token = this.#token;
    // No label can precede the beginning of a line (in the writer's format, a header's value).
    if (token > 0 && bytes[token - 1] === 0x0a) return false;
    const context = Math.max(0, token - CONTEXT_BYTES);
    let at = token;
    while (at > context && AFTER_LABEL[bytes[at - 1]!] === 1) at--;
    for (const word of ['key', 'token', 'secret', 'authorization'])
      if (endsWith(bytes, context, at, word)) return true;
    at = token;
    while (at > context && AFTER_SCHEME[bytes[at - 1]!] === 1) at--;
    return endsWith(bytes, context, at, 'bearer') || endsWith(bytes, context, at, 'basic');
  }
}

function isSuspect(bytes: Uint8Array, start: number, end: number, walk: TokenWalk): boolean {
  // `isLabelled` must see every run, so it is called before the other checks.
  const isLabelled = walk.isLabelled(bytes, start, end);
  if (isLabelled || (start >= 3 && bytes[start - 1] === 0x2e)) return true;
  return holdsBeginning(bytes, start, end) || beginsLikeKey(bytes, start, end);
}

/** Checks arguments as the addon does, so that both throw for the same arguments. */
function checkRange(bytes: Uint8Array, from: number, to: number): void {
  if (!(from >= 0 && from <= bytes.length && to >= 0 && to <= bytes.length))
    throw new RangeError('an offset is outside of the bytes');
}

function checkNumber(value: number): void {
  if (typeof value !== 'number') throw new TypeError('a number is expected');
}

const oneMark = new Float64Array(3);

export const fallback: ByteEngine = {
  kind: 'typescript',

  findSuspects(bytes, from, to, marks) {
    checkRange(bytes, from, to);
    const room = (marks.length - 1) >> 1;
    let count = 0;
    let at = from;
    const walk = new TokenWalk();
    // A window of RUN_BYTES bytes is checked from its end: the last byte that is not a run byte determines the
    // earliest start of the next window (Boyer and Moore).
    while (at + RUN_BYTES <= to) {
      let back = at + RUN_BYTES - 1;
      while (back >= at && (KINDS[bytes[back]!]! & RUN) !== 0) back--;
      if (back >= at) {
        at = back + 1;
        continue;
      }
      let end = at + RUN_BYTES;
      while (end < to && (KINDS[bytes[end]!]! & RUN) !== 0) end++;
      if (isSuspect(bytes, at, end, walk)) {
        if (count === room) break;
        marks[1 + 2 * count] = at;
        marks[2 + 2 * count] = end;
        count++;
      }
      at = end + 1;
    }
    marks[0] = at + RUN_BYTES <= to ? at : to;
    return count;
  },

  findAnyNeedle(source, from, to, needles) {
    checkRange(source, from, to);
    const bytes = asBuffer(source);
    const view = new DataView(needles.buffer, needles.byteOffset, needles.byteLength);
    let first = -1;
    for (let at = 0; at + 4 <= needles.length; ) {
      const size = view.getUint32(at, true);
      at += 4;
      if (size > needles.length - at) break;
      const limit = first < 0 ? to : first;
      const hit = size === 0 ? -1 : bytes.indexOf(needles.subarray(at, at + size), from);
      if (hit >= 0 && hit < limit) first = hit;
      at += size;
    }
    return first;
  },

  findLongBase64(bytes, from, to, chars) {
    checkRange(bytes, from, to);
    let at = from;
    while (chars > 0 && at + chars <= to) {
      let back = at + chars - 1;
      while (back >= at && BASE64_BYTE[bytes[back]!] === 1) back--;
      if (back < at) return at;
      at = back + 1;
    }
    return -1;
  },

  findEscape(bytes, from, to) {
    checkRange(bytes, from, to);
    return findEscape(bytes, from, to);
  },

  isPlain(bytes, needles, chars) {
    return (
      fallback.findSuspects(bytes, 0, bytes.length, oneMark) === 0 &&
      fallback.findAnyNeedle(bytes, 0, bytes.length, needles) < 0 &&
      fallback.findLongBase64(bytes, 0, bytes.length, chars) < 0 &&
      findEscape(bytes, 0, bytes.length) < 0
    );
  },

  measureCommonPrefix(left, right, aFrom, bFrom, limit) {
    checkRange(left, aFrom, aFrom);
    checkRange(right, bFrom, bFrom);
    checkNumber(limit);
    const a = asBuffer(left);
    const b = asBuffer(right);
    const max = Math.min(a.length - aFrom, b.length - bFrom, limit);
    if (!(max > 0)) return 0;
    // An exponential and then a binary search with Buffer.compare, which is memcmp, instead of a loop over bytes in
    // JavaScript.
    let known = 0;
    let step = 1_024;
    while (known < max) {
      const size = Math.min(step, max - known);
      const at = aFrom + known;
      const bt = bFrom + known;
      if (a.compare(b, bt, bt + size, at, at + size) !== 0) {
        step = size;
        break;
      }
      known += size;
      step *= 4;
    }
    if (known >= max) return max;
    let low = 0;
    let high = Math.min(step, max - known);
    while (high - low > 16) {
      const middle = (low + high) >>> 1;
      const at = aFrom + known + low;
      const bt = bFrom + known + low;
      if (a.compare(b, bt, bt + middle - low, at, at + middle - low) === 0) low = middle;
      else high = middle;
    }
    while (low < high && a[aFrom + known + low] === b[bFrom + known + low]) low++;
    return known + low;
  },

  measureCommonSuffix(left, right, aTo, bTo, limit) {
    checkRange(left, aTo, aTo);
    checkRange(right, bTo, bTo);
    checkNumber(limit);
    const a = asBuffer(left);
    const b = asBuffer(right);
    const max = Math.min(aTo, bTo, limit);
    if (!(max > 0)) return 0;
    let known = 0;
    let step = 256;
    while (known < max) {
      const size = Math.min(step, max - known);
      const at = aTo - known;
      const bt = bTo - known;
      if (a.compare(b, bt - size, bt, at - size, at) !== 0) {
        step = size;
        break;
      }
      known += size;
      step *= 2;
    }
    if (known >= max) return max;
    let low = 0;
    let high = Math.min(step, max - known);
    while (high - low > 16) {
      const middle = (low + high) >>> 1;
      const at = aTo - known - low;
      const bt = bTo - known - low;
      const size = middle - low;
      if (a.compare(b, bt - size, bt, at - size, at) === 0) low = middle;
      else high = middle;
    }
    while (low < high && a[aTo - known - low - 1] === b[bTo - known - low - 1]) low++;
    return known + low;
  },

  copyBytes(from, into, at) {
    checkRange(into, at, at);
    into.set(from, at);
  },

  copyBytesAside(from, into, at) {
    fallback.copyBytes(from, into, at);
  },

  // JavaScript has no access to memory addresses.
  measureMisalignment: () => -1,
};
