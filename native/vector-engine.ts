/**
 * Compares a vector with many: the addon if it was compiled (`compile.mjs`), otherwise the TypeScript fallback, which
 * gives exactly the same results several times slower. Any thread.
 */
import { loadFunctions, type Widths } from './load-functions.ts';

export interface VectorEngine {
  readonly kind: 'native' | 'typescript';
  /**
   * Writes the inner products of `query` and the vectors at `places` to `similarities`.
   * @param blocks consecutive stored vectors (src/search/short-vector.ts) of as many dimensions as `query`; each block
   *   except the last has 2^`blockBits` of them
   * @param count number of places to use, from the first
   * @returns `count`
   * @throws RangeError for a place outside of the blocks, or if `similarities` is too short
   */
  compareShort(
    query: Float32Array,
    blocks: readonly Int16Array[],
    blockBits: number,
    places: Uint32Array,
    count: number,
    similarities: Float64Array,
  ): number;
}

export const vectorFallback: VectorEngine = {
  kind: 'typescript',

  compareShort(query, blocks, blockBits, places, count, similarities) {
    const { length } = query;
    if (count > places.length || count > similarities.length || blockBits > 31 || length === 0)
      throw new RangeError('there is no room for so many');
    const mask = 2 ** blockBits - 1;
    for (let i = 0; i < count; i++) {
      const place = places[i]!;
      const block = blocks[place >>> blockBits];
      const start = (place & mask) * (length + SCALE_NUMBERS);
      if (block === undefined || start + length + SCALE_NUMBERS > block.length)
        throw new RangeError('a place is outside of the blocks');
      similarities[i] = multiplyAdd(query, block, start);
    }
    return count;
  },
};

/** Numbers of a stored vector that hold its scale, a 32-bit float. */
export const SCALE_NUMBERS = 2;
const scale = new Float32Array(1);
const scaleNumbers = new Int16Array(scale.buffer);

/** The value of 1 in a stored vector. @param at where its numbers end */
export function readScale(block: Int16Array, at: number): number {
  scaleNumbers[0] = block[at]!;
  scaleNumbers[1] = block[at + 1]!;
  return scale[0]!;
}

/** Writes what `readScale` reads. */
export function writeScale(block: Int16Array, at: number, value: number): void {
  scale[0] = value;
  block.set(scaleNumbers, at);
}

/** Eight parallel sums, so that an addition need not wait for the previous one. The addon adds in the same order. */
function multiplyAdd(query: Float32Array, block: Int16Array, start: number): number {
  const { length } = query;
  const whole = length - (length % 8);
  let [a, b, c, d, e, f, g, h] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let at = 0; at < whole; at += 8) {
    const from = start + at;
    a += query[at]! * block[from]!;
    b += query[at + 1]! * block[from + 1]!;
    c += query[at + 2]! * block[from + 2]!;
    d += query[at + 3]! * block[from + 3]!;
    e += query[at + 4]! * block[from + 4]!;
    f += query[at + 5]! * block[from + 5]!;
    g += query[at + 6]! * block[from + 6]!;
    h += query[at + 7]! * block[from + 7]!;
  }
  const rest = (at: number) => (at < length ? query[at]! * block[start + at]! : 0);
  a += rest(whole);
  b += rest(whole + 1);
  c += rest(whole + 2);
  d += rest(whole + 3);
  e += rest(whole + 4);
  f += rest(whole + 5);
  g += rest(whole + 6);
  return (a + e + (c + g) + (b + f + (d + h))) * readScale(block, start + length);
}

/** The addon; null if it is not available. */
export function loadVectorAddon(): (VectorEngine & Widths) | null {
  const names = ['compareShort', 'setWidestLevel'];
  const addon = loadFunctions<VectorEngine & Widths>('vectors.node', names);
  return addon === null ? null : { ...addon, kind: 'native' };
}

/** What runs here. */
export const vectorEngine: VectorEngine = loadVectorAddon() ?? vectorFallback;
