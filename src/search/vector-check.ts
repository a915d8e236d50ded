/** What every index asks of a vector before it does anything with it, so that they refuse the same. Pure; any thread. */
import { VECTOR_NUMBER_MAX } from '../limits.ts';

/** @throws RangeError for another number of dimensions, and for a number that is not finite or far too great */
export function checkVector(vector: Float32Array, dimensions: number): void {
  if (vector.length !== dimensions)
    throw new RangeError(`a vector of ${vector.length} dimensions where ${dimensions} are expected`);
  for (let at = 0; at < dimensions; at++) {
    const number = vector[at]!;
    // What is no number is not within the bounds either.
    if (!(number >= -VECTOR_NUMBER_MAX && number <= VECTOR_NUMBER_MAX))
      throw new RangeError(`${number} in a vector`);
  }
}
