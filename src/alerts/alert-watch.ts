/**
 * Checks every alert periodically, and adds messages to the outbox, which delivers them. Server
 * threads; the one instance is on the accounts thread.
 */
import type { AlertRow, Measured } from '../domain/alert.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import type { AlertMeasures } from './alert-measures.ts';
import { AlertOutbox, type AlertSender } from './alert-outbox.ts';

/** Interval of checks. */
const ALERTS_EVERY_MS = 60_000;

interface AlertWatchParts {
  accounts: Accounts;
  /** The organization of the alerts; '': no organization. */
  org_id: string;
  measures: Pick<AlertMeasures, 'begin' | 'measure'>;
  sender: Pick<AlertSender, 'send'>;
  report(thrown: unknown): void;
  clock?: Clock;
}

const DELIVERY_OUTCOMES = ['delivered', 'failed', 'given_up'] as const;
type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number];

export class AlertWatch {
  readonly #parts: AlertWatchParts;
  readonly #clock: Clock;
  readonly #outbox: AlertOutbox;
  readonly #deliveries = new Map<DeliveryOutcome, number>(DELIVERY_OUTCOMES.map((outcome) => [outcome, 0]));
  readonly #looks = { measured: 0, unknown: 0 };
  #isStarted = false;
  #isOver = false;
  #running: Promise<void> = Promise.resolve();
  #wake: () => void = () => {};

  constructor(parts: AlertWatchParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
    this.#outbox = new AlertOutbox({
      accounts: parts.accounts,
      sender: parts.sender,
      count: (outcome) => this.#count(outcome, 1),
      report: parts.report,
      ...(parts.clock === undefined ? {} : { clock: parts.clock }),
    });
  }

  /** Checks the alerts at once and then periodically; call it once. */
  start(): void {
    this.#isStarted = true;
    this.#outbox.start();
    this.#running = this.#run();
  }

  /** Resolves when the check and the attempts in progress have ended. */
  async end(): Promise<void> {
    this.#isOver = true;
    this.#wake();
    await Promise.all([this.#running, this.#outbox.end()]);
  }

  /**
   * Checks every alert once.
   * @throws a store error
   */
  async look(): Promise<void> {
    const { accounts, org_id, measures } = this.#parts;
    const nowMs = this.#clock.wallMs();
    await measures.begin(nowMs);
    const found: { alert: AlertRow; measured: Measured }[] = [];
    for (const alert of accounts.alerts.list(org_id)) {
      if (this.#isOver) return;
      if (!alert.is_on) continue;
      const measured = await measures.measure(alert, nowMs);
      this.#looks[measured.value === null ? 'unknown' : 'measured'] += 1;
      found.push({ alert, measured });
    }
    if (found.length === 0) return;
    const evicted = await accounts.transact((tx) => {
      let count = 0;
      for (const { alert, measured } of found) count += tx.alerts.noteMeasured(alert, measured, nowMs);
      return count;
    });
    this.#count('given_up', evicted);
    this.#outbox.wake();
  }

  /** Makes one attempt to send every message that is due. */
  deliverDue(): Promise<void> {
    return this.#outbox.deliverDue();
  }

  /** Metrics for `/metrics`; empty if the watch does not run. */
  listMetrics(): object[] {
    if (!this.#isStarted) return [];
    const { accounts, org_id } = this.#parts;
    const firing = accounts.alerts
      .list(org_id)
      .filter((alert) => alert.is_on && accounts.alerts.findState(alert)?.is_firing === true);
    const metric = (name: string, type: 'counter' | 'gauge', help: string, values: object[]) => ({
      name: `understudy_alerts_${name}`,
      help,
      type,
      values,
      aggregator: 'sum',
    });
    const alone = (value: number) => [{ value, labels: {} }];
    return [
      metric('firing', 'gauge', 'Alerts that fire', alone(firing.length)),
      metric('outbox_waiting', 'gauge', 'Alert messages that wait to be sent', alone(this.#outbox.waiting)),
      metric(
        'looks_total',
        'counter',
        'Checks of alerts, by whether the value was known',
        Object.entries(this.#looks).map(([result, value]) => ({ value, labels: { result } })),
      ),
      metric(
        'deliveries_total',
        'counter',
        'Attempts to deliver alert messages, and abandoned messages, by outcome',
        [...this.#deliveries].map(([outcome, value]) => ({ value, labels: { outcome } })),
      ),
    ];
  }

  #count(outcome: DeliveryOutcome, by: number): void {
    this.#deliveries.set(outcome, this.#deliveries.get(outcome)! + by);
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      try {
        await this.look();
      } catch (thrown) {
        this.#parts.report(thrown);
      }
      await this.#pause();
    }
  }

  #pause(): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ALERTS_EVERY_MS).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
