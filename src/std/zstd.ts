/**
 * Zstandard in one call, like `node:zlib`, but it frees its memory at once. Any thread. Node frees the memory of a zstd
 * call, up to a megabyte and more, only when the garbage collector finds the call's object. V8 does not know how much
 * memory the object has, so a thread with little garbage held a hundred of these objects (nodejs/node#61717). A reset
 * of the object frees its memory. The reset must come before the object is closed: newer versions of Node free the
 * memory at the close, and a later reset ends the process with a segmentation fault (24.22.3). Node does not document
 * the reset. If it is missing, `node:zlib`'s own call is used.
 */
import zlib, { type ZstdOptions } from 'node:zlib';

/** A stream of `node:zlib`, as used by its synchronous functions. */
interface Engine {
  _handle?: { reset?: () => void; close?: () => void } | null;
  _processChunk?: (bytes: Uint8Array, flush: number) => Buffer;
}

/** Compresses bytes into one frame. @throws zlib's error */
export function compressZstd(bytes: Uint8Array, options: ZstdOptions = {}): Buffer {
  return run(zlib.createZstdCompress(options), bytes, options) ?? zlib.zstdCompressSync(bytes, options);
}

/**
 * Decompresses the first frame. @throws zlib's error if the bytes are damaged, or the output exceeds `maxOutputLength`
 */
export function decompressZstd(bytes: Uint8Array, options: ZstdOptions = {}): Buffer {
  return run(zlib.createZstdDecompress(options), bytes, options) ?? zlib.zstdDecompressSync(bytes, options);
}

function run(stream: unknown, bytes: Uint8Array, { finishFlush }: ZstdOptions): Buffer | null {
  const engine = stream as Engine;
  const handle = engine._handle;
  const { reset, close } = handle ?? {};
  if (typeof reset !== 'function' || typeof close !== 'function') return null;
  if (typeof engine._processChunk !== 'function') return null;
  // After an error, too, the stream closes its handle itself.
  handle!.close = () => {
    reset.call(handle);
    close.call(handle);
  };
  return engine._processChunk(bytes, finishFlush ?? zlib.constants.ZSTD_e_end);
}

const FRAME = 0xfd2fb528;
const SKIPPABLE = 0x184d2a50;

/** Whether bytes begin with a zstd frame, or with a skippable one. */
export function beginsLikeZstd(bytes: Uint8Array): boolean {
  if (bytes.length < 4) return false;
  const magic = readNumber(bytes, 0, 4);
  return magic === FRAME || (magic & 0xfffffff0) >>> 0 === SKIPPABLE;
}

/**
 * Scans zstd frames by the heads of frames and blocks, without decoding (RFC 8878, section 3.1).
 * @returns the number of frames with data, and the end of the last complete frame: the end of the bytes, unless they
 *   are cut off or something else follows
 */
export function measureZstd(bytes: Uint8Array): { frames: number; end: number } {
  let frames = 0;
  let end = 0;
  for (;;) {
    const frame = readFrame(bytes, end);
    if (frame === null) return { frames, end };
    if (frame.has_data) frames++;
    end = frame.end;
  }
}

/**
 * Decodes all frames; `node:zlib` decodes only the first.
 * @param most frames with data to decode
 * @returns the output, and the number of bytes decoded: fewer than given if a frame is cut off or damaged, or if
 *   there are more frames
 * @throws zlib's ERR_BUFFER_TOO_LARGE if the output exceeds `maxOutputLength`
 */
export function decompressFrames(
  bytes: Uint8Array,
  options: ZstdOptions & { maxOutputLength: number },
  most: number,
): { bytes: Buffer; end: number } {
  const parts: Buffer[] = [];
  let size = 0;
  let end = 0;
  for (;;) {
    const frame = readFrame(bytes, end);
    if (frame === null || parts.length === most) break;
    if (frame.has_data) {
      const part = decodeFrame(bytes.subarray(end, frame.end), options);
      if (part === null) break;
      size += part.length;
      if (size > options.maxOutputLength) throw tooLarge();
      parts.push(part);
    }
    end = frame.end;
  }
  return { bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts, size), end };
}

/**
 * Decodes one frame.
 * @returns null for a damaged frame
 * @throws zlib's ERR_BUFFER_TOO_LARGE if the output exceeds `maxOutputLength`
 */
function decodeFrame(frame: Uint8Array, options: ZstdOptions): Buffer | null {
  try {
    return decompressZstd(frame, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === TOO_LARGE) throw error;
    return null;
  }
}

const TOO_LARGE = 'ERR_BUFFER_TOO_LARGE';

function tooLarge(): Error {
  return Object.assign(new RangeError('the output exceeds its limit'), { code: TOO_LARGE });
}

interface Frame {
  end: number;
  has_data: boolean;
}

/** Reads where the frame that begins at `at` ends; null if no complete frame begins there. */
function readFrame(bytes: Uint8Array, at: number): Frame | null {
  if (at + 5 > bytes.length) return null;
  const magic = readNumber(bytes, at, 4);
  if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE) {
    const end = at + 8 <= bytes.length ? at + 8 + readNumber(bytes, at + 4, 4) : Number.POSITIVE_INFINITY;
    return end <= bytes.length ? { end, has_data: false } : null;
  }
  if (magic !== FRAME) return null;
  const descriptor = bytes[at + 4]!;
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const sizeFlag = descriptor >> 6;
  const sizeBytes = sizeFlag === 0 ? (isSingleSegment ? 1 : 0) : 1 << sizeFlag;
  let end = at + 5 + (isSingleSegment ? 0 : 1) + [0, 1, 2, 4][descriptor & 3]! + sizeBytes;
  for (let isLast = false; !isLast; ) {
    if (end + 3 > bytes.length) return null;
    const head = readNumber(bytes, end, 3);
    isLast = (head & 1) === 1;
    // A run-length block has one byte, whatever its size field says.
    end += 3 + (((head >> 1) & 3) === 1 ? 1 : head >> 3);
  }
  if ((descriptor & 4) !== 0) end += 4;
  return end <= bytes.length ? { end, has_data: true } : null;
}

/** Reads a whole number of `size` bytes, least byte first. */
function readNumber(bytes: Uint8Array, at: number, size: number): number {
  let value = 0;
  for (let i = size - 1; i >= 0; i--) value = value * 256 + bytes[at + i]!;
  return value;
}
