/**
 * Counts requests by API key and UTC day, in memory, and adds the counts to the rows at intervals. A crash loses the
 * last moments. While KEY_USES_WAITING keys wait for the next write, requests with further keys are not counted. Server
 * threads.
 */
import { systemClock } from '../std/clock.ts';
import type { Accounts } from '../storage/ports/accounts.ts';

/** Interval of the writes, and maximum number of keys whose uses wait. */
const KEY_USES_EVERY_MS = 2_000;
const KEY_USES_WAITING = 10_000;

export class KeyUses {
  readonly #accounts: Pick<Accounts, 'transact'>;
  #waiting = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(accounts: Pick<Accounts, 'transact'>) {
    this.#accounts = accounts;
  }

  count(id: string): void {
    const before = this.#waiting.get(id);
    if (before === undefined && this.#waiting.size >= KEY_USES_WAITING) return;
    this.#waiting.set(id, (before ?? 0) + 1);
    this.#timer ??= setTimeout(() => void this.flush(), KEY_USES_EVERY_MS).unref();
  }

  /** Resolves when the counts are written, or when writing them has failed. */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const counted = this.#waiting;
    if (counted.size === 0) return this.#writing;
    this.#waiting = new Map();
    const day = dayOf(systemClock.wallMs());
    const written = this.#accounts.transact(({ keys }) => {
      for (const [id, requests] of counted) keys.addRequests(id, day, requests);
    });
    // If the counts cannot be written, no request fails.
    this.#writing = written.catch(() => {});
    return this.#writing;
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
