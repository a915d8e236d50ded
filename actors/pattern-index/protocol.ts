/**
 * The pattern index's messages. One actor, pinned to one thread, has the vectors of all patterns, because all tenants
 * use the universal patterns. Only this actor changes them; server threads search the indexes that it shares
 * (shared-search.ts). Any thread.
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
  /** Only patterns of this category; null: any. */
  failure_type: string | null;
  /** The preferred model family: its patterns precede nearly equally similar ones; null: no preference. */
  model: string | null;
  /** The vector of `context` by the current embedder; absent if the requesting thread has not computed it. */
  vector?: Float32Array;
}

/**
 * The patterns that were found, without their texts. The server thread that answers the request reads the texts, so
 * that this shared thread has less work.
 */
export interface FoundMatches {
  scopes: PatternScope[];
  /**
   * Best first. There are more than requested if possible, because some may not be on the disk yet, or may have been
   * removed.
   */
  matches: PatternMatch[];
}

interface PatternMatch {
  /** Index in `scopes`. */
  scope: number;
  pattern_id: string;
  /** Cosine similarity. */
  similarity: number;
}

/** A pattern to be added to the store. */
export interface AddedPattern extends NewPattern {
  /** The trace from which it was made; null if it was imported. */
  source_trace_id: string | null;
}

/** The outcome for one pattern. */
export interface MergedPattern {
  pattern_id: string;
  /** false: the pattern was merged into an existing one. */
  created: boolean;
}

/** Patterns of one scope to be removed. */
export interface RemoveRequest {
  scope: PatternScope;
  pattern_ids: readonly string[];
  /** Audit entry that is written if a pattern is removed; null: the caller records the removal elsewhere. */
  audit: AuditEntry | null;
}

/** The state of the index. */
export interface IndexState {
  /** Whether every stored pattern has been read. */
  is_loaded: boolean;
  /** Number of known patterns. */
  patterns: number;
  /** Number of known patterns without a vector of the current embedder. */
  unembedded: number;
  /**
   * Number of unembedded patterns that searches find by a vector of another embedder. Searches do not find the other
   * unembedded patterns.
   */
  formerly_embedded: number;
  /** Number of known patterns that are not in a graph yet. A search compares each of their vectors. */
  unlinked: number;
  scopes: number;
  /** Memory of vectors and graphs. */
  index_bytes: number;
}

export type PatternIndexProtocol = {
  /** Loads the stored patterns now. Without this message, the first other message loads them. Answered at once. */
  open: { request: null; reply: null };
  retrieve: { request: RetrieveRequest; reply: FoundMatches };
  /**
   * Adds patterns, or merges each into a pattern of its scope with the same lesson or nearly the same situation.
   * Answered when they are on the disk. A pattern that was already added from the same trace is not counted again.
   */
  add: { request: { scope: PatternScope; patterns: readonly AddedPattern[] }; reply: MergedPattern[] };
  /**
   * Removes patterns, and replies with the number of those that existed. Answered when they are removed from the disk,
   * from memory and from saved graphs.
   */
  remove: { request: RemoveRequest; reply: number };
};
