/** Per-customer keys as credentials: the key's scope is the tenant (document 2, Authentication). Server threads. */
import { CatalogueError } from '../errors.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { KeyRecord } from '../storage/ports/keys.ts';
import { hashApiKey, isApiKey } from './api-key.ts';
import type { CredentialKind } from './authenticator.ts';
import { CredentialCache } from './credential-cache.ts';
import { type KeyStore, TOUCH_EVERY_MS } from './key-store.ts';
import type { KeyUses } from './key-uses.ts';
import type { KeyPrincipal } from './principal.ts';
import type { Revocations } from './revocations.ts';

interface KnownKey {
  principal: KeyPrincipal;
  expires_ms: number;
  touched_ms: number;
}

export class ApiKeys implements CredentialKind {
  readonly #store: KeyStore;
  readonly #revocations: Revocations;
  readonly #cache: CredentialCache<KnownKey>;
  readonly #clock: Clock;
  readonly #uses: Pick<KeyUses, 'count'> | null;

  /** @param uses counts requests; null: they are not counted */
  constructor(
    store: KeyStore,
    revocations: Revocations,
    clock: Clock = systemClock,
    uses: Pick<KeyUses, 'count'> | null = null,
  ) {
    this.#uses = uses;
    this.#store = store;
    this.#revocations = revocations;
    this.#cache = new CredentialCache(revocations, clock);
    this.#clock = clock;
  }

  /**
   * Verifies a key, counts the request, and stores the time of use at most once a minute.
   * @returns null for a text that is not a key, and for an unknown, revoked or expired key
   * @throws CatalogueError `unavailable` if the store cannot be read
   */
  verify(token: string): KeyPrincipal | null {
    if (!isApiKey(token)) return null;
    const digest = this.#cache.digest(token);
    const known = this.#cache.get(digest) ?? this.#find(token, digest);
    const nowMs = this.#clock.wallMs();
    if (known === null || known.expires_ms <= nowMs) return null;
    this.#uses?.count(known.principal.id);
    // The absolute difference, so that uses are still recorded after the clock was set back.
    if (Math.abs(nowMs - known.touched_ms) >= TOUCH_EVERY_MS) {
      known.touched_ms = nowMs;
      // A request is accepted even if its time of use cannot be stored.
      this.#store.touch(known.principal.id, nowMs).catch(() => {});
    }
    return known.principal;
  }

  /** Looks the key up by its hash, so that no part of the key itself is compared. */
  #find(token: string, digest: string): KnownKey | null {
    const { epoch } = this.#revocations;
    let record: KeyRecord | undefined;
    try {
      record = this.#store.findByHash(hashApiKey(token));
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
    if (record === undefined || record.revoked_at !== null) return null;
    const { id, org_id, project_id, expires_at } = record;
    const known: KnownKey = {
      principal: { type: 'key', id, org_id, project_id },
      expires_ms: expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at),
      touched_ms: 0,
    };
    this.#cache.set(digest, known, epoch, known.expires_ms);
    return known;
  }
}
