/**
 * Alerts, the results of their checks, their history, and the outbox of messages. The event that an alert fires or ends
 * and its messages are written in one transaction, so that no message is lost if the process is killed.
 * Server threads.
 */
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
import type { AlertAttempt, AlertChange, AlertReads, AlertWork } from '../ports/alerts.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { TableAuditWork } from './audit.ts';

export class TableAlertReads implements AlertReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  list(org_id: string): AlertRow[] {
    const range = { prefix: [org_id], limit: ALERT_BOUNDS.alerts };
    return [...this.#reader.range<AlertRow>(ALERTS, range)].map(({ value }) => value);
  }

  find(org_id: string, id: string): AlertRow | undefined {
    return this.#reader.get<AlertRow>(ALERTS, [org_id, id]);
  }

  findState({ org_id, id }: AlertRow): AlertState | null {
    return this.#reader.get<AlertState>(ALERT_STATES, [org_id, id]) ?? null;
  }

  listEvents(
    { org_id, id }: AlertRow,
    { limit, before }: { limit: number; before: string | null },
  ): AlertEvent[] {
    const after = before === null ? {} : { after: [org_id, id, before] };
    const range = { prefix: [org_id, id], reverse: true, limit, ...after };
    return [...this.#reader.range<AlertEvent>(ALERT_EVENTS, range)].map(({ value }) => value);
  }

  listOutbox(): AlertDelivery[] {
    return [...this.#reader.range<AlertDelivery>(ALERT_OUTBOX, { prefix: [] })].map(({ value }) => value);
  }
}

export class TableAlertWork extends TableAlertReads implements AlertWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  put(alert: AlertRow, { actor, now_ms, log }: AlertChange): void {
    const before = this.find(alert.org_id, alert.id);
    this.#tx.write({ op: 'put', table: ALERTS, row: [alert.org_id, alert.id], value: alert });
    if (before !== undefined && !isSameWatch(before, alert))
      this.#tx.write({ op: 'remove', table: ALERT_STATES, row: [alert.org_id, alert.id] });
    new TableAuditWork(this.#tx).add(actor, now_ms, {
      org_id: log,
      action: before === undefined ? 'alert.create' : 'alert.change',
      target: alert.id,
      ...(before === undefined ? {} : { before: outlineAlert(before) }),
      after: outlineAlert(alert),
    });
  }

  remove(place: { org_id: string; id: string }, { actor, now_ms, log }: AlertChange): boolean {
    const { org_id, id } = place;
    const alert = this.find(org_id, id);
    if (alert === undefined) return false;
    const rows = [
      ...[...this.#tx.range(ALERT_EVENTS, { prefix: [org_id, id] })].map(({ row }) => ({
        table: ALERT_EVENTS,
        row,
      })),
      ...this.listOutbox()
        .filter((delivery) => delivery.org_id === org_id && delivery.alert_id === id)
        .map((delivery) => ({ table: ALERT_OUTBOX, row: [delivery.id] })),
      ...[ALERTS, ALERT_STATES].map((table) => ({ table, row: [org_id, id] })),
    ];
    for (const { table, row } of rows) this.#tx.write({ op: 'remove', table, row });
    new TableAuditWork(this.#tx).add(actor, now_ms, {
      org_id: log,
      action: 'alert.delete',
      target: id,
      before: outlineAlert(alert),
    });
    return true;
  }

  noteMeasured(place: { org_id: string; id: string }, measured: Measured, nowMs: number): number {
    const alert = this.find(place.org_id, place.id);
    // The alert was deleted or switched off in the meantime.
    if (alert === undefined || !alert.is_on) return 0;
    const before = this.findState(alert) ?? beginState(nowMs);
    const { state, tell } = stepAlert(alert, before, measured, nowMs);
    this.#tx.write({ op: 'put', table: ALERT_STATES, row: [alert.org_id, alert.id], value: state });
    if (tell === null) return 0;
    const event = makeEvent(alert, tell, measured.value, nowMs);
    this.addEvent(alert, event);
    const evicted = makeRoom(this.#tx, event.deliveries.length, nowMs);
    for (const note of event.deliveries) writeDelivery(this.#tx, alert, event, note, nowMs);
    return evicted;
  }

  addEvent({ org_id, id }: AlertRow, event: AlertEvent): void {
    this.#tx.write({ op: 'put', table: ALERT_EVENTS, row: [org_id, id, event.id], value: event });
    const old = this.#tx.range(ALERT_EVENTS, {
      prefix: [org_id, id],
      reverse: true,
      offset: ALERT_BOUNDS.events,
    });
    for (const { row } of [...old]) this.#tx.write({ op: 'remove', table: ALERT_EVENTS, row });
  }

  noteAttempt(
    { id }: AlertDelivery,
    attempt: AlertAttempt,
    nowMs: number,
    isLast = false,
  ): 'delivered' | 'waiting' | 'given_up' | 'gone' {
    const delivery = this.#tx.get<AlertDelivery>(ALERT_OUTBOX, [id]);
    // The alert was deleted in the meantime, or the message was given up because too many waited.
    if (delivery === undefined) return 'gone';
    const tried = { ...delivery, attempts: delivery.attempts + 1 };
    const due_ms = attempt.is_delivered || isLast ? null : nextAttempt(tried, nowMs);
    if (due_ms === null) {
      endDelivery(this.#tx, tried, attempt, nowMs);
      return attempt.is_delivered ? 'delivered' : 'given_up';
    }
    this.#tx.write({ op: 'put', table: ALERT_OUTBOX, row: [id], value: { ...tried, due_ms } });
    changeNote(this.#tx, tried, { attempts: tried.attempts, problem: attempt.problem });
    return 'waiting';
  }
}

/** Returns the fields of an alert for the audit log, without secrets. */
function outlineAlert({ name, is_on, measure, query, fires, threshold, destinations }: AlertRow) {
  return { name, is_on, measure, query, fires, threshold, targets: destinations.map(nameTarget) };
}

function isSameWatch(before: AlertRow, after: AlertRow): boolean {
  const watched = ({ measure, query, of_query, provider, fires, threshold, window_s }: AlertRow) =>
    JSON.stringify([measure, query, of_query, provider, fires, threshold, window_s]);
  return watched(before) === watched(after);
}

/** Makes the event of an alert, with a note of each message to a destination. */
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

/** Gives up the oldest messages if more would wait than the bound allows. @returns their number */
function makeRoom(tx: TableTransaction, count: number, nowMs: number): number {
  const waiting = new TableAlertReads(tx).listOutbox();
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

function endDelivery(
  tx: TableTransaction,
  delivery: AlertDelivery,
  { is_delivered, problem }: AlertAttempt,
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
