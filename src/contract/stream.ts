/** The live stream as data (document 2, GET /v1/monitor/stream). Any thread. */

import { z } from 'zod';
import { endpoint, errorBody } from './endpoint.ts';
import { identifier, text } from './fields.ts';

/** Longest `Last-Event-ID` that is looked at; ours have at most 16 digits. */
const EVENT_ID_CHARACTERS = 64;

export const liveStream = endpoint({
  id: 'live_stream',
  method: 'GET',
  path: '/v1/monitor/stream',
  auth: 'bearer',
  summary: 'What happens in the organization, as server-sent events',
  tag: 'monitor',
  query: z.object({
    /** Only this project's events. */
    project_id: identifier().nullish(),
    /** As the header `Last-Event-ID`, which goes first: for readers that cannot set it. */
    last_event_id: text({ max: EVENT_ID_CHARACTERS }).optional(),
  }),
  replies: {
    200: {
      description:
        'Events `run_start`, `step`, `run_finish`, `intervention`, `pattern_created` and `retrieval_capped`, each with an ' +
        'increasing `id` and JSON data `{run_id, org_id, project_id, at, …}`; `reset` when what lies behind `Last-Event-ID` is lost; a comment ' +
        'every 15 s',
      media_type: 'text/event-stream',
    },
    503: { description: 'The stream is off (AUTH_DB_CONN_URL is unset)', schema: errorBody },
  },
});

export const STREAM = { liveStream };
