/**
 * Data that a component reads from the API. A reading is retried after a temporary failure (no answer, 429, 5xx), and
 * repeated at an interval while the page is visible. The data is kept until the next reading succeeds. Browser.
 */
import { type Signal, signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { ApiError } from './api.ts';
import { onBack, pause, waitAfter } from './connection.ts';
import { keepEqual } from './keep-equal.ts';
import { checkSession, noteSignedOut } from './session.ts';

export interface Resource<T> {
  /** null: not read yet. */
  readonly data: Signal<T | null>;
  /** Why the last reading failed. null: it succeeded, or no reading has ended yet. */
  readonly error: Signal<ApiError | null>;
  /** Reads the data again immediately. */
  refresh(): void;
  /** Sets data that is already known, for example from the answer to a change. */
  set(data: T): void;
}

interface ResourceOptions<T> {
  /**
   * Interval of reading while the page is visible, or a function that derives the interval from the data. The function
   * returns null for data that will not change. Absent: the data is read once.
   */
  every_ms?: number | ((data: T) => number | null);
}

/**
 * Reads data while the component is shown.
 * @param key identifies the data; a different key discards the previous data
 * @param read reads the data once; rejects with an ApiError
 */
export function useResource<T>(
  key: string,
  read: (signal: AbortSignal) => Promise<T>,
  { every_ms }: ResourceOptions<T> = {},
): Resource<T> {
  const watched = useMemo(() => new Watched(read, every_ms ?? null), [key]);
  useEffect(() => watched.start(), [watched]);
  return watched;
}

class Watched<T> implements Resource<T> {
  readonly data = signal<T | null>(null);
  readonly error = signal<ApiError | null>(null);
  readonly #read: (signal: AbortSignal) => Promise<T>;
  readonly #every_ms: number | ((data: T) => number | null) | null;
  #turn = new AbortController();

  constructor(
    read: (signal: AbortSignal) => Promise<T>,
    every_ms: number | ((data: T) => number | null) | null,
  ) {
    this.#read = read;
    this.#every_ms = every_ms;
  }

  /** Begins to read. @returns a function that ends the reading */
  start(): () => void {
    this.refresh();
    // Data with an interval is also read when the server may be back or the reader returns to the page. After a failed
    // reading, the next attempt waits for the same events.
    const stop =
      this.#every_ms === null ? () => {} : onBack(() => this.error.peek() === null && this.refresh());
    return () => {
      stop();
      this.#turn.abort();
    };
  }

  refresh(): void {
    this.#turn.abort();
    this.#turn = new AbortController();
    void this.#follow(this.#turn.signal).catch(() => {});
  }

  set(data: T): void {
    this.data.value = keepEqual(this.data.peek(), data);
  }

  async #follow(ends: AbortSignal): Promise<void> {
    for (let failures = 0; !ends.aborted; ) {
      try {
        const data = await this.#read(ends);
        if (ends.aborted) return;
        failures = 0;
        this.set(data);
        this.error.value = null;
      } catch (thrown) {
        if (ends.aborted) return;
        const error = toApiError(thrown);
        if (error.status === 401) return noteSignedOut();
        if (error.status === 404) void checkSession();
        failures++;
        this.error.value = error;
        if (!error.passes) return;
      }
      if (failures > 0) await pause(this.error.peek()?.retry_after_ms ?? waitAfter(failures), ends);
      else if (this.#every_ms === null) return;
      else {
        const every = typeof this.#every_ms === 'number' ? this.#every_ms : this.#every_ms(this.data.peek()!);
        if (every === null) return;
        await untilNext(every, ends);
      }
    }
  }
}

/**
 * Returns an ApiError as it is. Any other error is a fault of the page: it is shown, but the reading is not retried.
 */
function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  console.error(thrown);
  return new ApiError(400, `The page failed: ${(thrown as Error).message}`);
}

/**
 * Waits for the interval and until the page is visible. The wait for the interval ends early if the server may be back.
 */
async function untilNext(every_ms: number, ends: AbortSignal): Promise<void> {
  await pause(every_ms, ends);
  while (document.visibilityState === 'hidden') await pause(60_000, ends);
}
