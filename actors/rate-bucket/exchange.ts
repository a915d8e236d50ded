/**
 * Divides the rates of keys among boxes that share a database: reports how many requests of a key arrive at this box,
 * and uses the part of the rate that this box is given (src/domain/rate-division.ts has the rules). Keys with far fewer
 * requests than the limit are not followed; their rates are divided equally. Runs on the box's store thread.
 */
import {
  divideRate,
  followDemand,
  isRateWanted,
  type RateDivision,
  reservedPart,
} from '../../src/domain/rate-division.ts';
import type { RatesSession, RateWrite } from '../../src/storage/shared/rates.ts';
import type { ReadLimit } from './client.ts';
import type { RateShares } from './shares.ts';
import { type RateTable, type ReadNs, readMonotonicNs } from './table.ts';

/** Maximum number of keys whose parts one round changes. Further keys wait for the next round. */
const ROUND_KEYS = 256;
const NS_PER_S = 1e9;

interface Followed {
  /** Version in the database; 0: the database has no entry. */
  version: number;
  parts: RateDivision;
}

interface Change {
  key: number;
  /** null: from now on, the rate is divided equally. */
  parts: RateDivision | null;
}

interface RateMemory {
  table: RateTable;
  shares: RateShares;
}

export class RateExchange {
  readonly #table: RateTable;
  readonly #shares: RateShares;
  readonly #limit: ReadLimit;
  readonly #now: ReadNs;
  #followed = new Map<number, Followed>();
  /** The part of each followed key's rate that this box uses. */
  #used = new Map<number, number>();
  #demands = new Map<number, number>();
  #epoch: string | null = null;
  #version = 0;
  #lookedAtNs: number;

  /** @param limit returns the limit for a part of the rate, 0 … 1; the part 1 is the limit of all boxes together */
  constructor({ table, shares }: RateMemory, limit: ReadLimit, now: ReadNs = readMonotonicNs) {
    this.#table = table;
    this.#shares = shares;
    this.#limit = limit;
    this.#now = now;
    this.#lookedAtNs = now();
  }

  /**
   * Reads the entries that other boxes have written, and writes those that this box changes.
   * @param box id of this box
   * @param live ids of the boxes that are running, including this box
   * @throws TruthUnavailableError; the last parts then stay in use
   */
  async round(session: RatesSession, box: string, live: ReadonlySet<string>): Promise<void> {
    await this.#read(session);
    for (const [key, { parts }] of this.#followed)
      this.#used.set(key, parts.get(box)?.held ?? reservedPart(live.size));
    this.#apply();
    this.#look(1 / live.size);
    const changes = this.#plan(box, live);
    // This box stops using a part before it reports that it has given the part up.
    for (const { key, parts } of changes) {
      const held = parts?.get(box)?.held;
      if (held !== undefined && held < (this.#used.get(key) ?? 1 / live.size)) this.#used.set(key, held);
    }
    this.#apply();
    if (changes.length > 0) await this.#write(session, box, changes);
  }

  async #read(session: RatesSession): Promise<void> {
    let delta = await session.readRates(this.#version);
    if (delta.epoch !== this.#epoch) {
      // The database has lost all entries. Each box writes again the entries that it knows.
      for (const followed of this.#followed.values()) followed.version = 0;
      this.#epoch = delta.epoch;
      if (this.#version !== 0) delta = await session.readRates(0);
    }
    this.#version = delta.version;
    for (const { key, version, data } of delta.changed) {
      if (data !== null) this.#followed.set(key, { version, parts: decodeParts(data) });
      else this.#forget(key);
    }
  }

  #forget(key: number): void {
    this.#followed.delete(key);
    this.#used.delete(key);
  }

  /** Measures how many requests arrived since the last measurement. */
  #look(equal: number): void {
    const now = this.#now();
    const seconds = Math.max(0.1, (now - this.#lookedAtNs) / NS_PER_S);
    this.#lookedAtNs = now;
    const { rate_per_s, burst } = this.#limit(1);
    const arrived = new Map<number, number>();
    for (const { key, asked, refused } of this.#shares.takeDemands()) {
      const rate = asked / seconds / rate_per_s;
      // A burst may exceed this box's part although the rate is low.
      const demand = refused === 0 ? rate : Math.max(rate, asked / burst);
      arrived.set(key, Math.max(demand, arrived.get(key) ?? 0));
    }
    for (const [key, before] of this.#demands) {
      const demand = followDemand(before, arrived.get(key) ?? 0);
      if (demand === 0 && !this.#followed.has(key)) this.#demands.delete(key);
      else this.#demands.set(key, demand);
      arrived.delete(key);
    }
    for (const [key, demand] of arrived)
      if (this.#followed.has(key) || isRateWanted(demand, equal)) this.#demands.set(key, Math.min(1, demand));
  }

  #plan(box: string, live: ReadonlySet<string>): Change[] {
    const wanted = [...this.#demands].filter(
      ([key, demand]) => !this.#followed.has(key) && isRateWanted(demand, 1 / live.size),
    );
    const greatest = wanted.sort(([, a], [, b]) => b - a).slice(0, ROUND_KEYS);
    const changes: Change[] = [];
    for (const key of [...this.#followed.keys(), ...greatest.map(([wantedKey]) => wantedKey)]) {
      const known = this.#followed.get(key);
      const parts = divideRate(known?.parts ?? null, box, live, this.#demands.get(key) ?? 0);
      // The database has lost the entry.
      if (parts === null && known?.version === 0) this.#forget(key);
      else if (parts !== undefined) changes.push({ key, parts });
      else if (known?.version === 0) changes.push({ key, parts: known.parts });
    }
    return changes.slice(0, ROUND_KEYS);
  }

  async #write(session: RatesSession, box: string, changes: readonly Change[]): Promise<void> {
    const writes = changes.map(
      ({ key, parts }): RateWrite => ({
        key,
        base: this.#followed.get(key)?.version ?? 0,
        data: parts === null ? null : encodeParts(parts),
      }),
    );
    const written = await session.writeRates(this.#epoch!, writes);
    for (const [at, { key, parts }] of changes.entries()) {
      const version = written[at];
      // Another box has written the entry first. The next round reads it.
      if (version == null) continue;
      if (parts === null) this.#forget(key);
      else {
        this.#followed.set(key, { version, parts });
        this.#used.set(key, parts.get(box)!.held);
      }
    }
    this.#apply();
  }

  /** Writes the parts to the memory that all threads of the box read. */
  #apply(): void {
    this.#shares.write(this.#used, (slot, before, after) =>
      this.#table.keepTokens(slot, this.#limit(before), this.#limit(after)),
    );
  }
}

function encodeParts(parts: RateDivision): string {
  return JSON.stringify([...parts].map(([box, { demand, held }]) => [box, round(demand), round(held)]));
}

function decodeParts(data: string): RateDivision {
  const entries = JSON.parse(data) as [string, number, number][];
  return new Map(entries.map(([box, demand, held]) => [box, { demand, held }]));
}

/** Rounds down, so that the sum of the parts does not grow. */
function round(part: number): number {
  return Math.floor(part * 1e6) / 1e6;
}
