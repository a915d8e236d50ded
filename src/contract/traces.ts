/** Traces: records of completed tasks, from which patterns are made (document 2, Trace). Data; any thread. */

import { z } from 'zod';
import { DEFAULTS, ID_CHARACTERS } from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import {
  cursorFields,
  flag,
  freeObject,
  identifier,
  integer,
  list,
  literal,
  nextCursor,
  text,
  timestamp,
} from './fields.ts';
import { CURSOR_CHARACTERS, RUN_NAME_CHARACTERS, RUN_OUTCOME_CHARACTERS, STEP_TOKENS_MAX } from './limits.ts';

/** Maximum number of calls of a v2 trace, or of steps of a legacy trace. The size of a body limits them sooner. */
const TRACE_ITEMS_SENT = 500_000;

/** A text of a trace. It may be as long as a body; TRACE_BOUNDS limits what is stored of it. */
const long = () => text({ max: DEFAULTS.MAX_BODY_BYTES });
const name = () => text({ max: RUN_NAME_CHARACTERS });

/** A step of a legacy trace. It has `tokens_used`, while a step of a run has `tokens`. */
const traceStep = z
  .object({
    step_index: integer({ ge: 0 }).optional(),
    action: long().default(''),
    action_input: long().default(''),
    thought: long().default(''),
    observation: long().default(''),
    is_error: flag().default(false),
    tokens_used: integer({ ge: 0, le: STEP_TOKENS_MAX }).default(0),
  })
  .meta({ id: 'TraceStep' });

const traceManifest = z
  .object({
    trace_id: identifier(),
    run_id: text({ max: ID_CHARACTERS }).nullish(),
    agent_name: name().nullish(),
    task: long().nullish(),
    model: name().nullish(),
    framework: name().nullish(),
    task_profile: name().nullish(),
    codebase_id: text({ max: ID_CHARACTERS }).nullish(),
    outcome: text({ max: RUN_OUTCOME_CHARACTERS }).nullish(),
    started_at: timestamp().nullish(),
    finished_at: timestamp().nullish(),
    metadata: freeObject().nullish(),
  })
  .meta({ id: 'TraceManifest' });

/** One call of a model: request and answer as they went over the wire, Messages or chat-completions style. */
const traceCallRecord = z
  .object({
    seq: integer({ ge: 0 }).optional(),
    model: name().nullish(),
    request: z.unknown().optional(),
    response: z.unknown().optional(),
    usage: z.unknown().optional(),
    started_at: timestamp().nullish(),
    duration_ms: z.unknown().optional(),
    is_error: flag().default(false),
  })
  .meta({ id: 'TraceCallRecord' });

/** A trace in either form: `manifest` and `calls`, or `trace_id`, `outcome` and `steps`. */
export const traceBody = z
  .object({
    project_id: identifier().optional(),
    trace_id: identifier().optional(),
    outcome: text({ max: RUN_OUTCOME_CHARACTERS }).optional(),
    steps: list(traceStep, { max: TRACE_ITEMS_SENT }).optional(),
    /** An addition to document 2. If it is absent, the first words of the run are the task. */
    task: long().nullish(),
    model: name().nullish(),
    task_profile: name().nullish(),
    run_id: text({ max: ID_CHARACTERS }).nullish(),
    manifest: traceManifest.optional(),
    calls: list(traceCallRecord, { max: TRACE_ITEMS_SENT }).optional(),
  })
  .check(({ value, issues }) => {
    const isCalls = value.manifest !== undefined || value.calls !== undefined;
    const needed = isCalls ? (['manifest', 'calls'] as const) : (['trace_id', 'steps'] as const);
    for (const field of needed) {
      if (value[field] !== undefined) continue;
      issues.push({ code: 'custom', input: value, path: [field], message: 'Field required' });
    }
  })
  .meta({
    id: 'Trace',
    anyOf: [{ required: ['manifest', 'calls'] }, { required: ['trace_id', 'steps'] }],
    dependentRequired: { manifest: ['calls'], calls: ['manifest'] },
  });

const traceAccepted = z
  .object({ trace_id: z.string(), status: z.literal('accepted'), patterns_created: z.int() })
  .meta({ id: 'TraceAccepted' });

const traceQueued = z
  .object({ trace_id: z.string(), status: z.literal('queued') })
  .meta({ id: 'TraceQueued' });

const TRACE_STATES = ['queued', 'distilling', 'done', 'failed'] as const;

const traceState = z
  .object({
    trace_id: z.string(),
    project_id: z.string().nullable().describe('null: no project'),
    status: z.enum(TRACE_STATES),
    pattern_ids: z
      .array(z.string())
      .describe('New patterns, and existing patterns into which patterns of the trace were merged'),
    patterns_created: z.int().describe('Number of new patterns'),
    error: z.string().nullable(),
    submitted_at: z.string(),
    finished_at: z.string().nullable(),
  })
  .meta({ id: 'TraceState' });

const tracePage = z
  .object({ traces: z.array(traceState), next_cursor: nextCursor })
  .meta({ id: 'TracePage' });

export const TRACES = {
  submitTrace: endpoint({
    id: 'submitTrace',
    method: 'POST',
    path: '/v1/traces',
    aliases: ['/traces'],
    auth: 'bearer',
    summary: 'Submits a completed trace, from which patterns are made; a repetition gets the same answer',
    tag: 'traces',
    body: traceBody,
    replies: {
      200: { description: 'A legacy trace, whose patterns are already made', schema: traceAccepted },
      202: {
        description: 'A v2 trace: stored and queued, so that a crash does not lose it',
        schema: traceQueued,
      },
      409: { description: 'The trace_id was used with another body before', schema: errorBody },
    },
  }),
  listTraces: endpoint({
    id: 'listTraces',
    method: 'GET',
    path: '/v1/traces',
    aliases: ['/traces'],
    auth: 'bearer',
    summary: 'Submitted traces, newest first; a page may be short if few traces match a filter',
    tag: 'traces',
    query: z.object({
      project_id: identifier().nullish().describe('Only traces of this project'),
      ...cursorFields(CURSOR_CHARACTERS),
      status: literal([...TRACE_STATES]).nullish(),
      from: timestamp().nullish().describe('Only traces submitted at this time or later'),
      to: timestamp().nullish().describe('Only traces submitted before this time'),
    }),
    replies: { 200: { description: 'A page of traces', schema: tracePage } },
  }),
  readTrace: endpoint({
    id: 'readTrace',
    method: 'GET',
    path: '/v1/traces/{trace_id}',
    aliases: ['/traces/{trace_id}'],
    auth: 'bearer',
    summary: 'The state of a trace',
    tag: 'traces',
    params: z.object({ trace_id: identifier() }),
    replies: {
      200: { description: 'The state of the trace and its patterns', schema: traceState },
      404: { description: 'No such trace, or not yours', schema: errorBody },
    },
  }),
  deleteTrace: endpoint({
    id: 'deleteTrace',
    method: 'DELETE',
    path: '/v1/traces/{trace_id}',
    aliases: ['/traces/{trace_id}'],
    auth: 'bearer',
    summary: 'Deletes a trace, even while patterns are made from it; patterns of the trace stay',
    tag: 'traces',
    params: z.object({ trace_id: identifier() }),
    replies: {
      204: { description: 'Deleted: its trace_id is free for a new trace' },
      404: { description: 'No such trace, or not yours', schema: errorBody },
    },
  }),
} as const;
