/** Bytes that are kept, and the memory that they keep with them. Any thread. */

/**
 * The same bytes; copied to separate memory if they are less than half of the memory that they lie in. Keeping them
 * would keep all of it: 16 KB for whatever node:zlib unpacks, the whole block for a short body.
 */
export function leaveRest(bytes: Buffer): Buffer {
  if (2 * bytes.length >= bytes.buffer.byteLength) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
