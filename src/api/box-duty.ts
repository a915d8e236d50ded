/**
 * Work that one box does for all boxes that share a database: interrupted deletions and traces, and
 * deletion by age. A box takes the duty for a limited time and renews it. If a box does not renew
 * the duty, another box takes it. If two boxes are on duty at once, for example because their
 * clocks differ, some work is done twice, which does no harm. Server threads; one instance serves
 * all of them.
 */
import { randomUUID } from 'node:crypto';
import { type Clock, systemClock } from '../std/clock.ts';
import type { AccountReads, Accounts, AccountWork } from '../storage/ports/accounts.ts';

/** How long a box has the duty without renewing it. */
const HELD_MS = 120_000;

export class BoxDuty {
  readonly #accounts: Accounts;
  readonly #clock: Clock;
  readonly #box = randomUUID();
  #isOn = false;

  /** @param accounts that the boxes share */
  constructor(accounts: Accounts, clock: Clock = systemClock) {
    this.#accounts = accounts;
    this.#clock = clock;
  }

  /** Whether this box was on duty at the last {@link renew}. */
  get is_on(): boolean {
    return this.#isOn;
  }

  /**
   * Takes the duty if no other box has it, or keeps it. Resolves to whether this box is on duty now.
   * Rejects with a store error; then this box is not on duty.
   */
  async renew(): Promise<boolean> {
    try {
      this.#isOn = this.#isFree(this.#accounts) && (await this.#accounts.transact((tx) => this.#take(tx)));
    } catch (thrown) {
      this.#isOn = false;
      throw thrown;
    }
    return this.#isOn;
  }

  /**
   * Releases the duty, so that another box can take it at once. Rejects with a store error.
   */
  async end(): Promise<void> {
    if (!this.#isOn) return;
    this.#isOn = false;
    await this.#accounts.transact((tx) => {
      if (tx.duties.find()?.box === this.#box) tx.duties.end();
    });
  }

  #take(tx: AccountWork): boolean {
    if (!this.#isFree(tx)) return false;
    tx.duties.give({ box: this.#box, until_ms: this.#clock.wallMs() + HELD_MS });
    return true;
  }

  #isFree(reader: AccountReads): boolean {
    const holder = reader.duties.find();
    if (holder === undefined || holder.box === this.#box) return true;
    // A time far in the future was written by a box with a wrong clock, so the duty counts as free.
    const leftMs = holder.until_ms - this.#clock.wallMs();
    return leftMs < 0 || leftMs > 2 * HELD_MS;
  }
}
