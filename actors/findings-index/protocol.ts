/**
 * What a findings index understands. One actor a code base of an organization: it gives findings their place, knows
 * their paths and vectors, and has them written. Who needs the texts reads them from the tables.
 * Any thread.
 */

import { createHash } from 'node:crypto';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { Codebase, Finding, FindingFilter } from '../../src/domain/finding.ts';
import type { ActorAddress, RowKey } from '../../src/runtime/protocol.ts';

/**
 * Findings of one code base. One more takes the place of the longest unused one. Their vectors are in memory while the
 * code base is in use.
 */
export const FINDINGS_PER_CODEBASE = 10_000;

export const FINDINGS_INDEX_KIND = 'findings-index';

/** Tables of `main.mdb`. A finding is in two rows: its texts, and what the index must know of it. */
export const FINDINGS = 'findings';
export const FINDINGS_INDEXED = 'findings_indexed';
/** One row a code base. */
export const FINDINGS_CODEBASES = 'findings_codebases';

export interface CodebaseRow {
  /** Every place below it has been given once. */
  next_seq: number;
  count: number;
  /** By which all vectors were made; null when some are missing or of another. */
  embedder_id: string | null;
}

/** What the index knows of a finding. */
export interface IndexedRow {
  finding_id: string;
  project_id: string;
  file_path: string;
  finding_type: string;
  created_at: string;
  hash: string;
  /** null: not embedded yet. */
  embedder_id: string | null;
  /** 32-bit floats of this machine's byte order; empty without a vector. */
  vector: Uint8Array;
}

/** The embedder whose vectors count: others are as good as missing. */
export interface EmbedderFacts {
  id: string;
  dimensions: number;
}

/** What stands in every message: an actor has but a digest of it for its key. */
export interface IndexFacts {
  codebase: Codebase;
  embedder: EmbedderFacts;
}

/** What a request may touch; null: every project's. */
interface Scoped extends IndexFacts {
  project_id: string | null;
  /** Projects whose findings are hidden; absent: no such projects. */
  hidden?: readonly string[];
}

interface StoreRequest extends IndexFacts {
  finding: Finding;
  hash: string;
  /** null: to be embedded later. */
  vector: Uint8Array | null;
}

interface RecallRequest extends Scoped, FindingFilter {
  vector: Uint8Array;
  top_k: number;
  score_threshold: number;
}

interface ListRequest extends Scoped, FindingFilter {
  limit: number;
  offset: number;
  /** Only places before it; null: from the newest on. */
  before_seq: number | null;
  /** RFC 3339 UTC with milliseconds: stored then or later, and earlier; null: no matter when. */
  from: string | null;
  to: string | null;
}

interface PathsRequest extends Scoped {
  file_paths: readonly string[];
}

/** What deletes says who does, for the entry that is written with it where something was deleted. */
interface Audited {
  /** Its `after` gets `deleted`, the number of findings; null: the caller records the deletion elsewhere. */
  audit: AuditEntry | null;
}

/** Where a finding is, and that it is still the same one. */
export interface FindingPlace {
  seq: number;
  finding_id: string;
}

export type FindingsIndexProtocol = {
  /** Evicts the longest unused finding when there is no room. */
  store: {
    request: StoreRequest;
    reply: { finding_id: string; created_at: string; unembedded: number };
  };
  recall: {
    request: RecallRequest;
    reply: { hits: (FindingPlace & { score: number })[]; unembedded: number };
  };
  /** Where one finding is; null: not in sight. */
  find: { request: Scoped & { finding_id: string }; reply: { place: FindingPlace | null } };
  /** `total`: of all pages. `is_last`: nothing is behind this one. */
  list: { request: ListRequest; reply: { places: FindingPlace[]; total: number; is_last: boolean } };
  invalidate: { request: PathsRequest & Audited; reply: { deleted: number } };
  coverage: { request: PathsRequest; reply: { coverage: number } };
  clear: { request: Scoped & Audited; reply: { deleted: number } };
  delete: { request: Scoped & Audited & { finding_id: string }; reply: { deleted: number } };
  /** Deletes those that were stored before a moment, oldest first, `limit` of them at most. */
  expire: {
    request: Scoped & Audited & { before: string; limit: number };
    reply: { deleted: number };
  };
  /** Which findings wait for a vector, oldest first. */
  unembedded: { request: IndexFacts & { limit: number }; reply: { places: FindingPlace[]; left: number } };
  /** Their vectors; of findings that are gone by now nothing is kept. */
  embedded: {
    request: IndexFacts & { vectors: readonly { seq: number; finding_id: string; vector: Uint8Array }[] };
    reply: { left: number };
  };
};

/** Both names together are longer than a key may be. */
export function findingsAddress({ org_id, codebase_id }: Codebase): ActorAddress {
  const digest = createHash('sha256')
    .update(JSON.stringify([org_id, codebase_id]))
    .digest('base64url');
  return { kind: FINDINGS_INDEX_KIND, key: digest };
}

export function codebaseRow({ org_id, codebase_id }: Codebase): RowKey {
  return [org_id, codebase_id];
}

/** Of both rows of a finding. */
export function findingRow({ org_id, codebase_id }: Codebase, seq: number): RowKey {
  return [org_id, codebase_id, seq];
}

export function packVector(vector: Float32Array): Uint8Array {
  return new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
}

/** Copies: the bytes may lie where no 32-bit float may begin. */
export function unpackVector(bytes: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}
