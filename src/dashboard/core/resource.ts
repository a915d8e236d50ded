/**
 * What a component reads of the API: kept until it is read again, tried again by itself after what passes (no answer, 429,
 * 5xx), read anew at an interval while the page is looked at. Browser.
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
  /** Why it is not, or not up to date; null: it is. */
  readonly error: Signal<ApiError | null>;
  /** Reads it again now. */
  refresh(): void;
  /** What is known without asking: a reply to a change. */
  set(data: T): void;
}

interface ResourceOptions {
  /** Read again so often while the page is visible; absent: once. */
  every_ms?: number;
}

/**
 * @param key names what is read: another key is another thing, and what was there before goes
 * @param read @throws ApiError (rejects)
 */
export function useResource<T>(
  key: string,
  read: (signal: AbortSignal) => Promise<T>,
  { every_ms }: ResourceOptions = {},
): Resource<T> {
  const watched = useMemo(() => new Watched(read, every_ms ?? null), [key]);
  useEffect(() => watched.start(), [watched]);
  return watched;
}

class Watched<T> implements Resource<T> {
  readonly data = signal<T | null>(null);
  readonly error = signal<ApiError | null>(null);
  readonly #read: (signal: AbortSignal) => Promise<T>;
  readonly #every_ms: number | null;
  #turn = new AbortController();

  constructor(read: (signal: AbortSignal) => Promise<T>, every_ms: number | null) {
    this.#read = read;
    this.#every_ms = every_ms;
  }

  /** @returns ends it */
  start(): () => void {
    this.refresh();
    // A reader who comes back to the page sees the present state.
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
      else await untilNext(this.#every_ms, ends);
    }
  }
}

/** A fault of the page itself is told, too, and not tried again. */
function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  console.error(thrown);
  return new ApiError(400, `The page failed: ${(thrown as Error).message}`);
}

/** The interval, and then until the page is visible. */
async function untilNext(every_ms: number, ends: AbortSignal): Promise<void> {
  await pause(every_ms, ends);
  while (document.visibilityState === 'hidden') await pause(60_000, ends);
}
