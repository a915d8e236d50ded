/**
 * Converts a trace to and from bytes, for its actor and for the queue: JSON, compressed with zstd on libuv's threads,
 * because a trace may have megabytes. Server threads and actor threads.
 */

import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';
import type { Trace } from '../../src/domain/trace.ts';

/** Maximum decompressed size of a queued trace. */
const QUEUED_TRACE_BYTES = 256 << 20;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** Compression level. It is a fast one, because the body is stored only for seconds. */
const LEVEL = 1;

export async function packTrace(trace: Trace): Promise<Uint8Array> {
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL };
  return compress(Buffer.from(JSON.stringify(trace)), { params });
}

/** Unpacks a trace. @throws Error if the bytes are not compressed JSON, or exceed the limit when decompressed */
export async function unpackTrace(bytes: Uint8Array): Promise<Trace> {
  const json = await decompress(bytes, { maxOutputLength: QUEUED_TRACE_BYTES });
  return JSON.parse(json.toString()) as Trace;
}
