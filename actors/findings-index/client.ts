/**
 * Sends the findings indexes' messages; no other file does. Server threads; actor threads that have an asker.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { Codebase, Finding, FindingFilter } from '../../src/domain/finding.ts';
import { CatalogueError } from '../../src/errors.ts';
import { PAGE_SCAN_ROWS } from '../../src/limits.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import type { TableReader } from '../../src/storage/tables.ts';
import {
  type CodebaseRow,
  type EmbedderFacts,
  FINDINGS,
  FINDINGS_CODEBASES,
  FINDINGS_INDEXED,
  type FindingPlace,
  type FindingsIndexProtocol,
  findingRow,
  findingsAddress,
  type IndexedRow,
  type IndexFacts,
  packVector,
} from './protocol.ts';

export { FINDINGS_CODEBASES, FINDINGS_INDEXED, type FindingPlace } from './protocol.ts';

/** A code base of a list. */
interface CodebaseFacts {
  codebase_id: string;
  /** null: not counted, because a project sees only its part. */
  findings: number | null;
}

/** Deadline of every request. Loading a full code base takes a fraction of this time. */
const DEADLINE_MS = 15_000;

/** Pause before an index that did not answer is told again. */
const TELL_AGAIN_MS = 1_000;

/** Tells the index of a code base that another box has changed its rows. Resolves when it knows. */
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
  /** null: every project's. */
  project_id: string | null;
  /** Projects whose findings are hidden; absent: no such projects. */
  hidden?: ReadonlySet<string>;
}

/** The scope in the form that messages have. */
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
  readonly #tables: TableReader;
  readonly #embedder: EmbedderFacts;

  /**
   * @param tables the tables of `main.mdb`, for the texts
   * @param embedder the embedder that made the callers' vectors
   */
  constructor(asker: Asker, tables: TableReader, embedder: EmbedderFacts) {
    this.#asker = asker;
    this.#tables = tables;
    this.#embedder = embedder;
  }

  /**
   * Stores a finding. It is on the disk when this resolves. If a finding with this hash exists, it stays as it is.
   * @param vector null: to be embedded later
   * @returns id and time of the stored or existing finding
   */
  store(codebase: Codebase, finding: Finding, hash: string, vector: Float32Array | null): ReplyOf<'store'> {
    const packed = vector === null ? null : packVector(vector);
    return this.#ask(codebase, 'store', { finding, hash, vector: packed });
  }

  /** The findings nearest to a question, best first. */
  recall(
    scope: FindingsScope,
    vector: Float32Array,
    options: FindingFilter & { top_k: number; score_threshold: number },
  ): ReplyOf<'recall'> {
    return this.#ask(scope, 'recall', { ...sightOf(scope), vector: packVector(vector), ...options });
  }

  /** One page, newest first, and the total number. */
  list(
    scope: FindingsScope,
    options: Omit<FindingsIndexProtocol['list']['request'], keyof IndexFacts | 'project_id' | 'hidden'>,
  ): ReplyOf<'list'> {
    return this.#ask(scope, 'list', { ...sightOf(scope), ...options });
  }

  /** A finding by its id; undefined if it does not exist or is not visible. */
  async find(scope: FindingsScope, finding_id: string): Promise<Finding | undefined> {
    const { place } = await this.#ask(scope, 'find', { ...sightOf(scope), finding_id });
    return place === null ? undefined : this.read(scope, place);
  }

  /**
   * Ids of the code bases with findings, in descending order. With a project, only code bases in which it has a
   * finding. For this, at most PAGE_SCAN_ROWS rows are read, so the page may be short.
   * @param after the end of the last page: a code base, and the sequence number below which to continue (0: after
   *   this code base)
   */
  codebases(
    {
      org_id,
      project_id,
      hidden,
    }: { org_id: string; project_id: string | null; hidden?: ReadonlySet<string> },
    after: readonly [codebase_id: string, seq: number] | null,
    limit: number,
  ): { found: CodebaseFacts[]; last: [string, number] | null } {
    const found: CodebaseFacts[] = [];
    let looked = 0;
    let last: [string, number] | null = null;
    // A key sorts before all keys that extend it. So with another key part, reading continues at this code base.
    const start = after === null ? null : after[1] === 0 ? [org_id, after[0]] : [org_id, after[0], 0];
    const hides = hidden !== undefined && hidden.size > 0;
    const isCounted = project_id === null && !hides;
    const isMeant = (projectId: string) =>
      (project_id === null || projectId === project_id) && !(hides && hidden.has(projectId));
    const range = { prefix: [org_id], reverse: true, ...(start === null ? {} : { after: start }) };
    for (const { row, value } of this.#tables.range<CodebaseRow>(FINDINGS_CODEBASES, range)) {
      const codebase_id = row[1] as string;
      if (found.length === limit || looked >= PAGE_SCAN_ROWS) return { found, last };
      looked++;
      if (value.count > 0 && isCounted) found.push({ codebase_id, findings: value.count });
      if (value.count > 0 && !isCounted) {
        const below = after !== null && after[0] === codebase_id && after[1] > 0 ? after[1] : value.next_seq;
        const prefix = [org_id, codebase_id];
        const indexed = { prefix, reverse: true, after: [...prefix, below] };
        for (const { row: place, value: entry } of this.#tables.range<IndexedRow>(
          FINDINGS_INDEXED,
          indexed,
        )) {
          if (isMeant(entry.project_id)) {
            found.push({ codebase_id, findings: null });
            break;
          }
          if (++looked >= PAGE_SCAN_ROWS && (place[2] as number) > 0)
            return { found, last: [codebase_id, place[2] as number] };
        }
      }
      last = [codebase_id, 0];
    }
    return { found, last: null };
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

  /** The share of the paths that findings cover. */
  coverage(scope: FindingsScope, file_paths: readonly string[]): ReplyOf<'coverage'> {
    return this.#ask(scope, 'coverage', { ...sightOf(scope), file_paths });
  }

  /**
   * @param audit entry that is written if any is deleted
   */
  clear(scope: FindingsScope, audit: AuditEntry | null): ReplyOf<'clear'> {
    return this.#ask(scope, 'clear', { ...sightOf(scope), audit });
  }

  unembedded(codebase: Codebase, limit: number): ReplyOf<'unembedded'> {
    return this.#ask(codebase, 'unembedded', { limit });
  }

  embedded(
    codebase: Codebase,
    vectors: readonly (FindingPlace & { vector: Float32Array })[],
  ): ReplyOf<'embedded'> {
    const packed = vectors.map((given) => ({ ...given, vector: packVector(given.vector) }));
    return this.#ask(codebase, 'embedded', { vectors: packed });
  }

  /** The finding at a place; undefined if it was deleted meanwhile. */
  read(codebase: Codebase, { seq, finding_id }: FindingPlace): Finding | undefined {
    const finding = this.#tables.get<Finding>(FINDINGS, findingRow(codebase, seq));
    return finding?.finding_id === finding_id ? finding : undefined;
  }

  /**
   * Code bases whose oldest finding was stored before a time (RFC 3339 UTC with milliseconds). Findings that were
   * stored at the same time may be slightly out of order, which does not matter for ages of days.
   */
  *expirable(before: string): Iterable<Codebase> {
    for (const { row, value } of this.#tables.range<CodebaseRow>(FINDINGS_CODEBASES, { prefix: [] })) {
      if (value.count === 0) continue;
      const [org_id, codebase_id] = row as [string, string];
      const prefix = [org_id, codebase_id];
      for (const { value: oldest } of this.#tables.range<IndexedRow>(FINDINGS_INDEXED, { prefix, limit: 1 }))
        if (oldest.created_at < before) yield { org_id, codebase_id };
    }
  }

  /** The organization's code bases that have findings. */
  *codebasesOf(orgId: string): Iterable<Codebase> {
    for (const { row, value } of this.#tables.range<CodebaseRow>(FINDINGS_CODEBASES, { prefix: [orgId] }))
      if (value.count > 0) yield { org_id: orgId, codebase_id: String(row[1]) };
  }

  /** Code bases in which some vectors are missing or belong to another embedder. */
  *outdated(): Iterable<Codebase> {
    for (const { row, value } of this.#tables.range<CodebaseRow>(FINDINGS_CODEBASES, { prefix: [] })) {
      if (value.count === 0 || value.embedder_id === this.#embedder.id) continue;
      yield { org_id: row[0] as string, codebase_id: row[1] as string };
    }
  }

  /** Plain data about the embedder; without a vector length if the embedding service has not answered yet. */
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
