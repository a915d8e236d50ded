/** Alerts of the service's operators (docs/alerts.md). Data; any thread. */
import { z } from 'zod';
import {
  ALERT_BOUNDS,
  ALERT_MEASURES,
  ALERT_SIDES,
  DELIVERY_STATES,
  DESTINATION_KINDS,
  EVENT_TYPES,
} from '../domain/alert.ts';
import { DAY_TIME } from '../domain/quiet-hours.ts';
import { RUN_QUERY_BOUNDS } from '../domain/run-query/run-query.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { endpoint, refusal } from './endpoint.ts';
import {
  cursorFields,
  decimal,
  email,
  flag,
  identifier,
  integer,
  list,
  literal,
  nextCursor,
  text,
} from './fields.ts';

const THRESHOLD_MAX = 1_000_000_000_000;

const destinationIn = z
  .object({
    id: text({ max: ID_CHARACTERS })
      .optional()
      .describe('Of a destination that the alert has: `url` and `secret` stay where they are left out'),
    kind: literal(DESTINATION_KINDS).describe(
      '`slack`: a text, as Slack and compatible services take it; `webhook`: signed JSON; `email`',
    ),
    url: text({ max: ALERT_BOUNDS.url_characters })
      .optional()
      .describe('Of a webhook, http or https. It is kept secret: no answer shows more of it than the host'),
    secret: text({ max: ALERT_BOUNDS.secret_characters.max })
      .optional()
      .describe(
        `Of kind \`webhook\`: signs the messages, ${ALERT_BOUNDS.secret_characters.min} characters or more. No answer shows it`,
      ),
    to: list(email(), { max: ALERT_BOUNDS.addresses }).optional().describe('Of kind `email`: the receivers'),
  })
  .meta({ id: 'NewAlertDestination' });

const dayTime = text({ max: 5, pattern: DAY_TIME });
const quietHours = z
  .object({
    from: dayTime.describe('`22:00`'),
    to: dayTime.describe('`07:00`; before `from`: on the next day'),
    time_zone: text({ max: 64 }).describe('Of the IANA database: `Europe/Berlin`'),
  })
  .nullable()
  .describe('Hours in which it tells nothing; null: it tells at any time');

const runQuery = text({ max: RUN_QUERY_BOUNDS.characters });

const measure = literal(ALERT_MEASURES).describe(
  '`runs`, `share` and `cost_usd` of the runs of the window that match `query`; `quota_left`: share of a provider limit that is left; `not_ready`: 1 when the service is not ready; `capture_faults`, `indexing_behind_s`, `dropped_copies`: how capture is doing; `disk_left`: free share of the disk',
);

const ruleFields = {
  is_on: flag().optional().describe('false: it is not looked at'),
  query: runQuery.optional().describe('Of run measures: the runs that count; empty: all (docs/queries.md)'),
  of_query: runQuery.optional().describe('Of `share`: the runs that they are a share of; empty: all'),
  provider: text({ max: 64 }).optional().describe('Of `quota_left`: whose limits; empty: those of all'),
  fires: literal(ALERT_SIDES).optional().describe('On which side of the threshold; `above` where left out'),
  window_s: integer({ ge: ALERT_BOUNDS.window_s.min, le: ALERT_BOUNDS.window_s.max })
    .optional()
    .describe('Seconds back from each look; 3600 where left out'),
  quiet: quietHours.optional(),
  interval_s: integer({ ge: 0, le: ALERT_BOUNDS.interval_s })
    .optional()
    .describe('Least seconds between two times that it tells of a crossing; 3600 where left out'),
};

const threshold = decimal({ ge: -THRESHOLD_MAX, le: THRESHOLD_MAX }).describe('Shares are from 0 to 1');
const destinations = list(destinationIn, { min: 1, max: ALERT_BOUNDS.destinations }).describe(
  'Whom it tells; in a change all of them: those that are left out go',
);

const newAlert = z
  .object({ name: identifier(), measure, threshold, destinations, ...ruleFields })
  .meta({ id: 'NewAlert' });

const alertChange = z
  .object({
    name: identifier().optional(),
    measure: measure.optional(),
    threshold: threshold.optional(),
    destinations: destinations.optional(),
    ...ruleFields,
  })
  .meta({ id: 'AlertChange' });

const alert = z
  .object({
    id: z.string(),
    name: z.string().describe('What people call it'),
    is_on: z.boolean().describe('false: it is not looked at'),
    measure: z.enum(ALERT_MEASURES).describe('What it watches, as in NewAlert'),
    query: z.string().describe('The runs that count; empty: all'),
    of_query: z.string().describe('The runs that they are a share of; empty: all'),
    provider: z.string().describe('Whose limits; empty: those of all'),
    fires: z.enum(ALERT_SIDES).describe('On which side of the threshold'),
    threshold: z.number().describe('The figure that must be crossed'),
    window_s: z.int().describe('Seconds back from each look'),
    quiet: z
      .object({
        from: z.string().describe('The time of day at which they begin'),
        to: z.string().describe('The time of day at which they end'),
        time_zone: z.string().describe('Of the IANA database'),
      })
      .nullable()
      .describe('Hours in which it tells nothing; null: it tells at any time'),
    interval_s: z.int().describe('Least seconds between two times that it tells of a crossing'),
    destinations: z
      .array(
        z.object({
          id: z.string(),
          kind: z.enum(DESTINATION_KINDS).describe('How it is told'),
          target: z.string().describe('The host of a webhook, or the receivers'),
        }),
      )
      .describe('Whom it tells'),
    created_at: z.string(),
    updated_at: z.string(),
    state: z
      .object({
        is_firing: z.boolean().describe('Whether the threshold is crossed'),
        since: z.string().describe('When that began'),
        value: z.number().nullable().describe('Of the last look; null: not known'),
        looked_at: z.string().describe('When the last look was, RFC 3339 in UTC'),
        problem: z.string().describe('Why the value is not known or not exact; empty: it is'),
      })
      .nullable()
      .describe('null: it was not looked at yet'),
  })
  .meta({ id: 'Alert' });

const alertEvent = z
  .object({
    id: z.string(),
    type: z.enum(EVENT_TYPES).describe('What is told'),
    at: z.string(),
    value: z.number().nullable().describe('The figure at that time; null: it was not known'),
    deliveries: z
      .array(
        z.object({
          delivery_id: z.string().describe('Receivers tell repeats by it'),
          destination_id: z.string().describe('The destination of the alert'),
          kind: z.enum(DESTINATION_KINDS).describe('How it is told'),
          target: z.string().describe('The host of a webhook, or the receivers'),
          state: z.enum(DELIVERY_STATES).describe('`given_up`: no attempt follows'),
          attempts: z.int().describe('How often it was tried'),
          problem: z.string().describe('Of the last attempt; empty: it went well'),
          ended_at: z.string().nullable().describe('null: it waits'),
        }),
      )
      .describe('How the telling of each destination went'),
  })
  .meta({ id: 'AlertEvent' });

const params = z.object({ alert_id: text({ max: ID_CHARACTERS }).describe('The alert') });
const notFound = refusal('No such alert');
const common = { auth: 'operator', tag: 'alerts' } as const;

export const ALERT_ROUTES = {
  listAlerts: endpoint({
    ...common,
    id: 'listAlerts',
    method: 'GET',
    path: '/alerts',
    summary: 'All alerts with what the last look found, the oldest first',
    replies: {
      200: {
        description: 'The alerts',
        schema: z
          .object({
            alerts: z.array(alert).describe('All of them'),
            has_mail: z.boolean().describe('false: ALERT_SMTP_URL is not set, and mail cannot be sent'),
          })
          .meta({ id: 'AlertList' }),
      },
    },
  }),
  createAlert: endpoint({
    ...common,
    id: 'createAlert',
    method: 'POST',
    path: '/alerts',
    summary: 'Makes an alert',
    body: newAlert,
    replies: {
      200: { description: 'The alert', schema: alert },
      409: refusal(`There are ${ALERT_BOUNDS.alerts} alerts already`),
    },
  }),
  readAlert: endpoint({
    ...common,
    id: 'readAlert',
    method: 'GET',
    path: '/alerts/{alert_id}',
    summary: 'One alert with what the last look found',
    params,
    replies: { 200: { description: 'The alert', schema: alert }, 404: notFound },
  }),
  changeAlert: endpoint({
    ...common,
    id: 'changeAlert',
    method: 'PATCH',
    path: '/alerts/{alert_id}',
    summary: 'Changes an alert; what is left out stays. It begins anew where it watches something else then',
    params,
    body: alertChange,
    replies: { 200: { description: 'The alert', schema: alert }, 404: notFound },
  }),
  deleteAlert: endpoint({
    ...common,
    id: 'deleteAlert',
    method: 'DELETE',
    path: '/alerts/{alert_id}',
    summary: 'Deletes an alert with its history and the messages that wait',
    params,
    replies: { 204: { description: 'Deleted' }, 404: notFound },
  }),
  testAlert: endpoint({
    ...common,
    id: 'testAlert',
    method: 'POST',
    path: '/alerts/{alert_id}/test',
    summary: 'Sends a test message to each destination at once, and says how that went',
    params,
    replies: { 200: { description: 'The event, as the history has it', schema: alertEvent }, 404: notFound },
  }),
  listAlertEvents: endpoint({
    ...common,
    id: 'listAlertEvents',
    method: 'GET',
    path: '/alerts/{alert_id}/events',
    summary: `What an alert has told, the newest first; the last ${ALERT_BOUNDS.events} events are kept`,
    params,
    query: z.object({ ...cursorFields(ID_CHARACTERS) }),
    replies: {
      200: {
        description: 'A page of events',
        schema: z
          .object({ events: z.array(alertEvent).describe('Those of this page'), next_cursor: nextCursor })
          .meta({ id: 'AlertEventPage' }),
      },
      404: notFound,
    },
  }),
} as const;
