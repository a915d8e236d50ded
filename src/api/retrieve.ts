/** Handler of `contract/retrieve.ts`: search, then the meter, then the answer. Front threads. */
import type { FoundPattern, RetrieveRequest } from '../../actors/pattern-index/client.ts';
import type { InterveneReply } from '../../actors/usage-meter/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { RETRIEVE } from '../contract/retrieve.ts';
import { capOf, type PlanCaps, type PlanReader } from '../domain/plans.ts';
import { DEFAULT_PROJECT } from '../domain/tenant.ts';
import type { UsageCounts } from '../domain/usage.ts';

/** What a retrieval needs; the pattern index's and the usage meter's clients are such. */
export interface RetrieveServices {
  /** null: no vector store is configured, and every answer is empty. */
  index: { retrieve(request: RetrieveRequest): Promise<FoundPattern[]> } | null;
  meter: {
    intervene(orgId: string, projectId: string, cap: number | null): Promise<InterveneReply>;
    count(orgId: string, projectId: string, counts: Partial<UsageCounts>): Promise<unknown>;
  };
  plans: PlanReader;
  plan_caps: PlanCaps;
}

export function retrieveHandlers(services: RetrieveServices): HandlersOf<typeof RETRIEVE> {
  const { index, meter, plans, plan_caps } = services;
  return {
    retrieve: async ({ tenant, body }) => {
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? body.project_id ?? null;
      const { context, top_k, min_similarity } = body;
      const found =
        index === null
          ? []
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
      const counted = project_id ?? DEFAULT_PROJECT;
      // Counted before it is answered: what a crash takes was not served.
      if (found.length === 0) {
        await meter.count(org_id, counted, { retrievals: 1 });
        return { body: { traces: [] } };
      }
      const cap = capOf(plan_caps, await plans.planOf(org_id));
      const { allowed } = await meter.intervene(org_id, counted, cap);
      return { body: { traces: allowed ? found : [] } };
    },
  };
}
