/**
 * JSON whose numbers keep their digits. `JSON.parse` turns 2512292042121000001 into 2512292042121000000; `parseExact`
 * returns such a number as a raw number, a frozen object that `JSON.stringify` writes unchanged. Pure; any thread. A
 * raw number loses its type when it is cloned to another thread: send the text and parse it there.
 */

/** A number that a double would print differently: `rawJSON` is its text. Only functions of this file make it. */
export interface RawNumber {
  readonly rawJSON: string;
}

interface SourceJson {
  rawJSON: ((text: string) => RawNumber) | undefined;
  isRawJSON: ((value: unknown) => boolean) | undefined;
}

// TypeScript does not declare these functions yet; Node has them since 22.
const json = JSON as unknown as SourceJson;

/**
 * Matches a number that may be unusual, inside or outside of strings. Most events of a stream have none, and this is
 * the fastest check.
 */
const MAY_BE_UNUSUAL = /(?:^|[:,[])[ \t\r\n]*-?(?:\d{16}|\d+\.\d|\d+[eE]|0[.eE])|-0[\s,\]}]|-0$/;

/** Texts up to this length are first checked with `MAY_BE_UNUSUAL`. */
const SHORT_TEXT = 4_096;

/** A JSON number, and nothing else. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Decimals of at most this many digits print unchanged, except tiny ones, -0 and those with a final zero. */
const EXACT_DIGITS = 15;

/**
 * Marks the place of a number in the text for `JSON.parse`. Random for each process, so that no sender can know it.
 */
const MARK = `#${Math.random().toString(36).slice(2, 13)} `;

/**
 * Parses JSON. Unusual numbers are replaced by strings before `JSON.parse`, and restored in its result, because a
 * reviver would be called for each value and take several times as long.
 * @returns the result of `JSON.parse`, with a {@link RawNumber} for each number that a double would print differently;
 *   on Node 20, all numbers are doubles
 * @throws SyntaxError; what `bound.refuse` throws
 */
export function parseExact(text: string, bound?: NumberBound): unknown {
  // Clients also run on Node 20, which has only doubles.
  const { rawJSON } = json;
  if (rawJSON === undefined) return JSON.parse(text);
  if (text.length <= SHORT_TEXT && !MAY_BE_UNUSUAL.test(text)) return JSON.parse(text);
  const places = findUnusualNumbers(text, bound);
  if (places.length === 0) return JSON.parse(text);
  const numbers: RawNumber[] = [];
  // A list that is joined at the end: a text that grows by hundreds of thousands of marks takes twice as long.
  const pieces: string[] = [];
  let from = 0;
  for (let i = 0; i < places.length; i += 2) {
    const start = places[i]!;
    pieces.push(`${text.slice(from, start)}"${MARK}${numbers.length}`);
    from = places[i + 1]!;
    numbers.push(rawJSON(text.slice(start, from)));
  }
  pieces.push(text.slice(from));
  return putBack(JSON.parse(pieces.join('"')), numbers);
}

/** Maximum number of unusual numbers in a text: each costs about twenty times as much as another number. */
export interface NumberBound {
  most: number;
  /** Must throw. Called with the offset after the first number beyond the bound. */
  refuse: (offset: number) => never;
}

/**
 * Finds each number outside strings that a double would print differently. Returns the start and the end of each, one
 * after another.
 */
function findUnusualNumbers(text: string, bound?: NumberBound): number[] {
  const places: number[] = [];
  const { length } = text;
  let at = 0;
  while (at < length) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfString(text, at);
    else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) {
      at = skipNumber(text, at, places);
      if (bound !== undefined && places.length > 2 * bound.most) bound.refuse(at);
    } else at += 1;
  }
  return places;
}

/**
 * Finds the end of a number.
 * @param places receives start and end of the number, if it is unusual and at a position where a value is allowed
 * @returns the end of the number
 */
function skipNumber(text: string, start: number, places: number[]): number {
  let end = start;
  let digits = 0;
  let isPlain = text.charCodeAt(start) !== 0x2d || text.charCodeAt(start + 1) !== 0x30;
  let hasPoint = false;
  for (; end < text.length; end += 1) {
    const code = text.charCodeAt(end);
    if (code >= 0x30 && code <= 0x39) digits += 1;
    else if (code === 0x2e) hasPoint = true;
    else if (code === 0x65 || code === 0x45 || code === 0x2b) isPlain = false;
    else if (code !== 0x2d) break;
  }
  if (hasPoint && text.charCodeAt(end - 1) === 0x30) isPlain = false;
  if (isPlain && digits <= EXACT_DIGITS && !isTiny(text, start)) return end;
  const source = text.slice(start, end);
  if (String(Number(source)) !== source && NUMBER.test(source) && isValue(text, start, end))
    places.push(start, end);
  return end;
}

/** Below 0.000001 a double prints with an exponent. */
function isTiny(text: string, start: number): boolean {
  return text.startsWith('0.000000', text.charCodeAt(start) === 0x2d ? start + 1 : start);
}

/** Whether JSON allows a value from `start` to `end`. If not, the text is not JSON, which `JSON.parse` reports. */
function isValue(text: string, start: number, end: number): boolean {
  let before = start - 1;
  while (isSpace(text.charCodeAt(before))) before -= 1;
  const code = text.charCodeAt(before);
  if (before >= 0 && code !== 0x3a && code !== 0x2c && code !== 0x5b) return false;
  let after = end;
  while (isSpace(text.charCodeAt(after))) after += 1;
  const next = text.charCodeAt(after);
  return after >= text.length || next === 0x2c || next === 0x5d || next === 0x7d;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** Shorter strings are scanned in JavaScript, because a call of `indexOf` takes longer. */
const SHORT_STRING = 32;

/** Finds the position after the quote that ends the string; the end of the text without such a quote. */
function endOfString(text: string, quote: number): number {
  const near = Math.min(quote + SHORT_STRING, text.length);
  let at = quote + 1;
  while (at < near) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    at += code === 0x5c ? 2 : 1;
  }
  for (let end = text.indexOf('"', at); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (end - 1 - escapes >= at && text.charCodeAt(end - 1 - escapes) === 0x5c) escapes += 1;
    if (escapes % 2 === 0) return end + 1;
  }
  return text.length;
}

/**
 * Restores the numbers at their marks, in place. Uses its own stack, because JSON may be deeper than the call stack,
 * and stops when all are found, because most are at the top, like `"top_p": 1.0`.
 */
function putBack(value: unknown, numbers: readonly RawNumber[]): unknown {
  const find = (text: string): RawNumber | undefined =>
    text.startsWith(MARK) ? numbers[Number(text.slice(MARK.length))] : undefined;
  if (typeof value === 'string') return find(value) ?? value;
  let left = numbers.length;
  const open: unknown[] = [value];
  const look = (fields: Record<string | number, unknown>, name: string | number): void => {
    const field = fields[name];
    if (typeof field === 'object' && field !== null) open.push(field);
    else if (typeof field === 'string') {
      const number = find(field);
      if (number === undefined) return;
      fields[name] = number;
      left -= 1;
    }
  };
  for (let value = open.pop(); value !== undefined && left > 0; value = open.pop()) {
    // `for in` would make a string of each index.
    if (Array.isArray(value)) for (let at = 0; at < value.length; at += 1) look(value as never, at);
    else for (const name in value as object) look(value as never, name);
  }
  return value;
}

/** A number that a double may round: many digits, or an exponent. */
const LONG_NUMBER = /(?:^|[:,[])[ \t\r\n]*-?(?:[\d.]{16}|[\d.]+[eE])/;

/**
 * Parses JSON like {@link parseExact} if the text contains a number that a double may round; otherwise like
 * `JSON.parse`, which is ten times as fast. `JSON.parse` reads `1.0` as 1.
 * @throws SyntaxError; what `bound.refuse` throws
 */
export function parseUnrounded(text: string, bound?: NumberBound): unknown {
  return LONG_NUMBER.test(text) ? parseExact(text, bound) : JSON.parse(text);
}

/** Whether the value is a number that kept its digits. */
export function isRawNumber(value: unknown): value is RawNumber {
  return json.isRawJSON?.(value) === true;
}

/** Makes the number with this text, as `parseExact` would return it. */
export function exactNumber(text: string): number | RawNumber {
  const value = Number(text);
  return String(value) === text ? value : (json.rawJSON?.(text) ?? value);
}

/** Returns the original digits of a number or raw number; null for any other value. */
export function digitsOf(value: unknown): string | null {
  if (typeof value === 'number') return String(value);
  return isRawNumber(value) ? value.rawJSON : null;
}

/**
 * Converts a number or raw number to a double, rounded if necessary; null for any other value. For arithmetic, never
 * for comparing identity.
 */
export function roundedNumber(value: unknown): number | null {
  if (typeof value === 'number') return value;
  return isRawNumber(value) ? Number(value.rawJSON) : null;
}

/**
 * Writes a number as canonical text: `1.0`, `1` and `10e-1` give the same text, and numbers of different value never
 * do, however many digits they have.
 * @param text a JSON number
 */
export function canonicalNumber(text: string): string {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (parts === null) return text;
  const [, sign, whole, fraction = '', exponent = '0'] = parts;
  const padded = `${whole}${fraction}`.replace(/^0+/, '');
  const digits = padded.replace(/0+$/, '');
  if (digits === '') return '0';
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(padded.length - digits.length);
  return power === 0n ? `${sign}${digits}` : `${sign}${digits}e${power}`;
}

/** Names a number: like `String` if it is exact as a double, so that `1.0` is `1`; otherwise by its canonical text. */
export function numberName(text: string): string {
  const canonical = canonicalNumber(text);
  const rounded = String(Number(text));
  return canonicalNumber(rounded) === canonical ? rounded : canonical;
}

/**
 * Writes a value as canonical text: sorted keys, numbers by their digits, no white space.
 * @param value the result of `parseExact`, not nested deeper than the stack allows
 */
export function canonicalJson(value: unknown): string {
  const digits = digitsOf(value);
  if (digits !== null) return canonicalNumber(digits);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const fields = value as Record<string, unknown>;
  const names = Object.keys(fields)
    .filter((name) => fields[name] !== undefined)
    .sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalJson(fields[name])}`).join(',')}}`;
}
