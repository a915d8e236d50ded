/** The operations on stored keys that the check of a credential needs. Server threads. */
import type { Accounts } from '../storage/ports/accounts.ts';
import type { KeyReads, KeyRecord } from '../storage/ports/keys.ts';

/** Stored keys, as the check of a credential reads them. */
export interface KeyStore {
  /** Reads the present state, including earlier commits of other threads. */
  findByHash(hash: string): KeyRecord | undefined;
  /** Stores the time at which the key was used, at most once a minute. */
  touch(id: string, nowMs: number): Promise<void>;
}

/** Least interval between two writes of `last_used_at` (document 4, "Credentials, roles, errors"). */
export const TOUCH_EVERY_MS = 60_000;

export class StoredKeys implements KeyStore {
  readonly #accounts: Accounts;

  constructor(accounts: Accounts) {
    this.#accounts = accounts;
  }

  findByHash(hash: string): KeyRecord | undefined {
    return this.#accounts.keys.findByHash(hash);
  }

  async touch(id: string, nowMs: number): Promise<void> {
    // This avoids most writes after a revocation, when every thread verifies every key again.
    if (isNoted(this.#accounts.keys, id, nowMs)) return;
    await this.#accounts.transact(({ keys }) => {
      if (!isNoted(keys, id, nowMs)) keys.noteUse(id, nowMs);
    });
  }
}

function isNoted(keys: KeyReads, id: string, nowMs: number): boolean {
  const before = keys.lastUseOf(id);
  return before !== null && Math.abs(nowMs - Date.parse(before)) < TOUCH_EVERY_MS;
}

/** Whether the key is refused at the given time. */
export function isEnded({ revoked_at, expires_at }: KeyRecord, nowMs: number): boolean {
  return revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= nowMs);
}
