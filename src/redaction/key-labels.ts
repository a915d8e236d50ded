/**
 * The words before a token that mark it as a secret: a scheme (`Bearer`), a label (`aws_secret_access_key`), or the
 * name of a key followed by `:` or `=`. At most CONTEXT_BYTES before the token are read. Pure; any thread.
 *
 * Sources: RFC 6750 (Bearer), RFC 7617 (Basic), AWS Signature Version 4.
 */

/** Maximum number of bytes before a token that are searched for a label or a scheme. */
const CONTEXT_BYTES = 64;

const SPACE = new Uint8Array(256);
for (const char of ' \t\n\v\f\r\u00a0') SPACE[char.charCodeAt(0)] = 1;
const QUOTE = new Uint8Array(256);
for (const char of '"\'\\') QUOTE[char.charCodeAt(0)] = 1;
/** 1 for bytes allowed between a name and its value. */
const BETWEEN = new Uint8Array(256);
for (const char of '"\'\\ \t\r\n:=') BETWEEN[char.charCodeAt(0)] = 1;

/**
 * Whether the bytes in [lowest, at) end with the word, in any case.
 * @param word in lower case
 */
function endsWith(bytes: Uint8Array, lowest: number, at: number, word: string): boolean {
  if (at - lowest < word.length) return false;
  for (let i = word.length - 1, place = at - 1; i >= 0; i--, place--) {
    const byte = bytes[place]!;
    const char = word.charCodeAt(i);
    if (byte !== char && (byte | 0x20) !== char) return false;
    // `|` also turns some punctuation into letters.
    if (byte !== char && !(byte >= 0x41 && byte <= 0x5a)) return false;
  }
  return true;
}

function endsWithOne(bytes: Uint8Array, lowest: number, at: number, words: readonly string[]): boolean {
  for (const word of words) if (endsWith(bytes, lowest, at, word)) return true;
  return false;
}

function skipBack(bytes: Uint8Array, lowest: number, at: number, set: Uint8Array): number {
  let place = at;
  while (place > lowest && set[bytes[place - 1]!] === 1) place--;
  return place;
}

/**
 * Finds the start of the white space before `at` that may separate a scheme from its token, also escaped or
 * percent-encoded; `at` without white space.
 */
function skipSchemeSpace(bytes: Uint8Array, lowest: number, at: number): number {
  let place = at;
  for (;;) {
    const last = place > lowest ? bytes[place - 1]! : 0;
    if (SPACE[last] === 1 || last === 0x2b) place--;
    else if (endsWith(bytes, lowest, place, '%20')) place -= 3;
    else if ((last === 0x74 || last === 0x6e) && place - lowest >= 2 && bytes[place - 2] === 0x5c) place -= 2;
    else return place;
  }
}

function isScheme(bytes: Uint8Array, lowest: number, token: number): boolean {
  let at = skipSchemeSpace(bytes, lowest, token);
  if (at === token) return false;
  if (endsWith(bytes, lowest, at, 'bearer')) return true;
  if (!endsWith(bytes, lowest, at, 'basic')) return false;
  at = skipBack(bytes, lowest, at - 5, QUOTE);
  at = skipBack(bytes, lowest, at, SPACE);
  if (at === lowest || (bytes[at - 1] !== 0x3a && bytes[at - 1] !== 0x3d)) return false;
  at = skipBack(bytes, lowest, at - 1, SPACE);
  return endsWith(bytes, lowest, skipBack(bytes, lowest, at, QUOTE), 'authorization');
}

const LABELS = [
  'secretaccesskey',
  'secret_accesskey',
  'secretaccess_key',
  'secret_access_key',
  'x-amz-security-token',
  'awssessiontoken',
  'aws_sessiontoken',
  'awssession_token',
  'aws_session_token',
  'clientsecret',
  'client_secret',
];

function isLabel(bytes: Uint8Array, lowest: number, token: number): boolean {
  let at = token;
  for (;;) {
    const last = at > lowest ? bytes[at - 1]! : 0;
    if (SPACE[last] === 1 || QUOTE[last] === 1 || last === 0x3a || last === 0x3d) at--;
    else if (endsWithOne(bytes, lowest, at, ['%3a', '%3d', '%22', '%20'])) at -= 3;
    else break;
  }
  return mayEndName(bytes[at - 1]!) && endsWithOne(bytes, lowest, at, LABELS);
}

/** Whether a name may end with this byte: `key`, `token`, `secret` and `authorization` end with y, n or t. */
function mayEndName(last: number): boolean {
  const small = last | 0x20;
  return small === 0x79 || small === 0x6e || small === 0x74;
}

/** Whether a scheme or a label precedes the token, whatever the token looks like. */
export function isLabelled(bytes: Uint8Array, token: number): boolean {
  const lowest = Math.max(0, token - CONTEXT_BYTES);
  return isScheme(bytes, lowest, token) || isLabel(bytes, lowest, token);
}

const KEY_OF = [
  'api',
  'secret',
  'private',
  'access',
  'account',
  'subscription',
  'signing',
  'encryption',
  'master',
];
const TOKEN_OF = ['access', 'refresh', 'auth', 'authorization', 'api', 'bearer', 'session', 'secret'];

/**
 * Whether the name of a key ends at `at`. Every such name ends in `key`, `token`, `secret` or `authorization`, by which
 * the byte engine recognises a suspect. Names of page tokens and position tokens are excluded, because an agent needs
 * such tokens again. A secret's name in an ARN is excluded, too.
 */
function isKeyName(bytes: Uint8Array, lowest: number, at: number): boolean {
  if (at === lowest || !mayEndName(bytes[at - 1]!)) return false;
  if (endsWith(bytes, lowest, at, 'key'))
    return endsWithOne(bytes, lowest, skipJoint(bytes, lowest, at - 3), KEY_OF);
  if (endsWith(bytes, lowest, at, 'token'))
    return endsWithOne(bytes, lowest, skipJoint(bytes, lowest, at - 5), TOKEN_OF);
  if (endsWith(bytes, lowest, at, 'secret')) {
    const before = skipJoint(bytes, lowest, at - 6);
    return (before > lowest && isLetterDigit(bytes[before - 1]!)) || isQuoted(bytes, lowest, at - 6, at);
  }
  return endsWith(bytes, lowest, at, 'authorization') && isQuoted(bytes, lowest, at - 13, at);
}

/** Skips a `_` or `-` before `at`, if there is one. */
function skipJoint(bytes: Uint8Array, lowest: number, at: number): number {
  return at > lowest && (bytes[at - 1] === 0x5f || bytes[at - 1] === 0x2d) ? at - 1 : at;
}

function isLetterDigit(byte: number): boolean {
  const small = byte | 0x20;
  return (small >= 0x61 && small <= 0x7a) || (byte >= 0x30 && byte <= 0x39);
}

/** Whether the word in [start, end) is in quotation marks. The closing mark may be escaped. */
function isQuoted(bytes: Uint8Array, lowest: number, start: number, end: number): boolean {
  if (start === lowest || (bytes[start - 1] !== 0x22 && bytes[start - 1] !== 0x27)) return false;
  let at = end;
  while (bytes[at] === 0x5c) at++;
  return bytes[at] === 0x22 || bytes[at] === 0x27;
}

/** Whether the name of a key and an assignment precede the token. */
export function isNamed(bytes: Uint8Array, token: number): boolean {
  const lowest = Math.max(0, token - CONTEXT_BYTES);
  let at = token;
  let isAssigned = false;
  while (at > lowest && BETWEEN[bytes[at - 1]!] === 1) {
    at--;
    isAssigned ||= bytes[at] === 0x3a || bytes[at] === 0x3d;
  }
  return isAssigned && isKeyName(bytes, lowest, at);
}

const GLUED_LABELS = [
  'secretaccesskey',
  'secret_accesskey',
  'secretaccess_key',
  'secret_access_key',
  'x-amz-security-token',
  'x-amz-signature',
  'access_token',
  'client_secret',
];

/** Whether a label that needs no other evidence ends before the `=` at `equals`: `X-Amz-Signature=`. */
export function isGluedLabel(bytes: Uint8Array, lowest: number, equals: number): boolean {
  const last = equals > lowest ? bytes[equals - 1]! | 0x20 : 0;
  // `x-amz-signature` ends with an e.
  if (!mayEndName(last) && last !== 0x65) return false;
  return endsWithOne(bytes, lowest, equals, GLUED_LABELS);
}

/** Whether the name of a key ends before the `=` at `equals`. */
export function isGluedName(bytes: Uint8Array, lowest: number, equals: number): boolean {
  return isKeyName(bytes, lowest, equals);
}
