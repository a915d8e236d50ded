/**
 * An alert: a measured value over a window, a threshold, and the destinations of messages. Its stored form,
 * and the rules for firing and recovering. Pure; any thread.
 */
import { isQuiet, type QuietHours } from './quiet-hours.ts';

/** The values that an alert can watch. */
export const ALERT_MEASURES = [
  'runs',
  'share',
  'cost_usd',
  'quota_left',
  'not_ready',
  'capture_faults',
  'indexing_behind_s',
  'dropped_copies',
  'disk_left',
] as const;
type AlertMeasure = (typeof ALERT_MEASURES)[number];

/** Measures that are calculated from the runs of the window. */
export const RUN_MEASURES: ReadonlySet<AlertMeasure> = new Set(['runs', 'share', 'cost_usd']);

export const ALERT_SIDES = ['above', 'below'] as const;
type AlertSide = (typeof ALERT_SIDES)[number];

export const DESTINATION_KINDS = ['slack', 'webhook', 'email'] as const;
type DestinationKind = (typeof DESTINATION_KINDS)[number];

/** Bounds of alerts. If you change one, change docs/alerts.md, too. */
export const ALERT_BOUNDS = {
  /** Maximum number of alerts of an organization. */
  alerts: 50,
  /** Maximum number of destinations of an alert. */
  destinations: 4,
  /** Maximum number of mail addresses of a destination. */
  addresses: 10,
  name_characters: 100,
  url_characters: 2_000,
  secret_characters: { min: 16, max: 200 },
  /** Maximum window, so that the cost of a check does not depend on the amount of stored data. */
  window_s: { min: 60, max: 86_400 },
  interval_s: 7 * 86_400,
  /** Maximum number of stored events per alert. A further event removes the oldest. */
  events: 100,
  /** Maximum number of waiting deliveries of all alerts. Beyond it, the oldest is given up. */
  outbox: 500,
} as const;

/**
 * Table of `main.mdb`, as are the next three: [org, alert] → AlertRow; org is '' if captures belong to no organization.
 */
export const ALERTS = 'alerts';
/** [org, alert] → AlertState. */
export const ALERT_STATES = 'alert_states';
/** [org, alert, event] → AlertEvent. */
export const ALERT_EVENTS = 'alert_events';
/** [delivery] → AlertDelivery, in the order of creation. */
export const ALERT_OUTBOX = 'alert_outbox';

export interface AlertDestination {
  /** Unique among the destinations of one alert. */
  id: string;
  kind: DestinationKind;
  /** Address of a webhook; secret. '' for mail. */
  url: string;
  /** Key that signs the messages to a webhook; secret. '' for the other kinds. */
  secret: string;
  /** Receivers of mail. */
  to: string[];
}

export interface AlertRule {
  name: string;
  is_on: boolean;
  measure: AlertMeasure;
  /** For run measures: a query that selects the counted runs. */
  query: string;
  /** For `share`: a query that selects all runs; the share of them that `query` selects is measured. */
  of_query: string;
  /** For `quota_left`: the provider's label; '': the provider that has the least quota left. */
  provider: string;
  fires: AlertSide;
  threshold: number;
  window_s: number;
  /** null: no quiet hours. */
  quiet: QuietHours | null;
  /** Minimum time between two messages about a crossing. */
  interval_s: number;
  destinations: AlertDestination[];
}

export interface AlertRow extends AlertRule {
  id: string;
  org_id: string;
  /** RFC 3339. */
  created_at: string;
  updated_at: string;
}

/** The result of the last checks. */
export interface AlertState {
  is_firing: boolean;
  /** Whether the last message said that the threshold was crossed. */
  is_told: boolean;
  /** Time of the last message about a crossing, in milliseconds since the epoch; null: never. */
  told_ms: number | null;
  /** When `is_firing` changed last; before the first change, when the state was created. */
  since_ms: number;
  /** null: unknown. */
  value: number | null;
  looked_ms: number;
  /** Why the value is unknown or inexact; '' for an exact value. */
  problem: string;
}

export const EVENT_TYPES = ['fired', 'recovered', 'test'] as const;
type EventType = (typeof EVENT_TYPES)[number];

export const DELIVERY_STATES = ['waiting', 'delivered', 'given_up'] as const;

/** The outcome of the message to one destination. */
export interface DeliveryNote {
  /** The same in each repetition of a message, so that receivers can recognize repetitions. */
  delivery_id: string;
  destination_id: string;
  kind: DestinationKind;
  /** The destination, without secrets. */
  target: string;
  state: (typeof DELIVERY_STATES)[number];
  attempts: number;
  /** Error of the last attempt; '' if the attempt succeeded, or there was no attempt yet. */
  problem: string;
  /** When the message was delivered or given up; null: it still waits. */
  ended_at: string | null;
}

export interface AlertEvent {
  id: string;
  type: EventType;
  at: string;
  value: number | null;
  deliveries: DeliveryNote[];
}

/** The content of a message. */
export interface AlertNews {
  alert_id: string;
  event_id: string;
  name: string;
  type: EventType;
  at: string;
  measure: AlertMeasure;
  value: number | null;
  fires: AlertSide;
  threshold: number;
  window_s: number;
  query: string;
  /** The message as a sentence. */
  text: string;
}

/** One message that waits for its destination. */
export interface AlertDelivery {
  id: string;
  org_id: string;
  alert_id: string;
  event_id: string;
  destination_id: string;
  news: AlertNews;
  attempts: number;
  made_ms: number;
  due_ms: number;
}

export function beginState(nowMs: number): AlertState {
  return {
    is_firing: false,
    is_told: false,
    told_ms: null,
    since_ms: nowMs,
    value: null,
    looked_ms: nowMs,
    problem: '',
  };
}

/** The result of a check. */
export interface Measured {
  /** null: unknown; the alert stays unchanged. */
  value: number | null;
  problem: string;
}

/**
 * Computes the new state of an alert after a check, and the message to send; `tell` is null without a message.
 * Destinations get one message when the threshold is crossed, and one when the value returns. There are no messages in
 * quiet hours. If the last message about a crossing is younger than `interval_s`, a new crossing is reported when that
 * time has passed, and only if the value has not returned by then.
 */
export function stepAlert(
  rule: AlertRule,
  before: AlertState,
  { value, problem }: Measured,
  nowMs: number,
): { state: AlertState; tell: 'fired' | 'recovered' | null } {
  const is_firing =
    value === null
      ? before.is_firing
      : rule.fires === 'above'
        ? value > rule.threshold
        : value < rule.threshold;
  const state: AlertState = {
    ...before,
    is_firing,
    since_ms: is_firing === before.is_firing ? before.since_ms : nowMs,
    value,
    looked_ms: nowMs,
    problem,
  };
  if (is_firing === before.is_told || (rule.quiet !== null && isQuiet(rule.quiet, nowMs)))
    return { state, tell: null };
  if (!is_firing) return { state: { ...state, is_told: false }, tell: 'recovered' };
  const { told_ms } = before;
  // A clock that was set back must not silence an alert.
  if (told_ms !== null && told_ms <= nowMs && nowMs < told_ms + rule.interval_s * 1_000)
    return { state, tell: null };
  return { state: { ...state, is_told: true, told_ms: nowMs }, tell: 'fired' };
}

/** Makes the content of the message to the destinations of an alert. */
export function tellNews(
  { id, ...rule }: AlertRow,
  event: Pick<AlertEvent, 'id' | 'type' | 'at' | 'value'>,
): AlertNews {
  const { name, measure, fires, threshold, window_s, query } = rule;
  const { type, at, value } = event;
  const news = {
    alert_id: id,
    event_id: event.id,
    name,
    type,
    at,
    measure,
    value,
    fires,
    threshold,
    window_s,
  };
  return { ...news, query, text: describeEvent(rule, type, value) };
}

const TYPE_WORDS: Readonly<Record<EventType, string>> = {
  fired: 'Alert',
  recovered: 'Recovered',
  test: 'Test of the alert',
};

/** Describes an event in a sentence that contains the alert's name and queries unchanged. */
function describeEvent(rule: Omit<AlertRow, 'id'>, type: EventType, value: number | null): string {
  const { name, measure, fires, threshold, query, of_query, window_s } = rule;
  const figure = value === null ? 'not known' : formatFigure(measure, value);
  const limit = `fires ${fires} ${formatFigure(measure, threshold)}`;
  const runs = query === '' ? 'all runs' : query;
  const of = measure === 'share' ? ` of ${of_query === '' ? 'all runs' : of_query}` : '';
  const about = RUN_MEASURES.has(measure) ? `; ${runs}${of}, last ${formatSpan(window_s)}` : '';
  return `${TYPE_WORDS[type]}: ${name}: ${MEASURE_WORDS[measure]} ${figure} (${limit}${about})`;
}

const MEASURE_WORDS: Readonly<Record<AlertMeasure, string>> = {
  runs: 'runs',
  share: 'share of runs',
  cost_usd: 'cost of runs',
  quota_left: 'quota left',
  not_ready: 'not ready',
  capture_faults: 'faults of capture',
  indexing_behind_s: 'index behind by',
  dropped_copies: 'dropped copies',
  disk_left: 'disk left',
};

const SHARES: ReadonlySet<AlertMeasure> = new Set(['share', 'quota_left', 'disk_left']);

function formatFigure(measure: AlertMeasure, value: number): string {
  if (SHARES.has(measure)) return `${Math.round(value * 1_000) / 10} %`;
  if (measure === 'cost_usd') return `$${value.toFixed(2)}`;
  return measure === 'indexing_behind_s' ? `${value} s` : String(value);
}

function formatSpan(seconds: number): string {
  if (seconds % 3_600 === 0) return `${seconds / 3_600} h`;
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}

/**
 * Names the destination of a message without secrets: the addresses of a mail, or the host of a web address, whose path
 * may contain a token. '' if the web address is invalid.
 */
export function nameTarget({ kind, url, to }: Pick<AlertDestination, 'kind' | 'url' | 'to'>): string {
  if (kind === 'email') return to.join(', ');
  return URL.canParse(url) ? new URL(url).host : '';
}

/** Pauses between attempts; the last pause is repeated until the message is too old. */
const PAUSES_MS = [10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000] as const;
/** Age at which an undelivered message is given up. */
const GIVEN_UP_MS = 24 * 3_600_000;

/** Computes when the next attempt is due, in milliseconds since the epoch; null: the message is given up. */
export function nextAttempt({ attempts, made_ms }: AlertDelivery, nowMs: number): number | null {
  // A clock that was set back must not delay the end.
  if (Math.abs(nowMs - made_ms) >= GIVEN_UP_MS) return null;
  return nowMs + PAUSES_MS[Math.min(attempts, PAUSES_MS.length) - 1]!;
}

/**
 * Whether a delivery is due. A time further away than any pause was set by another clock, so such a delivery is due.
 */
export function isDue({ due_ms }: AlertDelivery, nowMs: number): boolean {
  return due_ms <= nowMs || due_ms > nowMs + PAUSES_MS.at(-1)!;
}
