/**
 * The interface of the byte addon and its TypeScript fallback. Only types.
 */

/** Functions on bytes that are faster in C++ than in JavaScript. They throw a RangeError for offsets beyond the bytes. */
export interface ByteEngine {
  readonly kind: 'native' | 'typescript';

  /**
   * Finds suspects: runs of at least 16 letters, digits, `-` and `_` that may be a secret or part of one. A suspect
   * contains the beginning of a known key shape, follows a dot, or belongs to a token after a possible label or
   * scheme. `src/redaction/` decides whether it is a secret; ordinary text has hardly any suspects.
   * @param marks receives [where the search stopped, start, end, start, end, …]; the search stops at `to`, or before
   *   a run that does not fit in `marks`
   * @returns number of suspects
   */
  findSuspects(bytes: Uint8Array, from: number, to: number, marks: Float64Array): number;

  /**
   * Finds the first position in [from, to) at which a needle begins; the needle may end beyond `to`.
   * @param needles the result of `packNeedles`
   * @returns the position; -1 if no needle was found; only from the addon: -2 if the search reached its limit of
   *   compared bytes, which only bytes made to slow it down should cause
   */
  findAnyNeedle(bytes: Uint8Array, from: number, to: number, needles: Uint8Array): number;

  /**
   * Finds the first position in [from, to) of `chars` consecutive bytes of base64 or base64url, including escaped
   * slashes; -1 if not found.
   */
  findLongBase64(bytes: Uint8Array, from: number, to: number, chars: number): number;

  /** Finds the first escaped token character (`\u002d`, `%2D`, UTF-16) that begins in [from, to); -1 if not found. */
  findEscape(bytes: Uint8Array, from: number, to: number): number;

  /**
   * Whether the bytes need no further search: they contain no suspect, no needle, no escaped token character, and no
   * base64 of `chars` characters. The addon also returns false if its search reached the limit of compared bytes. Most
   * bodies need only this call.
   */
  isPlain(bytes: Uint8Array, needles: Uint8Array, chars: number): boolean;

  /** Measures the longest common beginning of `a` from `aFrom` and `b` from `bFrom`, at most `limit`. */
  measureCommonPrefix(a: Uint8Array, b: Uint8Array, aFrom: number, bFrom: number, limit: number): number;

  /** Measures the longest common end of `a` up to `aTo` and `b` up to `bTo`, at most `limit`. */
  measureCommonSuffix(a: Uint8Array, b: Uint8Array, aTo: number, bTo: number, limit: number): number;

  /**
   * Like `into.set(from, at)`, which V8 performs word by word with memory fences if one of the two is shared memory.
   */
  copyBytes(from: Uint8Array, into: Uint8Array, at: number): void;

  /**
   * Like `copyBytes`, for a copy that is not read soon. The stores bypass the processor's caches, so the caches keep
   * the data in use and do not load the memory that is overwritten. If that memory is not in a cache, the copy takes a
   * third of the time.
   */
  copyBytesAside(from: Uint8Array, into: Uint8Array, at: number): void;

  /** Measures the distance of the memory's address from the preceding multiple of `alignment`; -1 if unknown. */
  measureMisalignment(bytes: Uint8Array, alignment: number): number;
}
