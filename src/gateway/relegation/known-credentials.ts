/**
 * Credentials that the student may answer: the operator's own, and those that the upstream has lately taken. The student
 * asks nobody whether a key is good, so it answers no key that nobody has found to be good. Server threads, each for
 * itself: a thread that has not seen a credential sends its first step to the upstream.
 *
 * Kept is a keyed hash alone, with a key that is made at the start and written nowhere.
 */

import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { STUDENT_CREDENTIALS } from '../../limits.ts';
import { isCredentialHeader } from '../../redaction/header-names.ts';
import { type Clock, systemClock } from '../../std/clock.ts';
import { RecentMap } from '../../std/recent-map.ts';

const NO_NAMES: ReadonlySet<string> = new Set();
const BEARER = /^bearer +/i;
/** For whom a credential speaks, where it may speak for several. */
const ACCOUNT_HEADERS = new Set(['openai-organization', 'openai-project']);

export class KnownCredentials {
  readonly #key = randomBytes(32);
  readonly #clock: Clock;
  /** SHA-256 of the operator's. */
  readonly #own: readonly Buffer[];
  /** Digest of what a request came with → until when, on the monotonic clock. */
  readonly #accepted = new RecentMap<string, number>(STUDENT_CREDENTIALS.entries);

  /** @param own what clients may send as `x-api-key` or as bearer, by the operator's word (SVC_STUDENT_KEYS) */
  constructor(own: readonly string[], clock: Clock = systemClock) {
    this.#own = own.map((key) => hash('sha256', key, 'buffer'));
    this.#clock = clock;
  }

  /**
   * What a request is remembered by: all its credentials together, since the upstream has judged them together.
   * @param headers flat pairs, names in lower case
   * @param path that it came to: an upstream may take a credential for one and not for another
   * @param replaced names of headers that the upstream never sees, since the route has its own: it judges that one
   */
  digest(headers: readonly string[], path = '', replaced: ReadonlySet<string> = NO_NAMES): string {
    const hmac = createHmac('sha256', this.#key);
    hmac.update(`${path}\n`);
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at]!;
      if (replaced.has(name)) continue;
      // Neither may hold a line's end.
      if (isCredentialHeader(name) || ACCOUNT_HEADERS.has(name)) hmac.update(`${name}\n${headers[at + 1]}\n`);
    }
    return hmac.digest('base64');
  }

  /** Whether the student may answer it. */
  isKnown(headers: readonly string[], digest: string): boolean {
    const until = this.#accepted.get(digest);
    if (until !== undefined && until > this.#clock.monotonicMs()) return true;
    return this.#own.length > 0 && this.#hasOwn(headers);
  }

  /** The upstream has answered a step that came with it. Other statuses than these say nothing of a credential. */
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
      // All of them, in constant time: how long it takes says nothing of how close a guess is.
      for (const own of this.#own) if (timingSafeEqual(own, sent)) isOwn = true;
    }
    return isOwn;
  }
}
