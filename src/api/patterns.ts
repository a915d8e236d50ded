/** Handler of `contract/patterns.ts`. Server threads. */
import type { MergedPattern } from '../../actors/pattern-index/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { PATTERNS } from '../contract/patterns.ts';
import {
  type NewPattern,
  ownScope,
  type Pattern,
  type PatternScope,
  UNIVERSAL_SCOPE,
} from '../domain/pattern.ts';
import {
  PATTERNS as PATTERN_ROWS,
  type PatternRow,
  patternKey,
  readPattern,
} from '../domain/pattern-rows.ts';
import { projectOf, type Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { Tables } from '../storage/tables.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { logTenantChange, tenantAuditActor } from './tenant-audit.ts';

/** What an import needs; the pattern index's client is such. */
export interface PatternServices {
  /** null: no vector store is configured. */
  index: { add(scope: PatternScope, patterns: readonly NewPattern[]): Promise<MergedPattern[]> } | null;
  main: Tables;
}

export function patternHandlers({ index, main }: PatternServices): HandlersOf<typeof PATTERNS> {
  return {
    listPatterns: ({ tenant, query }) => {
      const scopes = scopesOf(tenant, query.project_id ?? undefined).filter(
        ({ tier }) => query.tier == null || tier === query.tier,
      );
      const place = readCursor(query.cursor, [{ max: ID_CHARACTERS }, { max: ID_CHARACTERS }]);
      const found: Pattern[] = [];
      for (const scope of scopes) {
        if (place !== null && scope.tier < place[0]!) continue;
        const prefix = [scope.tier, scope.org_id, scope.project_id];
        const after = place !== null && scope.tier === place[0] ? { after: [...prefix, place[1]!] } : {};
        const limit = query.limit + 1 - found.length;
        for (const { row, value } of main.range<PatternRow>(PATTERN_ROWS, {
          prefix,
          reverse: true,
          ...after,
          limit,
        }))
          found.push(readPattern(row, value));
        if (found.length > query.limit) break;
      }
      const patterns = found.slice(0, query.limit);
      const last = patterns.at(-1);
      const isLast = last === undefined || found.length <= query.limit;
      return {
        body: {
          patterns: patterns.map(describePattern),
          next_cursor: isLast ? null : writeCursor([last.tier, last.pattern_id]),
        },
      };
    },

    readPattern: ({ tenant, params, query }) => {
      for (const scope of scopesOf(tenant, query.project_id ?? undefined)) {
        const key = patternKey(scope, params.pattern_id);
        const row = main.get<PatternRow>(PATTERN_ROWS, key);
        if (row !== undefined) return { body: describePattern(readPattern(key, row)) };
      }
      throw new CatalogueError('not_found', 'Pattern not found');
    },

    importPatterns: async ({ tenant, body, request }) => {
      const actor = tenantAuditActor(tenant, request);
      if (body.tier === 'e3' && tenant.actor.type !== 'static')
        throw new CatalogueError('forbidden', 'Universal patterns are the operator’s');
      if (index === null)
        throw new CatalogueError('unavailable', 'No vector store is configured (VECTOR_STORE_URL)');
      const scope =
        body.tier === 'e3'
          ? UNIVERSAL_SCOPE
          : ownScope(
              tenant.org_id,
              body.tier === 'e2' ? null : projectOf(tenant, body.project_id ?? undefined),
            );
      const added = body.patterns.map(({ situation, dead_ends, unlock, model, failure_type }) => ({
        situation,
        dead_ends,
        unlock,
        model: model ?? '',
        failure_type: failure_type ?? '',
      }));
      const patterns = await index.add(scope, added);
      const created = patterns.filter((outcome) => outcome.created).length;
      const merged = patterns.length - created;
      if (patterns.length > 0)
        await logTenantChange(main, tenant, actor, {
          action: 'patterns.import',
          target: scope.tier === 'e1' ? scope.project_id : scope.tier === 'e2' ? scope.org_id : scope.tier,
          after: { tier: scope.tier, created, merged },
        });
      return { body: { created, merged, patterns } };
    },
  };
}

/** What a retrieval of this caller searches, nearest first. */
function scopesOf(tenant: Tenant, projectId: string | undefined): PatternScope[] {
  const project = projectOf(tenant, projectId);
  return [ownScope(tenant.org_id, project), ownScope(tenant.org_id, null), UNIVERSAL_SCOPE];
}

/** As it stands on the wire. */
function describePattern(pattern: Pattern) {
  const { situation, dead_ends, unlock, org_id: _org, project_id, ...told } = pattern;
  const fields = { situation, dead_ends, unlock };
  return { ...told, project_id: pattern.tier === 'e1' ? project_id : null, fields };
}
