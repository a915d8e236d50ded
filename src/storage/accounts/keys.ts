/** API keys and their index rows. Keys are stored under their hash, because a request contains the key. Any thread. */
import type { KeyReads, KeyRecord, KeyRequests, KeyWork } from '../ports/keys.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { countRow, countRows } from './page.ts';
import { requireRoom } from './room.ts';

/**
 * Maximum number of keys of one organization that are neither revoked nor expired. Further ones are refused with 409.
 */
const KEYS_PER_ORG_MAX = 5_000;

const BY_HASH = 'api_keys';
/** `[id]` → hash. */
const HASHES = 'api_key_hashes';
/** `[org_id, id]` → null, counted by organization. */
export const API_KEYS_OF_ORG = 'api_keys_of_org';
/** `[org_id, project_id, id]` → null, counted by project. */
const BY_PROJECT = 'api_keys_of_project';
/** `[org_id, project_id or '', id]` → `expires_at`: only the keys that are not revoked. */
const LIVE = 'api_keys_live';
/** `[id]` → time of the last use, RFC 3339. In a separate table, because it is written while keys are read. */
const USES = 'api_key_uses';
/** `[key id, day]` → number of requests. */
const REQUESTS = 'api_key_requests';

export class TableKeyReads implements KeyReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  findByHash(hash: string): KeyRecord | undefined {
    return this.#reader.get<KeyRecord>(BY_HASH, [hash]);
  }

  find(id: string): KeyRecord | undefined {
    const hash = this.#reader.get<string>(HASHES, [id]);
    return hash === undefined ? undefined : this.#reader.get<KeyRecord>(BY_HASH, [hash]);
  }

  *listAll(org_id: string): Iterable<KeyRecord> {
    for (const { row } of this.#reader.range(API_KEYS_OF_ORG, { prefix: [org_id], reverse: true })) {
      const record = this.find(String(row[1]));
      if (record !== undefined) yield record;
    }
  }

  list(org_id: string, project_id: string | null, { limit, offset }: Page): Listing<KeyRecord> {
    const [table, prefix] =
      project_id === null ? [API_KEYS_OF_ORG, [org_id]] : ([BY_PROJECT, [org_id, project_id]] as const);
    const total = countRows(this.#reader, table, prefix);
    if (offset >= total) return { items: [], total };
    const items: KeyRecord[] = [];
    for (const { row } of this.#reader.range(table, { prefix, reverse: true, offset, limit })) {
      const record = this.find(String(row.at(-1)));
      if (record !== undefined) items.push(record);
    }
    return { items, total };
  }

  *listLive(
    org_id: string,
    project_id: string | null,
    nowMs: number,
  ): Iterable<{ id: string; project_id: string | null }> {
    const prefix = project_id === null ? [org_id] : [org_id, project_id];
    for (const { row, value } of this.#reader.range<string | null>(LIVE, { prefix })) {
      if (value === null || Date.parse(value) > nowMs)
        yield { id: String(row[2]), project_id: row[1] === '' ? null : String(row[1]) };
    }
  }

  countLive(org_id: string, project_id: string | null, nowMs: number): number {
    let count = 0;
    for (const _ of this.listLive(org_id, project_id, nowMs)) count++;
    return count;
  }

  lastUseOf(id: string): string | null {
    return this.#reader.get<string>(USES, [id]) ?? null;
  }

  *listRequests(id: string, from: string): Iterable<KeyRequests> {
    // Reads from the newest day, because recent days are requested.
    const range = { prefix: [id], reverse: true };
    for (const { row, value } of this.#reader.range<Pick<KeyRequests, 'requests'>>(REQUESTS, range)) {
      const date = String(row[1]);
      if (date < from) return;
      yield { date, requests: value.requests };
    }
  }
}

export class TableKeyWork extends TableKeyReads implements KeyWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  insert(record: KeyRecord): void {
    const { org_id, project_id, id, created_at } = record;
    // All keys of an organization are counted. With fewer keys than the limit there is room, and no key must be read.
    if (countRows(this.#tx, API_KEYS_OF_ORG, [org_id]) >= KEYS_PER_ORG_MAX)
      requireRoom(forgetExpired(this.#tx, org_id, Date.parse(created_at)), KEYS_PER_ORG_MAX, 'keys');
    this.#tx.write({ op: 'put', table: BY_HASH, row: [record.hash], value: record });
    this.#tx.write({ op: 'put', table: HASHES, row: [record.id], value: record.hash });
    this.#tx.write({ op: 'put', table: API_KEYS_OF_ORG, row: [org_id, id], value: null });
    countRow(this.#tx, API_KEYS_OF_ORG, [org_id], 1);
    if (project_id !== null) {
      this.#tx.write({ op: 'put', table: BY_PROJECT, row: [org_id, project_id, id], value: null });
      countRow(this.#tx, BY_PROJECT, [org_id, project_id], 1);
    }
    this.#tx.write({ op: 'put', table: LIVE, row: liveRow(record), value: record.expires_at });
  }

  noteUse(id: string, nowMs: number): void {
    this.#tx.write({ op: 'put', table: USES, row: [id], value: new Date(nowMs).toISOString() });
  }

  addRequests(id: string, day: string, requests: number): void {
    this.#tx.write({ op: 'add', table: REQUESTS, row: [id, day], counts: { requests } });
  }

  end(id: string, end: { revoked_at: string } | { expires_at: string }): KeyRecord | null {
    const record = this.find(id);
    if (record === undefined) return null;
    if (record.revoked_at !== null) return record;
    const ended = { ...record, ...end };
    this.#tx.write({ op: 'put', table: BY_HASH, row: [record.hash], value: ended });
    this.#tx.write(
      ended.revoked_at === null
        ? { op: 'put', table: LIVE, row: liveRow(ended), value: ended.expires_at }
        : { op: 'remove', table: LIVE, row: liveRow(ended) },
    );
    return ended;
  }

  /** Removes a key with all its index rows. */
  remove(id: string): void {
    const record = this.find(id);
    if (record === undefined) return;
    const { hash, org_id, project_id } = record;
    this.#tx.write({ op: 'remove', table: BY_HASH, row: [hash] });
    this.#tx.write({ op: 'remove', table: HASHES, row: [id] });
    this.#tx.write({ op: 'remove', table: API_KEYS_OF_ORG, row: [org_id, id] });
    countRow(this.#tx, API_KEYS_OF_ORG, [org_id], -1);
    if (project_id !== null) {
      this.#tx.write({ op: 'remove', table: BY_PROJECT, row: [org_id, project_id, id] });
      countRow(this.#tx, BY_PROJECT, [org_id, project_id], -1);
    }
    this.#tx.write({ op: 'remove', table: LIVE, row: liveRow(record) });
    this.#tx.write({ op: 'remove', table: USES, row: [id] });
    for (const { row } of [...this.#tx.range(REQUESTS, { prefix: [id] })])
      this.#tx.write({ op: 'remove', table: REQUESTS, row });
  }
}

function liveRow({ org_id, project_id, id }: KeyRecord) {
  return [org_id, project_id ?? '', id];
}

/**
 * Removes the rows of expired keys from LIVE, so that these keys no longer count towards the maximum.
 * @returns the number of the other rows
 */
function forgetExpired(transaction: TableTransaction, org_id: string, nowMs: number): number {
  let left = 0;
  for (const { row, value } of [...transaction.range<string | null>(LIVE, { prefix: [org_id] })]) {
    if (value !== null && Date.parse(value) <= nowMs) transaction.write({ op: 'remove', table: LIVE, row });
    else left++;
  }
  return left;
}
