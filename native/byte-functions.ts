/** What the addon for bytes and its fallback in TypeScript both do. Types. */

/** Work on bytes that is worth doing outside of JavaScript. Offsets beyond the bytes are a RangeError. */
export interface ByteEngine {
  readonly kind: 'native' | 'typescript';

  /**
   * Runs of at least 16 letters, digits, `-` and `_` that may be, or be part of, a secret: one that holds the beginning
   * of a key of a known shape, follows a dot, or belongs to a token behind what may be a label or a scheme. Whether it is one
   * is for `src/redaction/` to say; of ordinary text nothing is left to ask about.
   * @param marks [where the search stopped, start, end, start, end, …]; it stops at `to`, or before a run that has no
   *   room in `marks`
   * @returns how many runs were found
   */
  findSuspects(bytes: Uint8Array, from: number, to: number, marks: Float64Array): number;

  /**
   * The first place in [from, to) where one of the needles begins, which may end beyond; -1 without
   * such a place, -2 for bytes built so that the search would take too long.
   * @param needles each with its length before it, as `packNeedles` makes them
   */
  findAnyNeedle(bytes: Uint8Array, from: number, to: number, needles: Uint8Array): number;

  /** A place in [from, to) where `chars` bytes of base64 (of any kind, escaped slashes too) follow each other; -1. */
  findLongBase64(bytes: Uint8Array, from: number, to: number, chars: number): number;

  /** The first place in [from, to) where a character of a token is written in another way (`\u002d`, `%2D`, UTF-16); -1. */
  findEscape(bytes: Uint8Array, from: number, to: number): number;

  /**
   * Whether there is nothing in the bytes to look at again: no suspect, none of the needles, no character of a token in other
   * writing, and no base64 of so many characters. One call for what nearly every body is.
   */
  isPlain(bytes: Uint8Array, needles: Uint8Array, chars: number): boolean;

  /** Length of the longest common beginning of `a` from `aFrom` and `b` from `bFrom`, at most `limit`. */
  measureCommonPrefix(a: Uint8Array, b: Uint8Array, aFrom: number, bFrom: number, limit: number): number;

  /** Length of the longest common end of `a` up to `aTo` and `b` up to `bTo`, at most `limit`. */
  measureCommonSuffix(a: Uint8Array, b: Uint8Array, aTo: number, bTo: number, limit: number): number;

  /** `into.set(from, at)`, which V8 does word by word, with a fence in mind, where one of the two is shared memory. */
  copyBytes(from: Uint8Array, into: Uint8Array, at: number): void;

  /**
   * `copyBytes` for a copy that is not read soon. It bypasses the processor's caches: they keep what is in use, and do not fetch
   * what is overwritten. It takes a third of the time when no cache holds the copy's memory.
   */
  copyBytesAside(from: Uint8Array, into: Uint8Array, at: number): void;

  /** How far behind a multiple of `alignment` the memory's address is; -1 if unknown. */
  measureMisalignment(bytes: Uint8Array, alignment: number): number;
}
