/**
 * Compresses bytes that are mostly zeros: runs of zeros are replaced by their lengths. Pure; any thread.
 */

/** Longest run, of zeros or of other bytes, that one byte can count. */
const RUN_MAX = 255;
/** Encoding a shorter run of zeros takes more than the zeros. */
const ZEROS_MIN = 3;

/** Compresses bytes. @returns alternately: a number of zeros, a number of other bytes, these other bytes */
export function packZeroRuns(bytes: Uint8Array): Uint8Array {
  // At worst each run of 255 bytes takes two bytes more.
  const packed = new Uint8Array(bytes.length + 2 * Math.ceil(bytes.length / RUN_MAX) + 2);
  let end = 0;
  let at = 0;
  while (at < bytes.length) {
    const zeros = countZeros(bytes, at, RUN_MAX);
    at += zeros;
    const start = at;
    while (
      at < bytes.length &&
      at - start < RUN_MAX &&
      !(bytes[at] === 0 && countZeros(bytes, at, ZEROS_MIN) === ZEROS_MIN)
    )
      at++;
    packed[end++] = zeros;
    packed[end++] = at - start;
    packed.set(bytes.subarray(start, at), end);
    end += at - start;
  }
  return packed.slice(0, end);
}

/**
 * Restores the original bytes.
 * @param length of the original bytes
 * @throws RangeError if `packed` is not the result of `packZeroRuns` for that many bytes
 */
export function unpackZeroRuns(packed: Uint8Array, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let at = 0;
  let from = 0;
  while (from + 1 < packed.length) {
    at += packed[from]!;
    const count = packed[from + 1]!;
    from += 2;
    if (at + count > length || from + count > packed.length) break;
    bytes.set(packed.subarray(from, from + count), at);
    at += count;
    from += count;
  }
  if (at !== length || from !== packed.length)
    throw new RangeError(`${packed.length} packed bytes for ${length}`);
  return bytes;
}

function countZeros(bytes: Uint8Array, from: number, most: number): number {
  let count = 0;
  while (count < most && bytes[from + count] === 0) count++;
  return count;
}
