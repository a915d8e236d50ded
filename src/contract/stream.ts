/** The live stream as data (document 2, GET /v1/monitor/stream). Any thread. */

import { z } from 'zod';
import type { LiveEvent } from '../domain/live-event.ts';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { STREAM_TICKET } from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { identifier, text } from './fields.ts';
import { scoreFields } from './runs.ts';

/** Longest accepted `Last-Event-ID`; ids of this service have at most 16 digits. */
const EVENT_ID_CHARACTERS = 64;

/** Fields in the data of every event. */
const eventFields = {
  org_id: z.string(),
  project_id: z.string().nullable().describe('null: no project'),
  run_id: z.string().nullable().describe('null: no run'),
  at: z.string().describe('Time of the event, RFC 3339 in UTC'),
};
const runFields = { ...eventFields, run_id: z.string() };
const firedMonitors = z.array(z.enum(MONITOR_NAMES)).describe('Monitors that fired');
const monitorName = z.enum(MONITOR_NAMES);

/** The data of each event (domain/live-event.ts). */
export const LIVE_EVENTS = {
  run_start: z
    .object({
      ...runFields,
      agent_name: z.string(),
      model: z.string(),
      framework: z.string(),
      task_profile: z.string(),
    })
    .meta({ id: 'LiveRunStart' }),
  step: z
    .object({
      ...runFields,
      step_index: z.int(),
      action: z.string().describe('Name of the tool; never its input'),
      is_error: z.boolean(),
      tokens: z.int(),
      ...scoreFields,
    })
    .meta({ id: 'LiveStep' }),
  run_finish: z
    .object({
      ...runFields,
      outcome: z.string(),
      steps: z.int(),
      tokens: z.int(),
      duration_ms: z.number(),
      max_total_score: z.number(),
      fired: z.partialRecord(monitorName, z.int()).describe('Steps at which each monitor fired'),
    })
    .meta({ id: 'LiveRunFinish' }),
  intervention: z
    .object({
      ...eventFields,
      step_index: z.int().nullable().describe('null for an evaluation'),
      failure_type: monitorName.describe('The monitor to which the intervention responds'),
      level: z.enum(['nudge', 'stop']).describe('nudge: change course; stop: the nudge did not help'),
      fired: firedMonitors,
    })
    .meta({ id: 'LiveIntervention' }),
  pattern_created: z
    .object({
      ...eventFields,
      pattern_id: z.string(),
      tier: z.enum(['e1', 'e2', 'e3']),
      trace_id: z
        .string()
        .nullable()
        .describe('The trace from which the pattern was made; null: the pattern was imported'),
      failure_type: z.string(),
    })
    .meta({ id: 'LivePatternCreated' }),
  retrieval_capped: z
    .object({
      ...eventFields,
      run_id: z.null(),
      cap: z.int().describe('Interventions of the month that the plan allows'),
    })
    .meta({ id: 'LiveRetrievalCapped' }),
} as const satisfies Record<LiveEvent['event'], z.ZodType>;

const liveStream = endpoint({
  id: 'live_stream',
  method: 'GET',
  path: '/v1/monitor/stream',
  auth: 'bearer',
  takes_ticket: true,
  summary: 'What happens in the organization, as server-sent events',
  tag: 'monitor',
  query: z.object({
    /** Only events of this project. */
    project_id: identifier().nullish(),
    /** Replaces the header `Last-Event-ID`, which takes precedence, for readers that cannot set it. */
    last_event_id: text({ max: EVENT_ID_CHARACTERS }).optional(),
    ticket: text({ max: STREAM_TICKET.characters })
      .optional()
      .describe('Replaces `Authorization`, which an `EventSource` cannot send: see stream_ticket'),
  }),
  replies: {
    200: {
      description:
        'Events `run_start`, `step`, `run_finish`, `intervention`, `pattern_created` and `retrieval_capped`, each with an ' +
        'increasing `id` and JSON data `{run_id, org_id, project_id, at, …}`; `reset` if events after `Last-Event-ID` are lost; a comment ' +
        'every 15 s',
      media_type: 'text/event-stream',
      events: LIVE_EVENTS,
    },
    503: { description: 'The stream is off (AUTH_DB_CONN_URL is unset)', schema: errorBody },
  },
});

const streamTicket = endpoint({
  id: 'stream_ticket',
  method: 'POST',
  path: '/v1/monitor/stream/tickets',
  auth: 'bearer',
  // A caller who may read the stream may also get a ticket for it.
  writes: false,
  summary: 'A ticket that opens the live stream for a minute, for readers that cannot send a header',
  tag: 'monitor',
  body: z
    .object({
      project_id: identifier()
        .nullish()
        .describe("Only events of this project. A project's key always gets only the events of its project"),
    })
    .meta({ id: 'StreamTicketRequest' }),
  replies: {
    200: {
      description: 'The value of `ticket` in the query of `GET /v1/monitor/stream`',
      schema: z
        .object({
          ticket: z.string(),
          expires_in_s: z
            .int()
            .describe(
              'Seconds until the ticket expires. An open stream continues while the credential is valid',
            ),
        })
        .meta({ id: 'StreamTicket' }),
    },
    413: { description: 'The credential is too long for a query', schema: errorBody },
    503: { description: 'The stream is off (AUTH_DB_CONN_URL is unset)', schema: errorBody },
  },
});

export const STREAM = { liveStream, streamTicket };
