/**
 * Handlers of `contract/exports.ts`: a list as a file. Each handler requests page after page from the list's handler,
 * so a file has the same content and permissions as the list. Server threads.
 *
 * Bound: each export holds one page of rows, or one row group of Parquet. byte-stream.ts bounds the number of exports,
 * in total and per organization.
 */
import type { Endpoint } from '../contract/endpoint.ts';
import type { EXPORTS, FINDINGS_EXPORT } from '../contract/exports.ts';
import { FINDINGS } from '../contract/findings.ts';
import type { Handler, HandlerReply, HandlersOf } from '../contract/handler.ts';
import { PAGE_LIMIT_MAX } from '../contract/limits.ts';
import { PATTERNS } from '../contract/patterns.ts';
import type { ApiReply, ApiRequest } from '../contract/route.ts';
import { RUN_RECORDS } from '../contract/run-records.ts';
import { TRACES } from '../contract/traces.ts';
import { columnsIn, type ExportColumn, type ExportRow } from '../export/columns.ts';
import { type ExportFormat, exportRows } from '../export/export-rows.ts';
import { beginByteStream, streamBytes } from './byte-stream.ts';

/** A page of a list, and the cursor of the next page; null: this page is the last one. */
export interface ExportPage {
  rows: readonly ExportRow[];
  next: string | null;
  /** Stored exchanges that are not indexed yet, and therefore missing; absent: all are indexed. */
  not_indexed?: number;
}

/**
 * Reads a page of a list.
 * @param cursor null: the first page
 */
type ReadPage = (cursor: string | null) => ExportPage | Promise<ExportPage>;

export interface FileToSend {
  headers: ApiReply['headers'];
  stream: NonNullable<ApiReply['stream']>;
}

/** The requested list, and who requests it. */
interface ExportRequest {
  request: Pick<ApiRequest, 'method'>;
  /** The organization that asks; '': the operator. */
  owner: string;
}

/**
 * Begins a file of the rows of a list, in a given format. Reads the first page as {@link sendFile} does.
 * @throws what {@link sendFile} throws
 */
export function sendList(
  name: string,
  format: ExportFormat,
  columns: readonly ExportColumn[],
  read: ReadPage,
  asked: ExportRequest,
): Promise<FileToSend> {
  return sendFile(`${name}.${format}`, read, (pages) => exportRows(format, columns, pages), asked);
}

/**
 * Begins a file of the pages of a list. The first page is read before the answer begins, so that an invalid request
 * gets its error status. For a HEAD, no page is read.
 * @throws errors of the list; CatalogueError `unavailable` if too many files are being sent
 */
export function sendFile(
  name: string,
  read: ReadPage,
  write: (pages: AsyncIterable<readonly ExportRow[]>) => AsyncGenerator<Uint8Array>,
  { request: { method }, owner }: ExportRequest,
): Promise<FileToSend> {
  return beginByteStream(owner, async () => {
    const first: ExportPage = method === 'HEAD' ? { rows: [], next: null } : await read(null);
    const missing = first.not_indexed ?? 0;
    return {
      headers: [
        ['content-type', 'application/octet-stream'],
        ['content-disposition', `attachment; filename="understudy-${name}"`],
        ['x-content-type-options', 'nosniff'],
        ['cache-control', 'no-store'],
        ...(missing > 0 ? ([['x-svc-not-indexed', String(missing)]] as const) : []),
      ],
      stream: streamBytes(owner, write(pagesFrom(first, read))),
    };
  });
}

async function* pagesFrom(first: ExportPage, read: ReadPage): AsyncGenerator<readonly ExportRow[]> {
  yield first.rows;
  for (let { next } = first; next !== null; ) {
    const page = await read(next);
    yield page.rows;
    next = page.next;
  }
}

export interface ExportedLists {
  runs: HandlersOf<typeof RUN_RECORDS>;
  traces: HandlersOf<typeof TRACES>;
  patterns: HandlersOf<typeof PATTERNS>;
}

export function exportHandlers(lists: ExportedLists): HandlersOf<typeof EXPORTS> {
  return {
    exportRuns: exporter('runs', RUN_RECORDS.listRuns, lists.runs.listRuns),
    exportTraces: exporter('traces', TRACES.listTraces, lists.traces.listTraces),
    exportPatterns: exporter('patterns', PATTERNS.listPatterns, lists.patterns.listPatterns),
  };
}

export function findingsExportHandlers(
  lists: HandlersOf<typeof FINDINGS>,
): HandlersOf<typeof FINDINGS_EXPORT> {
  return { exportFindings: exporter('findings', FINDINGS.list, lists.list) };
}

/**
 * Makes the handler of a list's export.
 * @param field the field of the list's answer that contains the rows; it also names the file
 */
function exporter<Own extends Endpoint, List extends Endpoint>(
  field: string,
  list: List,
  handler: Handler<List>,
): Handler<Own> {
  let columns: ExportColumn[] | null = null;
  return async (call) => {
    columns ??= columnsIn(list.replies[200]!.schema!, field);
    const { format, ...query } = call.query as { format: ExportFormat };
    const read: ReadPage = async (cursor) => {
      const asked = { ...call, query: { ...query, offset: 0, limit: PAGE_LIMIT_MAX, cursor } };
      // The list's query is the query of the export, plus the cursor of a page.
      const reply = await handler(asked as unknown as Parameters<Handler<List>>[0]);
      return readReply(reply, field);
    };
    return sendList(field, format, columns, read, { request: call.request, owner: call.tenant.org_id });
  };
}

function readReply({ body, json }: HandlerReply, field: string): ExportPage {
  const page = (json === undefined ? body : JSON.parse(json)) as Record<string, unknown>;
  return { rows: page[field] as ExportRow[], next: page.next_cursor as string | null };
}
