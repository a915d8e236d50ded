/**
 * Assertions that stay on in production: a broken invariant ends the operation at the place where it broke.
 * Any thread.
 */

/** Thrown when the program contradicts itself; never caused by input. */
export class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/**
 * Fails unless `condition` holds.
 * @throws AssertionError with `message`
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
