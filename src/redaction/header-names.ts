/** Decides which headers hold a credential. Pure; any thread. */
import { isCredentialName } from './credential-name.ts';

/** Maximum length of a header's name. A longer name counts as that of a credential, so its value is not stored. */
const HEADER_NAME_CHARACTERS = 256;

const CREDENTIAL_HEADERS = new Set([
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'x-amz-security-token',
  'cookie',
  'set-cookie',
  // A session's id that authenticates its owner. The ids that agents give their runs (`session-id`,
  // `x-claude-code-session-id`) authenticate no one.
  'x-session-id',
  'x-sessionid',
  'x-session',
]);

/** Words that mark a credential header if they are its name, or the end of its name after a separator. */
const LAST_WORDS = [
  'secret',
  'authorization',
  'authentication',
  'auth',
  'passwd',
  'password',
  'passphrase',
  'credential',
  'credentials',
  'signature',
  'jwt',
  'pat',
  'cookie',
  'cookie2',
];
/** Words before a final `key` in the name of a credential header. */
const KEY_KINDS = [
  'api',
  'access',
  'secret',
  'private',
  'subscription',
  'auth',
  'functions',
  'master',
  'account',
  'service',
];

/** Words in names of headers that count or limit tokens. */
const COUNTS = [
  'ratelimit',
  'rate-limit',
  'usage',
  'count',
  'quota',
  'limit',
  'remaining',
  'reset',
  'budget',
  'consumed',
  'billed',
];

const verdicts = new Map<string, boolean>();
const VERDICTS = 2_048;

/**
 * Finds the value of `x-session-affinity`, by which opencode's provider chooses a machine. If `x-session-id` has the
 * same value, that value does not authenticate.
 * @param headers flat [name, value, …]
 * @returns null without this header
 */
export function findOpenSession(headers: readonly string[]): string | null {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i]!;
    if (name.length === 18 && name.toLowerCase() === 'x-session-affinity') return headers[i + 1]!;
  }
  return null;
}

const OPENCODE_SESSION = 'ses_';

/**
 * Whether the header is an `x-session-id` of opencode with the value of `x-session-affinity`, and so not a credential.
 * @param session the value from `findOpenSession`
 */
export function isOpenSession(name: string, value: string, session: string | null): boolean {
  if (session === null || value !== session || !value.startsWith(OPENCODE_SESSION)) return false;
  return name.length === 12 && name.toLowerCase() === 'x-session-id';
}

/**
 * Whether a header's value is a credential. Three kinds of names say so: the listed ones; those that end like a
 * credential's (`x-acme-api-key`, `x-vault-token`) without a word of COUNTS (`x-ratelimit-token`); and those that
 * `isCredentialName` accepts.
 * @param name in any case; a very long one counts as a credential's
 */
export function isCredentialHeader(name: string): boolean {
  if (name.length > HEADER_NAME_CHARACTERS) return true;
  const known = verdicts.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  const verdict =
    CREDENTIAL_HEADERS.has(lower) ||
    (endsLikeCredential(lower) && !COUNTS.some((word) => lower.includes(word))) ||
    isCredentialName(name);
  if (verdicts.size >= VERDICTS) verdicts.clear();
  verdicts.set(name, verdict);
  return verdict;
}

function endsLikeCredential(lower: string): boolean {
  if (lower.endsWith('token')) return true;
  if (LAST_WORDS.some((word) => endsWithWord(lower, word))) return true;
  if (!lower.endsWith('key')) return false;
  const kind = lower.slice(0, /[-_]/.test(lower.at(-4) ?? '') ? -4 : -3);
  return KEY_KINDS.some((word) => endsWithWord(kind, word));
}

/** Whether the name ends with the word, alone or after a separator. */
function endsWithWord(name: string, word: string): boolean {
  if (!name.endsWith(word)) return false;
  const before = name.length - word.length;
  return before === 0 || '-_.'.includes(name[before - 1]!);
}
