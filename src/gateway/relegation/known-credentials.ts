/**
 * Credentials whose requests the student may answer: those in SVC_STUDENT_KEYS, and those that the
 * upstream recently accepted. The student cannot verify a key, so it answers only requests with
 * keys that are known to be valid. Server threads. Each thread remembers credentials separately, so
 * it sends the first step with a new credential to the upstream.
 *
 * Of a client's credential, only a keyed hash is kept. The hash's key is made at the start and never written. Of the
 * keys in SVC_STUDENT_KEYS, a plain SHA-256 is kept.
 */

import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isCredentialHeader } from '../../redaction/header-names.ts';
import { type Clock, systemClock } from '../../std/clock.ts';
import { RecentMap } from '../../std/recent-map.ts';

/**
 * Maximum number of accepted credentials that a server thread remembers, and for how long after the
 * last success.
 */
export const STUDENT_CREDENTIALS = { entries: 10_000, fresh_ms: 3_600_000 } as const;

const NO_NAMES: ReadonlySet<string> = new Set();
const BEARER = /^bearer +/i;
/** Headers that name the account, for a credential that may act for several accounts. */
const ACCOUNT_HEADERS = new Set(['openai-organization', 'openai-project']);

export class KnownCredentials {
  readonly #key = randomBytes(32);
  readonly #clock: Clock;
  /** SHA-256 of the operator's keys. */
  readonly #own: readonly Buffer[];
  /** Digest of a request's credentials → expiry, on the monotonic clock. */
  readonly #accepted = new RecentMap<string, number>(STUDENT_CREDENTIALS.entries);

  /** @param own keys that the operator allows clients to send as `x-api-key` or bearer (SVC_STUDENT_KEYS) */
  constructor(own: readonly string[], clock: Clock = systemClock) {
    this.#own = own.map((key) => hash('sha256', key, 'buffer'));
    this.#clock = clock;
  }

  /**
   * Makes the hash that identifies all credentials of a request together, because the upstream accepts or rejects all
   * of them at once.
   * @param headers flat pairs, names in lower case
   * @param path path of the request, because an upstream may accept a credential on one path only
   * @param replaced names of headers that the route replaces, so that the upstream never sees the client's values
   */
  digest(headers: readonly string[], path = '', replaced: ReadonlySet<string> = NO_NAMES): string {
    const hmac = createHmac('sha256', this.#key);
    hmac.update(`${path}\n`);
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at]!;
      if (replaced.has(name)) continue;
      // Names and values cannot contain line ends, so the separators are unambiguous.
      if (isCredentialHeader(name) || ACCOUNT_HEADERS.has(name)) hmac.update(`${name}\n${headers[at + 1]}\n`);
    }
    return hmac.digest('base64');
  }

  /** Whether the student may answer a request with these credentials. */
  isKnown(headers: readonly string[], digest: string): boolean {
    const until = this.#accepted.get(digest);
    if (until !== undefined && until > this.#clock.monotonicMs()) return true;
    return this.#own.length > 0 && this.#hasOwn(headers);
  }

  /**
   * Takes note of the upstream's answer to a step with this digest. After a status of 2xx the credentials are known for
   * `fresh_ms`, after 401 or 403 they are unknown again. Any other status changes nothing, because it does not show
   * whether a credential is valid.
   */
  noteAnswer(digest: string, status: number): void {
    if (status >= 200 && status < 300)
      this.#accepted.set(digest, this.#clock.monotonicMs() + STUDENT_CREDENTIALS.fresh_ms);
    else if ((status === 401 || status === 403) && this.#accepted.get(digest) !== undefined)
      this.#accepted.set(digest, Number.NEGATIVE_INFINITY);
  }

  #hasOwn(headers: readonly string[]): boolean {
    let isOwn = false;
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at];
      if (name !== 'x-api-key' && name !== 'authorization') continue;
      const value = headers[at + 1]!.trim();
      const sent = hash('sha256', name === 'authorization' ? value.replace(BEARER, '') : value, 'buffer');
      // Compare with every key in constant time, so that the duration does not reveal how close a guess is.
      for (const own of this.#own) if (timingSafeEqual(own, sent)) isOwn = true;
    }
    return isOwn;
  }
}
