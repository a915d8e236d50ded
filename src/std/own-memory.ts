/**
 * Keeps stored bytes from holding a larger block of memory alive. Any thread.
 */

/**
 * The same bytes, copied to separate memory if they are less than half of their underlying memory, all of which they
 * would keep alive: 16 KB for any output of node:zlib, the whole block for a short body.
 */
export function leaveRest(bytes: Buffer): Buffer {
  if (2 * bytes.length >= bytes.buffer.byteLength) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
