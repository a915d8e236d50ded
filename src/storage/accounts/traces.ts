/** Submitted traces and their outcomes, in tables. Any thread. */
import {
  TRACE_LISTS,
  TRACES,
  type TraceAddress,
  type TraceListRow,
  type TraceRow,
  type TraceStatus,
  traceListPrefix,
  traceRowKey,
  UNFINISHED_TRACES,
} from '../../domain/trace-rows.ts';
import type { NewestFirst, OldestFirst, ScannedPage } from '../ports/page.ts';
import type { ListedTrace, TraceReads } from '../ports/traces.ts';
import type { Tables } from '../tables.ts';
import { listOrganizationsIn, readListPage, readOldest } from './list-page.ts';

export class TableTraceReads implements TraceReads {
  readonly #tables: Pick<Tables, 'get' | 'range' | 'snapshot'>;

  constructor(tables: Pick<Tables, 'get' | 'range' | 'snapshot'>) {
    this.#tables = tables;
  }

  findExact(address: TraceAddress): TraceRow | undefined {
    return this.#tables.get<TraceRow>(TRACES, traceRowKey(address));
  }

  find(org_id: string, project_id: string | null, trace_id: string): TraceRow | undefined {
    if (project_id !== null) return this.findExact({ org_id, project_id, trace_id });
    const [first] = this.#tables.range<TraceRow>(TRACES, { prefix: [org_id, trace_id], limit: 1 });
    return first?.value;
  }

  listNewest(
    { org_id, project_id, hidden, ...range }: NewestFirst,
    status: TraceStatus | null,
  ): Promise<ScannedPage<TraceRow>> {
    return readListPage<TraceListRow, TraceRow>(
      this.#tables,
      { table: TRACE_LISTS, prefix: traceListPrefix(org_id, project_id), ...range },
      [TRACES],
      ({ row, value }, reader) => {
        if (value.project_id !== null && hidden.has(value.project_id)) return undefined;
        const key = traceRowKey({ org_id, project_id: value.project_id, trace_id: row[3] as string });
        const trace = reader.get<TraceRow>(TRACES, key);
        return status === null || trace?.status === status ? trace : undefined;
      },
    );
  }

  listOldest({ org_id, project_id, ...portion }: OldestFirst): ListedTrace[] {
    const prefix = traceListPrefix(org_id, project_id);
    return readOldest<TraceListRow>(this.#tables, TRACE_LISTS, prefix, portion).map(
      ({ row, value, place }) => ({
        org_id,
        project_id: value.project_id,
        trace_id: String(row[3]),
        place,
      }),
    );
  }

  listOrganizations(): Iterable<string> {
    return listOrganizationsIn(this.#tables, TRACE_LISTS);
  }

  listUnfinished(limit: number): string[] {
    return [...this.#tables.range(UNFINISHED_TRACES, { prefix: [], limit })].map(({ row }) => String(row[0]));
  }
}
