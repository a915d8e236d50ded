/**
 * Stores per-customer keys by their hash, by which requests find them, together with their index rows. One
 * implementation on tables of rows, which also exist in memory. Any thread.
 */
import { countRow, countRows, type Listing, type Page } from '../storage/accounts/page.ts';
import { requireRoom } from '../storage/accounts/room.ts';
import type { TableReader, Tables, TableTransaction } from '../storage/tables.ts';
import { KEY_REQUESTS } from './key-uses.ts';

/** Keys of one organization. One more is refused with 409. */
const KEYS_PER_ORG_MAX = 5_000;

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
  /** Time from which it is refused (the end of a rotated key's overlap); null: never. */
  expires_at: string | null;
  revoked_at: string | null;
}

/** The operations for checking a credential. */
export interface KeyStore {
  /** Reads the present state, including earlier commits of other threads. */
  findByHash(hash: string): KeyRecord | undefined;
  /** Notes that the key was used, at most once a minute. */
  touch(id: string, nowMs: number): Promise<void>;
}

/** Least interval between two writes of `last_used_at` (document 4, "Credentials, roles, errors"). */
export const TOUCH_EVERY_MS = 60_000;

const BY_HASH = 'api_keys';
/** `[id]` → hash. */
const HASHES = 'api_key_hashes';
/** `[org_id, id]` → null, counted by organization. */
export const API_KEYS_OF_ORG = 'api_keys_of_org';
/** `[org_id, project_id, id]` → null, counted by project. */
const BY_PROJECT = 'api_keys_of_project';
/** `[org_id, project_id or '', id]` → `expires_at`: the keys that are not revoked, without the others. */
const LIVE = 'api_keys_live';
/** `[id]` → RFC 3339. Separate from the records, because it is written while they are read. */
const USES = 'api_key_uses';

export class TableKeyStore implements KeyStore {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  findByHash(hash: string): KeyRecord | undefined {
    return this.#tables.get<KeyRecord>(BY_HASH, [hash]);
  }

  async touch(id: string, nowMs: number): Promise<void> {
    // After a revocation every key is verified again; most were noted shortly before.
    if (isNoted(this.#tables, id, nowMs)) return;
    await this.#tables.transact((transaction) => {
      if (isNoted(transaction, id, nowMs)) return;
      transaction.write({ op: 'put', table: USES, row: [id], value: new Date(nowMs).toISOString() });
    });
  }
}

function isNoted(tables: TableReader, id: string, nowMs: number): boolean {
  const before = tables.get<string>(USES, [id]);
  return before !== undefined && Math.abs(nowMs - Date.parse(before)) < TOUCH_EVERY_MS;
}

/**
 * Stores a new key's record.
 * @throws CatalogueError `conflict` if the organization has reached its limit
 */
export function insertKey(transaction: TableTransaction, record: KeyRecord): void {
  const { org_id, project_id, id, created_at } = record;
  forgetExpired(transaction, org_id, Date.parse(created_at));
  requireRoom(countLiveKeys(transaction, org_id, null, 0), KEYS_PER_ORG_MAX, 'keys');
  transaction.write({ op: 'put', table: BY_HASH, row: [record.hash], value: record });
  transaction.write({ op: 'put', table: HASHES, row: [record.id], value: record.hash });
  transaction.write({ op: 'put', table: API_KEYS_OF_ORG, row: [org_id, id], value: null });
  countRow(transaction, API_KEYS_OF_ORG, [org_id], 1);
  if (project_id !== null) {
    transaction.write({ op: 'put', table: BY_PROJECT, row: [org_id, project_id, id], value: null });
    countRow(transaction, BY_PROJECT, [org_id, project_id], 1);
  }
  transaction.write({ op: 'put', table: LIVE, row: liveRow(record), value: record.expires_at });
}

function liveRow({ org_id, project_id, id }: KeyRecord) {
  return [org_id, project_id ?? '', id];
}

/** A key whose overlap is over no longer counts. */
function forgetExpired(transaction: TableTransaction, org_id: string, nowMs: number): void {
  for (const { row, value } of [...transaction.range<string | null>(LIVE, { prefix: [org_id] })]) {
    if (value !== null && Date.parse(value) <= nowMs) transaction.write({ op: 'remove', table: LIVE, row });
  }
}

export function findKey(tables: TableReader, id: string): KeyRecord | undefined {
  const hash = tables.get<string>(HASHES, [id]);
  return hash === undefined ? undefined : tables.get<KeyRecord>(BY_HASH, [hash]);
}

/** All keys of an organization, including revoked ones, newest first. */
export function* keysOfOrg(tables: TableReader, org_id: string): Iterable<KeyRecord> {
  for (const { row } of tables.range(API_KEYS_OF_ORG, { prefix: [org_id], reverse: true })) {
    const record = findKey(tables, String(row[1]));
    if (record !== undefined) yield record;
  }
}

/** A page of the keys of an organization or a project, including revoked ones, newest first. */
export function listKeys(
  tables: TableReader,
  org_id: string,
  project_id: string | null,
  { limit, offset }: Page,
): Listing<KeyRecord> {
  const [table, prefix] =
    project_id === null ? [API_KEYS_OF_ORG, [org_id]] : ([BY_PROJECT, [org_id, project_id]] as const);
  const total = countRows(tables, table, prefix);
  if (offset >= total) return { items: [], total };
  const items: KeyRecord[] = [];
  for (const { row } of tables.range(table, { prefix, reverse: true, offset, limit })) {
    const record = findKey(tables, String(row.at(-1)));
    if (record !== undefined) items.push(record);
  }
  return { items, total };
}

/** Ids of a project's keys that are valid at the given time; null: of the whole organization. */
export function* liveKeysOf(
  tables: TableReader,
  org_id: string,
  project_id: string | null,
  nowMs: number,
): Iterable<{ id: string; project_id: string | null }> {
  const prefix = project_id === null ? [org_id] : [org_id, project_id];
  for (const { row, value } of tables.range<string | null>(LIVE, { prefix })) {
    if (value === null || Date.parse(value) > nowMs)
      yield { id: String(row[2]), project_id: row[1] === '' ? null : String(row[1]) };
  }
}

export function countLiveKeys(
  tables: TableReader,
  org_id: string,
  project_id: string | null,
  nowMs: number,
): number {
  let count = 0;
  for (const _ of liveKeysOf(tables, org_id, project_id, nowMs)) count++;
  return count;
}

export function lastUseOf(tables: TableReader, id: string): string | null {
  return tables.get<string>(USES, [id]) ?? null;
}

/**
 * Revokes a key, or sets its expiry. The first decision stays: revoking twice changes nothing.
 * @param end `revoked_at` for now, `expires_at` for later
 * @returns the record after the change; null for an unknown id
 */
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
  transaction.write(
    ended.revoked_at === null
      ? { op: 'put', table: LIVE, row: liveRow(ended), value: ended.expires_at }
      : { op: 'remove', table: LIVE, row: liveRow(ended) },
  );
  return ended;
}

/** Removes a key with all its index rows. */
export function removeKey(transaction: TableTransaction, id: string): void {
  const record = findKey(transaction, id);
  if (record === undefined) return;
  const { hash, org_id, project_id } = record;
  transaction.write({ op: 'remove', table: BY_HASH, row: [hash] });
  transaction.write({ op: 'remove', table: HASHES, row: [id] });
  transaction.write({ op: 'remove', table: API_KEYS_OF_ORG, row: [org_id, id] });
  countRow(transaction, API_KEYS_OF_ORG, [org_id], -1);
  if (project_id !== null) {
    transaction.write({ op: 'remove', table: BY_PROJECT, row: [org_id, project_id, id] });
    countRow(transaction, BY_PROJECT, [org_id, project_id], -1);
  }
  transaction.write({ op: 'remove', table: LIVE, row: liveRow(record) });
  transaction.write({ op: 'remove', table: USES, row: [id] });
  for (const { row } of [...transaction.range(KEY_REQUESTS, { prefix: [id] })])
    transaction.write({ op: 'remove', table: KEY_REQUESTS, row });
}

/** Whether the key is refused at the given time. */
export function isEnded({ revoked_at, expires_at }: KeyRecord, nowMs: number): boolean {
  return revoked_at !== null || (expires_at !== null && Date.parse(expires_at) <= nowMs);
}
