/**
 * Where per-customer keys are kept: by hash, which is how a request finds them, with what else points at them. One
 * implementation on tables of rows, which have a twin in memory. Any thread.
 */
import type { TableReader, Tables, TableTransaction } from '../storage/tables.ts';

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
    return findKey(this.#tables, id);
  }

  /** All of an organization's, revoked ones too, newest first. */
  listByOrg(org_id: string): Iterable<KeyRecord> {
    return keysOfOrg(this.#tables, org_id);
  }

  lastUsedAt(id: string): string | null {
    return lastUseOf(this.#tables, id);
  }

  /** Resolves once it is durable. */
  async insert(record: KeyRecord): Promise<void> {
    await this.#tables.transact((transaction) => insertKey(transaction, record));
  }

  /**
   * Revokes a key, or lets it live on until a moment. What was decided first stays: revoking twice changes nothing.
   * @param end `revoked_at` for now, `expires_at` for later
   * @returns the record as it is then; null for an id that is not there
   */
  async end(id: string, end: { revoked_at: string } | { expires_at: string }): Promise<KeyRecord | null> {
    return this.#tables.transact((transaction) => endKey(transaction, id, end));
  }

  async touch(id: string, nowMs: number): Promise<void> {
    await this.#tables.transact((transaction) => {
      const before = transaction.get<string>(USES, [id]);
      if (before !== undefined && nowMs - Date.parse(before) < TOUCH_EVERY_MS) return;
      transaction.write({ op: 'put', table: USES, row: [id], value: new Date(nowMs).toISOString() });
    });
  }
}

/** Stores a new key's record. */
export function insertKey(transaction: TableTransaction, record: KeyRecord): void {
  transaction.write({ op: 'put', table: BY_HASH, row: [record.hash], value: record });
  transaction.write({ op: 'put', table: HASHES, row: [record.id], value: record.hash });
  transaction.write({ op: 'put', table: BY_ORG, row: [record.org_id, record.id], value: null });
}

export function findKey(tables: TableReader, id: string): KeyRecord | undefined {
  const hash = tables.get<string>(HASHES, [id]);
  return hash === undefined ? undefined : tables.get<KeyRecord>(BY_HASH, [hash]);
}

/** All of an organization's, revoked ones too, newest first. */
export function* keysOfOrg(tables: TableReader, org_id: string): Iterable<KeyRecord> {
  for (const { row } of tables.range(BY_ORG, { prefix: [org_id], reverse: true })) {
    const record = findKey(tables, String(row[1]));
    if (record !== undefined) yield record;
  }
}

export function lastUseOf(tables: TableReader, id: string): string | null {
  return tables.get<string>(USES, [id]) ?? null;
}

/** As {@link TableKeyStore.end}, in a transaction with what belongs to it. */
export function endKey(
  transaction: TableTransaction,
  id: string,
  end: { revoked_at: string } | { expires_at: string },
): KeyRecord | null {
  const record = findKey(transaction, id);
  if (record === undefined) return null;
  if (record.revoked_at !== null) return record;
  const ended = { ...record, ...end };
  transaction.write({ op: 'put', table: BY_HASH, row: [record.hash], value: ended });
  return ended;
}

/** True when the key is refused at that moment. */
export function isEnded({ revoked_at, expires_at }: KeyRecord, nowMs: number): boolean {
  return revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= nowMs);
}
