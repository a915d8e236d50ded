/**
 * Finds where the items of a request body's conversation list begin and end, without parsing the body. Of the body's
 * members it reads only the names; it skips the values. Pure; capture process with its sealing thread, command line.
 */

/** The list of a body: where it is, and where its items end. */
interface FoundItems {
  /** The member that holds the list. */
  name: string;
  /** Offset after the bracket that opens the list. */
  from: number;
  /** Offset after each item. */
  ends: number[];
  /** Offset of the bracket that closes the list. */
  to: number;
  /** Number of members of the body. */
  members: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** The names under which the wires hold a conversation. */
const LISTS: readonly string[] = ['messages', 'contents', 'input'];
/** Longest name of a member that is compared with LISTS. */
const NAME_BYTES = 16;
/**
 * The end of a string longer than this is found with `indexOf`. Such a call costs as much as comparing this many bytes.
 */
const NEAR_BYTES = 48;

/**
 * Finds the list with the conversation in a request body.
 * @param body JSON that is known to be valid
 * @returns null without a list of objects under one of the usual names
 */
export function findItems(body: Buffer): FoundItems | null {
  let at = skipSpace(body, 0);
  if (body[at] !== OPEN_BRACE) return null;
  let found: FoundItems | null = null;
  let members = 0;
  at = skipSpace(body, at + 1);
  while (body[at] === QUOTE) {
    const nameFrom = at + 1;
    at = endOfString(body, at);
    const name = at - 1 - nameFrom > NAME_BYTES ? '' : body.toString('latin1', nameFrom, at - 1);
    at = skipSpace(body, at);
    if (body[at] !== COLON) return null;
    at = skipSpace(body, at + 1);
    members += 1;
    if (found === null && body[at] === OPEN_BRACKET && LISTS.includes(name)) {
      const ends: number[] = [];
      const to = findEnds(body, at + 1, ends);
      if (to < 0) return null;
      found = { name, from: at + 1, ends, to, members: 0 };
      at = to + 1;
    } else at = endOfValue(body, at);
    at = skipSpace(body, at);
    if (body[at] === COMMA) at = skipSpace(body, at + 1);
  }
  if (body[at] !== CLOSE_BRACE || found === null) return null;
  found.members = members;
  return found;
}

/**
 * Finds the ends of the items after a place in the list.
 * @param at after the opening bracket, or after an item
 * @param ends receives the offset after each item
 * @returns the offset of the closing bracket; -1 if the list is cut off or has an item that is no object
 */
export function findEnds(body: Buffer, at: number, ends: number[]): number {
  let next = skipSpace(body, at);
  for (;;) {
    if (body[next] === COMMA) next = skipSpace(body, next + 1);
    if (body[next] === CLOSE_BRACKET) return next;
    if (body[next] !== OPEN_BRACE) return -1;
    const end = endOfValue(body, next);
    if (end > body.length) return -1;
    ends.push(end);
    next = skipSpace(body, end);
  }
}

function skipSpace(body: Buffer, from: number): number {
  let at = from;
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at += 1;
  return at;
}

/**
 * Finds the end of a value.
 * @returns the offset after the value; more than the body's length if it is cut off
 */
function endOfValue(body: Buffer, from: number): number {
  let at = from;
  let depth = 0;
  while (at < body.length) {
    const byte = body[at]!;
    if (byte === QUOTE) {
      at = endOfString(body, at);
      if (depth === 0) return at;
      continue;
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1;
      // The surrounding value ends directly after a number or a word.
      if (depth < 0) return at;
      if (depth === 0) return at + 1;
    } else if (byte === COMMA && depth === 0) return at;
    at += 1;
  }
  return body.length + 1;
}

/**
 * Finds the end of a string.
 * @param from offset of the opening quote
 * @returns the offset after the closing quote; more than the body's length without one
 */
function endOfString(body: Buffer, from: number): number {
  let at = from + 1;
  for (const near = Math.min(body.length, at + NEAR_BYTES); at < near; at += 1) {
    const byte = body[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) at += 1;
  }
  for (let quote = body.indexOf(QUOTE, at); quote >= 0; quote = body.indexOf(QUOTE, quote + 1)) {
    let before = quote - 1;
    while (before >= at && body[before] === BACKSLASH) before -= 1;
    if ((quote - 1 - before) % 2 === 0) return quote + 1;
  }
  return body.length + 1;
}
