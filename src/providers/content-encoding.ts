/**
 * Undoes the content codings of a stored body, held to a size. Pure apart from node:zlib; runs where stored copies are
 * read (capture writer, command line), never on a server thread.
 *
 * The stored headers are those of the wire while the stored body may have been decoded already (redaction works on
 * decoded bodies). So the header is a hint: what does not decode but reads as text is taken as it is, and a body that
 * begins with gzip's or zstd's magic number is decoded without being told.
 * Codings: gzip and deflate (RFC 9110 section 8.4.1; deflate with and without its zlib wrapper), br (RFC 7932),
 * zstd (RFC 8878).
 */

import zlib from 'node:zlib';
import { DECODED_BODY_BYTES } from '../limits.ts';
import { decompressZstd } from '../std/zstd.ts';

/** More codings than this on one body are refused: nobody stacks them in earnest. */
const MAX_CODINGS = 4;

export interface DecodedContent {
  /** Decoded as far as it went; empty when nothing could be. */
  bytes: Uint8Array;
  /** '' when all is well, else what went wrong, in words. */
  problem: string;
}

/**
 * Decodes a body by its `content-encoding` header lines and its first bytes. Never throws.
 * @param headers flat [name, value, …]
 * @param maxBytes largest decoded size; what would become longer is not read at all
 */
export function decodeContent(
  body: Uint8Array,
  headers: readonly string[],
  maxBytes: number = DECODED_BODY_BYTES,
): DecodedContent {
  const codings = listCodings(headers);
  if (codings.length > MAX_CODINGS) return { bytes: new Uint8Array(0), problem: 'too many content codings' };
  let bytes = body;
  let problem = '';
  if (codings.length === 0) {
    const magic = sniffCoding(bytes);
    if (magic !== null) codings.push(magic);
  }
  for (const coding of codings.reverse()) {
    if (bytes.byteLength === 0) break;
    const step = decodeOne(bytes, coding, maxBytes);
    bytes = step.bytes;
    if (step.problem !== '') {
      problem = step.problem;
      break;
    }
  }
  if (bytes.byteLength > maxBytes) {
    return { bytes: bytes.subarray(0, maxBytes), problem: `longer than ${maxBytes} bytes` };
  }
  return { bytes, problem };
}

/** The value of a header in a flat list, lines joined by commas; '' when absent. Names are compared without case. */
export function readHeader(headers: readonly string[], name: string): string {
  let value = '';
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i]!.length === name.length && headers[i]!.toLowerCase() === name) {
      value = value === '' ? headers[i + 1]! : `${value}, ${headers[i + 1]!}`;
    }
  }
  return value;
}

function listCodings(headers: readonly string[]): string[] {
  const codings: string[] = [];
  for (const raw of readHeader(headers, 'content-encoding').split(',')) {
    const coding = raw.trim().toLowerCase();
    if (coding !== '' && coding !== 'identity') codings.push(coding);
  }
  return codings;
}

function sniffCoding(bytes: Uint8Array): string | null {
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) return 'gzip';
  if (bytes[0] === 0x28 && bytes[1] === 0xb5 && bytes[2] === 0x2f && bytes[3] === 0xfd) return 'zstd';
  return null;
}

function decodeOne(bytes: Uint8Array, coding: string, maxBytes: number): DecodedContent {
  const attempt = inflate(bytes, coding, maxBytes, false);
  if (attempt.error === null) return { bytes: attempt.bytes, problem: '' };
  if (attempt.error === 'ERR_BUFFER_TOO_LARGE') {
    return { bytes: new Uint8Array(0), problem: `decodes to more than ${maxBytes} bytes` };
  }
  if (sniffCoding(bytes) === null && looksLikeText(bytes)) return { bytes, problem: '' };
  if (attempt.error === 'unknown') {
    return {
      bytes: new Uint8Array(0),
      problem: `unknown content coding ${JSON.stringify(coding.slice(0, 32))}`,
    };
  }
  // Cut off or damaged: what stands before the damage may still hold the model and the first events.
  const rest = inflate(bytes, coding, maxBytes, true);
  return {
    bytes: rest.error === null ? rest.bytes : new Uint8Array(0),
    problem: rest.error === null ? `the ${coding} body ends early` : `the ${coding} body is damaged`,
  };
}

function inflate(
  bytes: Uint8Array,
  coding: string,
  maxBytes: number,
  cutOff: boolean,
): { bytes: Uint8Array; error: string | null } {
  const maxOutputLength = maxBytes;
  const flush = cutOff ? { finishFlush: zlib.constants.Z_SYNC_FLUSH } : {};
  try {
    switch (coding) {
      case 'gzip':
      case 'x-gzip':
        return { bytes: zlib.gunzipSync(bytes, { maxOutputLength, ...flush }), error: null };
      case 'deflate':
        // RFC 1950: method 8, and the first two bytes a multiple of 31. Some servers send the bare stream instead.
        return (bytes[0]! & 0x0f) === 8 && ((bytes[0]! << 8) | (bytes[1] ?? 0)) % 31 === 0
          ? { bytes: zlib.inflateSync(bytes, { maxOutputLength, ...flush }), error: null }
          : { bytes: zlib.inflateRawSync(bytes, { maxOutputLength, ...flush }), error: null };
      case 'br':
        return {
          bytes: zlib.brotliDecompressSync(bytes, {
            maxOutputLength,
            ...(cutOff ? { finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH } : {}),
          }),
          error: null,
        };
      case 'zstd':
        return {
          bytes: decompressZstd(bytes, {
            maxOutputLength,
            ...(cutOff ? { finishFlush: zlib.constants.ZSTD_e_flush } : {}),
          }),
          error: null,
        };
      default:
        return { bytes, error: 'unknown' };
    }
  } catch (error) {
    return { bytes, error: (error as NodeJS.ErrnoException).code ?? 'damaged' };
  }
}

/** True when the first bytes are printable ASCII, white space or UTF-8 above it: JSON and event streams are. */
function looksLikeText(bytes: Uint8Array): boolean {
  const end = Math.min(bytes.byteLength, 64);
  for (let i = 0; i < end; i++) {
    const byte = bytes[i]!;
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  }
  const first = bytes[0];
  return first !== undefined && (first < 0x80 || first === 0xef);
}
