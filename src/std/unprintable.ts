/**
 * Characters that no name may contain: controls, invisible formatting, and separators of lines and paragraphs (Cc, Cf,
 * Zl and Zp of Unicode 15). Lone surrogates (Cs) are not included: the fields of the API refuse them in every text. Any
 * thread.
 */

/**
 * The inside of a character class, for a pattern with the flag `u`. The ranges are written out because the API's
 * description contains such patterns, and the regular expressions of many languages support neither `\p{…}` nor
 * `\u{…}`.
 */
export const UNPRINTABLE = [
  String.raw`\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e`,
  String.raw`\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb`,
  '\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0001}\u{e0020}-\u{e007f}',
].join('');
