/**
 * The text form of per-customer keys: `svc_live_` or `svc_test_` and 36 base62 characters, of which 30 are random and
 * 6 are their CRC-32. So a typo is detected without a look-up, and a secret scanner has no false alarms. Only the
 * hash of a key is ever stored. Any thread.
 */
import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const API_KEY_MODES = ['live', 'test'] as const;
type ApiKeyMode = (typeof API_KEY_MODES)[number];

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 30;
const CHECK_CHARACTERS = 6;
const API_KEY = /^svc_(?:live|test)_([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/;
/** 62 · 4. Larger bytes are not used, because they would make some characters more likely than others. */
const EVEN_BYTES = 248;
const PREFIX_CHARACTERS = 12;
const LAST_CHARACTERS = 4;

/** A new key, and its stored data. */
interface MadeApiKey {
  /** Shown once, never stored. */
  raw: string;
  hash: string;
  /** The first 12 characters. */
  prefix: string;
  /** The last 4 characters. */
  last4: string;
}

export function makeApiKey(mode: ApiKeyMode): MadeApiKey {
  let random = '';
  while (random.length < RANDOM_CHARACTERS) {
    for (const byte of randomBytes(RANDOM_CHARACTERS)) {
      if (byte < EVEN_BYTES && random.length < RANDOM_CHARACTERS) random += BASE62[byte % 62];
    }
  }
  const raw = `svc_${mode}_${random}${checksumOf(random)}`;
  return {
    raw,
    hash: hashApiKey(raw),
    prefix: raw.slice(0, PREFIX_CHARACTERS),
    last4: raw.slice(-LAST_CHARACTERS),
  };
}

/** Whether {@link makeApiKey} may have made this text. */
export function isApiKey(text: string): boolean {
  const [, random, check] = API_KEY.exec(text) ?? [];
  return random !== undefined && check === checksumOf(random);
}

/**
 * The hash by which a key is found: SHA-256, hexadecimal. Keys are random, so a slow hash would add no protection.
 */
export function hashApiKey(raw: string): string {
  return hash('sha256', raw, 'hex');
}

function checksumOf(random: string): string {
  let rest = crc32(random);
  let text = '';
  for (let at = 0; at < CHECK_CHARACTERS; at++) {
    text = BASE62[rest % 62] + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}
