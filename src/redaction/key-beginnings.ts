/**
 * Finds beginnings of keys in a run of letters, digits, `-` and `_`. The fallback of `native/bytes/key-beginnings.h`,
 * made from the same table (`key-shapes.ts`). It imports only that table, because the native code's fallback uses it.
 * Any thread.
 */
import { BEGINNINGS, FIRST_WORDS } from './key-shapes.ts';

/** Words by their first two bytes. */
export class WordIndex<Word extends { readonly text: string }> {
  /** For each pair of bytes, the number of its list; 0 if it has none. */
  readonly #numbers = new Uint8Array(1 << 16);
  readonly #lists: Word[][] = [[]];
  readonly #none: readonly Word[] = this.#lists[0]!;

  constructor(words: readonly Word[]) {
    for (const word of words) {
      const pair = (word.text.charCodeAt(0) << 8) | word.text.charCodeAt(1);
      if (this.#numbers[pair] === 0) this.#numbers[pair] = this.#lists.push([]) - 1;
      this.#lists[this.#numbers[pair]!]!.push(word);
    }
  }

  /** Lists the words that begin with the two bytes, in order. */
  list(first: number, second: number): readonly Word[] {
    const number = this.#numbers[(first << 8) | second]!;
    return number === 0 ? this.#none : this.#lists[number]!;
  }
}

/** Whether the bytes at `at` begin with the text, and the text ends at or before `to`. */
export function startsWith(bytes: Uint8Array, at: number, to: number, text: string): boolean {
  if (at + text.length > to) return false;
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false;
  return true;
}

const beginnings = new WordIndex(BEGINNINGS.map((text) => ({ text })));
const firstWords = new WordIndex(FIRST_WORDS.map((text) => ({ text })));

/** Whether one of BEGINNINGS is anywhere in the run. */
export function holdsBeginning(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at + 1 < end; at++) {
    for (const { text } of beginnings.list(bytes[at]!, bytes[at + 1]!))
      if (startsWith(bytes, at, end, text)) return true;
  }
  return false;
}

function isFirstWord(bytes: Uint8Array, at: number, end: number): boolean {
  for (const { text } of firstWords.list(bytes[at]!, bytes[at + 1]!))
    if (startsWith(bytes, at, end, text)) return true;
  return false;
}

/**
 * Whether one of FIRST_WORDS is where a token may begin: at the start of the run, or after the characters of an escape
 * that the run begins with (the `n` of `\n`).
 */
export function beginsLikeKey(bytes: Uint8Array, start: number, end: number): boolean {
  if (isFirstWord(bytes, start, end)) return true;
  if (start === 0 || (bytes[start - 1] !== 0x5c && bytes[start - 1] !== 0x25)) return false;
  return (
    isFirstWord(bytes, start + 1, end) ||
    isFirstWord(bytes, start + 2, end) ||
    isFirstWord(bytes, start + 5, end)
  );
}
