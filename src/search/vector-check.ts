/**
 * Checks vectors. All indexes use this check, so they refuse the same vectors. Pure; any thread.
 */

/**
 * Largest absolute value of a vector's number; a vector of length 1 has no number beyond 1. The native graph has the
 * same bound, which keeps every product within 32-bit floats.
 */
const VECTOR_NUMBER_MAX = 2 ** 20;

/**
 * Checks a vector.
 * @throws RangeError for a wrong number of dimensions, or a number that is not finite or far too large
 */
export function checkVector(vector: Float32Array, dimensions: number): void {
  if (vector.length !== dimensions)
    throw new RangeError(`a vector of ${vector.length} dimensions where ${dimensions} are expected`);
  // Four parallel sums, so that an addition need not wait for the previous one. A sum with NaN is NaN.
  let [a, b, c, d] = [0, 0, 0, 0];
  const whole = dimensions - (dimensions % 4);
  for (let at = 0; at < whole; at += 4) {
    a += vector[at]! * vector[at]!;
    b += vector[at + 1]! * vector[at + 1]!;
    c += vector[at + 2]! * vector[at + 2]!;
    d += vector[at + 3]! * vector[at + 3]!;
  }
  for (let at = whole; at < dimensions; at++) a += vector[at]! * vector[at]!;
  if (!(a + b + c + d <= VECTOR_NUMBER_MAX ** 2)) checkNumbers(vector);
}

/** Checks the numbers one by one, because the sum of a long vector may be large although none of its numbers is. */
function checkNumbers(vector: Float32Array): void {
  for (const number of vector) {
    if (!(Math.abs(number) <= VECTOR_NUMBER_MAX)) throw new RangeError(`${number} in a vector`);
  }
}
