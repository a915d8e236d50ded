/**
 * Handlers of `contract/traces.ts`. They cut a trace to its bounds and mask its secrets before it
 * is stored or processed. Server threads.
 */

import type { z } from 'zod';
import { PatternMakerClient } from '../../actors/pattern-maker/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { TRACES as DECLARED, traceBody } from '../contract/traces.ts';
import { projectOf, type Tenant } from '../domain/tenant.ts';
import { fingerprintBody, readCallTrace, readLegacyTrace, type Trace } from '../domain/trace.ts';
import type { TraceRow } from '../domain/trace-rows.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { DeletedView } from './deleted-scopes.ts';
import { makeTenantAudit, tenantAuditActor } from './tenant-audit.ts';

/** Fields of a body that name the owner of the trace. They are no part of the trace's fingerprint. */
const NOT_THE_TRACE = ['org_id', 'project_id'];

export function traceHandlers(services: {
  asker: Asker;
  stores: { accounts: Pick<Accounts, 'traces'> };
  deleted: DeletedView;
}): HandlersOf<typeof DECLARED> {
  const { deleted } = services;
  const { traces } = services.stores.accounts;
  const patternMakers = new PatternMakerClient(services.asker, traces);
  /**
   * Finds a trace of the tenant.
   * @throws CatalogueError `not_found`, including for a trace of a deleted project
   */
  const find = ({ org_id, project_id }: Tenant, trace_id: string): TraceRow => {
    const row = traces.find(org_id, project_id, trace_id);
    if (row === undefined || (row.project_id !== null && deleted.hiddenIn(org_id).has(row.project_id)))
      throw new CatalogueError('not_found');
    return row;
  };
  return {
    submitTrace: async ({ tenant, body }) => {
      const { trace, style } = readTrace(body);
      const { trace_id } = trace;
      const { org_id } = tenant;
      const project_id = tenant.project_id ?? body.project_id ?? null;
      const usage_project = projectOf(tenant, body.project_id);
      const fingerprint = fingerprintBody(body, NOT_THE_TRACE);
      const submitted = { org_id, project_id, trace_id, fingerprint, style, usage_project };
      const { patterns_created } = await patternMakers.submit(submitted, trace);
      if (style === 'v2') return { status: 202, body: { trace_id, status: 'queued' } };
      return { body: { trace_id, status: 'accepted', patterns_created } };
    },

    listTraces: async ({ tenant, query }) => {
      const { org_id } = tenant;
      const hidden = deleted.hiddenIn(org_id);
      const after =
        readCursor(query.cursor, ['number', { max: ID_CHARACTERS }, { max: ID_CHARACTERS }]) ??
        (query.to == null ? null : [Date.parse(query.to)]);
      const { found, last } = await traces.listNewest(
        {
          org_id,
          project_id: tenant.project_id ?? query.project_id ?? null,
          after,
          from_ms: query.from == null ? Number.NEGATIVE_INFINITY : Date.parse(query.from),
          limit: query.limit,
          hidden,
        },
        query.status ?? null,
      );
      return { body: { traces: found, next_cursor: last === null ? null : writeCursor(last) } };
    },

    readTrace: ({ tenant, params }) => ({ body: find(tenant, params.trace_id) }),

    deleteTrace: async ({ tenant, params, request }) => {
      const actor = tenantAuditActor(tenant, request);
      const { org_id } = tenant;
      const { trace_id } = params;
      const { project_id } = find(tenant, trace_id);
      const facts = { action: 'trace.delete', target: trace_id, before: { project_id } };
      await patternMakers.delete({ org_id, project_id, trace_id }, makeTenantAudit(tenant, actor, facts));
      return { status: 204 };
    },
  };
}

function readTrace(body: z.output<typeof traceBody>): { trace: Trace; style: 'legacy' | 'v2' } {
  const { manifest, calls } = body;
  const from = manifest ?? body;
  const head = {
    // The schema guarantees that the body has a manifest or a `trace_id`.
    trace_id: from.trace_id!,
    run_id: from.run_id ?? '',
    task: from.task ?? '',
    model: from.model ?? '',
    task_profile: from.task_profile ?? '',
    outcome: from.outcome ?? '',
  };
  if (manifest === undefined) return { trace: readLegacyTrace(head, body.steps ?? []), style: 'legacy' };
  const records = (calls ?? []).map((call, at) => ({
    seq: call.seq ?? at,
    model: call.model ?? '',
    request: call.request,
    response: call.response,
    is_error: call.is_error,
  }));
  return { trace: readCallTrace(head, records), style: 'v2' };
}
