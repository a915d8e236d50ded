/** Handlers of `contract/findings.ts`. Server threads. */

import type { FindingsClient, FindingsScope } from '../../actors/findings-index/client.ts';
import type { FINDINGS } from '../contract/findings.ts';
import type { HandlersOf } from '../contract/handler.ts';
import { CODEBASE_ID_CHARACTERS } from '../contract/limits.ts';
import type { ApiRequest } from '../contract/route.ts';
import {
  type Finding,
  type FindingFilter,
  hashFinding,
  prepareFilePath,
  prepareFinding,
  prepareFindingType,
} from '../domain/finding.ts';
import type { FindingPlace } from '../domain/finding-rows.ts';
import { projectOf, type Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import type { Embedder } from '../search/embedder.ts';
import { parseExact } from '../std/exact-json.ts';
import { newUlid } from '../std/id.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';
import type { FindingsEmbedding } from './findings-embedding.ts';
import { makeTenantAudit, tenantAuditActor } from './tenant-audit.ts';

export interface FindingsServices {
  findings: FindingsClient;
  embedder: Embedder;
  /** Embeds findings that were stored without a vector. */
  embedding: FindingsEmbedding;
}

type Services = FindingsServices & { deleted: DeletedView };
type Handlers = HandlersOf<typeof FINDINGS>;

export function findingsHandlers(services: Services): Handlers {
  return {
    ...storeHandlers(services),
    ...listHandlers(services),
    ...deletionHandlers(services),
  };
}

/**
 * Makes the scope of a request: the project of a project key; for other credentials the named project, or all
 * projects that are not deleted.
 */
function scopeOf(
  { deleted }: Services,
  tenant: Tenant,
  codebase_id: string,
  project_id: string | null | undefined,
): FindingsScope {
  return {
    org_id: tenant.org_id,
    codebase_id,
    project_id: tenant.project_id ?? project_id ?? null,
    hidden: deleted.hiddenIn(tenant.org_id),
  };
}

async function embedNow(embedder: Embedder, content: string): Promise<Float32Array | null> {
  try {
    return (await embedder.embed([content]))[0]!;
  } catch (thrown) {
    // The finding is stored anyway, and is found as soon as the model answers again.
    if (thrown instanceof CatalogueError && thrown.retryable) return null;
    throw thrown;
  }
}

/**
 * Makes the audit entry of a deletion. Stored findings get no entry: agents store findings all the time, but
 * people decide about deletions.
 */
function auditOf(
  action: string,
  tenant: Tenant,
  request: ApiRequest,
  { codebase_id, project_id }: FindingsScope,
) {
  return makeTenantAudit(tenant, tenantAuditActor(tenant, request), {
    action,
    target: codebase_id,
    after: { project_id },
  });
}

function storeHandlers(services: Services): Pick<Handlers, 'store' | 'recall'> {
  const { findings, embedder, embedding } = services;
  return {
    async store({ tenant, params, body }) {
      const { project_id, content, file_path, finding_type, metadata } = body;
      const finding: Finding = {
        finding_id: `find_${newUlid()}`,
        project_id: projectOf(tenant, project_id ?? undefined),
        ...prepareFinding({ content, file_path, finding_type, metadata: metadata ?? {} }),
        created_at: new Date().toISOString(),
      };
      const codebase = { org_id: tenant.org_id, codebase_id: params.codebase_id };
      const vector = await embedNow(embedder, finding.content);
      const stored = await findings.store(codebase, finding, hashFinding(finding), vector);
      const { finding_id, created_at, unembedded } = stored;
      if (unembedded > 0) embedding.tend(codebase);
      return { body: { finding_id, created_at } };
    },

    async recall({ tenant, params, body }) {
      const { query, top_k, score_threshold } = body;
      const scope = scopeOf(services, tenant, params.codebase_id, body.project_id);
      const vector = (await embedder.embed([query]))[0]!;
      const options = { ...filterOf(body), top_k, score_threshold };
      const { hits, unembedded } = await findings.recall(scope, vector, options);
      if (unembedded > 0) embedding.tend(scope);
      const recalled = hits.flatMap((hit) => {
        const finding = findings.rows.find(scope, hit);
        return finding === undefined ? [] : [{ ...describeFinding(finding), score: hit.score }];
      });
      return { body: { findings: recalled } };
    },
  };
}

function listHandlers(services: Services): Pick<Handlers, 'listCodebases' | 'read' | 'list' | 'coverage'> {
  const { findings, deleted } = services;
  const readAll = (scope: FindingsScope, places: readonly FindingPlace[]): Finding[] =>
    places.flatMap((place) => {
      const finding = findings.rows.find(scope, place);
      return finding === undefined ? [] : [finding];
    });
  return {
    listCodebases({ tenant, query }) {
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? query.project_id ?? null;
      const after = readCursor(query.cursor, [{ max: CODEBASE_ID_CHARACTERS }, 'number']) as
        | [string, number]
        | null;
      const { found, last } = findings.rows.listCodebases(
        { org_id, project_id, hidden: deleted.hiddenIn(org_id) },
        after,
        query.limit,
      );
      return { body: { codebases: found, next_cursor: last === null ? null : writeCursor(last) } };
    },

    async read({ tenant, params, query }) {
      const scope = scopeOf(services, tenant, params.codebase_id, query.project_id);
      const finding = await findings.find(scope, params.finding_id);
      if (finding === undefined) throw new CatalogueError('not_found', 'Finding not found');
      return { body: describeFinding(finding) };
    },

    async list({ tenant, params, query }) {
      const { limit, offset } = query;
      const before_seq = (readCursor(query.cursor, ['number'])?.[0] as number | undefined) ?? null;
      const [from, to] = [query.from, query.to].map((time) => (time == null ? null : toUtc(time))) as [
        string | null,
        string | null,
      ];
      const scope = scopeOf(services, tenant, params.codebase_id, query.project_id);
      const range = { limit, offset, before_seq, from, to };
      const { places, total, is_last } = await findings.list(scope, { ...filterOf(query), ...range });
      const next_cursor = is_last ? null : writeCursor([places.at(-1)!.seq]);
      return {
        body: { findings: readAll(scope, places).map(describeFinding), total, next_cursor },
        headers: [['x-total-count', String(total)]],
      };
    },

    async coverage({ tenant, params, body }) {
      const scope = scopeOf(services, tenant, params.codebase_id, body.project_id);
      const { coverage } = await findings.coverage(scope, body.file_paths.map(prepareFilePath));
      return { body: { coverage } };
    },
  };
}

function deletionHandlers(services: Services): Pick<Handlers, 'invalidate' | 'clear' | 'delete'> {
  const { findings } = services;
  return {
    async invalidate({ tenant, params, body, request }) {
      const scope = scopeOf(services, tenant, params.codebase_id, body.project_id);
      const audit = auditOf('findings.invalidate', tenant, request, scope);
      const { deleted } = await findings.invalidate(scope, body.file_paths.map(prepareFilePath), audit);
      return { body: { deleted } };
    },

    async clear({ tenant, params, query, request }) {
      const scope = scopeOf(services, tenant, params.codebase_id, query.project_id);
      await findings.clear(scope, auditOf('findings.clear', tenant, request, scope));
      return { body: { cleared: true } };
    },

    async delete({ tenant, params, query, request }) {
      const { codebase_id, finding_id } = params;
      const scope = scopeOf(services, tenant, codebase_id, query.project_id);
      const facts = { action: 'finding.delete', target: finding_id, after: { codebase_id } };
      const audit = makeTenantAudit(tenant, tenantAuditActor(tenant, request), facts);
      const { deleted } = await findings.delete(scope, finding_id, audit);
      if (deleted === 0) throw new CatalogueError('not_found', 'Finding not found');
      return { status: 204 };
    },
  };
}

/**
 * Makes a filter. Masks and cuts its values like stored texts, with which they are compared. An empty value
 * does not filter, as in a retrieval.
 */
function filterOf(given: {
  file_path?: string | null | undefined;
  finding_type?: string | null | undefined;
}): FindingFilter {
  return {
    file_path: given.file_path ? prepareFilePath(given.file_path) : null,
    finding_type: given.finding_type ? prepareFindingType(given.finding_type) : null,
  };
}

/** Writes a time in the stored form, in which times can be compared as texts. */
function toUtc(time: string): string {
  return new Date(time).toISOString();
}

/** Describes a finding in the form of an answer. */
function describeFinding({
  metadata,
  ...finding
}: Finding): Omit<Finding, 'metadata'> & { metadata: unknown } {
  return { ...finding, metadata: parseExact(metadata) };
}
