/**
 * Decides which names denote a credential: fields of free-form objects, query parameters, headers. A name is divided
 * into words (`clientSecret`, `client_secret` and `CLIENT-SECRET` are two words each). The last word decides, together
 * with the words before it. Pure; any thread.
 */

/** Maximum number of characters of a name that are examined, counted from its end. */
const NAME_CHARACTERS = 256;

/** Last words that denote a credential, unless the first word of the name makes it a yes or no: `has_password`. */
const CREDENTIAL_WORD =
  /(?:passw(?:or)?d|passphrase|passcode|secret|credential)s?$|^(?:pwds?|jwts?|bearer|auth|authorization|cookies?|cookie2)$|(?:api|secret|access|private)keys?$/;

/** `key` denotes a credential after one of these words; a primary, public, cache or idempotency key is not one. */
const KEY_KIND = new Set(
  'api access secret private subscription auth functions master account service signing encryption decryption ssh hmac openai anthropic gemini groq mistral cohere azure stripe'.split(
    ' ',
  ),
);

/** `pass` denotes a credential only after one of these words; elsewhere it can mean that a test passes. */
const PASS_OF = new Set(
  'db database smtp imap mail email user ftp ssh sudo admin root pg postgres mysql redis'.split(' '),
);

/** `signature` denotes a credential only after one of these words; elsewhere it can be that of a function. */
const SIGNATURE_OF = new Set('x amz goog hub url request response webhook hmac jwt auth'.split(' '));

/** If one of these words precedes `token`, the token is a count, a limit, a position in a list, or a unit of text. */
const NO_CREDENTIAL_TOKEN =
  /^(?:rate|usage|count|quota|limit|remaining|reset|budget|consumed|billed|used|max|min|avg|mean|total|sum|num|number|n|per|cost|price|input|output|prompt|completion|reasoning|thinking|cached?|first|last|next|prev|previous|page|cont|continuation|continue|cursor|sync|resume|pagination|start|end|stop|bos|eos|sep|cls|pad|unk|mask|special|current){1,4}$/;

/** Last words that are ignored. */
const SILENT_WORD = /^(?:v?\d+|value)$/;

const verdicts = new Map<string, boolean>();
const VERDICTS = 2_048;

/**
 * Whether the value under the name is a credential.
 * @param name as written: its capitals divide it into words
 */
export function isCredentialName(name: string): boolean {
  const looked = name.length > NAME_CHARACTERS ? name.slice(-NAME_CHARACTERS) : name;
  const known = verdicts.get(looked);
  if (known !== undefined) return known;
  const verdict = judgeWords(splitWords(looked));
  if (verdicts.size >= VERDICTS) verdicts.clear();
  verdicts.set(looked, verdict);
  return verdict;
}

/** Splits a name such as `X-API-Key`, `dbPassword` or `OPENAI_API_KEY` into its words, in lower case. */
function splitWords(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

function judgeWords(words: string[]): boolean {
  while (words.length > 1 && SILENT_WORD.test(words.at(-1)!)) words.pop();
  const last = words.at(-1)?.replace(/(?<=[a-z])\d+$/, '');
  if (last === undefined) return false;
  const before = words.slice(0, -1);
  if (/tokens?$/.test(last)) return isCredentialToken(last, before);
  if (CREDENTIAL_WORD.test(last)) return !/^(?:no|has|is|needs?|requires?)$/.test(before[0] ?? '');
  const kind = before.at(-1) ?? '';
  if (last === 'key' || last === 'keys') return KEY_KIND.has(kind);
  if (last === 'pass') return PASS_OF.has(kind);
  if (last === 'signature' || last === 'sig') return before.some((word) => SIGNATURE_OF.has(word));
  return false;
}

/**
 * Whether a name that ends with `token` or `tokens` denotes a credential. `token` does unless a word before it says
 * otherwise. `tokens` does only after a word for a credential.
 */
function isCredentialToken(last: string, before: readonly string[]): boolean {
  const glued = last.replace(/tokens?$/, '');
  const kinds = glued === '' ? before : [...before, glued];
  if (kinds.some((kind) => NO_CREDENTIAL_TOKEN.test(kind))) return false;
  return (
    !last.endsWith('s') || /^(?:access|refresh|auth|api|bearer|session|secret)$/.test(kinds.at(-1) ?? '')
  );
}
