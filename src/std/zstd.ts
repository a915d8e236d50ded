/**
 * Zstandard in one call, as `node:zlib` has it, but with its memory given back at once. Any thread.
 *
 * What zstd takes for a call, up to a megabyte and more, Node frees only when the collector finds the call's object, and
 * V8 does not know how large that is: a thread with little garbage held a hundred of them (nodejs/node#61717). A reset
 * frees it. The way to it is not documented: where it is missing, `node:zlib`'s own call does.
 */
import zlib, { type ZstdOptions } from 'node:zlib';

/** A stream of `node:zlib`, as its synchronous functions use it. */
interface Engine {
  _handle?: { reset?: () => void } | null;
  _processChunk?: (bytes: Uint8Array, flush: number) => Buffer;
}

/** @throws zlib's error */
export function compressZstd(bytes: Uint8Array, options: ZstdOptions = {}): Buffer {
  return run(zlib.createZstdCompress(options), bytes, options) ?? zlib.zstdCompressSync(bytes, options);
}

/** @throws zlib's error when the bytes are damaged, or more than `maxOutputLength` come out */
export function decompressZstd(bytes: Uint8Array, options: ZstdOptions = {}): Buffer {
  return run(zlib.createZstdDecompress(options), bytes, options) ?? zlib.zstdDecompressSync(bytes, options);
}

function run(stream: unknown, bytes: Uint8Array, { finishFlush }: ZstdOptions): Buffer | null {
  const engine = stream as Engine;
  const handle = engine._handle;
  if (typeof handle?.reset !== 'function' || typeof engine._processChunk !== 'function') return null;
  try {
    return engine._processChunk(bytes, finishFlush ?? zlib.constants.ZSTD_e_end);
  } finally {
    handle.reset();
  }
}
