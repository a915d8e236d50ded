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
      .describe(
        'Id of an existing destination of the alert. If `url` or `secret` is omitted, the stored value stays',
      ),
    kind: literal(DESTINATION_KINDS).describe(
      '`slack`: text in the format of Slack and compatible services; `webhook`: signed JSON; `email`: a mail',
    ),
    url: text({ max: ALERT_BOUNDS.url_characters })
      .optional()
      .describe('Address of the webhook, http or https. It is secret: answers show only its host'),
    secret: text({ max: ALERT_BOUNDS.secret_characters.max })
      .optional()
      .describe(
        `For \`webhook\` only: signs the messages; ${ALERT_BOUNDS.secret_characters.min} characters or more. No answer shows it`,
      ),
    to: list(email(), { max: ALERT_BOUNDS.addresses }).optional().describe('For `email` only: the receivers'),
  })
  .meta({ id: 'NewAlertDestination' });

const dayTime = text({ max: 5, pattern: DAY_TIME });
const quietHours = z
  .object({
    from: dayTime.describe('For example `22:00`'),
    to: dayTime.describe('For example `07:00`. A time before `from` is on the next day'),
    time_zone: text({ max: 64 }).describe('IANA time zone, for example `Europe/Berlin`'),
  })
  .nullable()
  .describe('Quiet hours, in which no message is sent; null: no quiet hours');

const runQuery = text({ max: RUN_QUERY_BOUNDS.characters });

const measure = literal(ALERT_MEASURES).describe(
  '`runs`, `share`, `cost_usd`: number, share and cost of the runs in the window that match `query`; `quota_left`: remaining share of a provider limit; `not_ready`: 1 while the service is not ready; `capture_faults`, `indexing_behind_s`, `dropped_copies`: state of capture; `disk_left`: free share of the disk',
);

const ruleFields = {
  is_on: flag().optional().describe('false: the alert is not checked'),
  query: runQuery
    .optional()
    .describe(
      'For `runs`, `share` and `cost_usd`: a query that selects the counted runs (docs/queries.md); empty: all runs',
    ),
  of_query: runQuery
    .optional()
    .describe('For `share`: a query that selects the runs of which the share is computed; empty: all runs'),
  provider: text({ max: 64 })
    .optional()
    .describe('For `quota_left`: the provider whose limits are watched; empty: all providers'),
  fires: literal(ALERT_SIDES)
    .optional()
    .describe('The side of the threshold that raises the alert; default `above`'),
  window_s: integer({ ge: ALERT_BOUNDS.window_s.min, le: ALERT_BOUNDS.window_s.max })
    .optional()
    .describe('Length of the window before each check, in seconds; default 3600'),
  quiet: quietHours.optional(),
  interval_s: integer({ ge: 0, le: ALERT_BOUNDS.interval_s })
    .optional()
    .describe('Minimum seconds between two messages about a crossing; default 3600'),
};

const threshold = decimal({ ge: -THRESHOLD_MAX, le: THRESHOLD_MAX }).describe(
  'The threshold; shares are from 0 to 1',
);
const destinations = list(destinationIn, { min: 1, max: ALERT_BOUNDS.destinations }).describe(
  'Receivers of messages. A change must list all of them: a destination that is left out is removed',
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
    name: z.string().describe('Name for people'),
    is_on: z.boolean().describe('false: the alert is not checked'),
    measure: z.enum(ALERT_MEASURES).describe('The measured value, as in NewAlert'),
    query: z.string().describe('A query that selects the counted runs; empty: all runs'),
    of_query: z
      .string()
      .describe('A query that selects the runs of which the share is computed; empty: all runs'),
    provider: z.string().describe('The provider whose limits are watched; empty: all providers'),
    fires: z.enum(ALERT_SIDES).describe('The side of the threshold that raises the alert'),
    threshold: z.number().describe('The value that raises the alert when the measured value crosses it'),
    window_s: z.int().describe('Length of the window before each check, in seconds'),
    quiet: z
      .object({
        from: z.string().describe('Time of day at which the quiet hours begin'),
        to: z.string().describe('Time of day at which the quiet hours end'),
        time_zone: z.string().describe('IANA time zone'),
      })
      .nullable()
      .describe('Quiet hours, in which no message is sent; null: no quiet hours'),
    interval_s: z.int().describe('Minimum seconds between two messages about a crossing'),
    destinations: z
      .array(
        z.object({
          id: z.string(),
          kind: z.enum(DESTINATION_KINDS).describe('Kind of the destination'),
          target: z.string().describe('The host of a webhook, or the receivers'),
        }),
      )
      .describe('Receivers of the messages'),
    created_at: z.string(),
    updated_at: z.string(),
    state: z
      .object({
        is_firing: z.boolean().describe('Whether the threshold is crossed'),
        since: z.string().describe('Time of the last change of `is_firing`'),
        value: z.number().nullable().describe('Value at the last check; null: unknown'),
        looked_at: z.string().describe('Time of the last check, RFC 3339 in UTC'),
        problem: z.string().describe('Why the value is unknown or inexact; empty for an exact value'),
      })
      .nullable()
      .describe('null: not checked yet'),
  })
  .meta({ id: 'Alert' });

const alertEvent = z
  .object({
    id: z.string(),
    type: z.enum(EVENT_TYPES).describe('Kind of the event'),
    at: z.string(),
    value: z.number().nullable().describe('The value at that time; null: unknown'),
    deliveries: z
      .array(
        z.object({
          delivery_id: z
            .string()
            .describe(
              'The same in each repetition of a message, so that receivers can recognize repetitions',
            ),
          destination_id: z.string().describe('The destination of the alert'),
          kind: z.enum(DESTINATION_KINDS).describe('Kind of the destination'),
          target: z.string().describe('The host of a webhook, or the receivers'),
          state: z.enum(DELIVERY_STATES).describe('`given_up`: there is no further attempt'),
          attempts: z.int().describe('Attempts so far'),
          problem: z.string().describe('Error of the last attempt; empty: it succeeded'),
          ended_at: z
            .string()
            .nullable()
            .describe('When the message was delivered or given up; null: not yet'),
        }),
      )
      .describe('Outcome of the message to each destination'),
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
    summary: 'All alerts with the result of their last check, oldest first',
    replies: {
      200: {
        description: 'The alerts',
        schema: z
          .object({
            alerts: z.array(alert).describe('The alerts'),
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
    summary: 'One alert with the result of its last check',
    params,
    replies: { 200: { description: 'The alert', schema: alert }, 404: notFound },
  }),
  changeAlert: endpoint({
    ...common,
    id: 'changeAlert',
    method: 'PATCH',
    path: '/alerts/{alert_id}',
    summary: 'Changes the given fields of an alert. A change of what it watches resets its state',
    params,
    body: alertChange,
    replies: { 200: { description: 'The alert', schema: alert }, 404: notFound },
  }),
  deleteAlert: endpoint({
    ...common,
    id: 'deleteAlert',
    method: 'DELETE',
    path: '/alerts/{alert_id}',
    summary: 'Deletes an alert with its history and its unsent messages',
    params,
    replies: { 204: { description: 'Deleted' }, 404: notFound },
  }),
  testAlert: endpoint({
    ...common,
    id: 'testAlert',
    method: 'POST',
    path: '/alerts/{alert_id}/test',
    summary: 'Sends a test message to each destination immediately, and returns the outcome',
    params,
    replies: {
      200: { description: 'The event, as stored in the history', schema: alertEvent },
      404: notFound,
    },
  }),
  listAlertEvents: endpoint({
    ...common,
    id: 'listAlertEvents',
    method: 'GET',
    path: '/alerts/{alert_id}/events',
    summary: `History of an alert, newest first; the last ${ALERT_BOUNDS.events} events are kept`,
    params,
    query: z.object({ ...cursorFields(ID_CHARACTERS) }),
    replies: {
      200: {
        description: 'A page of events',
        schema: z
          .object({
            events: z.array(alertEvent).describe('The events of this page'),
            next_cursor: nextCursor,
          })
          .meta({ id: 'AlertEventPage' }),
      },
      404: notFound,
    },
  }),
} as const;
