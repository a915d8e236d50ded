/**
 * Sends messages to findings indexes. No other file does so. Server threads, and actor threads that have an asker.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { Codebase, Finding, FindingFilter } from '../../src/domain/finding.ts';
import type { FindingPlace } from '../../src/domain/finding-rows.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import type { FindingReads } from '../../src/storage/ports/findings.ts';
import {
  type EmbedderFacts,
  type FindingsIndexProtocol,
  findingsAddress,
  type IndexFacts,
  packVector,
} from './protocol.ts';

/** Deadline of every request. Loading a full code base takes a fraction of this time. */
const DEADLINE_MS = 15_000;

/** Pause before a message is sent again if the index did not answer. */
const TELL_AGAIN_MS = 1_000;

/**
 * Tells the index of a code base that another box has changed the rows. Repeats the message until the index answers, and
 * then resolves.
 */
export async function tellStale(asker: Asker, codebase: Codebase): Promise<void> {
  for (;;) {
    try {
      await asker.ask(findingsAddress(codebase), 'stale', null, { deadline_ms: DEADLINE_MS });
      return;
    } catch {
      await delay(TELL_AGAIN_MS, undefined, { ref: false });
    }
  }
}

/** The scope of a request. */
export interface FindingsScope extends Codebase {
  /** null: all projects. */
  project_id: string | null;
  /** Projects whose findings are hidden; absent: no such projects. */
  hidden?: ReadonlySet<string>;
}

/** Returns the scope as fields of a message. */
function sightOf({ project_id, hidden }: FindingsScope): { project_id: string | null; hidden?: string[] } {
  return hidden === undefined || hidden.size === 0 ? { project_id } : { project_id, hidden: [...hidden] };
}

type ReplyOf<N extends keyof FindingsIndexProtocol> = Promise<FindingsIndexProtocol[N]['reply']>;

/**
 * Every method throws {CatalogueError} `unavailable` if the index does not answer or its rows cannot be read or
 * written.
 */
export class FindingsClient {
  readonly #asker: Asker;
  /** The stored findings, which are read without a message. */
  readonly rows: FindingReads;
  readonly #embedder: EmbedderFacts;

  /**
   * @param rows of all code bases
   * @param embedder the embedder that made the callers' vectors
   */
  constructor(asker: Asker, rows: FindingReads, embedder: EmbedderFacts) {
    this.#asker = asker;
    this.rows = rows;
    this.#embedder = embedder;
  }

  /**
   * Stores a finding, which is on the disk when this resolves. If a finding with this hash exists, nothing is stored.
   * @param vector null: to be embedded later
   * @returns id and time of the stored or existing finding
   */
  store(codebase: Codebase, finding: Finding, hash: string, vector: Float32Array | null): ReplyOf<'store'> {
    const packed = vector === null ? null : packVector(vector);
    return this.#ask(codebase, 'store', { finding, hash, vector: packed });
  }

  /** Finds the findings nearest to a question, best first. */
  recall(
    scope: FindingsScope,
    vector: Float32Array,
    options: FindingFilter & { top_k: number; score_threshold: number },
  ): ReplyOf<'recall'> {
    return this.#ask(scope, 'recall', { ...sightOf(scope), vector: packVector(vector), ...options });
  }

  /** Returns one page of the findings that match, newest first, and the number of all that match. */
  list(
    scope: FindingsScope,
    options: Omit<FindingsIndexProtocol['list']['request'], keyof IndexFacts | 'project_id' | 'hidden'>,
  ): ReplyOf<'list'> {
    return this.#ask(scope, 'list', { ...sightOf(scope), ...options });
  }

  /** Finds a finding by its id; undefined if it does not exist or is not visible. */
  async find(scope: FindingsScope, finding_id: string): Promise<Finding | undefined> {
    const { place } = await this.#ask(scope, 'find', { ...sightOf(scope), finding_id });
    return place === null ? undefined : this.rows.find(scope, place);
  }

  /**
   * Deletes the findings about exactly these paths.
   * @param audit entry that is written if a finding is deleted
   */
  invalidate(
    scope: FindingsScope,
    file_paths: readonly string[],
    audit: AuditEntry | null,
  ): ReplyOf<'invalidate'> {
    return this.#ask(scope, 'invalidate', { ...sightOf(scope), file_paths, audit });
  }

  /**
   * Deletes one finding.
   * @param audit entry that is written if the finding exists
   */
  delete(scope: FindingsScope, finding_id: string, audit: AuditEntry | null): ReplyOf<'delete'> {
    return this.#ask(scope, 'delete', { ...sightOf(scope), finding_id, audit });
  }

  /**
   * Deletes the oldest findings that were stored before a time (RFC 3339 UTC with milliseconds), at most `limit` of
   * them.
   */
  expire(codebase: Codebase, before: string, limit: number, audit: AuditEntry | null): ReplyOf<'expire'> {
    return this.#ask(codebase, 'expire', { project_id: null, before, limit, audit });
  }

  /** Measures the share of the given paths that findings cover. */
  coverage(scope: FindingsScope, file_paths: readonly string[]): ReplyOf<'coverage'> {
    return this.#ask(scope, 'coverage', { ...sightOf(scope), file_paths });
  }

  /**
   * Deletes all findings of the scope.
   * @param audit entry that is written if a finding is deleted
   */
  clear(scope: FindingsScope, audit: AuditEntry | null): ReplyOf<'clear'> {
    return this.#ask(scope, 'clear', { ...sightOf(scope), audit });
  }

  /** Finds findings without a vector of the current embedder, at most `limit`. */
  unembedded(codebase: Codebase, limit: number): ReplyOf<'unembedded'> {
    return this.#ask(codebase, 'unembedded', { limit });
  }

  /** Stores vectors of findings that have none. */
  embedded(
    codebase: Codebase,
    vectors: readonly (FindingPlace & { vector: Float32Array })[],
  ): ReplyOf<'embedded'> {
    const packed = vectors.map((given) => ({ ...given, vector: packVector(given.vector) }));
    return this.#ask(codebase, 'embedded', { vectors: packed });
  }

  /** Lists the code bases in which some vectors are missing or belong to another embedder. */
  outdated(): Iterable<Codebase> {
    return this.rows.listOutdated(this.#embedder.id);
  }

  /**
   * Returns plain data about the embedder. The vector length is unknown until the embedding service has answered. The
   * data then has an empty id, which no stored vector has.
   */
  #describeEmbedder(): EmbedderFacts {
    const { id, dimensions } = this.#embedder;
    return dimensions === 0 ? { id: '', dimensions: 1 } : { id, dimensions };
  }

  async #ask<N extends keyof FindingsIndexProtocol>(
    { org_id, codebase_id }: Codebase,
    name: N,
    request: Omit<FindingsIndexProtocol[N]['request'], keyof IndexFacts>,
  ): ReplyOf<N> {
    const codebase = { org_id, codebase_id };
    const message = { codebase, embedder: this.#describeEmbedder(), ...request };
    try {
      return (await this.#asker.ask(findingsAddress(codebase), name, message, {
        deadline_ms: DEADLINE_MS,
      })) as FindingsIndexProtocol[N]['reply'];
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}
