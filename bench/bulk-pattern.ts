/** The bytes that the stalled-reader bench transfers; both ends can generate them. Bulk upstream and bench process. */
import { makeRandom } from './workload.ts';

/** The length is a prime number, so that a lost or repeated chunk of any usual size changes the bytes. */
const PATTERN_BYTES = 65_521;

/** Makes the pattern that the bulk transfer repeats from its first byte to its last. */
export function makeBulkPattern(): Buffer {
  const random = makeRandom(3);
  const out = Buffer.alloc(PATTERN_BYTES);
  for (let i = 0; i < PATTERN_BYTES; i++) out[i] = random() >>> 24;
  return out;
}
