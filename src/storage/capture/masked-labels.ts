/**
 * Keeps masked values distinct: run labels that differ only in their masked part (`job-[redacted]` becomes
 * `job-[redacted-3f9ac1d2e4b5a697]`), and the credentials of requests. Capture process. The digits are an HMAC of the
 * original label or of the credential. Its key is a random secret in DATA_DIR/secrets. Without that key, the digits
 * cannot be used to check guesses, even if a client uses a weak password as its credential and repeats this password in
 * its label. The secret is read or created when it is first needed.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { MASK } from '../../redaction/mask.ts';
import { loadKeptSecret } from '../../std/kept-secret.ts';

/**
 * 64 bits: among a million labels that differ only in their keys, two get the same digits in one of 37 million
 * installations.
 */
const DIGITS = 16;
/** 48 bits: among a thousand credentials, two get the same digits in one of 500 million installations. */
const SIGN_DIGITS = 12;

export class MaskedLabels {
  readonly #dataDir: string | null;
  #secret: string | null = null;

  /** @param dataDir folder of the secret; null: the secret is random, and lasts as long as this object */
  constructor(dataDir: string | null) {
    this.#dataDir = dataDir;
  }

  /**
   * Adds digits to the masked parts of a label.
   * @param masked the label without its secrets
   * @param label the original label
   * @returns the label to store: equal for equal labels, and different for different ones
   */
  tellApart(masked: string, label: string): string {
    if (masked === label) return label;
    this.#secret ??= this.#load();
    const digits = createHmac('sha256', this.#secret).update(label).digest('hex').slice(0, DIGITS);
    return masked.replaceAll(MASK, `${MASK.slice(0, -1)}-${digits}]`);
  }

  /**
   * Returns a fingerprint of a credential. Without the secret, a guess at the credential cannot be checked against the
   * fingerprint.
   */
  signOf(credential: string): string {
    this.#secret ??= this.#load();
    return createHmac('sha256', this.#secret)
      .update(`credential\n${credential}`)
      .digest('hex')
      .slice(0, SIGN_DIGITS);
  }

  /**
   * Reads or creates the secret. If the secret cannot be stored, capture uses a new secret until the process ends.
   */
  #load(): string {
    if (this.#dataDir !== null) {
      try {
        return loadKeptSecret(
          join(this.#dataDir, 'secrets', 'run-labels'),
          'with a new one, runs whose labels contain keys get other ids',
        );
      } catch {
        // Labels stay distinct, but a run that continues after a restart becomes two runs.
      }
    }
    return randomBytes(32).toString('base64url');
  }
}
