/** What checking a credential needs of the stored keys. Server threads. */
import type { Accounts } from '../storage/ports/accounts.ts';
import type { KeyReads, KeyRecord } from '../storage/ports/keys.ts';

/** The operations for checking a credential. */
export interface KeyStore {
  /** Reads the present state, including earlier commits of other threads. */
  findByHash(hash: string): KeyRecord | undefined;
  /** Notes that the key was used, at most once a minute. */
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
    // After a revocation every key is verified again; most were noted shortly before.
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
