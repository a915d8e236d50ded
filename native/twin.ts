/**
 * The byte work of the capture writer in TypeScript: what each function does and why. `bytes.cc` has the same functions
 * with the same names and the same results, several times faster; this is what runs where it could not be compiled.
 * Pure; any thread.
 */
import { crc32 } from 'node:zlib';
import type { ByteEngine } from './byte-engine.ts';

const MIN_RUN = 16;
/** Bytes before a token in which a label or a scheme is looked for. */
const CONTEXT_BYTES = 64;
/** How far back from a run the token that it is part of may begin. */
const TOKEN_BACK_BYTES = 2_048;

/** 1 for letters, digits, `-` and `_`. */
const RUN_BYTE = new Uint8Array(256);
/** 1 for what a Bearer token or base64 may hold. */
const TOKEN_BYTE = new Uint8Array(256);
/** 1 for what base64, base64url and escaped slashes are made of. */
const BASE64_BYTE = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const char = String.fromCharCode(byte);
  if (/[A-Za-z0-9_-]/.test(char)) RUN_BYTE[byte] = 1;
  if (/[A-Za-z0-9._~+/=-]/.test(char)) TOKEN_BYTE[byte] = 1;
  if (/[A-Za-z0-9+/=\-_\\]/.test(char)) BASE64_BYTE[byte] = 1;
}

/** What keys begin with; those that a dot must follow end the run. */
const BEGINNING =
  /sk-|AIza|A[KS]IA|ABSK|gsk_|xai-|hf_|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox|xapp-|svc_|npm_|[rsp]k_|whsec_|eyJ|pplx-|r8_|nvapi-|tvly-|dop_v1_|shp[a-z]{2}_|pypi-|bedrock-api-key-|AGE-SECRET|(?:SG|ya29)$/;
/** What counts where a token begins alone: where its run begins, or behind what is left there of an escape. */
const FIRST_WORD =
  /^(?:lin_api_|lin_oauth_|ntn_|secret_|dapi|do[or]_v1_|glsa_|PMAK-|AT[AC]TT3|sbp_|sb_secret_|fm1[ar]_|fm2_|fo1_|GOCSPX-|IQoJb3JpZ2lu|FwoGZXIvYXdz|tgp_v1_|lsv2_|NRAK-|HRKU-|xkeysib-|sntryu_|dckr_|figd_|pscale_|e2b_|tskey-|rubygems_)/;
const ESCAPED_FIRST_WORD = new RegExp(`^(?:.{1,2}|.{5})${FIRST_WORD.source.slice(1)}`);
/** A label or a scheme and what may stand between it and its token, which begins where the text ends. */
const LABEL_BEFORE = /(?:key|token|secret|authorization)[\s"'\\:=%023ad]*$|(?:bearer|basic)[\s%20+\\tn]*$/i;
/** The same, as part of the token. */
const GLUED_LABEL = /(?:key|token|secret|signature)=/i;

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function isSuspect(bytes: Buffer, start: number, end: number): boolean {
  if (start >= 3 && bytes[start - 1] === 0x2e) return true;
  const run = bytes.toString('latin1', start, end);
  if (BEGINNING.test(run) || FIRST_WORD.test(run)) return true;
  const isEscaped = start > 0 && (bytes[start - 1] === 0x5c || bytes[start - 1] === 0x25);
  if (isEscaped && ESCAPED_FIRST_WORD.test(run)) return true;
  let token = start;
  const lowest = Math.max(0, start - TOKEN_BACK_BYTES);
  while (token > lowest && TOKEN_BYTE[bytes[token - 1]!] === 1) token--;
  if (GLUED_LABEL.test(bytes.toString('latin1', token, start))) return true;
  // At the beginning of a line (a header's value, as the writer keeps them) there is no label.
  if (token > 0 && bytes[token - 1] === 0x0a) return false;
  return LABEL_BEFORE.test(bytes.toString('latin1', Math.max(0, token - CONTEXT_BYTES), token));
}

/** Every argument is checked as the addon checks it, so that a mistake shows on either. */
function checkRange(bytes: Uint8Array, from: number, to: number): void {
  if (!(from >= 0 && from <= bytes.length && to >= 0 && to <= bytes.length))
    throw new RangeError('an offset is outside of the bytes');
}

function checkNumber(value: number): void {
  if (typeof value !== 'number') throw new TypeError('a number is expected');
}

const oneMark = new Float64Array(3);

export const twin: ByteEngine = {
  kind: 'typescript',

  findSuspects(source, from, to, marks) {
    checkRange(source, from, to);
    const bytes = asBuffer(source);
    const room = (marks.length - 1) >> 1;
    let count = 0;
    let at = from;
    // A window of MIN_RUN bytes that is looked at from its end: the last byte that is no run byte says where the next
    // window can start at the earliest (Boyer and Moore).
    while (at + MIN_RUN <= to) {
      let back = at + MIN_RUN - 1;
      while (back >= at && RUN_BYTE[bytes[back]!] === 1) back--;
      if (back >= at) {
        at = back + 1;
        continue;
      }
      let end = at + MIN_RUN;
      while (end < to && RUN_BYTE[bytes[end]!] === 1) end++;
      if (isSuspect(bytes, at, end)) {
        if (count === room) break;
        marks[1 + 2 * count] = at;
        marks[2 + 2 * count] = end;
        count++;
      }
      at = end + 1;
    }
    marks[0] = at + MIN_RUN <= to ? at : to;
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

  isPlain(bytes, needles, chars) {
    return (
      twin.findSuspects(bytes, 0, bytes.length, oneMark) === 0 &&
      twin.findAnyNeedle(bytes, 0, bytes.length, needles) < 0 &&
      twin.findLongBase64(bytes, 0, bytes.length, chars) < 0
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
    // Galloping, then bisecting, with Buffer.compare, which is memcmp: no stretch of bytes is walked in JavaScript.
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
    twin.copyBytes(from, into, at);
  },

  measureChecksum(bytes, from, to) {
    checkRange(bytes, from, to);
    return crc32(bytes.subarray(from, Math.max(from, to)));
  },

  extendChecksum(checksum, bytes) {
    checkNumber(checksum);
    const extended = crc32(bytes, checksum);
    // zlib takes bytes that are nowhere for the beginning of a checksum.
    return bytes.length === 0 ? checksum >>> 0 : extended;
  },

  // JavaScript knows no addresses.
  measureMisalignment: () => -1,
};
