/**
 * A thread's cache of verified credentials, by their digest: bounded in number and age, and cleared when anything is
 * revoked in this process, or when another box changes credentials in a shared database. Server threads.
 */
import { hash } from 'node:crypto';
import { type Clock, systemClock } from '../std/clock.ts';
import { RecentMap } from '../std/recent-map.ts';
import type { Revocations } from './revocations.ts';

/**
 * Maximum number of verified credentials in the cache of a server thread, and how long each stays. Document 2 allows
 * about 60 seconds until a revoked key is refused.
 */
export const CREDENTIAL_CACHE = { entries: 50_000, fresh_ms: 30_000 } as const;

interface Remembered<Value> {
  value: Value;
  /**
   * Time on the monotonic clock. A wall clock that is set back must not extend the validity of a revoked credential.
   */
  fresh_until_ms: number;
  /** The credential's own expiry, on the wall clock. */
  until_ms: number;
}

export class CredentialCache<Value> {
  readonly #entries = new RecentMap<string, Remembered<Value>>(CREDENTIAL_CACHE.entries);
  readonly #revocations: Revocations;
  readonly #clock: Clock;
  #epoch: number;

  constructor(revocations: Revocations, clock: Clock = systemClock) {
    this.#revocations = revocations;
    this.#clock = clock;
    this.#epoch = revocations.epoch;
  }

  /** The key of a credential in the cache; the credential itself is not stored. */
  digest(token: string): string {
    return hash('sha256', token, 'base64');
  }

  get(digest: string): Value | undefined {
    const { epoch } = this.#revocations;
    if (epoch !== this.#epoch) {
      this.#epoch = epoch;
      this.#entries.clear();
      return undefined;
    }
    const entry = this.#entries.get(digest);
    if (entry === undefined || entry.fresh_until_ms <= this.#clock.monotonicMs()) return undefined;
    return entry.until_ms <= this.#clock.wallMs() ? undefined : entry.value;
  }

  /**
   * Stores the result of a verification that began at the given epoch. Stores nothing if anything was revoked after
   * that.
   * @param until_ms the credential's own expiry, on the wall clock
   */
  set(digest: string, value: Value, epoch: number, until_ms = Number.POSITIVE_INFINITY): void {
    if (epoch !== this.#revocations.epoch || epoch !== this.#epoch) return;
    const fresh_until_ms = this.#clock.monotonicMs() + CREDENTIAL_CACHE.fresh_ms;
    this.#entries.set(digest, { value, fresh_until_ms, until_ms });
  }
}
