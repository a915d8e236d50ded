/**
 * A vector as small integers: 9 bits for each number, and an exponent for every 32 numbers. Cosines have an error of
 * about 1e-4. Rows on the disk (`src/domain/pattern-rows.ts`) and shared indexes (`src/search/packed-vector.ts`) keep
 * these integers. Pure; any thread.
 */

/** Bits of an integer, with its sign. */
export const NUMBER_BITS = 9;
const NUMBER_MAX = 2 ** (NUMBER_BITS - 1) - 1;
/** Numbers that share an exponent. */
export const BLOCK_NUMBERS = 32;
const EXPONENT_MAX = 255;

/** Counts the exponents of a vector. */
export function countBlocks(dimensions: number): number {
  return Math.ceil(dimensions / BLOCK_NUMBERS);
}

/**
 * Converts a vector. To get a number again, halve its integer as often as the exponent of its block says, and divide it
 * by the factor.
 * @param wholes receives the integers
 * @param exponents receives how often the integers of a block are to be halved
 * @returns the factor, a 32-bit float; 0 for a vector of zeros. It makes the product of the converted and the original
 *   vector exact
 */
export function convertNumbers(vector: Float32Array, wholes: Int16Array, exponents: Uint8Array): number {
  const greatest = greatestOf(vector, 0, vector.length);
  if (greatest === 0) {
    wholes.fill(0, 0, vector.length);
    exponents.fill(0, 0, countBlocks(vector.length));
    return 0;
  }
  let product = 0;
  let length = 0;
  for (let start = 0; start < vector.length; start += BLOCK_NUMBERS) {
    const end = Math.min(vector.length, start + BLOCK_NUMBERS);
    const exponent = chooseExponent(greatestOf(vector, start, end) / greatest);
    exponents[start / BLOCK_NUMBERS] = exponent;
    const step = (NUMBER_MAX / greatest) * 2 ** exponent;
    for (let at = start; at < end; at++) {
      const number = vector[at]!;
      const whole = Math.round(number * step);
      wholes[at] = whole;
      product += whole * 2 ** -exponent * number;
      length += number * number;
    }
  }
  return Math.fround(product / length);
}

function greatestOf(vector: Float32Array, start: number, end: number): number {
  let greatest = 0;
  for (let at = start; at < end; at++) greatest = Math.max(greatest, Math.abs(vector[at]!));
  return greatest;
}

/**
 * Counts how often the vector's greatest number can be halved until it would be smaller than the block's greatest
 * number.
 * @param share quotient of these two numbers
 */
function chooseExponent(share: number): number {
  let exponent = 0;
  while (exponent < EXPONENT_MAX && share * 2 <= 1 && share > 0) {
    share *= 2;
    exponent++;
  }
  return exponent;
}
