/**
 * The organization's live events: `for await (const event of understudy.subscribe())`. A connection that ends is
 * reopened and continues at the same position; lost events are reported as a `reset`. Any thread.
 */
import type { LiveEvent as WireEvent } from '../domain/live-event.ts';
import { backOffMs, type Caller } from './api-client.ts';
import { ApiError, ConnectionError, TimeoutError, UnderstudyError } from './errors.ts';
import { EventLines } from './event-lines.ts';
import type { OpenAnswer } from './transport.ts';

type Told<Event extends WireEvent> = Event extends WireEvent
  ? { kind: Event['event']; id: string; data: Omit<Event, 'event'> }
  : never;

/**
 * One event, with its data as received. `id` is a value for `lastEventId`. `reset`: events before
 * the next one were lost. A newer service may send other kinds as well.
 */
export type LiveEvent = Told<WireEvent> | { kind: 'reset'; id: string; data: Record<string, never> };

export interface SubscribeOptions {
  /** Only events of this project. Default: the client's project, or else all events that the key may read. */
  projectId?: string;
  /**
   * The event after which the subscription continues. `'0'`: begins with the oldest event that the service still has.
   * Default: only new events.
   */
  lastEventId?: string;
  /** Ends the subscription, which then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Time limits and delays. */
interface LiveStreamPace {
  /** Time limit for the head of an answer. */
  timeoutMs: number;
  /** A connection without data for this time counts as broken. The service sends a heartbeat at least every 15 s. */
  silenceMs: number;
}

export const SILENCE_MS = 45_000;
/** Delay before a reconnection, unless the service states another. */
const RETRY_MS = 3_000;
const RETRY_MAX_MS = 30_000;

/**
 * Yields the events of the live stream. Reconnects after a failure and continues after the last event.
 * @param closed ends the iteration without an error
 * @throws UnderstudyError for an error status other than 429 and 5xx, for a 503 at the first attempt, and for an answer
 *   that is not a stream of events; the reason of the caller's signal. All other failures are retried
 */
export async function* readLiveEvents(
  caller: Caller,
  options: SubscribeOptions,
  closed: AbortSignal,
  { timeoutMs, silenceMs }: LiveStreamPace,
): AsyncGenerator<LiveEvent, void, undefined> {
  const { projectId, lastEventId = '' } = options;
  const signal = AbortSignal.any(options.signal === undefined ? [closed] : [closed, options.signal]);
  const query = { project_id: projectId };
  let lastId = lastEventId;
  let retryMs = RETRY_MS;
  let failures = 0;
  for (let isFirst = true; ; isFirst = false) {
    let waitMs = retryMs;
    try {
      options.signal?.throwIfAborted();
      if (closed.aborted) return;
      const headers = lastId === '' ? {} : { 'last-event-id': lastId };
      const incoming = await caller.open('/v1/monitor/stream', { query, headers, timeoutMs, signal });
      const lines = new EventLines(lastId);
      try {
        for await (const bytes of readChunks(incoming, silenceMs)) {
          failures = 0;
          for (const raw of lines.read(bytes)) {
            const data = parseObject(raw.data);
            // An invalid event is skipped without affecting others.
            if (data !== null) yield { kind: raw.name, id: raw.id, data } as unknown as LiveEvent;
          }
        }
      } finally {
        incoming.destroy();
        lastId = lines.lastId;
        retryMs = Math.min(lines.retryMs ?? retryMs, RETRY_MAX_MS);
      }
      waitMs = retryMs;
    } catch (thrown) {
      options.signal?.throwIfAborted();
      if (closed.aborted) return;
      if (!mayComeAgain(thrown, isFirst)) throw thrown;
      failures += 1;
      waitMs = Math.min(Math.max(retryMs, backOffMs(failures, thrown as UnderstudyError)), RETRY_MAX_MS);
    }
    // Jitter, so that not all readers of a restarted service reconnect at once.
    await pause(waitMs * (0.75 + Math.random() / 2), signal);
  }
}

async function* readChunks(incoming: OpenAnswer, silenceMs: number): AsyncGenerator<Uint8Array> {
  const chunks = incoming.chunks[Symbol.asyncIterator]();
  for (;;) {
    // The timer runs only while this function waits for data, because the program may process an event slowly.
    const timer = setTimeout(() => {
      incoming.destroy(new TimeoutError(`The stream was silent for ${silenceMs} ms`));
    }, silenceMs);
    try {
      const { done, value } = await chunks.next();
      if (done) return;
      yield value;
    } catch (thrown) {
      if (thrown instanceof UnderstudyError) throw thrown;
      throw new ConnectionError('The stream broke', false, { cause: thrown });
    } finally {
      clearTimeout(timer);
    }
  }
}

function mayComeAgain(thrown: unknown, isFirst: boolean): boolean {
  if (thrown instanceof ApiError) return thrown.retryable && !(isFirst && thrown.status === 503);
  return thrown instanceof ConnectionError || thrown instanceof TimeoutError;
}

function parseObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/** Waits, or returns early when the signal aborts; the caller then checks the signal. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
}
