/** Secrets in the queries of URLs. Pure; any thread. */
import { isCredentialName } from './credential-name.ts';
import { MASK } from './mask.ts';

/** Maximum length of a parameter's name. A longer name counts as that of a secret, so its value is not stored. */
const NAME_CHARACTERS = 1_024;

const SECRET_NAMES = new Set([
  'key',
  'access_token',
  'sig',
  'signature',
  'x-amz-signature',
  'x-amz-credential',
  'x-amz-security-token',
  // Names like `token`, `api_key` and `client_secret` are not listed, because `isCredentialName` recognises their
  // words.
  'x-goog-signature',
  'x-goog-credential',
]);

/**
 * Percent-decodes bytewise (latin1), repeatedly but at most four times. Then turns each `+` into a space, and removes
 * surrounding white space.
 */
function decodeName(raw: string): string {
  let name = raw;
  for (let round = 0; round < 4 && name.includes('%'); round++) {
    const next = name.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) =>
      String.fromCharCode(parseInt(hex, 16)),
    );
    if (next === name) break;
    name = next;
  }
  return name.replaceAll('+', ' ').trim();
}

/** Whether a query parameter's value must never be stored, however its name is percent-encoded or cased. */
export function isSecretQueryName(raw: string): boolean {
  if (raw.length > NAME_CHARACTERS) return true;
  const name = decodeName(raw);
  return SECRET_NAMES.has(name.toLowerCase()) || isCredentialName(name);
}

/** Splits a raw query on `&` and `;`, keeping the separators, so that joining gives the query back. */
export function splitQuery(query: string): string[] {
  return query.split(/([&;])/);
}

/**
 * Masks every secret value in a query, and leaves the rest unchanged.
 * @param query raw, without `?`
 */
export function maskQuery(query: string): string {
  if (query === '') return query;
  let changed = false;
  const parts = splitQuery(query).map((part) => {
    const equals = part.indexOf('=');
    if (equals < 0 || equals === part.length - 1 || !isSecretQueryName(part.slice(0, equals))) return part;
    changed = true;
    return `${part.slice(0, equals + 1)}${MASK}`;
  });
  return changed ? parts.join('') : query;
}

/** ENDS: 1 for bytes that end a name or a value. BEGINS: 1 for bytes after which a parameter begins. */
const ENDS = new Uint8Array(256);
for (const char of `=&;#"'<> \t\n\v\f\r\u00a0`) ENDS[char.charCodeAt(0)] = 1;
const BEGINS = new Uint8Array(256);
for (const char of '?&;#') BEGINS[char.charCodeAt(0)] = 1;

function isIn(set: Uint8Array, text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code < 256 && set[code] === 1;
}

/**
 * Masks secret values in the queries and fragments of URLs inside a header value (`location`, `referer`, `link`). The
 * cost is linear, because no name contains `=`.
 */
export function maskEmbeddedQueries(text: string): string {
  let equals = text.indexOf('=');
  if (equals < 0) return text;
  let masked = '';
  let done = 0;
  while (equals >= 0) {
    let name = equals;
    while (name > done && !isIn(ENDS, text, name - 1) && !isIn(BEGINS, text, name - 1)) name--;
    let end = equals + 1;
    if (name < equals && name > 0 && isIn(BEGINS, text, name - 1)) {
      if (isSecretQueryName(text.slice(name, equals))) {
        while (end < text.length && !isIn(ENDS, text, end)) end++;
        if (end > equals + 1) {
          masked += `${text.slice(done, equals + 1)}${MASK}`;
          done = end;
        }
      }
    }
    equals = text.indexOf('=', end);
  }
  return masked + text.slice(done);
}
