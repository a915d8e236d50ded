/**
 * Keeps stored bytes from holding a larger block of memory alive. Any thread.
 */

/**
 * Returns the same bytes, copied to separate memory if they are less than half of their underlying memory. Without the
 * copy, they would keep all of that memory alive: 16 KB for any output of node:zlib, the whole block for a short body.
 */
export function leaveRest(bytes: Buffer): Buffer {
  if (2 * bytes.length >= bytes.buffer.byteLength) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
