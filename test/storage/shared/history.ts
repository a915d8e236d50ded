/**
 * Clients of boxes that share their rows, and the checker of their outcomes. Each client works on changing boxes, and
 * notes each outcome: acknowledged, or unknown after an error. Test thread and child processes of tests.
 */
import { systemClock } from '../../../src/std/clock.ts';
import type { Prng } from '../../../src/std/prng.ts';
import type { Follower } from '../../../src/storage/shared/follower.ts';
import type { TableReader, Tables } from '../../../src/storage/tables.ts';

interface HistoryBox {
  tables: Tables;
  follower: Pick<Follower, 'position' | 'reach' | 'stale_ms'>;
}

/** What a client did, with the outcome that the box told it. */
export type Told =
  /** `count`: the count that the client got; null: unknown. Times are those of the machine's monotonic clock. */
  | { op: 'count'; id: string; count: number | null; at_ms: number }
  /** A read. It must contain everything that was acknowledged before `current_at_ms`. */
  | { op: 'view'; count: number; current_at_ms: number }
  | { op: 'claim'; name: string; id: string; is_mine: boolean | null }
  | { op: 'violation'; text: string };

const OPS = 'ops';
const COUNTER = 'counter';
const NAMES = 'names';
const OWNERS = 'owners';
const ALL = [OPS, COUNTER, NAMES, OWNERS];
/** Number of names for which clients compete. */
const NAME_COUNT = 40;
const OWNER_COUNT = 3;

/** Stores the owners. At least one owner must always remain. */
export function beginHistory({ tables }: HistoryBox): Promise<void> {
  return tables.transact((tx) => {
    for (let at = 0; at < OWNER_COUNT; at++) tx.write({ op: 'put', table: OWNERS, row: [at], value: true });
  });
}

/** Checks the conditions that the rows must fulfil at every position. @returns the first fault; null: no fault */
function judgeRows(reader: TableReader): string | null {
  const counts = [...reader.range<number>(OPS, { prefix: [] })].map(({ value }) => value);
  const total = reader.get<number>(COUNTER, ['all']) ?? 0;
  if (counts.length !== total) return `there are ${counts.length} operations, but the count is ${total}`;
  if (new Set(counts).size !== counts.length) return 'two operations have the same count';
  if (counts.some((count) => count < 1 || count > total)) return 'a count is larger than the total';
  if (![...reader.range(OWNERS, { prefix: [] })].length && total > 0) return 'no owner is left';
  return null;
}

export class HistoryClient {
  readonly #id: string;
  readonly #random: Prng;
  readonly #tell: (told: Told) => void;
  #number = 0;
  /** The highest position and count that this client has seen. */
  #seen = 0;
  #count = 0;

  constructor(id: string, random: Prng, tell: (told: Told) => void) {
    this.#id = id;
    this.#random = random;
    this.#tell = tell;
  }

  async step(box: HistoryBox): Promise<void> {
    const what = this.#random.float();
    if (what < 0.5) await this.#countUp(box);
    else if (what < 0.65) await this.#claim(box);
    else if (what < 0.75) await this.#leave(box);
    else await this.#read(box);
  }

  async #countUp(box: HistoryBox): Promise<void> {
    const id = `${this.#id}/${++this.#number}`;
    let own: number;
    try {
      own = await box.tables.transact((tx) => {
        const count = (tx.get<number>(COUNTER, ['all']) ?? 0) + 1;
        tx.write({ op: 'put', table: COUNTER, row: ['all'], value: count });
        tx.write({ op: 'put', table: OPS, row: [id], value: count });
        return count;
      });
    } catch {
      this.#tell({ op: 'count', id, count: null, at_ms: systemClock.monotonicMs() });
      return;
    }
    this.#tell({ op: 'count', id, count: own, at_ms: systemClock.monotonicMs() });
    // A box must show the operations that it has acknowledged.
    if (box.tables.get(OPS, [id]) === undefined) this.#violate(`${id} was acknowledged, but is not visible`);
    this.#seen = Math.max(this.#seen, box.follower.position);
  }

  async #claim(box: HistoryBox): Promise<void> {
    const name = `name ${this.#random.below(NAME_COUNT)}`;
    const id = `${this.#id}/${++this.#number}`;
    const is_mine = await box.tables
      .transact((tx) => {
        if (tx.get(NAMES, [name]) !== undefined) return false;
        tx.write({ op: 'put', table: NAMES, row: [name], value: id });
        return true;
      })
      .catch(() => null);
    this.#tell({ op: 'claim', name, id, is_mine });
  }

  /** Removes an owner if another owner remains, or adds a removed owner again. */
  async #leave(box: HistoryBox): Promise<void> {
    const at = this.#random.below(OWNER_COUNT);
    await box.tables
      .transact((tx) => {
        const owners = [...tx.range(OWNERS, { prefix: [] })];
        if (tx.get(OWNERS, [at]) === undefined)
          tx.write({ op: 'put', table: OWNERS, row: [at], value: true });
        else if (owners.length > 1) tx.write({ op: 'remove', table: OWNERS, row: [at] });
      })
      .catch(() => {});
  }

  /** Reads on a box after the box has reached the position that this client has seen on other boxes. */
  async #read(box: HistoryBox): Promise<void> {
    if (!(await box.follower.reach(this.#seen, 50))) return;
    const { position } = box.follower;
    const current_at_ms = systemClock.monotonicMs() - box.follower.stale_ms;
    const { fault, count } = box.tables.snapshot(ALL, (reader) => ({
      fault: judgeRows(reader),
      count: reader.get<number>(COUNTER, ['all']) ?? 0,
    }));
    this.#tell({ op: 'view', count, current_at_ms });
    if (fault !== null) this.#violate(`at position ${position}: ${fault}`);
    if (count < this.#count) this.#violate(`the count went back from ${this.#count} to ${count}`);
    this.#count = count;
    this.#seen = Math.max(this.#seen, position);
  }

  #violate(text: string): void {
    this.#tell({ op: 'violation', text: `${this.#id}: ${text}` });
  }
}

/** Compares the outcomes of the clients with the rows at the end. @returns a line for each contradiction */
export function judgeHistory(told: readonly Told[], reader: TableReader): string[] {
  const wrong = told.flatMap((entry) => (entry.op === 'violation' ? [entry.text] : []));
  const fault = judgeRows(reader);
  if (fault !== null) wrong.push(fault);
  wrong.push(...judgeAges(told));
  const winners = new Map<string, string>();
  for (const entry of told) {
    if (entry.op === 'count' && entry.count !== null && reader.get(OPS, [entry.id]) !== entry.count)
      wrong.push(`${entry.id} was acknowledged, but is lost`);
    if (entry.op !== 'claim' || entry.is_mine !== true) continue;
    const other = winners.get(entry.name);
    if (other !== undefined) wrong.push(`${entry.name} belongs to ${other} and ${entry.id}`);
    winners.set(entry.name, entry.id);
    if (reader.get(NAMES, [entry.name]) !== entry.id)
      wrong.push(`${entry.name} is not ${entry.id}'s in the end`);
  }
  return wrong;
}

/** Checks that no read is older than its view says. All processes of a machine have the same monotonic clock. */
function judgeAges(told: readonly Told[]): string[] {
  const sure = told
    .flatMap((entry) =>
      entry.op === 'count' && entry.count !== null ? [{ ...entry, count: entry.count }] : [],
    )
    .sort((a, b) => a.at_ms - b.at_ms);
  return told.flatMap((entry) => {
    if (entry.op !== 'view') return [];
    const missed = sure.find(({ at_ms, count }) => at_ms < entry.current_at_ms - 1 && count > entry.count);
    return missed === undefined ? [] : [`${missed.id} is older than the stated bound, but was not seen`];
  });
}
