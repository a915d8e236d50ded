/**
 * A sketch of a system prompt: 36 characters that are equal for equal prompts and mostly equal for prompts
 * that differ in noise (a date, a session's id, a listing of files). It distinguishes agents whose
 * conversations begin in the same way. Pure; sketches are made where stored copies are read and compared by the index,
 * never on a server thread.
 *
 * Method: the prompt is cut into words at white space, quotes and brackets. Words with a digit (numbers,
 * dates, ids, paths of temporary folders) and names of days and months are left out. Each pair of adjacent
 * words is hashed into one of 32 places, which keeps the smallest hash (a one-permutation MinHash): the share
 * of equal places approximates the share of common word pairs. Four characters before these places are a hash of the
 * whole text, including noise. Only the first and the last 4,096 characters of a long block are read. Recent sketches
 * are cached, because an agent usually sends the same prompt as in the previous turn.
 */

const PLACES = 32;
const EXACT_CHARS = 4;

/**
 * Of a block that is more than twice as long, only this many characters of its beginning and of its end are examined.
 */
const LOOKED_AT_CHARS = 4_096;

/** Once this many characters of a prompt are examined, only the lengths of its further blocks count. */
const MAX_LOOKED_AT_CHARS = 16_384;

/** Number of prompts that are remembered with their sketches, and maximum length of such a prompt. */
const REMEMBERED = 8;
const REMEMBERED_CHARS = 65_536;

/**
 * Prompts with at least this similarity may belong to the same agent. Two prompts of one agent are near this limit if
 * they are short and half of their words are noise.
 */
export const ALIKE = 0.25;

const FNV_PRIME = 0x01000193;
const FNV_START = 0x811c9dc5;

/** Hashes of the words that name a time. */
const WHEN = new Set(
  (
    'january february march april may june july august september october november december jan feb mar apr jun jul ' +
    'aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur ' +
    'thurs fri sat sun am pm utc gmt'
  )
    .split(' ')
    .map(hashWord),
);

function hashWord(word: string): number {
  let hash = FNV_START;
  for (let i = 0; i < word.length; i += 1) hash = Math.imul(hash ^ word.charCodeAt(i), FNV_PRIME);
  return hash;
}

/**
 * The role of a character: 0 ends a word, 1 is part of a word, 2 is part of a word and makes it noise, 3 is part of a
 * word but ignored.
 */
const KINDS = new Uint8Array(128);
for (let code = 0; code < 128; code += 1) {
  const char = String.fromCharCode(code);
  if (/[a-zA-Z]/.test(char)) KINDS[code] = 1;
  else if (/[0-9]/.test(char)) KINDS[code] = 2;
  else if (/[-_./:\\@#+~%&]/.test(char)) KINDS[code] = 3;
}

/** Reads the words of one prompt, piece by piece. */
class Sketcher {
  readonly #smallest = new Int32Array(PLACES).fill(-1);
  #exact = FNV_START;
  #before = 0;
  #chars = 0;
  #lookedAt = 0;

  add(text: string): void {
    this.#chars += text.length;
    if (this.#lookedAt >= MAX_LOOKED_AT_CHARS) return;
    this.#lookedAt += Math.min(text.length, 2 * LOOKED_AT_CHARS);
    if (text.length <= 2 * LOOKED_AT_CHARS) this.#addPiece(text, 0, text.length);
    else {
      this.#addPiece(text, 0, LOOKED_AT_CHARS);
      this.#addPiece(text, text.length - LOOKED_AT_CHARS, text.length);
    }
  }

  #addPiece(text: string, from: number, to: number): void {
    let exact = this.#exact;
    let word = FNV_START;
    let isWord = false;
    let isNoise = false;
    for (let i = from; i < to; i += 1) {
      const code = text.charCodeAt(i);
      exact = Math.imul(exact ^ code, FNV_PRIME);
      const kind = code < 128 ? KINDS[code]! : 1;
      if (kind === 1) {
        // Lower-cases ASCII letters; other characters are unchanged.
        word = Math.imul(word ^ (code < 128 ? code | 32 : code), FNV_PRIME);
        isWord = true;
        // Scripts without spaces between words: each character is a word.
        if (code >= 0x2e80) {
          this.#addWord(word);
          word = FNV_START;
          isWord = false;
        }
      } else if (kind === 2) isNoise = true;
      else if (kind === 0) {
        if (isWord && !isNoise) this.#addWord(word);
        word = FNV_START;
        isWord = false;
        isNoise = false;
      }
    }
    if (isWord && !isNoise) this.#addWord(word);
    this.#exact = exact;
  }

  #addWord(word: number): void {
    if (WHEN.has(word)) return;
    let mixed = Math.imul(word ^ Math.imul(this.#before, 0x85ebca6b), 0xc2b2ae35);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x27d4eb2f);
    mixed ^= mixed >>> 13;
    this.#before = word;
    const place = mixed & (PLACES - 1);
    const value = mixed >>> 5;
    const smallest = this.#smallest[place]!;
    if (smallest < 0 || value < smallest) this.#smallest[place] = value;
  }

  finish(): string {
    const exact = Math.imul(this.#exact ^ this.#chars, FNV_PRIME);
    const codes = [exact & 255, (exact >>> 8) & 255, (exact >>> 16) & 255, exact >>> 24];
    // The minimum of many values is near 0, so its low bits vary most. 0 means a place without a word.
    for (const value of this.#smallest) codes.push(value < 0 ? 0 : 1 + (value % 255));
    return String.fromCharCode(...codes);
  }
}

interface Remembered {
  blocks: readonly string[];
  sketch: string;
}

const remembered: Remembered[] = [];
let nextRemembered = 0;

/** Makes the sketch of a prompt that is given in blocks, as characters of 8 bits; '' for a prompt without text. */
export function sketchPrompt(blocks: readonly string[]): string {
  let chars = 0;
  for (const block of blocks) chars += block.length;
  if (chars === 0) return '';
  for (const known of remembered) if (isSame(known.blocks, blocks)) return known.sketch;
  const sketcher = new Sketcher();
  for (const block of blocks) sketcher.add(block);
  const sketch = sketcher.finish();
  if (chars <= REMEMBERED_CHARS) {
    remembered[nextRemembered] = { blocks, sketch };
    nextRemembered = (nextRemembered + 1) % REMEMBERED;
  }
  return sketch;
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return false;
  return true;
}

/** Computes the similarity of two sketched prompts: 2 if identical, otherwise from 0 (nothing in common) to 1. */
export function compareSketches(a: string, b: string): number {
  if (a === b) return 2;
  if (a === '' || b === '') return 0;
  let equal = 0;
  let used = 0;
  for (let i = EXACT_CHARS; i < EXACT_CHARS + PLACES; i += 1) {
    const code = a.charCodeAt(i);
    if (code === b.charCodeAt(i)) {
      if (code === 0) continue;
      equal += 1;
    }
    used += 1;
  }
  return used === 0 ? 1 : equal / used;
}

/** Length of a sketch other than ''. */
export const SKETCH_CHARS = EXACT_CHARS + PLACES;
