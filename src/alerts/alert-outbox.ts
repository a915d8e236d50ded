/**
 * Delivers the messages of alerts that wait in `main.mdb` (the outbox). A message leaves the outbox when its destination
 * has accepted the message, or when the message is given up. If the process is killed before the answer arrives, the
 * message is sent again with the same id. Server threads; one instance serves all of them.
 */
import type { AlertDelivery, AlertDestination } from '../domain/alert.ts';
import { isDue } from '../domain/alert.ts';
import { type Clock, systemClock } from '../std/clock.ts';
import type { Accounts } from '../storage/ports/accounts.ts';
import type { AlertAttempt } from '../storage/ports/alerts.ts';
import { AlertTargets } from './alert-targets.ts';
import { type MailSettings, sendMail } from './send-mail.ts';
import { type Message, SendError, sendWebhook } from './send-webhook.ts';

/** Maximum duration of one attempt. */
const ATTEMPT_MS = 10_000;
/** Maximum number of concurrent attempts. */
const ATTEMPTS_AT_ONCE = 4;
/** Interval of reading the outbox, which is also read after each check of the alerts. */
const OUTBOX_EVERY_MS = 5_000;

interface SendSettings {
  /** Private networks that messages may go to, in CIDR notation. */
  readonly private_targets: readonly string[];
  readonly mail: MailSettings | null;
}

/** Sends messages of alerts to destinations of any kind. */
export class AlertSender {
  readonly #settings: SendSettings;
  readonly #targets: AlertTargets;

  /** @param targets checks addresses; default: by the settings, with the system's resolver */
  constructor(settings: SendSettings, targets = new AlertTargets(settings.private_targets)) {
    this.#settings = settings;
    this.#targets = targets;
  }

  /**
   * Makes one attempt to send a message, for at most ATTEMPT_MS.
   * @param ended aborts the attempt
   * @returns whether the destination accepted the message, and the problem otherwise
   */
  async send(destination: AlertDestination, message: Message, ended?: AbortSignal): Promise<AlertAttempt> {
    const late = AbortSignal.timeout(ATTEMPT_MS);
    const signal = ended === undefined ? late : AbortSignal.any([late, ended]);
    try {
      if (destination.kind === 'email') await sendMail(destination, message, this.#settings.mail, signal);
      else await sendWebhook(destination, message, this.#targets, signal);
      return { is_delivered: true, problem: '' };
    } catch (thrown) {
      if (thrown instanceof SendError) return { is_delivered: false, problem: thrown.message };
      return { is_delivered: false, problem: 'it could not be sent' };
    }
  }
}

interface AlertOutboxParts {
  accounts: Accounts;
  sender: Pick<AlertSender, 'send'>;
  /** Called after each attempt, unless the message was deleted in the meantime or `end` aborted the attempt. */
  count(outcome: 'delivered' | 'failed' | 'given_up'): void;
  report(thrown: unknown): void;
  clock?: Clock;
}

export class AlertOutbox {
  readonly #parts: AlertOutboxParts;
  readonly #clock: Clock;
  readonly #ended = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #wake: () => void = () => {};
  #isWoken = false;

  constructor(parts: AlertOutboxParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
  }

  /** Begins to deliver messages, until `end` is called. Call it once. */
  start(): void {
    this.#running = this.#run();
  }

  /** Makes the outbox be read at once. Must be called when a new message waits. */
  wake(): void {
    this.#isWoken = true;
    this.#wake();
  }

  /** Aborts the attempts in progress; their messages wait for the next process. */
  async end(): Promise<void> {
    this.#ended.abort();
    this.#wake();
    await this.#running;
  }

  /** Number of messages that wait. */
  get waiting(): number {
    return this.#parts.accounts.alerts.listOutbox().length;
  }

  /** Makes one attempt to send every message that is due, unless `end` is called. @throws a store error */
  async deliverDue(): Promise<void> {
    const nowMs = this.#clock.wallMs();
    const due = this.#parts.accounts.alerts.listOutbox().filter((delivery) => isDue(delivery, nowMs));
    const deliverNext = async (): Promise<void> => {
      for (let next = due.shift(); next !== undefined && !this.#ended.signal.aborted; next = due.shift())
        await this.#deliver(next);
    };
    await Promise.all(Array.from({ length: ATTEMPTS_AT_ONCE }, deliverNext));
  }

  async #run(): Promise<void> {
    while (!this.#ended.signal.aborted) {
      this.#isWoken = false;
      try {
        await this.deliverDue();
      } catch (thrown) {
        this.#parts.report(thrown);
      }
      if (!this.#isWoken) await this.#pause();
    }
  }

  async #deliver(delivery: AlertDelivery): Promise<void> {
    const { accounts, sender, count } = this.#parts;
    const { id, org_id, alert_id, destination_id, news } = delivery;
    // Use the alert's current destination, because its address may have been corrected.
    const alert = accounts.alerts.find(org_id, alert_id);
    const destination = alert?.destinations.find((known) => known.id === destination_id);
    const message = { delivery_id: id, news, sent_ms: this.#clock.wallMs() };
    const attempt =
      destination === undefined
        ? { is_delivered: false, problem: 'the alert no longer has this destination' }
        : await sender.send(destination, message, this.#ended.signal);
    if (this.#ended.signal.aborted && !attempt.is_delivered) return;
    const isLast = destination === undefined;
    const outcome = await accounts.transact((tx) =>
      tx.alerts.noteAttempt(delivery, attempt, this.#clock.wallMs(), isLast),
    );
    if (outcome !== 'gone') count(outcome === 'waiting' ? 'failed' : outcome);
  }

  #pause(): Promise<void> {
    if (this.#ended.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, OUTBOX_EVERY_MS).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
