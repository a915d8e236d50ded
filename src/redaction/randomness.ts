/**
 * Distinguishes random characters, as in keys, from names: `task-or-subtask-routing-map`,
 * `hf_hub_download_with_retries`.
 *
 * Each character has two costs: its cost in a name (name-model.ts), and its cost if all characters of the key's
 * alphabet are equally likely. The difference is evidence for a key. Evidence accumulates along the text and never
 * falls below zero, so that a random part counts anywhere. Pure; any thread.
 */
import {
  COST_OF_DIGIT,
  costOfKind,
  costOfLetter,
  DIGIT,
  FIRST_LETTER,
  LOWER,
  OTHER,
  UPPER,
} from './name-model.ts';

/** Cost of a character of random text, in half bits, for alphabets of 16, 36 and 62 characters. */
const HEX = 8;
const ONE_CASE = 10;
const BOTH_CASES = 12;
/**
 * Evidence against a key, in half bits, of a character other than a letter or digit: names have separators, keys mostly
 * none.
 */
const SEPARATOR = 4;
/** Maximum evidence of a digit after a digit, because names have long numbers, too. */
const DIGIT_MOST = 1;
/** Bit of `#inPart`: the part begins with a capital. */
const FIRST_CAPITAL = 1;

/**
 * Computes the evidence, in half bits, that a key of this length must exceed. Measured on random keys of base64url:
 * with 20 characters 15 keys in 100,000 have less evidence, with 24 characters 5, with 32 less than 1.
 */
export function leastEvidence(characters: number): number {
  return Math.min(45, Math.max(30, 1.5 * characters));
}

/** Measures the most evidence at any place in [from, to), in half bits. */
export function measureEvidence(bytes: Uint8Array, from: number, to: number): number {
  const evidence = new Evidence();
  for (let at = from; at < to; at++) evidence.add(bytes[at]!);
  return evidence.most;
}

/** Number of characters on which the cost of the next one depends. */
const CONTEXT = 4;

/**
 * Measures the evidence in [from, to). This part belongs to a range that was measured from `outer` on. The part is
 * measured without the characters before `from`. In the range, those characters can make the first characters of the
 * part likely. So the first characters may have more evidence here than in the range.
 * @returns `end`: from there on, the part has at most the evidence of the range. `most`: the most evidence before `end`
 */
export function measurePart(
  bytes: Uint8Array,
  outer: number,
  from: number,
  to: number,
): { most: number; end: number } {
  const part = new Evidence();
  // At each place this is at most the evidence that the range had there.
  const range = new Evidence();
  for (let at = Math.max(outer, from - CONTEXT); at < from; at++) range.add(bytes[at]!);
  range.forget();
  let at = from;
  for (; at < to && !(at >= from + CONTEXT && part.isWithin(range)); at++) {
    part.add(bytes[at]!);
    range.add(bytes[at]!);
  }
  return { most: part.most, end: at };
}

/** Evidence by alphabet for the text read so far. */
class Evidence {
  most = 0;
  #hex = 0;
  #oneCase = 0;
  #bothCases = 0;
  /** Kinds of the last four characters, two bits each. */
  #kinds = 0;
  #last = FIRST_LETTER;
  #beforeLast = FIRST_LETTER;
  /** The kinds since the last separator, one bit each. */
  #inPart = 0;
  /** The case that `#oneCase` counts. */
  #case = OTHER;

  add(byte: number): void {
    const kind = kindOf(byte);
    if (kind === OTHER) this.#addOther();
    else if (kind === DIGIT) this.#addDigit();
    else this.#addLetter(kind, (byte | 0x20) - 0x61);
    this.#kinds = ((this.#kinds << 2) | kind) & 0xff;
    // A part with only lower-case letters, perhaps after a capital, may be a word that the model does not know. Its
    // evidence does not count for `most`.
    if (kind === OTHER) this.#inPart = 0;
    else this.#inPart |= kind === UPPER && this.#inPart === 0 ? FIRST_CAPITAL : 1 << kind;
    const isWord = (this.#inPart & ((1 << UPPER) | (1 << DIGIT))) === 0;
    if (!isWord) this.most = Math.max(this.most, this.#hex, this.#oneCase, this.#bothCases);
  }

  /** Drops the evidence, and keeps the last characters as context. */
  forget(): void {
    this.#hex = this.#oneCase = this.#bothCases = 0;
  }

  /** Whether the evidence is at most the other's, for each alphabet. */
  isWithin(other: Evidence): boolean {
    return this.#hex <= other.#hex && this.#oneCase <= other.#oneCase && this.#bothCases <= other.#bothCases;
  }

  #addOther(): void {
    this.#count(-SEPARATOR, -SEPARATOR, -SEPARATOR);
    this.#last = this.#beforeLast = FIRST_LETTER;
  }

  #addDigit(): void {
    const cost = costOfKind(this.#kinds, DIGIT) + COST_OF_DIGIT;
    const most = (this.#kinds & 3) === DIGIT ? DIGIT_MOST : cost;
    this.#count(
      Math.min(most, cost - HEX),
      Math.min(most, cost - ONE_CASE),
      Math.min(most, cost - BOTH_CASES),
    );
    this.#last = this.#beforeLast = FIRST_LETTER;
  }

  #addLetter(kind: number, letter: number): void {
    // A capital after a lower-case letter begins a word.
    if (kind === UPPER && (this.#kinds & 3) === LOWER) this.#last = this.#beforeLast = FIRST_LETTER;
    const cost = costOfKind(this.#kinds, kind) + costOfLetter(this.#beforeLast, this.#last, letter);
    const isHex = kind === LOWER && letter < 6;
    if (!isHex) this.#hex = 0;
    if (kind !== this.#case) this.#oneCase = 0;
    this.#case = kind;
    this.#count(isHex ? cost - HEX : 0, cost - ONE_CASE, cost - BOTH_CASES);
    this.#beforeLast = this.#last;
    this.#last = letter;
  }

  #count(hex: number, oneCase: number, bothCases: number): void {
    this.#hex = Math.max(0, this.#hex + hex);
    this.#oneCase = Math.max(0, this.#oneCase + oneCase);
    this.#bothCases = Math.max(0, this.#bothCases + bothCases);
  }
}

function kindOf(byte: number): number {
  if (byte >= 0x61 && byte <= 0x7a) return LOWER;
  if (byte >= 0x30 && byte <= 0x39) return DIGIT;
  return byte >= 0x41 && byte <= 0x5a ? UPPER : OTHER;
}
