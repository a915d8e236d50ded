/**
 * The open streams of one listener: waits for first body bytes, ends streams whose bodies arrive too slowly, and
 * reports when no stream is open. Server threads.
 */

import type { HttpStream } from './http-stream.ts';

/** How long, at most, a request with a length waits for the first bytes of its body before it is passed on. */
const FIRST_BYTES_WAIT_MS = 10;
/** Number of measurements within the time over which a rate is averaged. */
const PACE_LOOKS = 4;

/** The minimum rate at which a body must arrive. Time while the body is paused does not count. */
export interface UploadPace {
  bytes_per_sec: number;
  /** Time over which the rate is averaged. */
  window_ms: number;
}

export class OpenStreams {
  /** Each stream stores its index in this list. A Set would rehash often. */
  readonly #streams: HttpStream[] = [];
  readonly #onStream: (stream: HttpStream) => void;
  #awaitTimer: NodeJS.Timeout | null = null;
  readonly #sweepTimers: NodeJS.Timeout[] = [];
  #onIdle: (() => void) | null = null;

  /**
   * @param onStream called with each stream once, when its first bytes have arrived or the wait has
   * ended
   */
  constructor(onStream: (stream: HttpStream) => void) {
    this.#onStream = onStream;
  }

  get size(): number {
    return this.#streams.length;
  }

  [Symbol.iterator](): Iterator<HttpStream> {
    return this.#streams[Symbol.iterator]();
  }

  add(stream: HttpStream): void {
    stream.place = this.#streams.length;
    this.#streams.push(stream);
  }

  /** Removes a stream that has ended. Has no effect on a stream that was not added. */
  remove(stream: HttpStream): void {
    if (stream.place >= 0) {
      const last = this.#streams.pop()!;
      if (last !== stream) {
        this.#streams[stream.place] = last;
        last.place = stream.place;
      }
      stream.place = -1;
    }
    stream.isAwaited = false;
    if (this.#streams.length === 0) this.#onIdle?.();
  }

  /** Passes the stream on after a short wait, unless `handOver` does so before. */
  await(stream: HttpStream): void {
    stream.isAwaited = true;
    this.#awaitTimer ??= setTimeout(this.#endWait, FIRST_BYTES_WAIT_MS);
  }

  /** Passes a waiting stream on. */
  handOver(stream: HttpStream): void {
    if (!stream.isAwaited) return;
    stream.isAwaited = false;
    this.#onStream(stream);
  }

  /** Passes on all streams that wait, without body bytes. */
  readonly #endWait = (): void => {
    this.#awaitTimer = null;
    for (const stream of [...this.#streams]) this.handOver(stream);
  };

  /** Calls `look` at this interval, until `stop`. */
  sweep(every_ms: number, look: () => void): void {
    this.#sweepTimers.push(setInterval(look, every_ms).unref());
  }

  /** Measures the rates of bodies, until `stop`. @param end called with each stream whose body arrives too slowly */
  holdPace(pace: UploadPace, end: (stream: HttpStream) => void): void {
    this.sweep(pace.window_ms / PACE_LOOKS, () => this.#measure(pace, end));
  }

  #measure({ bytes_per_sec, window_ms }: UploadPace, end: (stream: HttpStream) => void): void {
    const now = performance.now();
    for (const stream of [...this.#streams]) {
      if (stream.bodyComplete || stream.is_switch) continue;
      const isLookedAt = stream.paceFrom > 0 && !stream.isBodyPaused;
      if (isLookedAt && now - stream.paceFrom < window_ms) continue;
      const came = stream.bodyBytes - stream.paceFromBytes;
      if (isLookedAt && came < (bytes_per_sec * (now - stream.paceFrom)) / 1_000) {
        end(stream);
        continue;
      }
      stream.paceFrom = now;
      stream.paceFromBytes = stream.bodyBytes;
    }
  }

  /** Resolves when no stream is open, or after the deadline. */
  async waitIdle(deadlineMs: number): Promise<void> {
    if (this.#streams.length === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    const timer = setTimeout(resolve, deadlineMs);
    await promise;
    clearTimeout(timer);
  }

  /** Stops all timers. */
  stop(): void {
    for (const timer of this.#sweepTimers) clearInterval(timer);
    if (this.#awaitTimer !== null) clearTimeout(this.#awaitTimer);
  }
}
