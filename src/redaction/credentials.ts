/**
 * The credentials of one request, and the forms in which an answer may echo them. Pure; runs where captures are written
 * or erased, and on the main thread at the start.
 *
 * Sources: RFC 9110 (Authorization), RFC 6750 (Bearer), RFC 7617 (Basic), RFC 6265 (Cookie); AWS Signature Version 4.
 */
import { findOpenSession, isCredentialHeader, isOpenSession } from './header-names.ts';
import { MASK } from './mask.ts';
import { isSecretQueryName, splitQuery } from './query.ts';

/** Minimum length of a value that is searched for in the whole exchange. Shorter values could be ordinary words. */
export const MIN_CREDENTIAL_LENGTH = 8;
/** Maximum number of distinct secrets of one request; a request with more (hundreds of cookies) keeps the longest. */
const MAX_CREDENTIALS = 64;
/** A longer value gets fewer forms, because no real credential is that long. */
const FORMS_CHARACTERS = 8_192;
/**
 * Maximum number of forms of all secrets of one request together. The shortest forms are kept, including the secrets as
 * received. The forms of the operator's own credentials do not count.
 */
export const MAX_FORMS = 1_024;

/** Adds a secret without surrounding white space. Leaves out the mask and values too short to be searched for. */
function addSecret(into: Set<string>, value: string): void {
  const trimmed = value.trim();
  if (trimmed.length >= MIN_CREDENTIAL_LENGTH && trimmed !== MASK) into.add(trimmed);
}

function addCookies(into: Set<string>, header: string): void {
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=');
    const value = (equals < 0 ? pair : pair.slice(equals + 1)).trim();
    addSecret(into, value);
    if (value.startsWith('"') && value.endsWith('"')) addSecret(into, value.slice(1, -1));
    if (value.includes('%')) addSecret(into, decodeValue(value));
  }
}

/** Percent-decodes a value to UTF-8 text; returns the value itself when it is malformed. */
function decodeValue(raw: string): string {
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}

/** Maximum length of an authentication scheme; a longer first word is not a scheme. */
const SCHEME_CHARACTERS = 64;
const SCHEME = /^[A-Za-z][\w-]*$/;

/**
 * Splits `Bearer token` into its scheme, in lower case, and its token; null if the value lacks the scheme or the token.
 */
function readScheme(value: string): { scheme: string; token: string } | null {
  const head = value.slice(0, SCHEME_CHARACTERS + 1);
  const space = head.search(/\s/);
  if (space < 1 || !SCHEME.test(head.slice(0, space))) return null;
  const token = value.slice(space).trim();
  return token === '' ? null : { scheme: head.slice(0, space).toLowerCase(), token };
}

function addHeaderCredential(into: Set<string>, name: string, value: string): void {
  if (name === 'cookie') {
    addCookies(into, value);
    return;
  }
  const read = readScheme(value);
  if (read === null) {
    addSecret(into, value);
    return;
  }
  const { scheme, token } = read;
  addSecret(into, token);
  // A token that is too short to be searched for alone is searched for together with its scheme.
  if (token.length < MIN_CREDENTIAL_LENGTH) addSecret(into, value);
  if (scheme === 'basic') {
    const pair = Buffer.from(token, 'base64').toString('latin1');
    addSecret(into, pair);
    const colon = pair.indexOf(':');
    if (colon >= 0) addSecret(into, pair.slice(colon + 1));
  } else if (token.includes('=')) {
    // Parameters, as in Digest and AWS4-HMAC-SHA256.
    for (const part of token.split(/[,\s]/)) {
      const equals = part.indexOf('=');
      if (!/(?:signature|credential|response)$/i.test(part.slice(Math.max(0, equals - 10), equals))) continue;
      const quoted = part.slice(equals + 1);
      addSecret(into, quoted.startsWith('"') ? quoted.slice(1).split('"')[0]! : quoted.split('"')[0]!);
    }
  }
}

/**
 * Collects the secrets of a request: values of credential headers (the token after the scheme, a Basic pair decoded and
 * its password, each cookie's value) and secret query values, raw and decoded. Values shorter than
 * MIN_CREDENTIAL_LENGTH are left out. Returns at most MAX_CREDENTIALS, the longest first.
 * @param headers flat [name, value, …], latin1
 * @param query raw, without `?`
 */
export function collectCredentials(headers: readonly string[], query: string): string[] {
  const secrets = new Set<string>();
  const session = findOpenSession(headers);
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i]!;
    const value = headers[i + 1]!;
    if (isCredentialHeader(name) && !isOpenSession(name, value, session))
      addHeaderCredential(secrets, name.toLowerCase(), value);
  }
  if (query.includes('=')) {
    for (const part of splitQuery(query)) {
      const equals = part.indexOf('=');
      if (equals < 0 || !isSecretQueryName(part.slice(0, equals))) continue;
      const value = part.slice(equals + 1);
      addSecret(secrets, value);
      addSecret(secrets, decodeValue(value));
      addSecret(secrets, decodeValue(value.replaceAll('+', ' ')));
    }
  }
  const longestFirst = [...secrets].sort((a, b) => b.length - a.length);
  return longestFirst.slice(0, MAX_CREDENTIALS);
}

const PLAIN = /^[A-Za-z0-9_.~-]+$/;

/**
 * Lists the forms in which an answer may contain a secret: unchanged, JSON-escaped (also with `\/`, and with `<>&'=+`
 * as `\u00xx`), percent-encoded in upper and lower case and as a form field, HTML-escaped, each of these inside up to
 * two further JSON texts, and in base64. A secret of more than FORMS_CHARACTERS gets only the unchanged, the
 * JSON-escaped and the base64 form.
 * @returns byte strings (latin1) of at least MIN_CREDENTIAL_LENGTH, longest first
 */
export function credentialForms(secret: string): string[] {
  const forms = new Set<string>([secret]);
  const utf8 = Buffer.from(secret, 'utf8').toString('latin1');
  forms.add(utf8);
  // Without padding.
  const base64 = Buffer.from(secret, 'latin1').toString('base64');
  forms.add(base64.slice(0, Math.ceil((secret.length * 4) / 3)));
  if (secret.length > FORMS_CHARACTERS) forms.add(JSON.stringify(secret).slice(1, -1));
  if (secret.length <= FORMS_CHARACTERS && !PLAIN.test(secret)) {
    const json = JSON.stringify(secret).slice(1, -1);
    forms.add(json);
    forms.add(json.replaceAll('/', '\\/'));
    forms.add(secret.replaceAll('/', '\\/'));
    const escaped = json.replace(/[<>&'=+]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
    forms.add(escaped);
    forms.add(escaped.replace(/\\u00../g, (c) => `\\u${c.slice(2).toUpperCase()}`));
    forms.add(json.replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`));
    const percent = Buffer.from(secret, 'latin1')
      .toString('latin1')
      .replace(/[^A-Za-z0-9_.~-]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
    forms.add(percent);
    forms.add(percent.replace(/%../g, (c) => c.toLowerCase()));
    forms.add(percent.replaceAll('%20', '+'));
    // `encodeURI` does not encode these characters.
    forms.add(
      percent.replace(/%(3B|2C|2F|3F|3A|40|26|3D|2B|24|23|21|27|28|29|2A)/g, (_, h: string) =>
        String.fromCharCode(parseInt(h, 16)),
      ),
    );
    forms.add(
      secret.replace(
        /[&<>"']/g,
        (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]!,
      ),
    );
    // As a form field, where `~` is escaped too.
    forms.add(new URLSearchParams({ s: secret }).toString().slice(2));
    // JSON inside JSON, twice: a tool's result quoted in an answer that is quoted again.
    for (let depth = 0; depth < 2; depth++) {
      for (const form of [...forms]) forms.add(JSON.stringify(form).slice(1, -1));
    }
  }
  return [...forms]
    .filter((form) => form.length >= MIN_CREDENTIAL_LENGTH)
    .sort((a, b) => b.length - a.length);
}

/** Headers of providers that contain a client's plain key. */
const KEY_HEADERS = new Set(['x-api-key', 'api-key', 'x-goog-api-key']);

/**
 * Finds the credential by which a provider distinguishes its clients: a bearer token, or the key in a provider's header
 * or query. Signatures, which differ from request to request, are left out.
 * @returns null if the request has none
 */
export function findCredential(headers: readonly string[], query: string): string | null {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    const value = headers[i + 1]!;
    if (KEY_HEADERS.has(name) && value !== '') return value.trim();
    if (name !== 'authorization') continue;
    const read = readScheme(value);
    if (read?.scheme === 'bearer') return read.token;
  }
  if (!query.includes('key=')) return null;
  const part = splitQuery(query).find((pair) => pair.startsWith('key='));
  return part === undefined ? null : decodeValue(part.slice(4)) || null;
}
