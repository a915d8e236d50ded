/** What an intervention quotes of a step: short, on one line, nothing in it that could steer a terminal or a log. */

/** Printable ASCII without the double quote. */
const PLAIN = /^[ !#-~]*$/;

/** Characters looked at for one that is kept: white space may be most of a text. */
const LOOKED_AT_FACTOR = 4;

/**
 * The beginning of `text` on one line: control characters, separators, direction marks and lone surrogates out, runs of
 * white space one space, double quotes single (it is quoted in double ones), an ellipsis where it was cut.
 */
export function cleanQuote(text: string, characters: number): string {
  const part = text.slice(0, characters * LOOKED_AT_FACTOR).toWellFormed();
  // Most quotes are plain.
  if (part.length === text.length && text.length <= characters && PLAIN.test(part)) return part.trim();
  const line = part
    .replace(/[\s\p{C}\u2028\u2029\ufffd]+/gu, ' ')
    .replaceAll('"', "'")
    .trim();
  if (line.length <= characters && part.length === text.length) return line;
  if (line.length < characters) return line === '' ? '' : `${line}…`;
  // Not through the middle of a surrogate pair.
  const cut = line
    .slice(0, characters - 1)
    .toWellFormed()
    .replaceAll('\ufffd', '');
  return `${cut.trimEnd()}…`;
}
