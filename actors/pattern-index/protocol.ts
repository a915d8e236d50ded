/**
 * What the pattern index understands. One actor, pinned to one thread, holds every pattern's vector, since all tenants use the
 * universal patterns. It alone changes them; server threads search what it shares (shared-search.ts). Any thread.
 */
import type { AuditEntry } from '../../src/domain/account.ts';
import type { NewPattern, PatternScope, Tier } from '../../src/domain/pattern.ts';

export const PATTERN_INDEX_KIND = 'pattern-index';

export interface RetrieveRequest {
  org_id: string;
  /** null: all projects of the organization. */
  project_id: string | null;
  /** null: all three. */
  tier: Tier | null;
  context: string;
  top_k: number;
  min_similarity: number;
  /** Exactly this category; null: any. */
  failure_type: string | null;
  /** Patterns of its family go first among nearly equally similar ones; null: no preference. */
  model: string | null;
  /** What the context is to the present embedder, where the thread that asks knows it. */
  vector?: Float32Array;
}

/** Patterns that were found. Their texts are on the disk, and the server thread that answers reads them, since all share this thread. */
export interface FoundMatches {
  scopes: PatternScope[];
  /** Best first; more than are wanted, where there are more: one may not be on the disk yet, or not any more. */
  matches: PatternMatch[];
}

interface PatternMatch {
  /** Place among the scopes. */
  scope: number;
  pattern_id: string;
  /** Cosine. */
  similarity: number;
}

/** A pattern on its way into the store. */
export interface AddedPattern extends NewPattern {
  /** The trace that it comes from; null for one that was imported. */
  source_trace_id: string | null;
}

/** What became of one pattern. */
export interface MergedPattern {
  pattern_id: string;
  /** False: it was merged into one that was there, whose support count went up. */
  created: boolean;
}

/** Patterns of one scope that are to go. */
export interface RemoveRequest {
  scope: PatternScope;
  pattern_ids: readonly string[];
  /** Written with the removal, if a pattern was removed; null: the caller records it elsewhere. */
  audit: AuditEntry | null;
}

/** How the index stands. */
export interface IndexState {
  /** Every stored pattern has been read. */
  is_loaded: boolean;
  /** Patterns that are known. */
  patterns: number;
  /** Of these, those without a vector of the present embedder yet. */
  unembedded: number;
  /** Of the latter, those that are found by a vector of another embedder meanwhile; the others are not found. */
  formerly_embedded: number;
  /** Of these, those that no graph holds yet: they are found, by comparing with each. */
  unlinked: number;
  scopes: number;
  /** Memory of vectors and graphs. */
  index_bytes: number;
}

export type PatternIndexProtocol = {
  /** Reads the stored patterns in, which the first other message would do as well. Answered at once. */
  open: { request: null; reply: null };
  retrieve: { request: RetrieveRequest; reply: FoundMatches };
  /**
   * Adds patterns, or merges each into the one of its scope whose situation is nearly the same; answered when that is on
   * the disk. A pattern that came from the same trace before is not counted again.
   */
  add: { request: { scope: PatternScope; patterns: readonly AddedPattern[] }; reply: MergedPattern[] };
  /** Answered when they are gone from the disk, from memory and from saved graphs. */
  remove: { request: RemoveRequest; reply: number };
  state: { request: null; reply: IndexState };
};
