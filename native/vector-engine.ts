/**
 * Compares one vector with many. Uses the addon if it was compiled (`compile.mjs`), otherwise the TypeScript fallback,
 * which is several times slower and gives exactly the same results. Any thread.
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
  /** Like `compareShort`, for packed vectors (src/search/packed-vector.ts). */
  comparePacked(
    query: Float32Array,
    blocks: readonly Uint8Array[],
    blockBits: number,
    places: Uint32Array,
    count: number,
    similarities: Float64Array,
  ): number;
}

export const vectorFallback: VectorEngine = {
  kind: 'typescript',

  compareShort(query, blocks, blockBits, places, count, similarities) {
    const stride = query.length + SCALE_NUMBERS;
    return compareEach(query, blocks, blockBits, places, count, similarities, stride, multiplyAdd);
  },

  comparePacked(query, blocks, blockBits, places, count, similarities) {
    const stride = countPacked(query.length);
    return compareEach(query, blocks, blockBits, places, count, similarities, stride, multiplyPacked);
  },
};

/**
 * Writes the result of `multiply` for each place to `similarities`. `multiply` gets the vector's block, and the offset
 * at which the vector begins in the block. Returns `count`.
 */
function compareEach<Block extends Int16Array | Uint8Array>(
  query: Float32Array,
  blocks: readonly Block[],
  blockBits: number,
  places: Uint32Array,
  count: number,
  similarities: Float64Array,
  stride: number,
  multiply: (query: Float32Array, block: Block, start: number) => number,
): number {
  if (count > places.length || count > similarities.length || blockBits > 31 || query.length === 0)
    throw new RangeError('the list for the results is too short');
  const mask = 2 ** blockBits - 1;
  for (let i = 0; i < count; i++) {
    const place = places[i]!;
    const block = blocks[place >>> blockBits];
    const start = (place & mask) * stride;
    if (block === undefined || start + stride > block.length)
      throw new RangeError('a place is outside the blocks');
    similarities[i] = multiply(query, block, start);
  }
  return count;
}

/** How many 16-bit numbers of a stored vector hold its scale, a 32-bit float. */
export const SCALE_NUMBERS = 2;
const scale = new Float32Array(1);
const scaleNumbers = new Int16Array(scale.buffer);

/** Reads the scale of a stored vector: the value of the stored number 1. @param at where the vector's numbers end */
export function readScale(block: Int16Array, at: number): number {
  scaleNumbers[0] = block[at]!;
  scaleNumbers[1] = block[at + 1]!;
  return scale[0]!;
}

/** Writes the scale of a stored vector. */
export function writeScale(block: Int16Array, at: number, value: number): void {
  scale[0] = value;
  block.set(scaleNumbers, at);
}

/** Uses eight sums, so that an addition does not wait for the previous one. The addon adds in the same order. */
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

/** How many numbers of a packed vector share an exponent, and how many signs a byte holds. */
const BLOCK_NUMBERS = 32;
const SIGNS = 8;
const EXPONENTS = 256;
/** The value of the integer 1 in a block, by the block's exponent. */
const UNITS = Float64Array.from({ length: EXPONENTS }, (_, exponent) => 2 ** -exponent);

function countPacked(dimensions: number): number {
  return (
    dimensions + Math.ceil(dimensions / SIGNS) + Math.ceil(dimensions / BLOCK_NUMBERS) + scaleBytes.length
  );
}

const scaleBytes = new Uint8Array(scale.buffer);

/** Reads the factor of a packed vector. @param at where the factor begins */
export function readFactor(block: Uint8Array, at: number): number {
  for (let i = 0; i < scaleBytes.length; i++) scaleBytes[i] = block[at + i]!;
  return scale[0]!;
}

/** Writes the factor of a packed vector. */
export function writeFactor(block: Uint8Array, at: number, value: number): void {
  scale[0] = value;
  block.set(scaleBytes, at);
}

/** Eight sums for the whole vector, and eight for a block. The addon adds in the same order. */
const sums = new Float64Array(8);
const parts = new Float64Array(8);

function multiplyPacked(query: Float32Array, block: Uint8Array, start: number): number {
  const { length } = query;
  const signsAt = start + length;
  const exponentsAt = signsAt + Math.ceil(length / SIGNS);
  sums.fill(0);
  for (let from = 0; from < length; from += BLOCK_NUMBERS) {
    const end = Math.min(length, from + BLOCK_NUMBERS);
    parts.fill(0);
    for (let at = from; at < end; at++) {
      const sign = (block[signsAt + (at >> 3)]! >> (at & 7)) & 1;
      parts[at & 7]! += query[at]! * (block[start + at]! - (sign << 8));
    }
    const unit = UNITS[block[exponentsAt + from / BLOCK_NUMBERS]!]!;
    for (let i = 0; i < parts.length; i++) sums[i]! += parts[i]! * unit;
  }
  const [a, b, c, d, e, f, g, h] = sums as unknown as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const factor = readFactor(block, exponentsAt + Math.ceil(length / BLOCK_NUMBERS));
  return factor === 0 ? 0 : (a + e + (c + g) + (b + f + (d + h))) / factor;
}

/** Loads the addon; null if it is not available. */
export function loadVectorAddon(): (VectorEngine & Widths) | null {
  const names = ['compareShort', 'comparePacked', 'setWidestLevel'];
  const addon = loadFunctions<VectorEngine & Widths>('vectors.node', names);
  return addon === null ? null : { ...addon, kind: 'native' };
}

/** The functions in use: the addon's if it could be loaded, otherwise the fallback's. */
export const vectorEngine: VectorEngine = loadVectorAddon() ?? vectorFallback;
