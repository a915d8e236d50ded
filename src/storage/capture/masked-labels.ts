/**
 * Keeps apart what was masked: run labels that differ only in that (`job-[redacted]` becomes `job-[redacted-3f9ac1d2e4b5a697]`),
 * and the credentials of requests. Capture process.
 *
 * The digits are an HMAC of the whole label as it came, or of the credential. Its key is a random secret in DATA_DIR/secrets: without it, not even a weak
 * password that a client sends as its credential and repeats in its label can be guessed from them. The secret is read, or
 * made, at the first label that needs it.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { MASK } from '../../redaction/mask.ts';
import { loadKeptSecret } from '../../std/kept-secret.ts';

/** 64 bits: of a million labels that differ only in their keys, two are alike once in 37 million installations. */
const DIGITS = 16;
/** 48 bits: of a thousand credentials, two are alike once in 500 million installations. */
const SIGN_DIGITS = 12;

export class MaskedLabels {
  readonly #dataDir: string | null;
  #secret: string | null = null;

  /** @param dataDir where the secret is kept; null: it lasts as long as this object */
  constructor(dataDir: string | null) {
    this.#dataDir = dataDir;
  }

  /**
   * @param masked the label without its secrets
   * @param label as it came
   * @returns the label to store; the same for the same label, another for any other
   */
  tellApart(masked: string, label: string): string {
    if (masked === label) return label;
    this.#secret ??= this.#load();
    const digits = createHmac('sha256', this.#secret).update(label).digest('hex').slice(0, DIGITS);
    return masked.replaceAll(MASK, `${MASK.slice(0, -1)}-${digits}]`);
  }

  /** A sign of a credential: the same for the same one. Without the secret it cannot be guessed from a guess at the credential. */
  signOf(credential: string): string {
    this.#secret ??= this.#load();
    return createHmac('sha256', this.#secret)
      .update(`credential\n${credential}`)
      .digest('hex')
      .slice(0, SIGN_DIGITS);
  }

  /** Where the secret cannot be kept, captures go on with one that lasts until this process ends. */
  #load(): string {
    if (this.#dataDir !== null) {
      try {
        return loadKeptSecret(
          join(this.#dataDir, 'secrets', 'run-labels'),
          'a new one gives runs whose labels hold keys other ids',
        );
      } catch {
        // Labels stay apart, and a run that spans a restart becomes two.
      }
    }
    return randomBytes(32).toString('base64url');
  }
}
