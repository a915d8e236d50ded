/**
 * Decodes the content codings of a stored body, up to a bounded size. Pure apart from node:zlib; runs where stored
 * copies are read (capture process, capture reader, command line) and on the student's thread, never on a server
 * thread.
 *
 * The stored headers are as received, but the stored body may already be decoded (redaction works on decoded bodies).
 * So the header is a hint: a body that does not decode but reads as text is used unchanged, and a body that begins with
 * gzip's or zstd's magic number is decoded without a header. Codings: gzip and deflate (RFC 9110 section 8.4.1; deflate
 * with and without its zlib wrapper), br (RFC 7932), zstd (RFC 8878).
 */

import zlib from 'node:zlib';
import { ZSTD_FRAMES } from '../limits.ts';
import { beginsLikeZstd, decompressFrames, decompressZstd } from '../std/zstd.ts';

/** Largest decompressed size of a stored body. A turn with a larger body is stored and marked undecodable. */
export const DECODED_BODY_BYTES = 128 << 20;

/** More codings on one body are refused: no real server stacks so many. */
const MAX_CODINGS = 4;

interface DecodedContent {
  /** The decoded bytes, up to the first damage; empty if nothing could be decoded. */
  bytes: Uint8Array;
  /** '' without a problem, otherwise its description. */
  problem: string;
}

/**
 * Decodes a body by its `content-encoding` header lines and its first bytes. Never throws.
 * @param headers flat [name, value, …]
 * @param maxBytes maximum size of the result. If a compressed body would become larger, nothing of it is decoded. A
 *   body without a coding is cut to this size
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

/**
 * Reads the value of a header from a flat list, with several lines joined by commas; '' when absent.
 * @param name in lower case
 */
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
  return beginsLikeZstd(bytes) ? 'zstd' : null;
}

const PROBLEMS: Record<string, string> = {
  'bytes follow': 'has other bytes after its end',
};

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
  // Truncated or damaged: the part before the damage may still hold the model and the first events.
  const rest = inflate(bytes, coding, maxBytes, true);
  return {
    bytes: rest.error === null ? rest.bytes : new Uint8Array(0),
    problem: `the ${coding} body ${PROBLEMS[attempt.error] ?? (rest.error === null ? 'ends early' : 'is damaged')}`,
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
  const options = { maxOutputLength, info: true, ...flush };
  try {
    switch (coding) {
      case 'gzip':
      case 'x-gzip':
        return judgeInflated(zlib.gunzipSync(bytes, options), bytes, cutOff);
      case 'deflate':
        // RFC 1950: method 8, and the first two bytes a multiple of 31. Some servers send the bare stream instead.
        return (bytes[0]! & 0x0f) === 8 && ((bytes[0]! << 8) | (bytes[1] ?? 0)) % 31 === 0
          ? judgeInflated(zlib.inflateSync(bytes, options), bytes, cutOff)
          : judgeInflated(zlib.inflateRawSync(bytes, options), bytes, cutOff);
      case 'br': {
        const brotli = cutOff ? { finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH } : {};
        const given = zlib.brotliDecompressSync(bytes, { maxOutputLength, info: true, ...brotli });
        return judgeInflated(given, bytes, cutOff);
      }
      case 'zstd':
        return inflateZstd(bytes, maxOutputLength, cutOff);
      default:
        return { bytes, error: 'unknown' };
    }
  } catch (error) {
    return { bytes, error: (error as NodeJS.ErrnoException).code ?? 'damaged' };
  }
}

/**
 * Checks whether bytes follow the compressed stream, which `node:zlib` does not report: `info` shows how many bytes it
 * has read. `node:zlib` reads gzip with several members completely.
 * @returns the decoded bytes; if bytes follow, the undecoded bytes and an error
 */
function judgeInflated(
  given: unknown,
  bytes: Uint8Array,
  cutOff: boolean,
): { bytes: Uint8Array; error: string | null } {
  const { buffer, engine } = given as { buffer: Buffer; engine: { bytesWritten: number } };
  if (!cutOff && engine.bytesWritten < bytes.length) return { bytes, error: 'bytes follow' };
  return { bytes: buffer, error: null };
}

/**
 * Decodes all frames of a zstd body. Of a truncated frame, it decodes the beginning if `cutOff` is true.
 * @returns the decoded bytes; for a truncated body without `cutOff`, the undecoded bytes and an error
 */
function inflateZstd(
  bytes: Uint8Array,
  maxOutputLength: number,
  cutOff: boolean,
): { bytes: Uint8Array; error: string | null } {
  const whole = decompressFrames(bytes, { maxOutputLength }, ZSTD_FRAMES.most);
  if (whole.end === bytes.length) return { bytes: whole.bytes, error: null };
  if (!cutOff) return { bytes, error: 'cut off' };
  let rest: Uint8Array = new Uint8Array(0);
  try {
    const finishFlush = zlib.constants.ZSTD_e_flush;
    rest = decompressZstd(bytes.subarray(whole.end), { maxOutputLength, finishFlush });
  } catch (error) {
    if (whole.bytes.length === 0) throw error;
  }
  return { bytes: Buffer.concat([whole.bytes, rest]), error: null };
}

/**
 * Whether the first bytes are printable ASCII, white space or bytes of other UTF-8 characters, as in JSON and event
 * streams. The first byte must be ASCII or begin a byte order mark; false without bytes.
 */
function looksLikeText(bytes: Uint8Array): boolean {
  const end = Math.min(bytes.byteLength, 64);
  for (let i = 0; i < end; i++) {
    const byte = bytes[i]!;
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  }
  const first = bytes[0];
  return first !== undefined && (first < 0x80 || first === 0xef);
}
