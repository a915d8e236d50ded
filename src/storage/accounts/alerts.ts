/**
 * Alerts, the results of their checks, their history, and the outbox of messages. A crossing and its messages
 * are written in one transaction, so that a kill loses no message. Functions that run in a transaction.
 * Server threads.
 */
import type { AuditActor } from '../../domain/account.ts';
import {
  ALERT_BOUNDS,
  ALERT_EVENTS,
  ALERT_OUTBOX,
  ALERT_STATES,
  ALERTS,
  type AlertDelivery,
  type AlertEvent,
  type AlertRow,
  type AlertState,
  beginState,
  type DeliveryNote,
  type Measured,
  nameTarget,
  nextAttempt,
  stepAlert,
  tellNews,
} from '../../domain/alert.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { writeAudit } from './audit.ts';

export function listAlerts(tables: TableReader, org_id: string): AlertRow[] {
  const range = { prefix: [org_id], limit: ALERT_BOUNDS.alerts };
  return [...tables.range<AlertRow>(ALERTS, range)].map(({ value }) => value);
}

export function findAlert(tables: TableReader, org_id: string, id: string): AlertRow | undefined {
  return tables.get<AlertRow>(ALERTS, [org_id, id]);
}

/** null: the alert was not checked yet. */
export function readAlertState(tables: TableReader, { org_id, id }: AlertRow): AlertState | null {
  return tables.get<AlertState>(ALERT_STATES, [org_id, id]) ?? null;
}

/** Newest first. @param before only events older than this one; null: all */
export function listAlertEvents(
  tables: TableReader,
  { org_id, id }: AlertRow,
  { limit, before }: { limit: number; before: string | null },
): AlertEvent[] {
  const after = before === null ? {} : { after: [org_id, id, before] };
  const range = { prefix: [org_id, id], reverse: true, limit, ...after };
  return [...tables.range<AlertEvent>(ALERT_EVENTS, range)].map(({ value }) => value);
}

/** Who changes an alert, and when. */
interface Change {
  actor: AuditActor;
  now_ms: number;
  /** The organization whose audit log gets the entry. */
  log: string;
}

/**
 * Stores a new or a changed alert. A change resets the alert's state, because it may watch something else
 * now.
 */
export function putAlert(tx: TableTransaction, alert: AlertRow, { actor, now_ms, log }: Change): void {
  const before = findAlert(tx, alert.org_id, alert.id);
  tx.write({ op: 'put', table: ALERTS, row: [alert.org_id, alert.id], value: alert });
  if (before !== undefined && !isSameWatch(before, alert))
    tx.write({ op: 'remove', table: ALERT_STATES, row: [alert.org_id, alert.id] });
  writeAudit(tx, actor, now_ms, {
    org_id: log,
    action: before === undefined ? 'alert.create' : 'alert.change',
    target: alert.id,
    ...(before === undefined ? {} : { before: outlineAlert(before) }),
    after: outlineAlert(alert),
  });
}

/** Deletes an alert with its history and its unsent messages. @returns false if the alert does not exist */
export function removeAlert(
  tx: TableTransaction,
  place: { org_id: string; id: string },
  { actor, now_ms, log }: Change,
): boolean {
  const { org_id, id } = place;
  const alert = findAlert(tx, org_id, id);
  if (alert === undefined) return false;
  const rows = [
    ...[...tx.range(ALERT_EVENTS, { prefix: [org_id, id] })].map(({ row }) => ({ table: ALERT_EVENTS, row })),
    ...listOutbox(tx)
      .filter((delivery) => delivery.org_id === org_id && delivery.alert_id === id)
      .map((delivery) => ({ table: ALERT_OUTBOX, row: [delivery.id] })),
    ...[ALERTS, ALERT_STATES].map((table) => ({ table, row: [org_id, id] })),
  ];
  for (const { table, row } of rows) tx.write({ op: 'remove', table, row });
  writeAudit(tx, actor, now_ms, {
    org_id: log,
    action: 'alert.delete',
    target: id,
    before: outlineAlert(alert),
  });
  return true;
}

/** The facts about an alert for the audit log, without secrets. */
function outlineAlert({ name, is_on, measure, query, fires, threshold, destinations }: AlertRow) {
  return { name, is_on, measure, query, fires, threshold, targets: destinations.map(nameTarget) };
}

function isSameWatch(before: AlertRow, after: AlertRow): boolean {
  const watched = ({ measure, query, of_query, provider, fires, threshold, window_s }: AlertRow) =>
    JSON.stringify([measure, query, of_query, provider, fires, threshold, window_s]);
  return watched(before) === watched(after);
}

/**
 * Records the result of a check. If the value crossed the threshold in either direction, it also writes an
 * event, with a message for each destination.
 * @returns how many messages were given up to make room
 */
export function noteMeasured(
  tx: TableTransaction,
  place: { org_id: string; id: string },
  measured: Measured,
  nowMs: number,
): number {
  const alert = findAlert(tx, place.org_id, place.id);
  // The alert was deleted or switched off meanwhile.
  if (alert === undefined || !alert.is_on) return 0;
  const before = readAlertState(tx, alert) ?? beginState(nowMs);
  const { state, tell } = stepAlert(alert, before, measured, nowMs);
  tx.write({ op: 'put', table: ALERT_STATES, row: [alert.org_id, alert.id], value: state });
  if (tell === null) return 0;
  const event = makeEvent(alert, tell, measured.value, nowMs);
  writeEvent(tx, alert, event);
  const evicted = makeRoom(tx, event.deliveries.length, nowMs);
  for (const note of event.deliveries) writeDelivery(tx, alert, event, note, nowMs);
  return evicted;
}

export function makeEvent(
  { destinations }: AlertRow,
  type: AlertEvent['type'],
  value: number | null,
  nowMs: number,
): AlertEvent {
  const deliveries = destinations.map(
    (destination): DeliveryNote => ({
      delivery_id: `ald_${ulidAt(nowMs)}`,
      destination_id: destination.id,
      kind: destination.kind,
      target: nameTarget(destination),
      state: 'waiting',
      attempts: 0,
      problem: '',
      ended_at: null,
    }),
  );
  return { id: `ale_${ulidAt(nowMs)}`, type, at: new Date(nowMs).toISOString(), value, deliveries };
}

/** Adds an event to the history of an alert; beyond the bound, the oldest event is removed. */
export function writeEvent(tx: TableTransaction, { org_id, id }: AlertRow, event: AlertEvent): void {
  tx.write({ op: 'put', table: ALERT_EVENTS, row: [org_id, id, event.id], value: event });
  const old = tx.range(ALERT_EVENTS, { prefix: [org_id, id], reverse: true, offset: ALERT_BOUNDS.events });
  for (const { row } of [...old]) tx.write({ op: 'remove', table: ALERT_EVENTS, row });
}

/** Gives up the oldest messages if more would wait than the bound allows. @returns their number */
function makeRoom(tx: TableTransaction, count: number, nowMs: number): number {
  const waiting = listOutbox(tx);
  const oldest = waiting.slice(0, Math.max(0, waiting.length + count - ALERT_BOUNDS.outbox));
  for (const delivery of oldest)
    endDelivery(tx, delivery, { problem: 'too many messages waited', is_delivered: false }, nowMs);
  return oldest.length;
}

function writeDelivery(
  tx: TableTransaction,
  alert: AlertRow,
  event: AlertEvent,
  { delivery_id: id, destination_id }: DeliveryNote,
  nowMs: number,
): void {
  const delivery: AlertDelivery = {
    id,
    org_id: alert.org_id,
    alert_id: alert.id,
    event_id: event.id,
    destination_id,
    news: tellNews(alert, event),
    attempts: 0,
    made_ms: nowMs,
    due_ms: nowMs,
  };
  tx.write({ op: 'put', table: ALERT_OUTBOX, row: [id], value: delivery });
}

/** Waiting messages, oldest first. */
export function listOutbox(tables: TableReader): AlertDelivery[] {
  return [...tables.range<AlertDelivery>(ALERT_OUTBOX, { prefix: [] })].map(({ value }) => value);
}

/** The outcome of one attempt. */
export interface Attempt {
  is_delivered: boolean;
  /** The error for people; '' for a delivered message. */
  problem: string;
}

/**
 * Records an attempt: the message is delivered, waits for another attempt, or is given up.
 * @param isLast the message is given up, whatever its age
 */
export function noteAttempt(
  tx: TableTransaction,
  { id }: AlertDelivery,
  attempt: Attempt,
  nowMs: number,
  isLast = false,
): 'delivered' | 'waiting' | 'given_up' | 'gone' {
  const delivery = tx.get<AlertDelivery>(ALERT_OUTBOX, [id]);
  // The alert was deleted meanwhile, or the message made room for another.
  if (delivery === undefined) return 'gone';
  const tried = { ...delivery, attempts: delivery.attempts + 1 };
  const due_ms = attempt.is_delivered || isLast ? null : nextAttempt(tried, nowMs);
  if (due_ms === null) {
    endDelivery(tx, tried, attempt, nowMs);
    return attempt.is_delivered ? 'delivered' : 'given_up';
  }
  tx.write({ op: 'put', table: ALERT_OUTBOX, row: [id], value: { ...tried, due_ms } });
  changeNote(tx, tried, { attempts: tried.attempts, problem: attempt.problem });
  return 'waiting';
}

function endDelivery(
  tx: TableTransaction,
  delivery: AlertDelivery,
  { is_delivered, problem }: Attempt,
  nowMs: number,
): void {
  tx.write({ op: 'remove', table: ALERT_OUTBOX, row: [delivery.id] });
  changeNote(tx, delivery, {
    state: is_delivered ? 'delivered' : 'given_up',
    attempts: delivery.attempts,
    problem,
    ended_at: new Date(nowMs).toISOString(),
  });
}

function changeNote(
  tx: TableTransaction,
  { id, org_id, alert_id, event_id }: AlertDelivery,
  change: Partial<DeliveryNote>,
): void {
  const row = [org_id, alert_id, event_id];
  const event = tx.get<AlertEvent>(ALERT_EVENTS, row);
  if (event === undefined) return;
  const deliveries = event.deliveries.map((note) =>
    note.delivery_id === id ? { ...note, ...change } : note,
  );
  tx.write({ op: 'put', table: ALERT_EVENTS, row, value: { ...event, deliveries } });
}
