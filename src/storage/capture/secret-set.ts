/**
 * The secrets that the bodies and heads of one request's exchange are searched for: the credentials in its headers and its
 * query, in all their forms. Capture process.
 */
import { packNeedles } from '../../../native/byte-engine.ts';
import { credentialForms, MAX_FORMS } from '../../redaction/credentials.ts';
import { PEM_TAIL } from '../../redaction/private-keys.ts';
import type { Wanted } from '../../redaction/secret-search.ts';
import { PLACEHOLDER_HEAD_BYTES } from './attachments.ts';

/** The secrets of one request in all their forms. Compared by identity: the same credential gives the same object. */
export interface SecretSet {
  texts: string[];
  bytes: Buffer[];
  /** The bytes as the byte engine takes them. */
  packed: Uint8Array;
  /** The same with all else that a body is searched for. */
  packed_all: Uint8Array;
  /** They alone, and they with keys by their shape. */
  alone: Wanted;
  with_keys: Wanted;
}

export const NO_SECRETS = makeSecretSet([]);

/** Sets that are remembered; emptied when full. */
const MAX_REMEMBERED = 1_024;
/** Of one, packed; longer ones are not remembered. */
const MAX_REMEMBERED_BYTES = 16_384;

/** The latest sets, so that the same credentials give the same object. */
export class SecretSets {
  readonly #sets = new Map<string, SecretSet>();
  readonly #always: readonly string[];
  readonly #alone: SecretSet;

  /** @param always secrets that are in every set, however many a client brings along */
  constructor(always: readonly string[] = []) {
    this.#always = always.flatMap(credentialForms);
    this.#alone = always.length === 0 ? NO_SECRETS : makeSecretSet(sortForms(this.#always));
  }

  /** @param found credentials as they came */
  intern(found: readonly string[]): SecretSet {
    if (found.length === 0) return this.#alone;
    const key = found.join('\n');
    const known = this.#sets.get(key);
    if (known !== undefined) return known;
    const texts = sortForms(found.flatMap(credentialForms)).slice(-MAX_FORMS);
    const secrets = makeSecretSet(this.#always.length === 0 ? texts : sortForms([...texts, ...this.#always]));
    // Long ones are not kept: of those each may be another.
    if (secrets.packed.length > MAX_REMEMBERED_BYTES) return secrets;
    if (this.#sets.size >= MAX_REMEMBERED) this.#sets.clear();
    this.#sets.set(key, secrets);
    return secrets;
  }
}

/** @returns each once, the longest first */
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

/** @param shapes keys by their shape, too */
export function wantedOf(secrets: SecretSet, shapes: boolean): Wanted {
  return shapes ? secrets.with_keys : secrets.alone;
}
