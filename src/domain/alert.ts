/**
 * An alert: a figure over a window, a threshold, and whom to tell. What is stored, and when it fires and recovers. Pure; any
 * thread.
 */
import { isQuiet, type QuietHours } from './quiet-hours.ts';

/** What an alert watches. */
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

/** Measures that add up runs of the window. */
export const RUN_MEASURES: ReadonlySet<AlertMeasure> = new Set(['runs', 'share', 'cost_usd']);

export const ALERT_SIDES = ['above', 'below'] as const;
type AlertSide = (typeof ALERT_SIDES)[number];

export const DESTINATION_KINDS = ['slack', 'webhook', 'email'] as const;
type DestinationKind = (typeof DESTINATION_KINDS)[number];

/** Bounds of alerts. Changing one needs docs/alerts.md. */
export const ALERT_BOUNDS = {
  alerts: 50,
  destinations: 4,
  addresses: 10,
  name_characters: 100,
  url_characters: 2_000,
  secret_characters: { min: 16, max: 200 },
  /** A window is not longer, so that a look costs the same however much is kept. */
  window_s: { min: 60, max: 86_400 },
  interval_s: 7 * 86_400,
  /** Kept of each alert; the oldest goes. */
  events: 100,
  /** Deliveries that wait, of all alerts. Beyond it the oldest one is given up. */
  outbox: 500,
} as const;

/** In `main.mdb`, [org, alert] → AlertRow; '' where captures are of no organization. */
export const ALERTS = 'alerts';
/** [org, alert] → AlertState. */
export const ALERT_STATES = 'alert_states';
/** [org, alert, event] → AlertEvent. */
export const ALERT_EVENTS = 'alert_events';
/** [delivery] → AlertDelivery, in the order of their making. */
export const ALERT_OUTBOX = 'alert_outbox';

export interface AlertDestination {
  /** Names it within its alert. */
  id: string;
  kind: DestinationKind;
  /** Of a webhook; secret. '' for mail. */
  url: string;
  /** Signs what a webhook gets; secret. '' for the other kinds. */
  secret: string;
  /** Of mail. */
  to: string[];
}

export interface AlertRule {
  name: string;
  is_on: boolean;
  measure: AlertMeasure;
  /** Of run measures: the runs that count. */
  query: string;
  /** Of `share`: the runs that they are a share of. */
  of_query: string;
  /** Of `quota_left`: the provider's label; '': the least of all. */
  provider: string;
  fires: AlertSide;
  threshold: number;
  window_s: number;
  /** null: it tells at any time. */
  quiet: QuietHours | null;
  /** Between two times that it tells of a crossing. */
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

/** What the last looks found. */
export interface AlertState {
  is_firing: boolean;
  /** Whether the destinations were told so last. */
  is_told: boolean;
  /** When a crossing was told last, in milliseconds since the epoch; null: never. */
  told_ms: number | null;
  /** When it began to fire or to be quiet. */
  since_ms: number;
  /** null: it is not known. */
  value: number | null;
  looked_ms: number;
  /** Why the value is not known; '' when it is. */
  problem: string;
}

export const EVENT_TYPES = ['fired', 'recovered', 'test'] as const;
type EventType = (typeof EVENT_TYPES)[number];

export const DELIVERY_STATES = ['waiting', 'delivered', 'given_up'] as const;

/** How the telling of one destination went. */
export interface DeliveryNote {
  /** Receivers tell repeats by it. */
  delivery_id: string;
  destination_id: string;
  kind: DestinationKind;
  /** Where it goes, without what is secret. */
  target: string;
  state: (typeof DELIVERY_STATES)[number];
  attempts: number;
  /** Of the last attempt; '' without one. */
  problem: string;
  /** When it was delivered or given up; null: it waits. */
  ended_at: string | null;
}

export interface AlertEvent {
  id: string;
  type: EventType;
  at: string;
  value: number | null;
  deliveries: DeliveryNote[];
}

/** What a destination is told. */
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
  /** The same as a sentence. */
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

/** A look at what an alert watches. */
export interface Measured {
  /** null: it is not known; the alert stays as it is. */
  value: number | null;
  problem: string;
}

/**
 * What a look changes. Destinations are told once when the threshold is crossed and once when it no longer is: not in quiet hours,
 * and of a crossing only when the interval since the last one is over. What has changed back by then is not told.
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
  // A clock that was set back does not silence an alert.
  if (told_ms !== null && told_ms <= nowMs && nowMs < told_ms + rule.interval_s * 1_000)
    return { state, tell: null };
  return { state: { ...state, is_told: true, told_ms: nowMs }, tell: 'fired' };
}

/** What the destinations of an alert are told. */
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

/** One line, whatever the alert is called. */
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

/** Where a message goes, without what is secret: an address of the web may hold a token. */
export function nameTarget({ kind, url, to }: Pick<AlertDestination, 'kind' | 'url' | 'to'>): string {
  if (kind === 'email') return to.join(', ');
  return URL.canParse(url) ? new URL(url).host : '';
}

/** Pauses between attempts; the last one comes again and again until the message is too old. */
const PAUSES_MS = [10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000] as const;
/** A message that no attempt has delivered by then is given up. */
const GIVEN_UP_MS = 24 * 3_600_000;

/** When the next attempt is due; null: the message is given up. */
export function nextAttempt({ attempts, made_ms }: AlertDelivery, nowMs: number): number | null {
  // A clock that was set back must not keep it for longer.
  if (Math.abs(nowMs - made_ms) >= GIVEN_UP_MS) return null;
  return nowMs + PAUSES_MS[Math.min(attempts, PAUSES_MS.length) - 1]!;
}

/** A moment further away than any pause was set by another clock. */
export function isDue({ due_ms }: AlertDelivery, nowMs: number): boolean {
  return due_ms <= nowMs || due_ms > nowMs + PAUSES_MS.at(-1)!;
}
