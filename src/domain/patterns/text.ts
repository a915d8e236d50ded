/**
 * Makes texts of a trace safe to store and to quote: bounded, without secrets, control characters and split characters.
 * Pure; any thread.
 */

import { MASK, maskText, SCAN_MARGIN_BYTES } from '../../redaction/mask.ts';
import { maskEmbeddedQueries } from '../../redaction/query.ts';
import { isRawNumber } from '../../std/exact-json.ts';

/** Terminal colours and cursor moves (ECMA-48): CSI and OSC sequences, and other two-byte escapes. */
const ESCAPES =
  /\u001b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\u0007\u001b]{0,512}(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u0080-\u009f\u2028\u2029\ufeff]/g;

/** A secret that is recognized by its label: `password: …`, `"api_key": "…"`, `PGPASSWORD=…`. */
const LABELLED_SECRET =
  /((?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|client[_-]?secret)["'\\]{0,4}\s{0,4}[:=]\s{0,4}["'\\]{0,4})([^\s"'\\,;&)}\]]{4,512})/gi;
/** `https://user:password@host` */
const URL_PASSWORD = /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{1,128}:)[^\s/@]{1,256}(?=@)/gi;

/** Values after a label of LABELLED_SECRET that are not secrets: a type, a placeholder, a word about the value. */
const HARMLESS_VALUE =
  /^(?:null|none|undefined|true|false|string|str|required|optional|missing|invalid|incorrect|wrong|\$\{?\w*\}?|<[^>]*>?|\*+|\.{3}|…|\[redacted)/i;

/**
 * Masks the secrets in a text. Linear time: the replaced patterns have only bounded quantifiers, and `HARMLESS_VALUE`
 * is tried only at the start of a short value.
 */
export function maskSecrets(text: string): string {
  if (text.length < 4) return text;
  return maskEmbeddedQueries(maskText(text))
    .replace(LABELLED_SECRET, (whole, label: string, value: string) =>
      HARMLESS_VALUE.test(value) ? whole : `${label}${MASK}`,
    )
    .replace(URL_PASSWORD, `$1${MASK}`);
}

/**
 * Converts a text to the form in which it may be stored: at most `head` characters of its beginning and `tail` of its
 * end, with the number of characters omitted. Secrets are masked before the text is cut, so that no part of one
 * remains.
 */
export function cleanText(text: string, head: number, tail = 0): string {
  if (text === '') return '';
  const most = head + tail;
  let kept: string;
  if (text.length <= most + 2 * SCAN_MARGIN_BYTES) {
    kept = cutMiddle(plain(maskSecrets(text)), head, tail);
  } else {
    // The text is too long to be masked completely. Only its ends are masked, with a margin for a secret that
    // crosses the cut.
    const first = plain(maskSecrets(text.slice(0, head + SCAN_MARGIN_BYTES))).slice(0, head);
    const last = tail === 0 ? '' : plain(maskSecrets(text.slice(-(tail + SCAN_MARGIN_BYTES)))).slice(-tail);
    kept = joinEnds(first, last, text.length - first.length - last.length);
  }
  return kept.toWellFormed();
}

function plain(text: string): string {
  return text.replace(ESCAPES, '').replaceAll('\r\n', '\n').replaceAll('\r', '\n').replace(CONTROLS, '');
}

function cutMiddle(text: string, head: number, tail: number): string {
  if (text.length <= head + tail) return text;
  return joinEnds(text.slice(0, head), tail === 0 ? '' : text.slice(-tail), text.length - head - tail);
}

function joinEnds(first: string, last: string, left: number): string {
  return last === '' ? first : `${first}\n[… ${left} characters …]\n${last}`;
}

/**
 * Writes a text on one line of at most `most` characters: white space is collapsed, and a longer text is cut, if
 * possible at the end of a word.
 */
export function oneLine(text: string, most: number): string {
  const line = text
    .slice(0, 4 * most + 64)
    .replace(/\s+/g, ' ')
    .trim();
  if (line.length <= most) return line;
  const cut = line.slice(0, most - 1);
  const space = cut.lastIndexOf(' ');
  return `${(space > most * 0.7 ? cut.slice(0, space) : cut).trimEnd()}…`.toWellFormed();
}

/** Cuts a text to `most` characters if it is longer. */
export function boundText(text: string, most: number): string {
  return (text.length <= most ? text : `${text.slice(0, most - 1).trimEnd()}…`).toWellFormed();
}

/** Splits the first 8,000 characters of a text into its first `most` sentences and lines, each on one line. */
export function splitSentences(text: string, most = 40): string[] {
  const found: string[] = [];
  for (const line of text.slice(0, 8_000).split('\n')) {
    for (const part of line.split(/(?<=[.!?])\s+(?=["'`(A-Z0-9])/)) {
      const sentence = part.replace(/\s+/g, ' ').trim();
      if (sentence !== '') found.push(sentence);
      if (found.length >= most) return found;
    }
  }
  return found;
}

/**
 * Writes a value as JSON text, cut after `most` characters. Nesting beyond eight levels becomes `…`, so that neither
 * depth nor size matters.
 */
export function renderJson(value: unknown, most: number): string {
  let left = most;
  const write = (inner: unknown, depth: number): string => {
    if (left <= 0) return '';
    let text: string;
    if (typeof inner === 'string') text = JSON.stringify(inner.length > left ? inner.slice(0, left) : inner);
    else if (typeof inner !== 'object' || inner === null) text = String(inner);
    else if (isRawNumber(inner)) text = inner.rawJSON;
    else if (depth >= 8) text = '"…"';
    else {
      left -= 2;
      const parts: string[] = [];
      if (Array.isArray(inner)) {
        for (const item of inner) {
          if (left <= 0) break;
          left -= 1;
          parts.push(write(item, depth + 1));
        }
        return `[${parts.join(',')}]`;
      }
      for (const key in inner) {
        if (left <= 0) break;
        if (!Object.hasOwn(inner, key)) continue;
        const name = JSON.stringify(key.slice(0, 200));
        left -= name.length + 2;
        parts.push(`${name}:${write((inner as Record<string, unknown>)[key], depth + 1)}`);
      }
      return `{${parts.join(',')}}`;
    }
    left -= text.length;
    return text;
  };
  return write(value, 0).slice(0, most);
}
