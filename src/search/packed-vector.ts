/**
 * The form in which a shared index keeps a vector: the integers of `src/std/block-numbers.ts`, as rows on the disk have
 * them. A vector that came from such a row loses nothing. The order is: the low eight bits of each integer, the signs
 * with a bit each, the exponents, the factor. 1,024 dimensions take 1,188 bytes. Pure; any thread.
 */
import { readFactor, vectorEngine, writeFactor } from '../../native/vector-engine.ts';
import { BLOCK_NUMBERS, convertNumbers, countBlocks, NUMBER_BITS } from '../std/block-numbers.ts';
import type { VectorForm } from './vector-form.ts';

const LOW_BITS = NUMBER_BITS - 1;
/** Integers whose signs are in a byte. */
const SIGNS = 8;

/** The integers of the vector that is being written, per thread; used only within one synchronous call. */
let wholes = new Int16Array(0);

export const packedForm: VectorForm<Uint8Array> = {
  count: (dimensions) => dimensions + Math.ceil(dimensions / SIGNS) + countBlocks(dimensions) + 4,

  make: (numbers) => new Uint8Array(numbers),

  write(vector, into) {
    const { length } = vector;
    if (wholes.length < length) wholes = new Int16Array(length);
    const exponentsAt = length + Math.ceil(length / SIGNS);
    const factorAt = exponentsAt + countBlocks(length);
    writeFactor(into, factorAt, convertNumbers(vector, wholes, into.subarray(exponentsAt, factorAt)));
    into.fill(0, length, exponentsAt);
    for (let at = 0; at < length; at++) {
      const whole = wholes[at]!;
      into[at] = whole & (2 ** LOW_BITS - 1);
      if (whole < 0) into[length + (at >> 3)]! |= 1 << (at & 7);
    }
  },

  read(from, into) {
    const { length } = into;
    const exponentsAt = length + Math.ceil(length / SIGNS);
    const factor = readFactor(from, exponentsAt + countBlocks(length));
    for (let at = 0; at < length; at++) {
      const sign = (from[length + (at >> 3)]! >> (at & 7)) & 1;
      const whole = from[at]! - (sign << LOW_BITS);
      const divisor = factor * 2 ** from[exponentsAt + Math.floor(at / BLOCK_NUMBERS)]!;
      into[at] = factor === 0 ? 0 : whole / divisor;
    }
    return into;
  },

  compare: (query, blocks, blockBits, places, count, similarities) =>
    vectorEngine.comparePacked(query, blocks, blockBits, places, count, similarities),
};
