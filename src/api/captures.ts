/**
 * Handlers of `contract/captures.ts`. Most of them pass on the answers of the capture reader; the others concern the
 * marks of runs, the student and the gateway's stats. Server threads.
 */

import type { z } from 'zod';
import type { CAPTURES } from '../contract/captures.ts';
import { type ApiReply, jsonReply } from '../contract/route.ts';
import { valueViolation } from '../contract/violation.ts';
import { cleanAgentName } from '../domain/agent-name.ts';
import type { CaptureAnswer, CaptureAsker, CapturedRunRow } from '../domain/captured-run.ts';
import type { CaptureOwner } from '../domain/run-mark.ts';
import type { RunQuery } from '../domain/run-query/run-query.ts';
import type { StudentReport } from '../domain/student-report.ts';
import type { FigureQuestion } from '../domain/traffic-figures.ts';
import { CatalogueError } from '../errors.ts';
import { systemClock } from '../std/clock.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import type { OperatorHandlersOf } from './operator-guard.ts';
import { describeOperator } from './operators.ts';
import { readMarkChange, showMarks, writeMarks } from './run-marks.ts';
import { readRunPlace, readRunQuery, startedBetween, wholeName } from './run-query.ts';

/** An agent variant with its name. */
type NamedAgent = Pick<StudentReport['agents'][number], 'agent' | 'name' | 'is_named'>;

export interface CaptureServices {
  reader: CaptureAsker;
  /** The gateway's stats; null: this process has no gateway. */
  stats: (() => Promise<object>) | null;
  /** Reports the student in its directory. */
  student: () => Promise<StudentReport>;
  /** Names an agent variant; null: there is no such variant. */
  nameAgent: (agent: string, name: string | null) => Promise<NamedAgent | null>;
  /** The records of the control plane, which contain the marks of runs. */
  accounts: Accounts;
  /** The organization of the captures. */
  owner: CaptureOwner;
}

/** Headers that prevent a browser from running captured bytes as a page of this origin. */
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

export function captureHandlers({
  reader,
  stats,
  student,
  nameAgent,
  accounts,
  owner,
}: CaptureServices): OperatorHandlersOf<typeof CAPTURES> {
  const download = async (id: number, side: 'request' | 'response'): Promise<ApiReply> => {
    const answer = await reader.ask({ name: 'body', id, side });
    if (answer.type !== 'bytes') return toReply(answer);
    const disposition = `attachment; filename="exchange-${id}-${side}.bin"`;
    const headers = [...DOWNLOAD_HEADERS, ['content-disposition', disposition] as const];
    return { status: 200, headers, body: answer.bytes };
  };
  return {
    listCapturedRuns: async ({ query }) => {
      const { limit, cursor } = query;
      const asked = readListQuery(query);
      const after = readRunPlace(asked, cursor);
      return toReply(await reader.ask({ name: 'runs', limit, after, query: asked }));
    },
    listCapturedRunValues: async ({ query: { field, contains, q, limit } }) => {
      const query = readRunQuery(q);
      return toReply(await reader.ask({ name: 'values', field, contains: contains ?? '', limit, query }));
    },
    readCapturedRun: async ({ params, query }) => {
      const { limit, cursor } = query;
      return toReply(await reader.ask({ name: 'run', run_id: params.id, limit, after: readPlace(cursor) }));
    },
    readCapturedRunCache: async ({ params }) =>
      toReply(await reader.ask({ name: 'run_cache', run_id: params.id })),
    sumCacheMisses: async ({ query: { days, agent } }) => {
      const question = { ...lastDays(days, systemClock.wallMs()), agent: agent ?? null };
      return toReply(await reader.ask({ name: 'cache', question }));
    },
    searchCaptures: async ({ query: { q, limit, cursor } }) => {
      const answer = await reader.ask({ name: 'search', q, limit, before: readPlace(cursor) });
      if (answer.type === 'unfit') throw valueViolation(['query', 'q'], answer.detail, q);
      return toReply(answer);
    },
    markCapturedRun: async ({ params: { id }, body, operator, request: { address } }) => {
      const change = readMarkChange(body);
      const known = await reader.ask({ name: 'run', run_id: id, limit: 1, after: null });
      if (known.type !== 'json') return toReply(known);
      const { actor, log } = describeOperator(accounts, operator, address, systemClock.wallMs());
      const { run } = JSON.parse(Buffer.from(known.json).toString()) as { run: CapturedRunRow };
      const org_id = owner.org ?? run.reported?.org_id ?? '';
      const run_id = run.reported?.run_id ?? run.run_id;
      const about = { run_id, org_id, log_org: owner.org ?? log ?? '' };
      const row = await writeMarks(accounts, actor, systemClock.wallMs(), about, change);
      return jsonReply(200, showMarks(id, row), [['cache-control', 'no-store']]);
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
      const to_ms = systemClock.wallMs();
      const from_ms = to_ms - query.hours * 3_600_000;
      return toReply(await reader.ask({ name: 'activity', from_ms, to_ms }));
    },
    readTrafficFigures: async ({ query }) =>
      toReply(
        await reader.ask({ name: 'figures', question: readFigureQuestion(query, systemClock.wallMs()) }),
      ),
    readProviderLimits: async () =>
      toReply(await reader.ask({ name: 'limits', now_ms: systemClock.wallMs() })),
    readStudentReport: async () => jsonReply(200, await student(), [['cache-control', 'no-store']]),
    nameStudentAgent: async ({ body: { agent, name } }) => {
      if (name !== null && cleanAgentName(name) === '')
        throw valueViolation(['body', 'name'], 'the name has no visible characters', name);
      const named = await nameAgent(agent, name);
      if (named === null) throw new CatalogueError('not_found', 'The student has no such agent variant');
      return jsonReply(200, named, [['cache-control', 'no-store']]);
    },
    readCaptureStats: async () => {
      if (stats === null) throw new CatalogueError('not_found', 'This process has no gateway');
      return jsonReply(200, await stats(), [['cache-control', 'no-store']]);
    },
  };
}

/**
 * Makes the query of a list from `q` and from the older parameters, each of which means the same as a field of `q`.
 * @throws SchemaViolation for a text that is no query
 */
export function readListQuery(
  query: Omit<z.output<(typeof CAPTURES)['listCapturedRuns']['query']>, 'limit' | 'cursor'>,
): RunQuery {
  const { model, golden, served_by, session, own } = query;
  const { terms, sort } = readRunQuery(query.q);
  const addName = (field: 'model' | 'session', text: string | null | undefined): void => {
    if (text) terms.push({ kind: 'name', field, values: [wholeName(text)], is_not: false });
  };
  const addTrait = (value: string, is: boolean): void => {
    terms.push({ kind: 'choice', field: 'is', values: [value], is_not: !is });
  };
  addName('model', model);
  addName('session', session);
  if (golden != null) addTrait('golden', golden);
  if (own != null) addTrait('child', !own);
  if (served_by != null) terms.push({ kind: 'choice', field: 'served', values: [served_by], is_not: false });
  const between = startedBetween(query);
  return { terms: between === null ? terms : [...terms, between], sort };
}

const DAY_MS = 24 * 3_600_000;

/** Makes the question for the figures of the last `days` days. Empty filters are left out. */
export function readFigureQuestion(
  { by, days, ...where }: z.output<(typeof CAPTURES)['readTrafficFigures']['query']>,
  nowMs: number,
): FigureQuestion {
  return {
    by,
    ...lastDays(days, nowMs),
    where: Object.fromEntries(Object.entries(where).filter(([, value]) => value != null && value !== '')),
  };
}

/** Returns the first and the last of the last `days` UTC days, which include the current one. */
function lastDays(days: number, nowMs: number): { from_day: string; to_day: string } {
  const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  return { from_day: dayOf(nowMs - (days - 1) * DAY_MS), to_day: dayOf(nowMs) };
}

/**
 * Makes an answer from JSON of the capture reader.
 * @throws CatalogueError `unavailable` if the reader refused the question; `not_found` for every other answer
 */
function toReply(answer: CaptureAnswer): ApiReply {
  if (answer.type === 'json') return { status: 200, headers: JSON_HEADERS, body: answer.json };
  if (answer.type === 'refused') throw new CatalogueError('unavailable', answer.detail);
  throw new CatalogueError('not_found');
}

/**
 * Reads the id of the last exchange of the previous page.
 * @returns null without a cursor: the first page
 * @throws SchemaViolation for a cursor that is not such an id
 */
function readPlace(cursor: string | null | undefined): number | null {
  if (cursor == null || cursor === '') return null;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw valueViolation(['query', 'cursor'], 'not a cursor of this list', cursor);
}
