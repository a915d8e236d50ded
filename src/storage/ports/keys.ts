/** Keys of the API, by organization and project. Types; any thread. */
import type { Listing, Page } from './page.ts';

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
  /** Time from which the key is refused, for example the end of a rotated key's overlap; null: never. */
  expires_at: string | null;
  revoked_at: string | null;
}

/** Requests of a key on a day (UTC). */
export interface KeyRequests {
  /** YYYY-MM-DD */
  date: string;
  requests: number;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface KeyReads {
  /** Finds a key by the digest that is computed from a request's credential. */
  findByHash(hash: string): KeyRecord | undefined;
  find(id: string): KeyRecord | undefined;
  /** Lists all keys of an organization, including revoked ones, newest first. */
  listAll(org_id: string): Iterable<KeyRecord>;
  /** Reads a page of the keys of an organization or a project, including revoked ones, newest first. */
  list(org_id: string, project_id: string | null, page: Page): Listing<KeyRecord>;
  /** Lists the ids of a project's keys that are valid at the given time; null: of the whole organization. */
  listLive(
    org_id: string,
    project_id: string | null,
    nowMs: number,
  ): Iterable<{ id: string; project_id: string | null }>;
  countLive(org_id: string, project_id: string | null, nowMs: number): number;
  /** RFC 3339; null: the key was never used. */
  lastUseOf(id: string): string | null;
  /** Lists the days with requests, the newest first. @param from the first day, YYYY-MM-DD */
  listRequests(id: string, from: string): Iterable<KeyRequests>;
}

/** What a transaction may do. */
export interface KeyWork extends KeyReads {
  /**
   * Stores a new key's record.
   * @throws CatalogueError `conflict` if the organization has reached its limit
   */
  insert(record: KeyRecord): void;
  noteUse(id: string, nowMs: number): void;
  /** Adds requests of a key on a day, YYYY-MM-DD. */
  addRequests(id: string, day: string, requests: number): void;
  /**
   * Revokes a key, or sets its expiry. A revoked key stays as it is; an expiry may be replaced.
   * @param end `revoked_at` for now, `expires_at` for later
   * @returns the record after the change; null for an unknown id
   */
  end(id: string, end: { revoked_at: string } | { expires_at: string }): KeyRecord | null;
}
