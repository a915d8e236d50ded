/** Handlers of `contract/captures.ts`: what the capture reader answers, as it is. Server threads. */
import type { CAPTURES } from '../contract/captures.ts';
import { type ApiReply, jsonReply } from '../contract/route.ts';
import { valueViolation } from '../contract/violation.ts';
import type { CaptureAnswer, CaptureAsker, CapturedRunFilter } from '../domain/captured-run.ts';
import type { StudentReport } from '../domain/student-report.ts';
import { CatalogueError } from '../errors.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { OperatorHandlersOf } from './operator-guard.ts';

export interface CaptureServices {
  reader: CaptureAsker;
  /** The gateway's stats; null: this process has none. */
  stats: (() => Promise<object>) | null;
  /** The student in its directory. */
  student: () => Promise<StudentReport>;
}

/** Nothing that an agent or a provider wrote is ever a page of this address. */
const DOWNLOAD_HEADERS: ApiReply['headers'] = [
  ['content-type', 'application/octet-stream'],
  ['x-content-type-options', 'nosniff'],
  ['content-security-policy', "default-src 'none'; sandbox"],
  ['cache-control', 'no-store'],
];

const JSON_HEADERS: ApiReply['headers'] = [
  ['content-type', 'application/json'],
  ['x-content-type-options', 'nosniff'],
  ['cache-control', 'no-store'],
];

export function captureHandlers(
  { reader, stats, student }: CaptureServices,
  clock: Clock = systemClock,
): OperatorHandlersOf<typeof CAPTURES> {
  const download = async (id: number, side: 'request' | 'response'): Promise<ApiReply> => {
    const answer = await reader.ask({ name: 'body', id, side });
    if (answer.type !== 'bytes') return toReply(answer);
    const disposition = `attachment; filename="exchange-${id}-${side}.bin"`;
    const headers = [...DOWNLOAD_HEADERS, ['content-disposition', disposition] as const];
    return { status: 200, headers, body: answer.bytes };
  };
  return {
    listCapturedRuns: async ({ query }) => {
      const { limit, cursor, from, to, model, golden, served_by, session, own, q } = query;
      const filter: CapturedRunFilter = {
        ...(from == null ? {} : { from_ms: Date.parse(from) }),
        ...(to == null ? {} : { to_ms: Date.parse(to) }),
        ...(model == null || model === '' ? {} : { model }),
        ...(golden == null ? {} : { golden }),
        ...(served_by == null ? {} : { served_by }),
        ...(session == null ? {} : { session_id: session }),
        ...(own == null ? {} : { is_own: own }),
        ...(q == null || q === '' ? {} : { q }),
      };
      return toReply(await reader.ask({ name: 'runs', limit, before: readPlace(cursor), filter }));
    },
    readCapturedRun: async ({ params, query }) => {
      const { limit, cursor } = query;
      return toReply(await reader.ask({ name: 'run', run_id: params.id, limit, after: readPlace(cursor) }));
    },
    readCapturedExchange: async ({ params }) =>
      toReply(await reader.ask({ name: 'exchange', id: params.id })),
    downloadCapturedRequest: ({ params }) => download(params.id, 'request'),
    downloadCapturedResponse: ({ params }) => download(params.id, 'response'),
    explainCapturedStep: async ({ params }) => toReply(await reader.ask({ name: 'explain', id: params.id })),
    listRelegatedSteps: async ({ query }) => {
      const { limit, cursor, outcome } = query;
      const filter = outcome == null ? {} : { outcome };
      return toReply(await reader.ask({ name: 'steps', limit, before: readPlace(cursor), filter }));
    },
    readCapturedActivity: async ({ query }) => {
      const to_ms = clock.wallMs();
      const from_ms = to_ms - query.hours * 3_600_000;
      return toReply(await reader.ask({ name: 'activity', from_ms, to_ms }));
    },
    readStudentReport: async () => jsonReply(200, await student(), [['cache-control', 'no-store']]),
    readCaptureStats: async () => {
      if (stats === null) throw new CatalogueError('not_found', 'This process has no gateway');
      return jsonReply(200, await stats(), [['cache-control', 'no-store']]);
    },
  };
}

/** @throws CatalogueError */
function toReply(answer: CaptureAnswer): ApiReply {
  if (answer.type === 'json') return { status: 200, headers: JSON_HEADERS, body: answer.json };
  if (answer.type === 'refused') throw new CatalogueError('unavailable', answer.detail);
  throw new CatalogueError('not_found');
}

/**
 * The id of the exchange that the last page ended with; null: none.
 * @throws SchemaViolation for what no page has given
 */
function readPlace(cursor: string | null | undefined): number | null {
  if (cursor == null || cursor === '') return null;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw valueViolation(['query', 'cursor'], 'not a cursor of this list', cursor);
}
