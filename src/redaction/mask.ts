/**
 * Masks the secrets in texts and in JSON values. Pure; runs wherever a text is masked before it is kept.
 *
 * `[redacted]` replaces a whole value: its first or last characters would help to guess a key.
 */

import { byteEngine } from '../../native/byte-engine.ts';
import type { ByteEngine } from '../../native/byte-functions.ts';
import { isRawNumber } from '../std/exact-json.ts';
import { type ByteRange, mergeRanges } from './byte-range.ts';
import { isCredentialName } from './credential-name.ts';
import { PEM_NEEDLE } from './key-search.ts';
import { RUN_BYTES } from './key-shapes.ts';
import { findSecrets, type Wanted } from './secret-search.ts';
import { Work } from './work.ts';

/** Replaces a secret in the stored copy. */
export const MASK = '[redacted]';

/** Searches for keys by their shape only. */
const KEYS: Wanted = { needles: [], packed: new Uint8Array(0), shapes: true };

/** More bytes than any real key has. A caller that scans part of a text starts this much before the part. */
export const SCAN_MARGIN_BYTES = 8_192;

/** Maximum number of bytes of texts that are examined together. */
const TOGETHER_BYTES = 8_192;
const together = Buffer.allocUnsafeSlow(TOGETHER_BYTES);
/** Minimum length of base64 to search for. No text of TOGETHER_BYTES has that much, so none is searched for. */
const NO_BASE64 = TOGETHER_BYTES + 1;

/**
 * Whether none of the texts, nor any beginning of one, contains a key shape, so that `maskText` would return each
 * unchanged. One pass over all texts costs as much as one over a single text.
 * @returns false also if the texts together have more than TOGETHER_BYTES, or have a place that only a search can judge
 */
export function areFreeOfKeys(texts: readonly string[], engine: ByteEngine = byteEngine): boolean {
  let at = 0;
  for (const text of texts) {
    if (at + text.length + 1 > TOGETHER_BYTES) return false;
    // Characters beyond latin1 become one byte each, as in `maskText`.
    at += together.write(text, at, 'latin1');
    // No token contains a line end, and no label applies across a line's beginning.
    together[at++] = 0x0a;
  }
  return engine.isPlain(together.subarray(0, at), PEM_NEEDLE, NO_BASE64);
}

/**
 * Masks the key-shaped parts of a text, such as a path or a note.
 * @param text may have any characters
 */
export function maskText(text: string): string {
  if (text.length < RUN_BYTES) return text;
  // Characters beyond latin1 become one byte each here; only positions are used.
  return maskRangesOfText(text, mergeRanges(findSecrets(Buffer.from(text, 'latin1'), KEYS, new Work())));
}

/** Replaces each range of a text's characters by the mask; returns the same string when there are no ranges. */
export function maskRangesOfText(text: string, ranges: readonly ByteRange[]): string {
  if (ranges.length === 0) return text;
  let out = '';
  let at = 0;
  for (const range of ranges) {
    out += text.slice(at, range.start) + MASK;
    at = range.end;
  }
  return out + text.slice(at);
}

/**
 * Copies a JSON value for storage. Key shapes in its texts and names are masked. Under a name like `clientSecret` or
 * `OPENAI_API_KEY`, each number and each text that is not empty is masked whole, however short or deep. Booleans, nulls
 * and numbers of tokens stay.
 */
export function maskValue(value: unknown): unknown {
  return maskJson(value, false);
}

/**
 * Masks a value and the values in it.
 * @param isSecret whether the value is under the name of a credential
 */
function maskJson(value: unknown, isSecret: boolean): unknown {
  if (typeof value === 'string') return isSecret && value !== '' ? MASK : maskText(value);
  if (typeof value === 'number' || isRawNumber(value)) return isSecret ? MASK : value;
  if (Array.isArray(value)) return value.map((item) => maskJson(item, isSecret));
  if (typeof value !== 'object' || value === null) return value;
  const masked: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    // A number under a name with `token` is a count of tokens, even if a text under that name would be a credential.
    const isCount = (typeof item === 'number' || isRawNumber(item)) && /token/i.test(name);
    // Assigning `__proto__` would change the object's prototype.
    Object.defineProperty(masked, maskText(name), {
      value: maskJson(item, !isCount && (isSecret || isCredentialName(name))),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return masked;
}
