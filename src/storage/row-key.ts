/**
 * Row keys as bytes whose order is the order of their parts: numbers before texts, numbers by value, texts by their
 * UTF-8 bytes, a key before those that begin with it. After the tuple layer of FoundationDB
 * (github.com/apple/foundationdb, design/tuple.md): a part is a mark, its bytes and, for texts, a 0 at the end; a 0
 * inside a text is written 0 255. Any thread.
 */
import type { RowKey } from '../runtime/protocol.ts';

const NUMBER = 1;
const TEXT = 2;
/** Greater than every mark: ends the range of the keys that begin with the bytes before it. */
const AFTER_ALL = 255;
/** What LMDB takes. */
export const MAX_ROW_KEY_BYTES = 1_978;

/**
 * @throws RangeError when a number is not finite, a text is half a surrogate pair, or the whole is over
 *   {@link MAX_ROW_KEY_BYTES}
 */
export function encodeRowKey(key: RowKey): Buffer {
  const parts = key.map(encodePart);
  const encoded = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  if (encoded.length === 0 || encoded.length > MAX_ROW_KEY_BYTES)
    throw new RangeError(`a row key of ${encoded.length} bytes`);
  return encoded;
}

/** The first key that is past all those which begin with the given parts. */
export function encodePrefixEnd(prefix: RowKey): Buffer {
  return Buffer.concat([...prefix.map(encodePart), Buffer.of(AFTER_ALL)]);
}

/** @throws RangeError for bytes that no key has */
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

function encodePart(part: string | number): Buffer {
  if (typeof part === 'number') {
    if (!Number.isFinite(part)) throw new RangeError(`${part} in a row key`);
    const encoded = Buffer.allocUnsafe(9);
    encoded[0] = NUMBER;
    encoded.writeDoubleBE(part === 0 ? 0 : part, 1);
    // Negative numbers have all their bits turned, others the sign alone: then bytes compare as values do.
    if (encoded[1]! & 0x80) for (let i = 1; i < 9; i++) encoded[i]! ^= 0xff;
    else encoded[1]! ^= 0x80;
    return encoded;
  }
  if (!part.isWellFormed()) throw new RangeError('half a surrogate pair in a row key');
  if (part.includes('\0'))
    return Buffer.concat([Buffer.of(TEXT), escapeZeros(Buffer.from(part)), Buffer.of(0)]);
  const bytes = Buffer.byteLength(part);
  const encoded = Buffer.allocUnsafe(bytes + 2);
  encoded[0] = TEXT;
  encoded.write(part, 1);
  encoded[bytes + 1] = 0;
  return encoded;
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
