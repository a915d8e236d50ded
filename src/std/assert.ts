/**
 * Assertions that are also checked in production, so that an operation stops at the first violated invariant. Any
 * thread.
 */

/** Reports a bug in the program; input never causes it. */
export class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/**
 * Throws unless `condition` is truthy.
 * @throws AssertionError with `message`
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
