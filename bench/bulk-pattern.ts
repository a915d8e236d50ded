/** The bytes of the stalled-reader bench, known to both ends; runs in the bulk upstream and in the bench itself. */
import { makeRandom } from './workload.ts';

/** Its length is a prime, so that a chunk lost or repeated at any usual boundary shows as a difference. */
const PATTERN_BYTES = 65_521;

/** The pattern that the bulk transfer repeats from its first byte to its last. */
export function makeBulkPattern(): Buffer {
  const random = makeRandom(3);
  const out = Buffer.alloc(PATTERN_BYTES);
  for (let i = 0; i < PATTERN_BYTES; i++) out[i] = random() >>> 24;
  return out;
}
