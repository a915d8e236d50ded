/**
 * The interface of the byte addon and its TypeScript fallback. Types.
 */

/** Work on bytes that is faster outside of JavaScript. Offsets beyond the bytes are a RangeError. */
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
   * The first position in [from, to) at which a needle begins (it may end beyond `to`); -1 without one, -2 if the bytes
   * are made to slow the search down.
   * @param needles each with its length before it, as `packNeedles` makes them
   */
  findAnyNeedle(bytes: Uint8Array, from: number, to: number, needles: Uint8Array): number;

  /**
   * The position in [from, to) of `chars` consecutive bytes of base64 (any variant, escaped slashes too); -1 without
   * one.
   */
  findLongBase64(bytes: Uint8Array, from: number, to: number, chars: number): number;

  /** The first position in [from, to) of an escaped token character (`\u002d`, `%2D`, UTF-16); -1 without one. */
  findEscape(bytes: Uint8Array, from: number, to: number): number;

  /**
   * Whether the bytes need no further search: they contain no suspect, no needle, no escaped token character, and no
   * base64 of `chars` characters. One call for the usual body.
   */
  isPlain(bytes: Uint8Array, needles: Uint8Array, chars: number): boolean;

  /** Length of the longest common beginning of `a` from `aFrom` and `b` from `bFrom`, at most `limit`. */
  measureCommonPrefix(a: Uint8Array, b: Uint8Array, aFrom: number, bFrom: number, limit: number): number;

  /** Length of the longest common end of `a` up to `aTo` and `b` up to `bTo`, at most `limit`. */
  measureCommonSuffix(a: Uint8Array, b: Uint8Array, aTo: number, bTo: number, limit: number): number;

  /**
   * Like `into.set(from, at)`, which V8 performs word by word with memory fences if one of the two is shared memory.
   */
  copyBytes(from: Uint8Array, into: Uint8Array, at: number): void;

  /**
   * `copyBytes` for a copy that is not read soon. It bypasses the processor's caches, so they keep the data in use
   * and need not load the memory that is overwritten. It takes a third of the time if that memory is not in a cache.
   */
  copyBytesAside(from: Uint8Array, into: Uint8Array, at: number): void;

  /** Distance of the memory's address from the preceding multiple of `alignment`; -1 if unknown. */
  measureMisalignment(bytes: Uint8Array, alignment: number): number;
}
