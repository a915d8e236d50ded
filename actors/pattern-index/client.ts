/**
 * Sends messages to the pattern index. No other file does so. Server threads, and actor threads that have an asker.
 */
import type { AuditEntry } from '../../src/domain/account.ts';
import { type NewPattern, ownScope, type PatternScope } from '../../src/domain/pattern.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import type { ActorAddress } from '../../src/runtime/protocol.ts';
import {
  type FoundMatches,
  type MergedPattern,
  PATTERN_INDEX_KIND,
  type PatternIndexProtocol,
  type RetrieveRequest,
} from './protocol.ts';

export type { FoundMatches, MergedPattern, RetrieveRequest } from './protocol.ts';

const INDEX: ActorAddress = { kind: PATTERN_INDEX_KIND, key: 'main' };
const OPEN_DEADLINE_MS = 5_000;
export const RETRIEVE_DEADLINE_MS = 10_000;
/** Deadline for adding patterns. A thousand texts can be embedded within it, while the store is still loading. */
const ADD_DEADLINE_MS = 120_000;

export class PatternIndexClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /** Loads the stored patterns now, not only at the first retrieval. */
  async open(): Promise<void> {
    await this.#ask('open', null, OPEN_DEADLINE_MS);
  }

  /**
   * Searches for patterns.
   * @returns the keys of the patterns that were found, without their texts
   * @throws CatalogueError `unavailable` if the index or the embedder does not answer
   */
  retrieve(request: RetrieveRequest): Promise<FoundMatches> {
    return this.#ask('retrieve', request, RETRIEVE_DEADLINE_MS);
  }

  /**
   * Adds patterns, or merges each into its near-duplicate. They are on the disk when this resolves.
   * @throws CatalogueError `conflict` if there is no room, `unavailable` if they cannot be added now. Nothing is stored
   * in either case, unless a deadline has passed: then the outcome is unknown
   */
  add(scope: PatternScope, patterns: readonly NewPattern[]): Promise<MergedPattern[]> {
    const added = patterns.map((pattern) => ({ ...pattern, source_trace_id: null }));
    return this.#ask('add', { scope, patterns: added }, ADD_DEADLINE_MS);
  }

  /**
   * Like `add`, for patterns made from traces: in tier e1 for a project, otherwise in the organization's tier e2.
   * Repeating the call for the same trace returns the same answer and changes nothing.
   */
  merge(
    { org_id, project_id }: { org_id: string; project_id: string | null },
    patterns: readonly (NewPattern & { source_trace_id: string })[],
  ): Promise<MergedPattern[]> {
    return this.#ask('add', { scope: ownScope(org_id, project_id), patterns }, ADD_DEADLINE_MS);
  }

  /**
   * Removes patterns. When this resolves, they are removed from the disk, from memory and from saved graphs.
   * @param audit entry that is written if a pattern is removed; null: the caller records it elsewhere
   * @returns how many of them existed
   * @throws CatalogueError `unavailable` if they cannot be removed now
   */
  remove(scope: PatternScope, pattern_ids: readonly string[], audit: AuditEntry | null): Promise<number> {
    return this.#ask('remove', { scope, pattern_ids, audit }, ADD_DEADLINE_MS);
  }

  async #ask<N extends keyof PatternIndexProtocol>(
    name: N,
    payload: PatternIndexProtocol[N]['request'],
    deadline_ms: number,
  ): Promise<PatternIndexProtocol[N]['reply']> {
    try {
      return (await this.#asker.ask(INDEX, name, payload, {
        deadline_ms,
      })) as PatternIndexProtocol[N]['reply'];
    } catch (thrown) {
      if (thrown instanceof RuntimeError && thrown.code === 'conflict')
        throw new CatalogueError('conflict', 'There is no room for so many patterns: delete some first', {
          cause: thrown,
        });
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}
