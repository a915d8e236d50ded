/**
 * How many requests came with each API key, by UTC day: counted in memory, and added to the rows now and then. A crash loses
 * the last moments; beyond KEY_USES_WAITING keys at once nothing is counted until those are written. Server threads.
 */
import { type Clock, systemClock } from '../std/clock.ts';
import type { TableReader, Tables } from '../storage/tables.ts';

/** How often the uses of keys are written, and keys whose uses may wait. */
const KEY_USES_EVERY_MS = 2_000;
const KEY_USES_WAITING = 10_000;

/** `[key id, day]` → requests, added to. */
export const KEY_REQUESTS = 'api_key_requests';

interface KeyRequests {
  requests: number;
}

export class KeyUses {
  readonly #tables: Pick<Tables, 'transact'>;
  readonly #clock: Clock;
  #waiting = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(tables: Pick<Tables, 'transact'>, clock: Clock = systemClock) {
    this.#tables = tables;
    this.#clock = clock;
  }

  count(id: string): void {
    const before = this.#waiting.get(id);
    if (before === undefined && this.#waiting.size >= KEY_USES_WAITING) return;
    this.#waiting.set(id, (before ?? 0) + 1);
    this.#timer ??= setTimeout(() => void this.flush(), KEY_USES_EVERY_MS).unref();
  }

  /** Resolves once what was counted is written, or cannot be. */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const counted = this.#waiting;
    if (counted.size === 0) return this.#writing;
    this.#waiting = new Map();
    const day = dayOf(this.#clock.wallMs());
    const written = this.#tables.transact((transaction) => {
      for (const [id, requests] of counted)
        transaction.write({ op: 'add', table: KEY_REQUESTS, row: [id, day], counts: { requests } });
    });
    // What cannot be counted is no reason to fail anything.
    this.#writing = written.catch(() => {});
    return this.#writing;
  }
}

/** Requests of a key by day, from a day on. */
export function* readKeyRequests(
  tables: TableReader,
  id: string,
  from: string,
): Iterable<{ date: string; requests: number }> {
  // From the end: the present days are asked for.
  for (const { row, value } of tables.range<KeyRequests>(KEY_REQUESTS, { prefix: [id], reverse: true })) {
    const date = String(row[1]);
    if (date < from) return;
    yield { date, requests: value.requests };
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
