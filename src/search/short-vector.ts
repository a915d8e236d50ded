/**
 * The form in which an index that is not shared keeps a vector: a 16-bit integer for each dimension, then the number
 * for which the integer 1 stands, as a 32-bit float. It takes half of the space of 32-bit floats. Cosines have an error
 * of a few millionths. Pure; any thread.
 */
import { readScale, SCALE_NUMBERS, vectorEngine, writeScale } from '../../native/vector-engine.ts';
import type { VectorForm } from './vector-form.ts';

const GREATEST = 32_767;
/** The exponent of the smallest 32-bit float with full precision. */
const EXPONENT_MIN = -126;

export const shortForm: VectorForm<Int16Array> = {
  count: (dimensions) => dimensions + SCALE_NUMBERS,

  make: (numbers) => new Int16Array(numbers),

  write(vector, into) {
    let greatest = 0;
    for (const number of vector) greatest = Math.max(greatest, Math.abs(number));
    // A power of two changes no number that has few digits.
    const step = 2 ** Math.max(EXPONENT_MIN, Math.ceil(Math.log2(greatest / GREATEST)));
    let product = 0;
    let squares = 0;
    for (let at = 0; at < vector.length; at++) {
      const number = vector[at]!;
      const short = Math.max(-GREATEST, Math.min(GREATEST, Math.round(number / step)));
      into[at] = short;
      product += number * short;
      squares += number * number;
    }
    // With this scale, the product of the stored vector and the vector itself is exact: equal texts have a cosine of 1.
    writeScale(into, vector.length, product === 0 ? step : squares / product);
  },

  read(from, into) {
    const scale = readScale(from, into.length);
    for (let at = 0; at < into.length; at++) into[at] = from[at]! * scale;
    return into;
  },

  compare: (query, blocks, blockBits, places, count, similarities) =>
    vectorEngine.compareShort(query, blocks, blockBits, places, count, similarities),
};
