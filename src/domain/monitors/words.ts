/**
 * Words of a text as hashes, and sketches of texts, which the monitors compare instead of texts. Pure; any
 * thread.
 *
 * A word is a sequence of letters and digits, with ASCII letters in lower case, cut to WORD_CHARACTERS, as a 32-bit
 * hash. Its stem is the word without its English ending (-ing, -ed, -es, -s), unless it has a digit. In scripts without
 * spaces, each character is a word. Texts are read in one pass, character by character, so that lone surrogates, NUL
 * and other special characters are ordinary characters.
 */

/** Maximum number of characters of a word that count. Further ones are ignored. */
const WORD_CHARACTERS = 14;
/** Minimum length of a word that identifies a subject. */
const SUBJECT_CHARACTERS = 3;
/** A stem keeps at least this many characters. */
const STEM_CHARACTERS = 4;
/** Dimensions of a sketch. */
export const SKETCH_DIMENSIONS = 64;

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** Scrambles a 32-bit number (the finisher of MurmurHash3). */
export function mixHash(value: number): number {
  let h = value ^ (value >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes a text: FNV-1a over UTF-16 units, scrambled. Never returns 0, which means "none". */
export function hashText(text: string, seed = 0): number {
  let h = FNV_OFFSET ^ seed;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), FNV_PRIME);
  return mixHash(h) || 1;
}

const NOT_A_WORD = 0;
const LETTER = 1;
const DIGIT = 2;
const ALONE = 3;

/** Class of each UTF-16 unit, as a table, because this loop sees every character of every step. */
const CLASSES = new Uint8Array(65_536);
for (let code = 0; code < CLASSES.length; code++) {
  const lower = code | 32;
  if (code < 128) {
    if (code >= 48 && code <= 57) CLASSES[code] = DIGIT;
    else if (lower >= 97 && lower <= 122) CLASSES[code] = LETTER;
  } else if (code < 0xaa || code === 0xd7 || code === 0xf7) CLASSES[code] = NOT_A_WORD;
  // Kana, CJK ideographs and Hangul: no spaces between words.
  else if ((code >= 0x3040 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7af)) CLASSES[code] = ALONE;
  // General punctuation to box drawing, CJK punctuation, surrogates and private use.
  else if ((code >= 0x2000 && code <= 0x303f) || (code >= 0xd800 && code <= 0xf8ff))
    CLASSES[code] = NOT_A_WORD;
  else CLASSES[code] = LETTER;
}

/** Properties of each word that `readWords` reports. */
type WordVisitor = (
  /** Hash of the unchanged word, for look-ups in a lexicon. */
  whole: number,
  /** Hash of the word without its ending. */
  stem: number,
  /** Whether its first letter was a capital. */
  capital: boolean,
  /** How many of its characters are digits. */
  digits: number,
  /** Characters, at most WORD_CHARACTERS. */
  length: number,
) => void;

const prefixHashes = new Uint32Array(WORD_CHARACTERS + 1);
const wordCodes = new Uint16Array(WORD_CHARACTERS + 1);

/** Finds the length of the stem of the word in `wordCodes`. */
function stemLength(length: number): number {
  const last = wordCodes[length - 1];
  if (length - 3 >= STEM_CHARACTERS && last === 103) {
    if (wordCodes[length - 2] === 110 && wordCodes[length - 3] === 105) return length - 3; // -ing
  } else if (
    length - 2 >= STEM_CHARACTERS &&
    (last === 100 || last === 115) &&
    wordCodes[length - 2] === 101
  ) {
    return length - 2; // -ed, -es
  } else if (length - 1 >= STEM_CHARACTERS && last === 115) {
    return length - 1; // -s
  }
  return length;
}

/** Calls `visit` for each word of `text` in order. */
export function readWords(text: string, visit: WordVisitor): void {
  let length = 0;
  let digits = 0;
  let capital = false;
  let h = FNV_OFFSET;
  prefixHashes[0] = h;
  for (let i = 0; i <= text.length; i++) {
    let code = i < text.length ? text.charCodeAt(i) : 0;
    const kind = i < text.length ? CLASSES[code]! : NOT_A_WORD;
    if (kind === LETTER || kind === DIGIT) {
      if (length >= WORD_CHARACTERS) continue;
      if (code >= 65 && code <= 90) {
        code += 32;
        if (length === 0) capital = true;
      }
      if (kind === DIGIT) digits += 1;
      h = Math.imul(h ^ code, FNV_PRIME);
      wordCodes[length] = code;
      length += 1;
      prefixHashes[length] = h;
      continue;
    }
    if (length > 0) {
      const stem = digits > 0 ? length : stemLength(length);
      const whole = mixHash(h);
      visit(whole, stem === length ? whole : mixHash(prefixHashes[stem]!), capital, digits, length);
      length = 0;
      digits = 0;
      capital = false;
      h = FNV_OFFSET;
    }
    if (kind === ALONE) {
      const alone = mixHash(Math.imul(FNV_OFFSET ^ code, FNV_PRIME));
      visit(alone, alone, false, 0, 1);
    }
  }
}

/**
 * The words of a text as arrays of numbers, with the properties that `readWords` reports, but without a call per word.
 */
export class WordList {
  /** Number of words in the text. */
  count = 0;
  /** For each word: the hash of the unchanged word, and of its stem. Valid up to `count`. */
  wholes = new Uint32Array(1_024);
  stems = new Uint32Array(1_024);
  /**
   * 1 for a word of SUBJECT_CHARACTERS or more without a digit: such a word indicates the subject of a text; an id does
   * not.
   */
  subjects = new Uint8Array(1_024);

  /** Reads a text; replaces the previous one. */
  read(text: string): void {
    // A text has at most as many words as characters.
    if (text.length > this.wholes.length) {
      this.wholes = new Uint32Array(text.length * 2);
      this.stems = new Uint32Array(text.length * 2);
      this.subjects = new Uint8Array(text.length * 2);
    }
    const { wholes, stems, subjects } = this;
    const end = text.length;
    let count = 0;
    let at = 0;
    while (at < end) {
      let code = text.charCodeAt(at);
      let kind = CLASSES[code]!;
      at++;
      if (kind === NOT_A_WORD) continue;
      if (kind === ALONE) {
        const alone = mixHash(Math.imul(FNV_OFFSET ^ code, FNV_PRIME));
        wholes[count] = alone;
        stems[count] = alone;
        subjects[count] = 0;
        count++;
        continue;
      }
      let length = 0;
      let hasDigits = false;
      let h = FNV_OFFSET;
      for (;;) {
        if (length < WORD_CHARACTERS) {
          if (code >= 65 && code <= 90) code += 32;
          if (kind === DIGIT) hasDigits = true;
          h = Math.imul(h ^ code, FNV_PRIME);
          wordCodes[length] = code;
          length++;
          prefixHashes[length] = h;
        }
        if (at === end) break;
        code = text.charCodeAt(at);
        kind = CLASSES[code]!;
        if (kind !== LETTER && kind !== DIGIT) break;
        at++;
      }
      const stem = hasDigits ? length : stemLength(length);
      const whole = mixHash(h);
      wholes[count] = whole;
      stems[count] = stem === length ? whole : mixHash(prefixHashes[stem]!);
      subjects[count] = hasDigits || length < SUBJECT_CHARACTERS ? 0 : 1;
      count++;
    }
    this.count = count;
  }
}

/** Returns the hash that `readWords` reports for the unchanged word. */
export function hashWord(word: string): number {
  let hash = 0;
  readWords(word, (whole) => {
    hash = whole;
  });
  return hash;
}

/** A fixed set of words by hash. Every word of every text is looked up, so the table is plain numbers. */
export class Lexicon {
  readonly hashes: readonly number[];
  readonly #mask: number;
  readonly #table: Uint32Array;

  constructor(hashes: readonly number[]) {
    this.hashes = hashes;
    // At most a quarter full. 0 marks an empty place; a word's hash is practically never 0.
    this.#mask = 2 ** Math.ceil(Math.log2(hashes.length * 4 + 1)) - 1;
    this.#table = new Uint32Array(this.#mask + 1);
    for (const hash of hashes) {
      let at = hash & this.#mask;
      while (this.#table[at] !== 0 && this.#table[at] !== hash) at = (at + 1) & this.#mask;
      this.#table[at] = hash;
    }
  }

  has(hash: number): boolean {
    for (let at = hash & this.#mask; ; at = (at + 1) & this.#mask) {
      const found = this.#table[at];
      if (found === 0) return false;
      if (found === hash) return true;
    }
  }
}

/** Makes a lexicon of words that white space separates. */
export function hashLexicon(words: string): Lexicon {
  return new Lexicon(words.trim().split(/\s+/).map(hashWord));
}

/** Shortens a word's hash to the sixteen bits that are kept in memory; never returns 0. */
export function shortHash(hash: number): number {
  return hash & 0xffff || 1;
}

/** A set of short hashes that can be emptied without clearing its memory; reused for each text on this thread. */
export class WordMarks {
  readonly #marks = new Uint32Array(65_536);
  #text = 0;

  /** Forgets all words. */
  begin(): void {
    this.#text = (this.#text + 1) >>> 0;
    if (this.#text === 0) {
      this.#marks.fill(0);
      this.#text = 1;
    }
  }

  add(short: number): void {
    this.#marks[short] = this.#text;
  }

  has(short: number): boolean {
    return this.#marks[short] === this.#text;
  }
}

/**
 * A set of words of bounded size. It keeps the smallest hashes, so that two long texts keep the same words, and their
 * overlap still estimates the overlap of the texts. Filled in place, sorted when sealed, reusable after `begin`.
 */
export class WordSet {
  readonly #limit: number;
  /**
   * The added words; sorted by `seal`. There is room for eight times the limit. Further words of a text are ignored, and
   * the estimate of the overlap is still good enough.
   */
  readonly #words: Uint16Array;
  readonly #marks = new WordMarks();
  #size = 0;

  constructor(limit: number) {
    this.#limit = limit;
    this.#words = new Uint16Array(limit * 8);
    this.#marks.begin();
  }

  /** Forgets all words. */
  begin(): void {
    this.#size = 0;
    this.#marks.begin();
  }

  add(hash: number): void {
    const short = shortHash(hash);
    if (this.#size === this.#words.length || this.#marks.has(short)) return;
    this.#marks.add(short);
    this.#words[this.#size++] = short;
  }

  /** Writes the kept hashes in ascending order and returns their number. */
  seal(into: Uint16Array): number {
    const kept = this.#words.subarray(0, this.#size).sort();
    const count = Math.min(this.#size, this.#limit, into.length);
    into.set(kept.subarray(0, count));
    return count;
  }
}

/**
 * Computes the Dice overlap of two sorted sets: 1 if they are the same, 0 if they have nothing in common. Two empty
 * sets have nothing in common.
 */
export function overlapOf(a: Uint16Array, aCount: number, b: Uint16Array, bCount: number): number {
  if (aCount === 0 || bCount === 0) return 0;
  let i = 0;
  let j = 0;
  let common = 0;
  while (i < aCount && j < bCount) {
    const x = a[i]!;
    const y = b[j]!;
    if (x === y) {
      common += 1;
      i += 1;
      j += 1;
    } else if (x < y) i += 1;
    else j += 1;
  }
  return (2 * common) / (aCount + bCount);
}

/** Whether the sorted set contains the word. */
export function holdsWord(set: Uint16Array, count: number, short: number): boolean {
  let low = 0;
  let high = count - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const value = set[middle]!;
    if (value === short) return true;
    if (value < short) low = middle + 1;
    else high = middle - 1;
  }
  return false;
}

/**
 * The sketch: a signed random projection of the words that are added, so that the cosine of two sketches estimates the
 * cosine of the texts' word vectors. Computed in floats, stored as int8 with the largest component at 127. Reusable
 * after `begin`.
 */
export class Sketch {
  readonly #sums = new Float64Array(SKETCH_DIMENSIONS);

  /** Forgets all words. */
  begin(): void {
    this.#sums.fill(0);
  }

  add(hash: number, weight: number): void {
    // Four signed places per word: with a single place, texts of few words would have too much noise.
    for (let i = 0, h = hash; i < 4; i++, h = mixHash(h + 0x9e3779b9)) {
      this.#sums[h & (SKETCH_DIMENSIONS - 1)]! += h & 0x10000 ? weight : -weight;
    }
  }

  /** Writes the sketch; without any words, it leaves `into` as it is. */
  seal(into: Int8Array): void {
    let largest = 0;
    for (let i = 0; i < SKETCH_DIMENSIONS; i++) largest = Math.max(largest, Math.abs(this.#sums[i]!));
    if (largest === 0) return;
    for (let i = 0; i < SKETCH_DIMENSIONS; i++) into[i] = Math.round((this.#sums[i]! / largest) * 127);
  }
}

/** Computes the squared length of a sketch. */
export function squareOf(a: Int8Array): number {
  let sum = 0;
  for (let i = 0; i < SKETCH_DIMENSIONS; i++) sum += a[i]! * a[i]!;
  return sum;
}

/**
 * Computes the cosine of two sketches; 0 when one is empty. For a caller that compares `a` with many sketches.
 * @param square `squareOf(a)`
 */
export function cosineTo(a: Int8Array, square: number, b: Int8Array): number {
  let dot = 0;
  let bb = 0;
  for (let i = 0; i < SKETCH_DIMENSIONS; i++) {
    const y = b[i]!;
    dot += a[i]! * y;
    bb += y * y;
  }
  return square === 0 || bb === 0 ? 0 : dot / Math.sqrt(square * bb);
}

/** Computes the cosine of two sketches; 0 when one is empty. */
export function cosineOf(a: Int8Array, b: Int8Array): number {
  return cosineTo(a, squareOf(a), b);
}
