/**
 * Counts requests by API key and UTC day, in memory, and adds the counts to the rows at intervals. A crash loses the
 * last moments. While more than KEY_USES_WAITING keys wait, further ones are not counted. Server threads.
 */
import { type Clock, systemClock } from '../std/clock.ts';
import type { TableReader, Tables } from '../storage/tables.ts';

/** Interval of the writes, and maximum number of keys whose uses wait. */
const KEY_USES_EVERY_MS = 2_000;
const KEY_USES_WAITING = 10_000;

/** `[key id, day]` → number of requests. */
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

  /** Resolves when the counts are written, or cannot be written. */
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
    // A failure to count must not fail anything else.
    this.#writing = written.catch(() => {});
    return this.#writing;
  }
}

/** Requests of a key by day, starting with a day. */
export function* readKeyRequests(
  tables: TableReader,
  id: string,
  from: string,
): Iterable<{ date: string; requests: number }> {
  // From the end, because recent days are requested.
  for (const { row, value } of tables.range<KeyRequests>(KEY_REQUESTS, { prefix: [id], reverse: true })) {
    const date = String(row[1]);
    if (date < from) return;
    yield { date, requests: value.requests };
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
