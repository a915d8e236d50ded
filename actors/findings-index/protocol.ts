/**
 * The findings index's messages. Each code base of an organization has one actor. The actor assigns sequence numbers to
 * findings, knows the findings' paths and vectors, and writes the findings. The texts are read from the tables. Any
 * thread.
 */

import { createHash } from 'node:crypto';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { Codebase, Finding, FindingFilter } from '../../src/domain/finding.ts';
import type { FindingPlace } from '../../src/domain/finding-rows.ts';
import type { ActorAddress } from '../../src/runtime/protocol.ts';

/**
 * Maximum number of findings of one code base. A further finding replaces the least recently used one. The vectors of
 * all findings are in memory while the code base is in use.
 */
export const FINDINGS_PER_CODEBASE = 10_000;

export const FINDINGS_INDEX_KIND = 'findings-index';

/** The current embedder. A vector of another embedder counts as missing. */
export interface EmbedderFacts {
  id: string;
  dimensions: number;
}

/** The code base and the embedder, part of every message: the actor's key is only a digest of the code base. */
export interface IndexFacts {
  codebase: Codebase;
  embedder: EmbedderFacts;
}

/** The findings that a request may access. `project_id` null: those of all projects. */
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
  /** Only findings with lower sequence numbers; null: start with the newest. */
  before_seq: number | null;
  /** RFC 3339 UTC with milliseconds: only findings stored at or after `from` and before `to`; null: no bound. */
  from: string | null;
  to: string | null;
}

interface PathsRequest extends Scoped {
  file_paths: readonly string[];
}

interface Audited {
  /**
   * Audit entry for the deletion, written only if findings are deleted. Their number is added as `after.deleted`. null:
   * the caller records the deletion elsewhere.
   */
  audit: AuditEntry | null;
}

export type FindingsIndexProtocol = {
  /** Stores a finding. Evicts the least recently used finding if the code base has the maximum number. */
  store: {
    request: StoreRequest;
    reply: { finding_id: string; created_at: string; unembedded: number };
  };
  recall: {
    request: RecallRequest;
    reply: { hits: (FindingPlace & { score: number })[]; unembedded: number };
  };
  /** The place of a finding; null if it does not exist or is not visible. */
  find: { request: Scoped & { finding_id: string }; reply: { place: FindingPlace | null } };
  /** `total`: on all pages. `is_last`: no further page exists. */
  list: { request: ListRequest; reply: { places: FindingPlace[]; total: number; is_last: boolean } };
  invalidate: { request: PathsRequest & Audited; reply: { deleted: number } };
  coverage: { request: PathsRequest; reply: { coverage: number } };
  clear: { request: Scoped & Audited; reply: { deleted: number } };
  delete: { request: Scoped & Audited & { finding_id: string }; reply: { deleted: number } };
  /** Deletes findings that were stored before a time, oldest first, at most `limit` of them. */
  expire: {
    request: Scoped & Audited & { before: string; limit: number };
    reply: { deleted: number };
  };
  /** The findings without a vector, oldest first. */
  unembedded: { request: IndexFacts & { limit: number }; reply: { places: FindingPlace[]; left: number } };
  /** Stores vectors for findings that have none. Vectors of findings that were deleted in the meantime are dropped. */
  embedded: {
    request: IndexFacts & { vectors: readonly { seq: number; finding_id: string; vector: Uint8Array }[] };
    reply: { left: number };
  };
  /** Another box has changed rows of this code base: they are read again before the next message. */
  stale: { request: null; reply: null };
};

/**
 * Returns the address of a code base's index. The actor's key is a digest, because both names together may be too long
 * for a key.
 */
export function findingsAddress({ org_id, codebase_id }: Codebase): ActorAddress {
  const digest = createHash('sha256')
    .update(JSON.stringify([org_id, codebase_id]))
    .digest('base64url');
  return { kind: FINDINGS_INDEX_KIND, key: digest };
}

/** Returns the bytes of a vector, without a copy. */
export function packVector(vector: Float32Array): Uint8Array {
  return new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
}

/** Makes a vector from bytes, which are copied because they may not be aligned for 32-bit floats. */
export function unpackVector(bytes: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}
