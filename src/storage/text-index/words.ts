/**
 * Splits text into the words of the full-text index. Pure; any thread.
 *
 * A word is a sequence of letters, digits and marks of any script, without case, accents and width ("Café"
 * and "ＣＡＦＥ" are `cafe`). In scripts without spaces between words (Han, Kana, Hangul, Thai, …), each two
 * adjacent characters are a word, and so is the last character alone. So `日本語` is `日本`, `本語` and `語`.
 *
 * Bound: WORD_CHARS characters per word; a longer word is cut.
 */

/** Longest word, in UTF-16 code units. */
export const WORD_CHARS = 64;

/** Receives each word, its number, and its place in the text. */
type TakeWord = (word: string, position: number, start: number, end: number) => void;

const KIND = { unknown: 0, gap: 1, letter: 2, pair: 3, high: 4 } as const;

const LETTER = /[\p{L}\p{N}\p{M}]/u;
/** Soft hyphen and joiners, which are parts of words. */
const JOINER = /\u00ad|\u200c|\u200d|\u2060/;
/** Scripts without spaces between words, and Hangul, whose particles follow the word without one. */
const PAIRED =
  /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Bopo}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Tibt}]/u;
const DROPPED = /[\u0300-\u036f]|\u00ad|\u200c|\u200d|\u2060/g;

/** Class by UTF-16 code unit; filled when a character occurs. */
const kinds = new Uint8Array(65_536);
for (let code = 0xd800; code < 0xdc00; code++) kinds[code] = KIND.high;
for (let code = 0; code < 128; code++)
  kinds[code] = /[0-9A-Za-z]/.test(String.fromCharCode(code)) ? KIND.letter : KIND.gap;

function findKind(character: string): number {
  if (JOINER.test(character)) return KIND.letter;
  if (!LETTER.test(character)) return KIND.gap;
  return PAIRED.test(character) ? KIND.pair : KIND.letter;
}

function kindAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  const kind = kinds[code]!;
  if (kind === KIND.high) return findKind(String.fromCodePoint(text.codePointAt(at)!));
  if (kind !== KIND.unknown) return kind;
  const found = findKind(String.fromCharCode(code));
  kinds[code] = found;
  return found;
}

/**
 * Calls `take` for each word of a text, in order. Numbers count words, or characters in scripts where two of
 * them are a word.
 */
export function eachWord(text: string, take: TakeWord): void {
  const { length } = text;
  let position = 0;
  let at = 0;
  while (at < length) {
    const kind = kindAt(text, at);
    if (kind === KIND.gap) {
      at += 1;
      continue;
    }
    const start = at;
    let isPlain = true;
    for (let next: number = kind; next === kind; ) {
      const code = text.charCodeAt(at);
      if (code >= 128 || (code >= 65 && code <= 90)) isPlain = false;
      at += kinds[code] === KIND.high && at + 1 < length ? 2 : 1;
      if (at >= length) break;
      next = kindAt(text, at);
    }
    if (kind === KIND.letter) {
      const word = readWord(text, start, at, isPlain);
      if (word !== '') take(word, position++, start, at);
    } else position = eachPair(text, start, at, position, take);
  }
}

/** Folds and cuts a word. Folds at most twice the limit, because folding may make a word shorter. */
function readWord(text: string, start: number, end: number, isPlain: boolean): string {
  if (isPlain) return text.slice(start, Math.min(end, start + WORD_CHARS));
  return cutWord(foldText(text.slice(start, Math.min(end, start + 2 * WORD_CHARS))));
}

function cutWord(word: string): string {
  return word.length <= WORD_CHARS ? word : word.slice(0, WORD_CHARS).toWellFormed();
}

function eachPair(text: string, start: number, end: number, position: number, take: TakeWord): number {
  let next = position;
  let before = '';
  let beforeStart = start;
  for (let at = start; at < end; ) {
    const character = String.fromCodePoint(text.codePointAt(at)!);
    const folded = foldText(character);
    if (before !== '') take(before + folded, next++, beforeStart, at + character.length);
    before = folded;
    beforeStart = at;
    at += character.length;
  }
  if (before !== '') take(before, next++, beforeStart, end);
  return next;
}

/** Removes case, accents and width. */
function foldText(text: string): string {
  const plain = text.normalize('NFKD').replace(DROPPED, '').toUpperCase().toLowerCase();
  return plain.replace(DROPPED, '').replaceAll('ς', 'σ').normalize('NFC');
}

/** Whether a word consists of one or two characters of a script without spaces. */
export function isPaired(word: string): boolean {
  return word !== '' && kindAt(word, 0) === KIND.pair;
}
