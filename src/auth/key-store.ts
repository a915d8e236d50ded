/**
 * Where per-customer keys are kept: by hash, which is how a request finds them, with what else points at them. One
 * implementation on tables of rows, which have a twin in memory. Any thread.
 */
import type { Tables } from '../storage/tables.ts';

export interface KeyRecord {
  /** `key_…` */
  id: string;
  org_id: string;
  /** null: the whole organization. */
  project_id: string | null;
  name: string;
  /** SHA-256 of the key, hexadecimal. */
  hash: string;
  prefix: string;
  last4: string;
  created_by: string | null;
  created_at: string;
  /** From then on it is refused (a rotated key's overlap); null: never. */
  expires_at: string | null;
  revoked_at: string | null;
}

/** What checking a credential needs. */
export interface KeyStore {
  /** As of now: what another thread committed before is seen. */
  findByHash(hash: string): KeyRecord | undefined;
  /** Notes that the key was used, at most once a minute. */
  touch(id: string, nowMs: number): Promise<void>;
}

/** `last_used_at` is written at most so often (decisions, Credentials). */
export const TOUCH_EVERY_MS = 60_000;

const BY_HASH = 'api_keys';
/** `[id]` → hash. */
const HASHES = 'api_key_hashes';
/** `[org_id, id]` → null. */
const BY_ORG = 'api_keys_of_org';
/** `[id]` → RFC 3339. Apart from the records: it is written while they are read. */
const USES = 'api_key_uses';

export class TableKeyStore implements KeyStore {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  findByHash(hash: string): KeyRecord | undefined {
    return this.#tables.get<KeyRecord>(BY_HASH, [hash]);
  }

  findById(id: string): KeyRecord | undefined {
    const hash = this.#tables.get<string>(HASHES, [id]);
    return hash === undefined ? undefined : this.findByHash(hash);
  }

  /** All of an organization's, revoked ones too, newest first. */
  *listByOrg(org_id: string): Iterable<KeyRecord> {
    for (const { row } of this.#tables.range(BY_ORG, { prefix: [org_id], reverse: true })) {
      const record = this.findById(String(row[1]));
      if (record !== undefined) yield record;
    }
  }

  lastUsedAt(id: string): string | null {
    return this.#tables.get<string>(USES, [id]) ?? null;
  }

  /** Resolves once it is durable. */
  async insert(record: KeyRecord): Promise<void> {
    await this.#tables.transact((transaction) => {
      transaction.write({ op: 'put', table: BY_HASH, row: [record.hash], value: record });
      transaction.write({ op: 'put', table: HASHES, row: [record.id], value: record.hash });
      transaction.write({ op: 'put', table: BY_ORG, row: [record.org_id, record.id], value: null });
    });
  }

  /**
   * Revokes a key, or lets it live on until a moment. What was decided first stays: revoking twice changes nothing.
   * @param end `revoked_at` for now, `expires_at` for later
   * @returns the record as it is then; null for an id that is not there
   */
  async end(id: string, end: { revoked_at: string } | { expires_at: string }): Promise<KeyRecord | null> {
    return this.#tables.transact((transaction) => {
      const hash = transaction.get<string>(HASHES, [id]);
      const record = hash === undefined ? undefined : transaction.get<KeyRecord>(BY_HASH, [hash]);
      if (record === undefined) return null;
      if (record.revoked_at !== null) return record;
      const ended = { ...record, ...end };
      transaction.write({ op: 'put', table: BY_HASH, row: [record.hash], value: ended });
      return ended;
    });
  }

  async touch(id: string, nowMs: number): Promise<void> {
    await this.#tables.transact((transaction) => {
      const before = transaction.get<string>(USES, [id]);
      if (before !== undefined && nowMs - Date.parse(before) < TOUCH_EVERY_MS) return;
      transaction.write({ op: 'put', table: USES, row: [id], value: new Date(nowMs).toISOString() });
    });
  }
}
