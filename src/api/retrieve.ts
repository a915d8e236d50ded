/**
 * Handler of `contract/retrieve.ts`: searches patterns, reads their texts, counts the retrieval,
 * and answers. Server threads.
 */
import type { FoundMatches, RetrieveRequest } from '../../actors/pattern-index/client.ts';
import type { InterveneReply } from '../../actors/usage-meter/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { RETRIEVE } from '../contract/retrieve.ts';
import type { LiveEvent } from '../domain/live-event.ts';
import type { PatternFields, Tier } from '../domain/pattern.ts';
import { capOf, type PlanCaps, type PlanReader } from '../domain/plans.ts';
import { toTimestamp } from '../domain/run.ts';
import { DEFAULT_PROJECT } from '../domain/tenant.ts';
import type { UsageCounts } from '../domain/usage.ts';
import { RecentMap } from '../std/recent-map.ts';
import type { PatternReads } from '../storage/ports/patterns.ts';
import type { DeletedView } from './deleted-scopes.ts';

/**
 * A thread reports on the live stream that an organization is over its cap, at most once in `every_ms`. It
 * remembers the last report of at most `orgs` organizations; for others, it may report again sooner.
 */
const CAPPED_TOLD = { every_ms: 600_000, orgs: 10_000 };

/** A pattern that was found, as the answer shows it. */
export interface FoundPattern {
  tier: Tier;
  pattern_id: string;
  similarity: number;
  fields: PatternFields;
}

const NOTHING_HIDDEN: ReadonlySet<string> = new Set();
const NO_MATCHES: FoundMatches = { scopes: [], matches: [] };

/**
 * The services of a retrieval. The clients of the pattern index and of the usage meter implement
 * them.
 */
export interface RetrieveServices {
  /** null: no vector store is configured, and every answer is empty. */
  index: { retrieve(request: RetrieveRequest): Promise<FoundMatches> } | null;
  /** Has the patterns' texts. */
  patterns: Pick<PatternReads, 'find'>;
  meter: {
    intervene(
      orgId: string,
      projectId: string,
      cap: number | null,
      patterns: number,
    ): Promise<InterveneReply>;
    count(orgId: string, projectId: string, counts: Partial<UsageCounts>): Promise<unknown>;
  };
  plans: PlanReader;
  plan_caps: PlanCaps;
  live: { publish(event: LiveEvent): void };
  deleted: DeletedView;
}

export function retrieveHandlers(services: RetrieveServices): HandlersOf<typeof RETRIEVE> {
  const { index, patterns, meter, plans, plan_caps, live, deleted } = services;
  /** When each organization's cap was last reported. */
  const toldMs = new RecentMap<string, number>(CAPPED_TOLD.orgs);
  const tellCapped = (org_id: string, project_id: string, cap: number): void => {
    const nowMs = performance.now();
    if (nowMs - (toldMs.get(org_id) ?? Number.NEGATIVE_INFINITY) < CAPPED_TOLD.every_ms) return;
    toldMs.set(org_id, nowMs);
    const at = toTimestamp(Date.now());
    live.publish({ event: 'retrieval_capped', org_id, project_id, run_id: null, at, cap });
  };
  return {
    retrieve: async ({ tenant, body }) => {
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? body.project_id ?? null;
      const { context, top_k, min_similarity } = body;
      const matches =
        index === null
          ? NO_MATCHES
          : await index.retrieve({
              org_id,
              project_id,
              tier: body.tier ?? null,
              context,
              top_k,
              min_similarity,
              failure_type: body.failure_type || null,
              model: body.model || null,
            });
      const found = readFound(patterns, matches, top_k, deleted.hiddenIn(org_id));
      const counted = project_id ?? DEFAULT_PROJECT;
      // Count before answering: after a crash, an unanswered retrieval may be counted, but no answered one is missed.
      if (found.length === 0) {
        await meter.count(org_id, counted, { retrievals: 1 });
        return { body: { traces: [] } };
      }
      const cap = capOf(plan_caps, await plans.planOf(org_id));
      const { allowed } = await meter.intervene(org_id, counted, cap, found.length);
      if (allowed) return { body: { traces: found } };
      tellCapped(org_id, counted, cap!);
      return { headers: [['x-svc-retrieval', 'capped']], body: { traces: [] } };
    },
  };
}

/**
 * Reads the patterns for the answer.
 * @param hidden projects whose patterns are deleted but may still be in the index
 * @returns the best match first, at most `topK`
 */
export function readFound(
  patterns: Pick<PatternReads, 'find'>,
  { scopes, matches }: FoundMatches,
  topK: number,
  hidden: ReadonlySet<string> = NOTHING_HIDDEN,
): FoundPattern[] {
  const found: FoundPattern[] = [];
  for (const { scope: place, pattern_id, similarity } of matches) {
    if (found.length === topK) break;
    const scope = scopes[place]!;
    if (hidden.has(scope.project_id)) continue;
    const row = patterns.find(scope, pattern_id);
    // The index contains a new pattern shortly before the database does.
    if (row === undefined) continue;
    const { situation, dead_ends, unlock } = row;
    found.push({
      tier: scope.tier,
      pattern_id,
      similarity: Math.min(1, Math.round(similarity * 1e6) / 1e6),
      fields: { situation, dead_ends, unlock },
    });
  }
  return found;
}
