/** Handler of `contract/patterns.ts`. Server threads. */
import type { MergedPattern } from '../../actors/pattern-index/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { PATTERNS } from '../contract/patterns.ts';
import type { AuditEntry } from '../domain/account.ts';
import {
  type NewPattern,
  ownScope,
  type Pattern,
  type PatternScope,
  UNIVERSAL_SCOPE,
} from '../domain/pattern.ts';
import { projectOf, type Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import type { PatternReads } from '../storage/ports/patterns.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { logTenantChange, makeTenantAudit, tenantAuditActor } from './tenant-audit.ts';

/**
 * Maximum number of patterns that one page of the list reads, some kilobytes each. A page that reaches this
 * number may contain fewer patterns than requested, because others did not pass the filter. It still has a
 * cursor.
 */
const PATTERN_SCAN_ROWS = 300;

/** Sorts after every timestamp. */
const LAST_TIME = '~';

/** The services of the pattern handlers. The pattern index's client implements `index`. */
interface PatternServices {
  /** null: no vector store is configured. */
  index: {
    add(scope: PatternScope, patterns: readonly NewPattern[]): Promise<MergedPattern[]>;
    remove(scope: PatternScope, patternIds: readonly string[], audit: AuditEntry | null): Promise<number>;
  } | null;
  accounts: Accounts;
  deleted: DeletedView;
}

type Handlers = HandlersOf<typeof PATTERNS>;

export function patternHandlers(services: PatternServices): Handlers {
  return { ...readHandlers(services), ...changeHandlers(services) };
}

/** Returns the scopes that a retrieval of this caller searches, nearest first. */
function scopesOf(
  { deleted }: PatternServices,
  tenant: Tenant,
  projectId: string | undefined,
): PatternScope[] {
  const { org_id } = tenant;
  const project = projectOf(tenant, projectId);
  const own = deleted.hiddenIn(org_id).has(project) ? [] : [ownScope(org_id, project)];
  return [...own, ownScope(org_id, null), UNIVERSAL_SCOPE];
}

function readHandlers(services: PatternServices): Pick<Handlers, 'listPatterns' | 'readPattern'> {
  const { patterns: stored } = services.accounts;
  return {
    listPatterns: ({ tenant, query }) => {
      const scopes = scopesOf(services, tenant, query.project_id ?? undefined).filter(
        ({ tier }) => query.tier == null || tier === query.tier,
      );
      const place = readCursor(query.cursor, [{ max: ID_CHARACTERS }, { max: ID_CHARACTERS }]);
      const from = query.from ?? '';
      const to = query.to ?? LAST_TIME;
      const patterns: Pattern[] = [];
      let looked = 0;
      let last: [tier: string, pattern_id: string] | null = null;
      const page = (next: typeof last) => ({
        body: {
          patterns: patterns.map(describePattern),
          next_cursor: next === null ? null : writeCursor(next),
        },
      });
      for (const scope of scopes) {
        if (place !== null && scope.tier < place[0]!) continue;
        const after = place !== null && scope.tier === place[0] ? (place[1] as string) : null;
        for (const pattern of stored.list(scope, 'newest', after)) {
          if (patterns.length === query.limit || looked === PATTERN_SCAN_ROWS) return page(last);
          looked++;
          last = [pattern.tier, pattern.pattern_id];
          if (pattern.created_at >= from && pattern.created_at < to) patterns.push(pattern);
        }
      }
      return page(null);
    },

    readPattern: ({ tenant, params, query }) => {
      for (const scope of scopesOf(services, tenant, query.project_id ?? undefined)) {
        const { pattern_id } = params;
        const row = stored.find(scope, pattern_id);
        if (row !== undefined) return { body: describePattern({ pattern_id, ...scope, ...row }) };
      }
      throw new CatalogueError('not_found', 'Pattern not found');
    },
  };
}

function changeHandlers(services: PatternServices): Pick<Handlers, 'deletePattern' | 'importPatterns'> {
  const { index, accounts } = services;
  return {
    deletePattern: async ({ tenant, params, query, request }) => {
      const actor = tenantAuditActor(tenant, request);
      const { pattern_id } = params;
      const missing = new CatalogueError('not_found', 'Pattern not found');
      const scope = scopesOf(services, tenant, query.project_id ?? undefined).find(
        (each) => accounts.patterns.find(each, pattern_id) !== undefined,
      );
      if (scope === undefined) throw missing;
      if (scope.tier === 'e3') checkUniversal(accounts.patterns, tenant, pattern_id);
      if (index === null)
        throw new CatalogueError('unavailable', 'No vector store is configured (VECTOR_STORE_URL)');
      const { tier, project_id } = scope;
      const before = tier === 'e1' ? { tier, project_id } : { tier };
      const audit = makeTenantAudit(tenant, actor, { action: 'pattern.delete', target: pattern_id, before });
      if ((await index.remove(scope, [pattern_id], audit)) === 0) throw missing;
      return { status: 204 };
    },

    importPatterns: async ({ tenant, body, request }) => {
      const actor = tenantAuditActor(tenant, request);
      if (body.tier === 'e3' && tenant.actor.type !== 'static')
        throw new CatalogueError('forbidden', 'Only the operator may change universal patterns');
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
        await logTenantChange(accounts, tenant, actor, {
          action: 'patterns.import',
          target: scope.tier === 'e1' ? scope.project_id : scope.tier === 'e2' ? scope.org_id : scope.tier,
          after: { tier: scope.tier, created, merged },
        });
      return { body: { created, merged, patterns } };
    },
  };
}

/**
 * Checks that a universal pattern may be deleted.
 * @throws CatalogueError `forbidden` for anyone but the operator, `conflict` for a pattern that every start adds
 *   again
 */
function checkUniversal(patterns: PatternReads, { actor }: Tenant, patternId: string): void {
  if (actor.type !== 'static')
    throw new CatalogueError('forbidden', 'Only the operator may change universal patterns');
  if (patterns.isStarter(patternId))
    throw new CatalogueError('conflict', 'A starter pattern comes with the product; it cannot be deleted');
}

/** Describes a pattern in the form in which the API returns it. */
function describePattern(pattern: Pattern) {
  const { situation, dead_ends, unlock, org_id: _org, project_id, ...told } = pattern;
  const fields = { situation, dead_ends, unlock };
  return { ...told, project_id: pattern.tier === 'e1' ? project_id : null, fields };
}
