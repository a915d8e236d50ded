/** Asks the pattern index. The only place that makes its messages. Server threads; actor threads that have an asker. */
import type { AuditEntry } from '../../src/domain/account.ts';
import { type NewPattern, ownScope, type PatternScope } from '../../src/domain/pattern.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import type { ActorAddress } from '../../src/runtime/protocol.ts';
import {
  type FoundMatches,
  type IndexState,
  type MergedPattern,
  PATTERN_INDEX_KIND,
  type PatternIndexProtocol,
  type RetrieveRequest,
} from './protocol.ts';

export type { FoundMatches, MergedPattern, RetrieveRequest } from './protocol.ts';

const INDEX: ActorAddress = { kind: PATTERN_INDEX_KIND, key: 'main' };
const OPEN_DEADLINE_MS = 5_000;
export const RETRIEVE_DEADLINE_MS = 10_000;
/** A thousand texts to embed, and a store that may still be loading. */
const ADD_DEADLINE_MS = 120_000;
const STATE_DEADLINE_MS = 2_000;

export class PatternIndexClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /** Has the stored patterns read in now instead of at the first retrieval. */
  async open(): Promise<void> {
    await this.#ask('open', null, OPEN_DEADLINE_MS);
  }

  /**
   * @returns where the patterns stand that were found
   * @throws CatalogueError `unavailable` when the index or the embedder cannot be asked now
   */
  retrieve(request: RetrieveRequest): Promise<FoundMatches> {
    return this.#ask('retrieve', request, RETRIEVE_DEADLINE_MS);
  }

  /**
   * Adds patterns, or merges each into its near-duplicate; on the disk when this returns.
   * @throws CatalogueError `conflict` when there is no room, `unavailable` when it cannot be done now; nothing is stored
   *   then, but after a deadline that is not known
   */
  add(scope: PatternScope, patterns: readonly NewPattern[]): Promise<MergedPattern[]> {
    const added = patterns.map((pattern) => ({ ...pattern, source_trace_id: null }));
    return this.#ask('add', { scope, patterns: added }, ADD_DEADLINE_MS);
  }

  /**
   * The same for distilled patterns: e1 under a project, else the organization's e2. The same pattern of the same trace
   * again gets the same answer and changes nothing.
   */
  merge(
    { org_id, project_id }: { org_id: string; project_id: string | null },
    patterns: readonly (NewPattern & { source_trace_id: string })[],
  ): Promise<MergedPattern[]> {
    return this.#ask('add', { scope: ownScope(org_id, project_id), patterns }, ADD_DEADLINE_MS);
  }

  /**
   * Removes patterns; gone from the disk, from memory and from saved graphs when this returns.
   * @param audit written with the removal, if a pattern was removed; null: the caller records it elsewhere
   * @returns how many were there
   * @throws CatalogueError `unavailable` when it cannot be done now
   */
  remove(scope: PatternScope, pattern_ids: readonly string[], audit: AuditEntry | null): Promise<number> {
    return this.#ask('remove', { scope, pattern_ids, audit }, ADD_DEADLINE_MS);
  }

  state(): Promise<IndexState> {
    return this.#ask('state', null, STATE_DEADLINE_MS);
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
        throw new CatalogueError('conflict', 'There is no room for so many patterns', { cause: thrown });
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}
