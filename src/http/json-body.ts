/**
 * Parses a JSON body. Errors name the position, but quote no part of the body. The depth and the size of a
 * large body are checked before parsing, because the parser accepts any depth. Server threads.
 */
import { isUtf8 } from 'node:buffer';
import { CatalogueError } from '../errors.ts';
import { type NumberBound, parseUnrounded } from '../std/exact-json.ts';

/**
 * Bounds of a JSON body. A body of more than SMALL_BODY_BYTES is refused before it is parsed if it exceeds `depth`,
 * `values` (all values together) or `keys` (of one object). Objects with many keys cost most. While a body is parsed
 * `unrounded`, it is refused if it has more than `kept_numbers` numbers whose exact digits must be kept, because they
 * cost more than others.
 */
export const JSON_BOUNDS = { depth: 512, values: 250_000, keys: 10_000, kept_numbers: 100_000 } as const;

/** Smaller bodies are parsed without a check of the bounds, because they cannot cost much. */
const SMALL_BODY_BYTES = 4_096;

/**
 * Parses a JSON body.
 * @param numbers `unrounded` keeps the digits of all numbers, for a body of which parts are stored
 * or compared as JSON
 * @returns undefined for an empty body
 * @throws CatalogueError `malformed_request`
 */
export function parseJsonBody(body: Uint8Array, numbers: 'rounded' | 'unrounded' = 'rounded'): unknown {
  if (body.length === 0) return undefined;
  const buffer = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.length);
  if (!isUtf8(buffer)) {
    const offset = findUtf8Fault(buffer);
    throw new CatalogueError('malformed_request', `The body is not valid UTF-8: byte offset ${offset}`);
  }
  if (buffer.length > SMALL_BODY_BYTES) boundJson(buffer);
  let text = buffer.toString('utf8');
  // Removes a byte order mark, which some editors write.
  if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
  try {
    return numbers === 'rounded' ? JSON.parse(text) : parseUnrounded(text, KEPT_NUMBERS);
  } catch (thrown) {
    if (thrown instanceof CatalogueError) throw thrown;
    const offset = findJsonFault(text);
    const where = offset >= text.length ? `it ends too early, at offset ${text.length}` : `offset ${offset}`;
    throw new CatalogueError('malformed_request', `The body is not valid JSON: ${where}`);
  }
}

/** Finds the position of the first invalid byte sequence by comparing the bytes with the decoded text. */
function findUtf8Fault(buffer: Buffer): number {
  const readable = Buffer.from(buffer.toString('utf8'));
  let at = 0;
  while (at < buffer.length && buffer[at] === readable[at]) at++;
  // Step back by at most three bytes, because the replacement character may begin with the same
  // bytes as the invalid sequence.
  while (at > 0 && !isUtf8(buffer.subarray(0, at))) at--;
  return at;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Checks the bounds of a body. @throws CatalogueError `malformed_request` for JSON that is too deep or too large */
function boundJson(buffer: Buffer): void {
  const { depth: maxDepth, values: maxValues, keys: maxKeys } = JSON_BOUNDS;
  /**
   * By depth: number of commas of the open object; negative for a list, whose length is bounded by the number of
   * values.
   */
  const keys = new Int32Array(maxDepth + 1);
  let depth = 0;
  let values = 0;
  for (let at = 0; at < buffer.length; at++) {
    switch (buffer[at]) {
      case QUOTE:
        at = skipText(buffer, at + 1);
        break;
      case 0x7b: // {
      case 0x5b: // [
        values++;
        if (++depth > maxDepth) refuse(`is nested deeper than ${maxDepth} levels`, at);
        keys[depth] = buffer[at] === 0x7b ? 0 : -maxValues;
        break;
      case 0x7d:
      case 0x5d:
        // A text with surplus closing brackets is not JSON; its depth does not matter.
        depth = Math.max(0, depth - 1);
        break;
      case 0x2c: // ,
        values++;
        if (++keys[depth]! >= maxKeys) refuse(`holds an object with more than ${maxKeys} keys`, at);
        break;
    }
    if (values > maxValues) refuse(`holds more than ${maxValues} values`, at);
  }
}

const KEPT_NUMBERS: NumberBound = {
  most: JSON_BOUNDS.kept_numbers,
  refuse: (offset) =>
    refuse(
      `holds more than ${JSON_BOUNDS.kept_numbers} numbers that a double rounds or prints differently`,
      offset,
    ),
};

function refuse(what: string, offset: number): never {
  throw new CatalogueError('malformed_request', `The body ${what}, at offset ${offset}`);
}

/** Number of bytes of a text that are read one by one before the native search takes over. */
const SHORT_TEXT_BYTES = 32;

/** Skips a text. @returns the index of the closing quote; the buffer's length if the text has none */
function skipText(buffer: Buffer, from: number): number {
  let at = from;
  const near = Math.min(buffer.length, from + SHORT_TEXT_BYTES);
  for (; at < near; at++) {
    if (buffer[at] === QUOTE) return at;
    if (buffer[at] === BACKSLASH) at++;
  }
  // Continues with the native search. A quote after an odd number of backslashes belongs to the text.
  for (let end = buffer.indexOf(QUOTE, at); end >= 0; end = buffer.indexOf(QUOTE, end + 1)) {
    let first = end;
    while (first > at && buffer[first - 1] === BACKSLASH) first--;
    if ((end - first) % 2 === 0) return end;
  }
  return buffer.length;
}

const LITERALS: Readonly<Record<string, string>> = { t: 'true', f: 'false', n: 'null' };
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const TEXT = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*/y;
const SPACE = /[ \t\n\r]*/y;

/**
 * Finds the position at which a text stops being JSON (RFC 8259), in UTF-16 units. Returns the text's length
 * if the text is incomplete or valid. Used only for texts that do not parse. It is slower than the parser,
 * but independent of the engine's error messages.
 */
function findJsonFault(text: string): number {
  /** Open lists and objects, the innermost last. */
  const open: ('{' | '[')[] = [];
  let at = skip(SPACE, text, 0);
  /**
   * The expected next element: a value; a value or the end of the list; a key; a key or the end of
   * the object; a comma or an end.
   */
  let expected: 'value' | 'item' | 'key' | 'member' | 'after' = 'value';
  while (at < text.length) {
    const character = text[at]!;
    if (expected === 'after') {
      const inner = open.at(-1);
      if (inner === undefined) return at;
      if (character === (inner === '{' ? '}' : ']')) open.pop();
      else if (character === ',') expected = inner === '{' ? 'key' : 'value';
      else return at;
      at = skip(SPACE, text, at + 1);
      continue;
    }
    if (expected === 'key' || expected === 'member') {
      if (character === '}' && expected === 'member') {
        open.pop();
        expected = 'after';
        at = skip(SPACE, text, at + 1);
        continue;
      }
      if (character !== '"') return at;
      const end = skip(TEXT, text, at);
      if (text[end] !== '"') return end;
      at = skip(SPACE, text, end + 1);
      if (at >= text.length || text[at] !== ':') return at;
      at = skip(SPACE, text, at + 1);
      expected = 'value';
      continue;
    }
    if (character === ']' && expected === 'item') {
      open.pop();
      expected = 'after';
      at = skip(SPACE, text, at + 1);
      continue;
    }
    if (character === '{' || character === '[') {
      open.push(character);
      expected = character === '{' ? 'member' : 'item';
      at = skip(SPACE, text, at + 1);
      continue;
    }
    const end = skipScalar(text, at);
    if (end.fault) return end.at;
    at = skip(SPACE, text, end.at);
    expected = 'after';
  }
  return text.length;
}

function skipScalar(text: string, at: number): { at: number; fault: boolean } {
  const character = text[at]!;
  if (character === '"') {
    const end = skip(TEXT, text, at);
    return text[end] === '"' ? { at: end + 1, fault: false } : { at: end, fault: true };
  }
  const word = LITERALS[character];
  if (word !== undefined) {
    let length = 0;
    while (length < word.length && text[at + length] === word[length]) length++;
    return { at: at + length, fault: length < word.length };
  }
  const end = skip(NUMBER, text, at);
  return { at: end, fault: end === at };
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
