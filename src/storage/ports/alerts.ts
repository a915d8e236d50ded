/** Alerts, their history, and their messages. Types; any thread. */
import type { AuditActor } from '../../domain/account.ts';
import type { AlertDelivery, AlertEvent, AlertRow, AlertState, Measured } from '../../domain/alert.ts';

/** Who changes an alert, and when. */
export interface AlertChange {
  actor: AuditActor;
  now_ms: number;
  /** The organization whose audit log gets the entry. */
  log: string;
}

/** The outcome of one attempt to deliver a message. */
export interface AlertAttempt {
  is_delivered: boolean;
  /** The error for people; '' for a delivered message. */
  problem: string;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface AlertReads {
  list(org_id: string): AlertRow[];
  find(org_id: string, id: string): AlertRow | undefined;
  /** Finds the state after the last check; null: the alert was not checked since it was stored. */
  findState(alert: AlertRow): AlertState | null;
  /** Lists events of an alert, newest first. @param before only events older than this one; null: all */
  listEvents(alert: AlertRow, page: { limit: number; before: string | null }): AlertEvent[];
  /** Lists the waiting messages of all organizations, oldest first. */
  listOutbox(): AlertDelivery[];
}

/** What a transaction may do. */
export interface AlertWork extends AlertReads {
  /**
   * Stores a new or a changed alert. Resets the alert's state if the alert watches something else now: another measure,
   * query, provider, direction, threshold or window.
   */
  put(alert: AlertRow, change: AlertChange): void;
  /** Deletes an alert with its history and its unsent messages. @returns false if the alert does not exist */
  remove(place: { org_id: string; id: string }, change: AlertChange): boolean;
  /**
   * Records the result of a check. If the destinations must be told of it (`stepAlert` in domain/alert.ts), also writes
   * an event, with a message for each destination. Does nothing if the alert was deleted or switched off.
   * @returns how many messages were given up to make room
   */
  noteMeasured(place: { org_id: string; id: string }, measured: Measured, nowMs: number): number;
  /** Adds an event to the history of an alert; beyond the bound, the oldest event is removed. */
  addEvent(alert: AlertRow, event: AlertEvent): void;
  /**
   * Records an attempt: the message is delivered, waits for another attempt, or is given up. `gone`: the message does
   * not exist any more, so nothing is recorded.
   * @param isLast whether the message is given up after this attempt, whatever its age
   */
  noteAttempt(
    delivery: AlertDelivery,
    attempt: AlertAttempt,
    nowMs: number,
    isLast?: boolean,
  ): 'delivered' | 'waiting' | 'given_up' | 'gone';
}
