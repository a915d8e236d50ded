/**
 * Work that one box does for all boxes that share a database: interrupted deletions, and deletion by age. A box has the
 * duty for a while and renews it; if it does not, another one takes it. Two boxes on duty at once, for example because
 * their clocks differ, do some work twice, which changes nothing. Server threads; one instance for all.
 */
import { randomUUID } from 'node:crypto';
import { type Clock, systemClock } from '../std/clock.ts';
import type { TableReader, Tables, TableTransaction } from '../storage/tables.ts';

/** Who is on duty; key `['care']`. */
const DUTIES = 'duties';
const KEY = ['care'];
/** How long a box has the duty without renewing it. */
const HELD_MS = 120_000;

interface DutyRow {
  box: string;
  until_ms: number;
}

export class BoxDuty {
  readonly #tables: Tables;
  readonly #clock: Clock;
  readonly #box = randomUUID();
  #isOn = false;

  /** @param tables that the boxes share */
  constructor(tables: Tables, clock: Clock = systemClock) {
    this.#tables = tables;
    this.#clock = clock;
  }

  /** Whether this box was on duty at the last {@link renew}. */
  get is_on(): boolean {
    return this.#isOn;
  }

  /** Takes the duty if no other box has it, or keeps it. Rejects with an Error of the store; then it is not on duty. */
  async renew(): Promise<boolean> {
    try {
      this.#isOn = this.#isFree(this.#tables) && (await this.#tables.transact((tx) => this.#take(tx)));
    } catch (thrown) {
      this.#isOn = false;
      throw thrown;
    }
    return this.#isOn;
  }

  /** Lets another box take it at once. Rejects with an Error of the store. */
  async end(): Promise<void> {
    if (!this.#isOn) return;
    this.#isOn = false;
    await this.#tables.transact((tx) => {
      if (tx.get<DutyRow>(DUTIES, KEY)?.box === this.#box)
        tx.write({ op: 'remove', table: DUTIES, row: KEY });
    });
  }

  #take(tx: TableTransaction): boolean {
    if (!this.#isFree(tx)) return false;
    const value: DutyRow = { box: this.#box, until_ms: this.#clock.wallMs() + HELD_MS };
    tx.write({ op: 'put', table: DUTIES, row: KEY, value });
    return true;
  }

  #isFree(reader: TableReader): boolean {
    const row = reader.get<DutyRow>(DUTIES, KEY);
    if (row === undefined || row.box === this.#box) return true;
    // A time far ahead was written by a clock that was wrong.
    const leftMs = row.until_ms - this.#clock.wallMs();
    return leftMs < 0 || leftMs > 2 * HELD_MS;
  }
}
