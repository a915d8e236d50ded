/**
 * Handlers of `contract/traces.ts`. A trace is read, bounded and freed of secrets here, before it goes anywhere else.
 * Server threads.
 */

import type { z } from 'zod';
import { DistillerClient } from '../../actors/distiller/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { TRACES, traceBody } from '../contract/traces.ts';
import { projectOf } from '../domain/tenant.ts';
import { fingerprintBody, readCallTrace, readLegacyTrace, type Trace } from '../domain/trace.ts';
import { CatalogueError } from '../errors.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { Tables } from '../storage/tables.ts';

/** Whose trace it is says the credential, not the body. */
const NOT_THE_TRACE = ['org_id', 'project_id'];

export function traceHandlers(services: {
  asker: Asker;
  stores: { main: Tables };
}): HandlersOf<typeof TRACES> {
  const distillers = new DistillerClient(services.asker, services.stores.main);
  return {
    submitTrace: async ({ tenant, body }) => {
      const { trace, style } = readTrace(body);
      const { trace_id } = trace;
      const { patterns_created } = await distillers.submit(
        {
          org_id: tenant.org_id,
          project_id: tenant.project_id ?? body.project_id ?? null,
          trace_id,
          fingerprint: fingerprintBody(body, NOT_THE_TRACE),
          style,
          usage_project: projectOf(tenant, body.project_id),
        },
        trace,
      );
      if (style === 'v2') return { status: 202, body: { trace_id, status: 'queued' } };
      return { body: { trace_id, status: 'accepted', patterns_created } };
    },

    readTrace: ({ tenant, params }) => {
      const row = distillers.find(tenant.org_id, tenant.project_id, params.trace_id);
      if (row === undefined) throw new CatalogueError('not_found');
      const { trace_id, status, pattern_ids, error } = row;
      return { body: { trace_id, status, pattern_ids, error } };
    },
  };
}

function readTrace(body: z.output<typeof traceBody>): { trace: Trace; style: 'legacy' | 'v2' } {
  const { manifest, calls } = body;
  const from = manifest ?? body;
  const head = {
    // The schema has seen to it that one of the two is there.
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
