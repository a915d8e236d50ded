/**
 * Handlers of `contract/traces.ts`. A trace is read, bounded and freed of secrets here, before it goes anywhere else.
 * Server threads.
 */

import type { z } from 'zod';
import { DistillerClient } from '../../actors/distiller/client.ts';
import type { HandlersOf } from '../contract/handler.ts';
import type { TRACES as DECLARED, traceBody } from '../contract/traces.ts';
import { projectOf } from '../domain/tenant.ts';
import { fingerprintBody, readCallTrace, readLegacyTrace, type Trace } from '../domain/trace.ts';
import {
  TRACE_LISTS,
  TRACES,
  type TraceListRow,
  type TraceRow,
  traceListPrefix,
  traceRowKey,
} from '../domain/trace-rows.ts';
import { CatalogueError } from '../errors.ts';
import { ID_CHARACTERS } from '../limits.ts';
import type { Asker } from '../runtime/actor-client.ts';
import type { Tables } from '../storage/tables.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { readListPage } from './list-page.ts';

/** Whose trace it is says the credential, not the body. */
const NOT_THE_TRACE = ['org_id', 'project_id'];

export function traceHandlers(services: {
  asker: Asker;
  stores: { main: Tables };
}): HandlersOf<typeof DECLARED> {
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

    listTraces: ({ tenant, query }) => {
      const { org_id } = tenant;
      const after =
        readCursor(query.cursor, ['number', { max: ID_CHARACTERS }, { max: ID_CHARACTERS }]) ??
        (query.to == null ? null : [Date.parse(query.to)]);
      const range = {
        table: TRACE_LISTS,
        prefix: traceListPrefix(org_id, tenant.project_id ?? query.project_id ?? null),
        after,
        from_ms: query.from == null ? Number.NEGATIVE_INFINITY : Date.parse(query.from),
        limit: query.limit,
      };
      const { main } = services.stores;
      const { found, last } = readListPage<TraceListRow, TraceRow>(main, range, ({ row, value }) => {
        const { project_id } = value;
        const trace = main.get<TraceRow>(
          TRACES,
          traceRowKey({ org_id, project_id, trace_id: row[3] as string }),
        );
        return query.status == null || trace?.status === query.status ? trace : undefined;
      });
      return { body: { traces: found, next_cursor: last === null ? null : writeCursor(last) } };
    },

    readTrace: ({ tenant, params }) => {
      const row = distillers.find(tenant.org_id, tenant.project_id, params.trace_id);
      if (row === undefined) throw new CatalogueError('not_found');
      return { body: row };
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
