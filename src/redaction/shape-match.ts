/**
 * Checks whether a key of a known shape begins at a place. The code walks the table of shapes itself: a regular
 * expression would backtrack over long runs and keep a state for each byte, which overflows its stack after some
 * megabytes. Pure; any thread.
 *
 * The cost is linear in practice, and bounded by the caller's `Work` in every case. For each set of characters it
 * remembers the end of the current stretch, and whether the rest of a shape matched after that stretch. So a run is
 * walked once, even if the run begins like a key in a million places.
 */
import { startsWith, WordIndex } from './key-beginnings.ts';
import { CHARACTERS, KEY_SHAPES, type KeyShape, KINDS, type Part, type Several } from './key-shapes.ts';
import { leastEvidence, measureEvidence, measurePart } from './randomness.ts';
import type { Work } from './work.ts';

interface Beginning {
  readonly text: string;
  readonly shape: KeyShape;
  readonly number: number;
}

const beginnings = new WordIndex<Beginning>(
  KEY_SHAPES.flatMap((shape, number) => shape.begins.map((text) => ({ text, shape, number }))),
);

const SETS = Object.keys(CHARACTERS);
const SET_NUMBERS = new Map(SETS.map((name, number) => [name, number]));
const { letter_digit: LETTER_DIGIT, run: RUN, any_hex: ANY_HEX } = CHARACTERS;
const { upper_digit: UPPER_DIGIT, digit: DIGIT } = CHARACTERS;

function isOf(bytes: Uint8Array, at: number, set: number): boolean {
  return (KINDS[bytes[at]!]! & set) !== 0;
}

/** Whether an escape ends before `at`: `\n` and similar ones, `%0A`, `\u000a`. */
function isBehindEscape(bytes: Uint8Array, at: number): boolean {
  if (at < 2) return false;
  const last = bytes[at - 1]!;
  if (bytes[at - 2] === 0x5c && ESCAPED[last] === 1) return true;
  if (!isOf(bytes, at - 1, ANY_HEX) || at < 3 || !isOf(bytes, at - 2, ANY_HEX)) return false;
  if (bytes[at - 3] === 0x25) return true;
  return (
    at >= 6 &&
    isOf(bytes, at - 3, ANY_HEX) &&
    isOf(bytes, at - 4, ANY_HEX) &&
    bytes[at - 5] === 0x75 &&
    bytes[at - 6] === 0x5c
  );
}
const ESCAPED = new Uint8Array(256);
for (const char of 'nrtbf"/') ESCAPED[char.charCodeAt(0)] = 1;

/** Whether a key may begin at `at`. */
function isPlace(bytes: Uint8Array, at: number, where: KeyShape['at']): boolean {
  if (where === 'anywhere' || at === 0) return true;
  const before = bytes[at - 1]!;
  const isFree =
    where === 'token'
      ? !isOf(bytes, at - 1, RUN)
      : !isOf(bytes, at - 1, LETTER_DIGIT) && (before !== 0x2d || (at >= 2 && bytes[at - 2] === 0x5c));
  return isFree || isBehindEscape(bytes, at);
}

/** Matches keys at places of one text. The places must ascend. */
export class ShapeMatch {
  readonly #bytes: Uint8Array;
  readonly #to: number;
  readonly #work: Work;
  /** Beginning and end of the last stretch of each set. The second half is for stretches with escaped slashes. */
  readonly #from = new Float64Array(2 * SETS.length).fill(-1);
  readonly #end = new Float64Array(2 * SETS.length).fill(-1);
  /**
   * For each shape the place after its first long stretch, and where the shape ended from there; -1 when it did not
   * match.
   */
  readonly #restAt = new Float64Array(KEY_SHAPES.length).fill(-1);
  readonly #restEnd = new Float64Array(KEY_SHAPES.length);
  /** The last range that was measured and was not random, and its evidence. */
  #plainFrom = 0;
  #plainTo = 0;
  #plainMost = 0;
  /** Result of the last match. */
  start = 0;
  end = 0;

  constructor(bytes: Uint8Array, to: number, work: Work) {
    this.#bytes = bytes;
    this.#to = to;
    this.#work = work;
  }

  /** Whether a key begins at `at`; `start` and `end` are then its range. */
  isAt(at: number): boolean {
    const bytes = this.#bytes;
    for (const { text, shape, number } of beginnings.list(bytes[at]!, bytes[at + 1]!)) {
      this.#work.add(1);
      if (!startsWith(bytes, at, this.#to, text) || !isPlace(bytes, at, shape.at)) continue;
      const behind = at + text.length;
      const end = this.#matchShape(shape, number, behind);
      if (end < 0 || (shape.is_alone && end < this.#to && isOf(bytes, end, RUN))) continue;
      if (shape.looks === 'mixed' && !isMixed(bytes, behind, end)) continue;
      if (shape.looks !== 'any' && !this.#isRandom(behind, end)) continue;
      this.start = at - (shape.id_before > 0 && isId(bytes, at, shape.id_before) ? shape.id_before : 0);
      this.end = end;
      return true;
    }
    return false;
  }

  /** Whether the text after a key's beginning is random. Names in code begin like keys, too, but are not random. */
  #isRandom(from: number, to: number): boolean {
    const least = leastEvidence(to - from);
    const isInside = from >= this.#plainFrom && to <= this.#plainTo;
    if (isInside) {
      const { most, end } = measurePart(this.#bytes, this.#plainFrom, from, to);
      this.#work.add(end - from);
      if (most > least) return true;
      if (this.#plainMost <= least) return false;
    }
    this.#work.add(to - from);
    const most = measureEvidence(this.#bytes, from, to);
    if (most > least) return true;
    // This part of the remembered range was measured again only because a shorter text needs less evidence. Keep the
    // range.
    if (isInside) return false;
    this.#plainFrom = from;
    this.#plainTo = to;
    this.#plainMost = most;
    return false;
  }

  #matchShape({ then }: KeyShape, number: number, at: number): number {
    let place = at;
    for (let i = 0; i < then.length; i++) {
      const part = then[i]!;
      place = this.#matchPart(part, place);
      if (place < 0) return -1;
      if (typeof part === 'object' && 'of' in part && part.most === Number.POSITIVE_INFINITY) {
        // All places in one stretch share its end.
        if (this.#restAt[number] === place) return this.#restEnd[number]!;
        const end = this.#matchParts(then, i + 1, place);
        this.#restAt[number] = place;
        this.#restEnd[number] = end;
        return end;
      }
    }
    return place;
  }

  #matchParts(parts: readonly Part[], from: number, at: number): number {
    let place = at;
    for (let i = from; i < parts.length && place >= 0; i++) place = this.#matchPart(parts[i]!, place);
    return place;
  }

  /**
   * Matches one part of a shape.
   * @returns the end of the part that begins at `at`; -1 when it does not match
   */
  #matchPart(part: Part, at: number): number {
    if (typeof part === 'string') return startsWith(this.#bytes, at, this.#to, part) ? at + part.length : -1;
    if ('of' in part) return this.#matchSeveral(part, at);
    if ('one_of' in part) {
      for (const text of part.one_of)
        if (startsWith(this.#bytes, at, this.#to, text)) return at + text.length;
      return -1;
    }
    let place = at;
    for (let times = 0; times < part.most; times++) {
      this.#work.add(1);
      const next = this.#matchParts(part.parts, 0, place);
      if (next < 0) break;
      place = next;
    }
    return place;
  }

  #matchSeveral({ of, least, most, escaped }: Several, at: number): number {
    const bytes = this.#bytes;
    if (most !== Number.POSITIVE_INFINITY) {
      const set = CHARACTERS[of];
      let end = at;
      while (end < this.#to && end - at < most && isOf(bytes, end, set)) end++;
      this.#work.add(end - at);
      return end - at < least ? -1 : end;
    }
    const end = this.#measure(SET_NUMBERS.get(of)!, at, escaped);
    if (end - at < least) return -1;
    if (!escaped || end - at >= 2 * least) return end;
    let count = 0;
    for (let i = at; i < end; i++) if (bytes[i] !== 0x5c) count++;
    this.#work.add(end - at);
    return count < least ? -1 : end;
  }

  /**
   * Finds the end of the stretch of a set's characters that contains `at`; `at` itself if the character there is not in
   * the set.
   */
  #measure(number: number, at: number, escaped: boolean): number {
    const slot = escaped ? SETS.length + number : number;
    if (at >= this.#from[slot]! && at < this.#end[slot]!) return this.#end[slot]!;
    const bytes = this.#bytes;
    const set = 1 << number;
    let end = at;
    for (;;) {
      while (end < this.#to && isOf(bytes, end, set)) end++;
      if (!escaped || bytes[end] !== 0x5c || end + 1 >= this.#to || bytes[end + 1] !== 0x2f) break;
      end += 2;
    }
    this.#work.add(end - at + 1);
    this.#from[slot] = at;
    this.#end[slot] = end;
    return end;
  }
}

/** Whether a digit and a capital are in the range. */
function isMixed(bytes: Uint8Array, from: number, to: number): boolean {
  let hasDigit = false;
  let hasCapital = false;
  for (let at = from; at < to; at++) {
    if (isOf(bytes, at, DIGIT)) hasDigit = true;
    else if (isOf(bytes, at, UPPER_DIGIT)) hasCapital = true;
  }
  return hasDigit && hasCapital;
}

/** Whether the `size` bytes before `at` are letters and digits, then a dot. */
function isId(bytes: Uint8Array, at: number, size: number): boolean {
  if (at < size || bytes[at - 1] !== 0x2e) return false;
  for (let i = at - size; i < at - 1; i++) if (!isOf(bytes, i, LETTER_DIGIT)) return false;
  return true;
}
