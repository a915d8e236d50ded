/**
 * A text cut into tokens: words, numbers, identifiers, addresses, paths and signs, each with its key, in which digits
 * are levelled. One pass over the characters without regular expressions, so that no text is slow. Pure; any thread.
 */

type TokenKind = 'word' | 'number' | 'id' | 'email' | 'path' | 'sign' | 'break';

export interface TextToken {
  start: number;
  end: number;
  kind: TokenKind;
  /** Lower case, with each run of digits as one `#`. */
  key: string;
}

const SPACE = 0;
const LETTER = 1;
const DIGIT = 2;
const SIGN = 3;
const BREAK = 4;

const KINDS = new Uint8Array(65_536).fill(LETTER);
for (let code = 0; code < 256; code++) {
  const char = String.fromCharCode(code);
  if (code === 10) KINDS[code] = BREAK;
  else if (code <= 32 || code === 0xa0) KINDS[code] = SPACE;
  else if (char >= '0' && char <= '9') KINDS[code] = DIGIT;
  else if (code < 128 && char.toLowerCase() === char.toUpperCase() && char !== '_') KINDS[code] = SIGN;
  else if (code >= 0x80 && code < 0xc0 && code !== 0xaa && code !== 0xb5 && code !== 0xba) KINDS[code] = SIGN;
}
for (let code = 0x2000; code < 0x3040; code++) KINDS[code] = code <= 0x200b || code === 0x3000 ? SPACE : SIGN;

/** Signs that join a word if word characters are on both sides. */
const JOINS = new Uint8Array(128);
for (const char of "-./@+'_~%&:,#=") JOINS[char.charCodeAt(0)] = 1;

/** Keys are truncated to this length, because longer words rarely differ only at the end. */
const KEY_CHARACTERS = 48;

function isInner(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  if (code >= 128 || JOINS[code] === 0) return false;
  const before = KINDS[text.charCodeAt(at - 1)]!;
  const after = at + 1 < text.length ? KINDS[text.charCodeAt(at + 1)]! : SPACE;
  const isWordAfter = after === LETTER || after === DIGIT;
  switch (code) {
    case 44: // 1,204
      return before === DIGIT && after === DIGIT;
    case 58: // 12:30, https://, file::test
      if (before === DIGIT && after === DIGIT) return true;
      return (
        text.charCodeAt(at + 1) === 47 || text.charCodeAt(at + 1) === 58 || text.charCodeAt(at - 1) === 58
      );
    case 47: // a/b, https://
      return isWordAfter || text.charCodeAt(at + 1) === 47;
    case 61: // only inside addresses, which are cut there
    case 38:
    case 35:
    case 37:
      return false;
    default:
      return isWordAfter;
  }
}

/**
 * Cuts a text into tokens.
 * @param limit maximum number of tokens; the remaining text is ignored
 */
export function readTokens(text: string, limit: number): TextToken[] {
  const tokens: TextToken[] = [];
  const { length } = text;
  let at = 0;
  while (at < length && tokens.length < limit) {
    const kind = KINDS[text.charCodeAt(at)]!;
    if (kind === SPACE) {
      at++;
      continue;
    }
    const start = at;
    if (kind === BREAK) {
      at++;
      tokens.push({ start, end: at, kind: 'break', key: '\n' });
      continue;
    }
    let letters = 0;
    let digits = 0;
    let slashes = 0;
    let ats = 0;
    let dots = 0;
    let joins = 0;
    if (kind === SIGN) {
      const code = text.charCodeAt(at);
      const next = at + 1 < length ? KINDS[text.charCodeAt(at + 1)]! : SPACE;
      // A path may begin with its sign.
      const isPathStart =
        (code === 47 || code === 126 || code === 46) && (next === LETTER || text.charCodeAt(at + 1) === 47);
      at++;
      if (!isPathStart || (code === 46 && next === LETTER)) {
        tokens.push({ start, end: at, kind: 'sign', key: text[start]! });
        continue;
      }
      if (code !== 46) slashes++;
    }
    for (; at < length; at++) {
      const code = text.charCodeAt(at);
      const kind = KINDS[code]!;
      if (kind === LETTER) letters++;
      else if (kind === DIGIT) digits++;
      else if (at > start && isInner(text, at)) {
        if (code === 46) dots++;
        else if (code !== 44) joins++;
        if (code === 47) slashes++;
        else if (code === 64) ats++;
      } else break;
    }
    if (at === start) {
      at++;
      continue;
    }
    tokens.push({
      start,
      end: at,
      kind:
        ats === 1 && slashes === 0
          ? 'email'
          : slashes > 0 && letters > 0
            ? 'path'
            : digits === 0
              ? 'word'
              : letters === 0 && joins === 0 && dots <= 1
                ? 'number'
                : 'id',
      key: levelText(text.slice(start, Math.min(at, start + KEY_CHARACTERS)), digits > 0),
    });
  }
  return tokens;
}

function levelText(text: string, hasDigits: boolean): string {
  if (!hasDigits) return text.toLowerCase();
  let levelled = '';
  let isRun = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 48 && code <= 57) {
      if (!isRun) levelled += '#';
      isRun = true;
    } else {
      levelled += text[i];
      isRun = false;
    }
  }
  return levelled.toLowerCase();
}

/** Whether a token looks generated for one occasion: a number, an identifier, an e-mail address. */
export function isOccasional(token: TextToken): boolean {
  return token.kind === 'number' || token.kind === 'id' || token.kind === 'email';
}
