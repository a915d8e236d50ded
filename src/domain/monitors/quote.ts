/**
 * Quotes of a step for interventions: short, on one line, without anything that could control a terminal or a log.
 * Quotes are journaled with the digest. The caller has masked the text. Pure; any thread.
 */

/** Maximum number of characters examined per character kept, because most of a text may be white space. */
const LOOKED_AT_FACTOR = 4;

/** Minimum number of examined characters. */
const LOOKED_AT_MIN = 512;

function lookedAt(characters: number): number {
  return Math.max(characters * LOOKED_AT_FACTOR, LOOKED_AT_MIN);
}

/** Longest quote that takes the fast path, and its buffer. */
const QUICK_CHARACTERS = 512;
const quick = Buffer.allocUnsafeSlow(QUICK_CHARACTERS + 2);

/**
 * Makes the quote of an ASCII text, which is faster than for other texts.
 * @param whole whether `part` is the whole text
 * @returns the result of `cleanQuote`; null: the part that would be quoted is not all ASCII, or the quote may be longer
 *   than QUICK_CHARACTERS
 */
function cleanAscii(part: string, whole: boolean, characters: number): string | null {
  if (characters > QUICK_CHARACTERS) return null;
  let length = 0;
  let spaced = false;
  for (let i = 0; i < part.length && length <= characters; i++) {
    const code = part.charCodeAt(i);
    if (code >= 127) return null;
    if (code <= 32) {
      spaced = length > 0;
      continue;
    }
    if (spaced) quick[length++] = 32;
    spaced = false;
    quick[length++] = code === 34 ? 39 : code;
  }
  const isCut = length > characters || (!whole && length > 0);
  if (isCut && length >= characters) length = characters - 1;
  const line = quick.toString('latin1', 0, length);
  return isCut ? `${line.trimEnd()}…` : line;
}

/**
 * Writes the beginning of `text` on one line, without control characters, separators, direction marks and lone
 * surrogates. White space is collapsed. Double quotes become single ones, because the quote is in double quotes. A text
 * that was cut ends with an ellipsis.
 * @param text masked
 */
export function cleanQuote(text: string, characters: number): string {
  const looked = lookedAt(characters);
  const part = text.slice(0, looked);
  const whole = text.length <= looked;
  const ascii = cleanAscii(part, whole, characters);
  if (ascii !== null) return ascii;
  const line = part
    .toWellFormed()
    .replace(/[\s\p{C}\u2028\u2029\ufffd]+/gu, ' ')
    .replaceAll('"', "'")
    .trim();
  if (line.length <= characters && whole) return line;
  if (line.length < characters) return line === '' ? '' : `${line}…`;
  // Never splits a surrogate pair.
  const cut = line
    .slice(0, characters - 1)
    .toWellFormed()
    .replaceAll('\ufffd', '');
  return `${cut.trimEnd()}…`;
}
