/**
 * Scans the values of a JSON text with their keys, from the text itself. Numbers keep their digits; a truncated text is
 * read up to its end; Python's printed dictionaries are accepted. Pure; actor threads and the command line.
 */

export interface ScannedValue {
  /** The string value without quotes and escapes, or the digits of the number. */
  text: string;
  is_number: boolean;
  /** Whether the value is itself the key of an object. */
  is_key: boolean;
  /** The nearest key above; '' without one. */
  key: string;
  /** The key above `key`; '' without one. */
  parent: string;
}

/** Maximum depth. The scan ends before a deeper value. */
const DEPTH = 32;
const VALUE_CHARACTERS = 400;

/** Whether the text can be scanned. */
export function looksLikeJson(text: string): boolean {
  return /^\s*(?:\{|\[\s*[[{"'\d-]|"|')/.test(text.slice(0, 200));
}

/**
 * Scans the values of a text.
 * @param most maximum number of values
 */
export function* scanJson(text: string, most: number): Generator<ScannedValue> {
  /** Keys from the root to the current position; an array uses the key of its parent. */
  const keys: string[] = [];
  const lists: boolean[] = [];
  let key = '';
  let left = most;
  for (const match of text.matchAll(
    /"((?:[^"\\]|\\.){0,4000})"|'((?:[^'\\]|\\.){0,4000})'|-?\d[\d.eE+-]*|[[\]{},]/gs,
  )) {
    const [token] = match;
    if (token === '{' || token === '[') {
      if (keys.length >= DEPTH) return;
      keys.push(key);
      lists.push(token === '[');
      continue;
    }
    if (token === '}' || token === ']') {
      key = keys.pop() ?? '';
      lists.pop();
      continue;
    }
    if (token === ',') {
      if (lists.at(-1) === true) key = keys.at(-1) ?? '';
      continue;
    }
    if (--left < 0) return;
    const quoted = match[1] ?? match[2];
    const isKey =
      quoted !== undefined && lists.at(-1) === false && isBeforeColon(text, match.index + token.length);
    const value = (quoted === undefined ? token : readEscapes(quoted)).slice(0, VALUE_CHARACTERS);
    const above = keys.at(-1) ?? '';
    if (isKey) {
      yield { text: value, is_number: false, is_key: true, key: above, parent: keys.at(-2) ?? '' };
      key = value;
    } else {
      const parent = lists.at(-1) === true ? (keys.at(-2) ?? '') : above;
      yield { text: value, is_number: quoted === undefined, is_key: false, key, parent };
    }
  }
}

function isBeforeColon(text: string, at: number): boolean {
  return /^\s{0,8}:/.test(text.slice(at, at + 10));
}

function readEscapes(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|(.))/gs, (_whole, hex: string | undefined, char: string) => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
    return char === 'n' || char === 'r' || char === 't' ? ' ' : char;
  });
}
