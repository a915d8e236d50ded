/**
 * Encodes row keys as bytes that sort like their parts: numbers before texts, numbers by value, texts by their UTF-8
 * bytes, and a key before the keys that extend it. After the tuple layer of FoundationDB
 * (github.com/apple/foundationdb, design/tuple.md): a part is a type byte, its bytes and, for texts, a final 0; a 0
 * inside a text becomes 0 255. Any thread.
 */
import type { RowKey } from '../runtime/protocol.ts';

const NUMBER = 1;
const TEXT = 2;
/** Length of an encoded number with its type byte. */
const NUMBER_BYTES = 9;
/** Greater than every type byte: ends the range of keys that extend a prefix. */
const AFTER_ALL = 255;
/** LMDB's limit for the length of a key. */
const MAX_ROW_KEY_BYTES = 1_978;

/**
 * Encodes a key.
 * @throws RangeError if the key is empty, a number is not finite, a text contains half a surrogate pair, or the key
 *   exceeds {@link MAX_ROW_KEY_BYTES}
 */
export function encodeRowKey(key: RowKey): Buffer {
  const encoded = encodeParts(key, 0);
  if (encoded.length === 0 || encoded.length > MAX_ROW_KEY_BYTES)
    throw new RangeError(`a row key of ${encoded.length} bytes`);
  return encoded;
}

/** Makes the first key after all keys that begin with the given parts. */
export function encodePrefixEnd(prefix: RowKey): Buffer {
  const encoded = encodeParts(prefix, 1);
  encoded[encoded.length - 1] = AFTER_ALL;
  return encoded;
}

/** Decodes a key. @throws RangeError for bytes that are not a key */
export function decodeRowKey(bytes: Uint8Array): (string | number)[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const key: (string | number)[] = [];
  let at = 0;
  while (at < buffer.length) {
    const mark = buffer[at++];
    if (mark === NUMBER && at + 8 <= buffer.length) {
      key.push(decodeNumber(buffer.subarray(at, at + 8)));
      at += 8;
    } else if (mark === TEXT) {
      let end = buffer.indexOf(0, at);
      let escaped = false;
      while (end >= 0 && buffer[end + 1] === 255) {
        escaped = true;
        end = buffer.indexOf(0, end + 2);
      }
      if (end < 0) throw new RangeError('a row key is cut off');
      const text = buffer.toString('utf8', at, end);
      key.push(escaped ? Buffer.from(unescapeZeros(buffer.subarray(at, end))).toString() : text);
      at = end + 1;
    } else {
      throw new RangeError('not a row key');
    }
  }
  return key;
}

/** Encodes the parts of a key one after another. @param spare number of unused bytes after the parts */
function encodeParts(parts: RowKey, spare: number): Buffer {
  let bytes = spare;
  for (const part of parts) bytes += typeof part === 'number' ? NUMBER_BYTES : measureText(part);
  const encoded = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const part of parts)
    at = typeof part === 'number' ? putNumber(encoded, part, at) : putText(encoded, part, at);
  return encoded;
}

function putNumber(target: Buffer, value: number, at: number): number {
  if (!Number.isFinite(value)) throw new RangeError(`${value} in a row key`);
  target[at] = NUMBER;
  const end = target.writeDoubleBE(value === 0 ? 0 : value, at + 1);
  // Negative numbers have all bits inverted, others only the sign bit, so that bytes sort like values.
  if (target[at + 1]! & 0x80) for (let i = at + 1; i < end; i++) target[i]! ^= 0xff;
  else target[at + 1]! ^= 0x80;
  return end;
}

function measureText(text: string): number {
  if (!text.isWellFormed()) throw new RangeError('half a surrogate pair in a row key');
  let zeros = 0;
  for (let at = text.indexOf('\0'); at >= 0; at = text.indexOf('\0', at + 1)) zeros++;
  return Buffer.byteLength(text) + zeros + 2;
}

function putText(target: Buffer, text: string, at: number): number {
  target[at] = TEXT;
  let end = at + 1;
  if (text.includes('\0')) end += escapeZeros(Buffer.from(text)).copy(target, end);
  else end += target.write(text, end);
  target[end] = 0;
  return end + 1;
}

function decodeNumber(encoded: Buffer): number {
  const bytes = Buffer.from(encoded);
  if (bytes[0]! & 0x80) bytes[0]! ^= 0x80;
  else for (let i = 0; i < 8; i++) bytes[i]! ^= 0xff;
  return bytes.readDoubleBE(0);
}

function escapeZeros(bytes: Buffer): Buffer {
  const escaped: number[] = [];
  for (const byte of bytes) escaped.push(...(byte === 0 ? [0, 255] : [byte]));
  return Buffer.from(escaped);
}

function unescapeZeros(bytes: Buffer): number[] {
  const plain: number[] = [];
  for (let i = 0; i < bytes.length; i++) {
    plain.push(bytes[i]!);
    if (bytes[i] === 0) i++;
  }
  return plain;
}
