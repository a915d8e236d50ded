/** Handler of `contract/patterns.ts`. Server threads. */
import type { MergedPattern } from '../../actors/pattern-index/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { PATTERNS } from '../contract/patterns.ts';
import { type NewPattern, ownScope, type PatternScope, UNIVERSAL_SCOPE } from '../domain/pattern.ts';
import { projectOf } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import type { Tables } from '../storage/tables.ts';
import { logTenantChange, tenantAuditActor } from './tenant-audit.ts';

/** What an import needs; the pattern index's client is such. */
export interface PatternServices {
  /** null: no vector store is configured. */
  index: { add(scope: PatternScope, patterns: readonly NewPattern[]): Promise<MergedPattern[]> } | null;
  main: Tables;
}

export function patternHandlers({ index, main }: PatternServices): HandlersOf<typeof PATTERNS> {
  return {
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
