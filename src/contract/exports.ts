/**
 * The endpoints that export lists as files: CSV, JSON lines or Parquet; captured runs also as OTLP (docs/export.md).
 * Data; any thread.
 */
import { z } from 'zod';
import { ID_CHARACTERS } from '../limits.ts';
import { CAPTURES } from './captures.ts';
import { type EndpointReply, endpoint, errorBody, refusal } from './endpoint.ts';
import { literal, text } from './fields.ts';
import { FINDINGS } from './findings.ts';
import { PATTERNS } from './patterns.ts';
import { RUN_RECORDS } from './run-records.ts';
import { TRACES } from './traces.ts';

const FORMATS = ['csv', 'jsonl', 'parquet'] as const;
const format = literal(FORMATS).default('csv').describe('`jsonl`: a line of JSON for each row');

const file: EndpointReply = {
  description:
    'The file. It is sent while it is being made, so a broken connection leaves an incomplete file',
  media_type: 'application/octet-stream',
};
const busy = refusal('Too many exports are running, or the data cannot be read now');
const notFound = { description: 'The object does not exist, or you are not an operator', schema: errorBody };
const common = { method: 'GET', tag: 'export' } as const;
const replies = { 200: file, 503: busy };
/** Files of captured traffic, in which exchanges may be missing. */
const capturedReplies = { ...replies, 200: { ...file, headers: ['x-svc-not-indexed'] } } as const;
/** An export reads all pages, so its query has neither a limit nor a cursor. */
const whole = { limit: true, cursor: true } as const;

export const CAPTURE_EXPORTS = {
  exportCapturedRuns: endpoint({
    ...common,
    id: 'exportCapturedRuns',
    path: '/capture/export/runs',
    auth: 'operator',
    summary:
      'The runs that match a query, as a file. With `format=otlp`, the file has their turns as OpenTelemetry spans',
    query: CAPTURES.listCapturedRuns.query.omit(whole).extend({
      format: literal([...FORMATS, 'otlp'])
        .default('csv')
        .describe('`jsonl`: a line of JSON for each run; `otlp`: a line of JSON for each OTLP request'),
    }),
    replies: capturedReplies,
  }),
  exportCapturedTurns: endpoint({
    ...common,
    id: 'exportCapturedTurns',
    path: '/capture/export/runs/{id}/turns',
    auth: 'operator',
    summary: 'The exchanges of a captured run, as a file',
    params: z.object({ id: text({ max: ID_CHARACTERS }) }),
    query: z.object({ format }),
    replies: { ...replies, 404: notFound },
  }),
  exportTrafficFigures: endpoint({
    ...common,
    id: 'exportTrafficFigures',
    path: '/capture/export/figures',
    auth: 'operator',
    summary: 'Figures grouped by model, agent, tool and so on, as a file',
    query: CAPTURES.readTrafficFigures.query.extend({ format }),
    replies: capturedReplies,
  }),
} as const;

export const EXPORTS = {
  exportRuns: endpoint({
    ...common,
    id: 'exportRuns',
    path: '/v1/export/runs',
    auth: 'bearer',
    summary: 'Reported runs that match a query, as a file',
    query: RUN_RECORDS.listRuns.query.omit(whole).extend({ format }),
    replies,
  }),
  exportTraces: endpoint({
    ...common,
    id: 'exportTraces',
    path: '/v1/export/traces',
    auth: 'bearer',
    summary: 'Submitted traces with their states, as a file',
    query: TRACES.listTraces.query.omit(whole).extend({ format }),
    replies,
  }),
  exportPatterns: endpoint({
    ...common,
    id: 'exportPatterns',
    path: '/v1/export/patterns',
    auth: 'bearer',
    summary: 'Patterns, as a file',
    query: PATTERNS.listPatterns.query.omit(whole).extend({ format }),
    replies,
  }),
} as const;

export const FINDINGS_EXPORT = {
  exportFindings: endpoint({
    ...common,
    id: 'exportFindings',
    path: '/v1/export/findings/{codebase_id}',
    auth: 'bearer',
    summary: 'The findings about a code base, as a file',
    params: FINDINGS.list.params,
    query: FINDINGS.list.query.omit({ ...whole, offset: true }).extend({ format }),
    replies,
  }),
} as const;
