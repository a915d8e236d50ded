/**
 * The secrets to search for in one exchange, in all encodings: the credentials in the request's headers and query, and
 * those of the operator. Capture process.
 */
import { packNeedles } from '../../../native/byte-engine.ts';
import { credentialForms, MAX_FORMS } from '../../redaction/credentials.ts';
import { PEM_TAIL } from '../../redaction/private-keys.ts';
import type { Wanted } from '../../redaction/secret-search.ts';
import { PLACEHOLDER_HEAD_BYTES } from './attachments.ts';

/**
 * The secrets of one request in all encodings. Compared by identity: equal credentials give the same object as long as
 * it is cached. Otherwise edits are not reused, which only costs time.
 */
export interface SecretSet {
  texts: string[];
  bytes: Buffer[];
  /** The secrets in the byte engine's format. */
  packed: Uint8Array;
  /** The secrets and everything else to search for in a body. */
  packed_all: Uint8Array;
  /** The search for the secrets alone, and the search for secrets and key shapes. */
  alone: Wanted;
  with_keys: Wanted;
}

export const NO_SECRETS = makeSecretSet([]);

/** Maximum number of cached sets. A full cache is emptied. */
const MAX_REMEMBERED = 1_024;
/** Larger packed sets are not cached. */
const MAX_REMEMBERED_BYTES = 16_384;

/** Caches the latest sets, so that equal credentials give the same object, except for large sets. */
export class SecretSets {
  readonly #sets = new Map<string, SecretSet>();
  readonly #always: readonly string[];
  readonly #alone: SecretSet;

  /** @param always secrets in every set, even if the request has the maximum number of credentials */
  constructor(always: readonly string[] = []) {
    this.#always = always.flatMap(credentialForms);
    this.#alone = always.length === 0 ? NO_SECRETS : makeSecretSet(sortForms(this.#always));
  }

  /** Returns the set of these credentials. @param found credentials as received */
  intern(found: readonly string[]): SecretSet {
    if (found.length === 0) return this.#alone;
    const key = found.join('\n');
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    const texts = sortForms(found.flatMap(credentialForms)).slice(-MAX_FORMS);
    const secrets = makeSecretSet(this.#always.length === 0 ? texts : sortForms([...texts, ...this.#always]));
    // Large sets are not cached, because each is probably different.
    if (secrets.packed.length > MAX_REMEMBERED_BYTES) return secrets;
    if (this.#sets.size >= MAX_REMEMBERED) this.#sets.clear();
    this.#sets.set(key, secrets);
    return secrets;
  }
}

/** Sorts forms, the longest first, and leaves out repetitions. */
function sortForms(forms: readonly string[]): string[] {
  return [...new Set(forms)].sort((a, b) => b.length - a.length);
}

function makeSecretSet(texts: string[]): SecretSet {
  const bytes = texts.map((text) => Buffer.from(text, 'latin1'));
  const packed = packNeedles(bytes);
  return {
    texts,
    bytes,
    packed,
    alone: { needles: bytes, packed, shapes: false },
    with_keys: { needles: bytes, packed, shapes: true },
    packed_all: packNeedles([...bytes, PEM_TAIL, PLACEHOLDER_HEAD_BYTES]),
  };
}

/** Returns what to search for. @param shapes whether to search for key shapes, too */
export function wantedOf(secrets: SecretSet, shapes: boolean): Wanted {
  return shapes ? secrets.with_keys : secrets.alone;
}
