/**
 * Server-sent events (html.spec.whatwg.org, 9.2) on an HttpStream: their encoding, and the sink
 * that sends them to one reader and drops the reader if it is too slow. Server threads. A slow
 * reader costs memory: the native library copies bytes that a socket does not accept, and does not
 * report how many remain. So the sink counts the bytes written since all data was last sent, and
 * drops the reader at the limit. If all slow readers of the thread together hold too much, a lower
 * limit applies.
 */

import type { EventSink, EventStream } from '../contract/handler.ts';
import type { HttpStream, StreamEvents } from './http-stream.ts';

/**
 * Maximum unsent bytes of one reader, beyond which the reader is dropped. While the readers of a server thread have more
 * unsent bytes than the total, an eighth of this maximum applies to each of them.
 */
export const LIVE_BUFFERED_BYTES = 256 << 10;
const LIVE_BUFFERED_TOTAL_BYTES = 128 << 20;

/**
 * Headers of every event stream besides `Content-Type`. They forbid caching and buffering by
 * proxies.
 */
export const EVENT_STREAM_HEADERS: readonly (readonly [string, string])[] = [
  ['cache-control', 'no-cache, no-transform'],
  ['x-accel-buffering', 'no'],
];

/** A comment line, which readers skip. It keeps proxies from closing an idle connection. */
export const HEARTBEAT: Uint8Array = Buffer.from(': \n\n');

/**
 * Encodes the first lines of a stream: the delay before a reconnection, and the position from which a reader
 * continues that reconnects before it has received an event.
 * @param id the position; null: none is sent
 */
export function encodeOpening(retryMs: number, id: number | null): string {
  return `retry: ${retryMs}\n${id === null ? '' : `id: ${id}\n`}\n`;
}

/**
 * Encodes an event.
 * @param id null: the reader keeps the previous one
 * @param data without line ends, like JSON
 */
export function encodeEvent(id: number | null, name: string, data: string): string {
  return `${id === null ? '' : `id: ${id}\n`}event: ${name}\ndata: ${data}\n\n`;
}

/**
 * Answers with an endless stream. A HEAD gets only the head. Does nothing if the request's stream has closed.
 * @param status code and reason, `200 OK`
 * @param headerLines `name: value\r\n` each
 */
export function sendEventStream(
  stream: HttpStream,
  status: string,
  headerLines: string,
  source: EventStream,
): void {
  if (stream.closed) return;
  if (stream.head.method === 'HEAD') {
    stream.writeHead(status, headerLines, { kind: 'bodyless', bytes: null, chunked: true });
    return;
  }
  stream.writeHead(status, headerLines, { kind: 'chunked' });
  const sink = new StreamSink(stream);
  stream.events = sink;
  // Release the request, because a stream may stay open for hours and its request is not read again.
  stream.head.headers = [];
  stream.received = [];
  sink.begin(source);
}

/**
 * Number of past event loop ticks in which events were written. The bytes of a tick are flushed at its end.
 */
let tick = 0;
let isTurnCounted = false;
/** Bytes that the readers of this thread have not received. */
let bufferedTotal = 0;

function countTurn(): number {
  if (!isTurnCounted) {
    isTurnCounted = true;
    setImmediate(() => {
      isTurnCounted = false;
      tick++;
    });
  }
  return tick;
}

function bufferedBound(): number {
  return bufferedTotal > LIVE_BUFFERED_TOTAL_BYTES ? LIVE_BUFFERED_BYTES / 8 : LIVE_BUFFERED_BYTES;
}

/**
 * The sink of one reader. It implements the stream's events as methods, because closures for
 * thousands of readers would need more memory.
 */
class StreamSink implements EventSink, StreamEvents {
  readonly #stream: HttpStream;
  /** Bytes written in this tick, or since all data was last sent. */
  #bytes = 0;
  /** The part of `#bytes` that is included in `bufferedTotal`. */
  #counted = 0;
  #tick = -1;
  #isBlocked = false;
  /**
   * Whether the socket accepts data again, but may not have taken all earlier data. The next write shows
   * whether it has.
   */
  #isDoubtful = false;
  #onGone: (() => void) | null = null;
  #onDrained: (() => void) | null = null;

  constructor(stream: HttpStream) {
    this.#stream = stream;
  }

  begin(source: EventStream): void {
    const onGone = source.open(this);
    if (this.#stream.closed) onGone();
    else this.#onGone = onGone;
  }

  get buffered_bytes(): number {
    return this.#isBlocked || this.#isDoubtful ? this.#bytes : 0;
  }

  write(bytes: Uint8Array): boolean {
    if (this.#stream.closed) return false;
    const now = countTurn();
    if (!this.#isBlocked && this.#tick !== now) {
      // The data of an earlier tick has been sent, because this reader is not blocked.
      if (this.#tick >= 0) this.#settle();
      this.#tick = now;
    }
    this.#bytes += bytes.length;
    if (this.#isBlocked) {
      this.#count();
      if (this.#bytes > bufferedBound()) {
        this.#stream.destroy();
        return false;
      }
    }
    this.#stream.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
    return true;
  }

  whenDrained(listener: () => void): void {
    if (this.#isBlocked) this.#onDrained = listener;
    else queueMicrotask(listener);
  }

  /** Ends the stream. Cuts the connection of a blocked reader, which would not take the end of the stream. */
  close(): void {
    if (this.#isBlocked) this.#stream.destroy();
    else this.#stream.end();
  }

  abort(): void {
    this.#stream.destroy();
  }

  onBlocked(): void {
    this.#isBlocked = true;
    this.#count();
  }

  onDrained(): void {
    this.#isBlocked = false;
    this.#isDoubtful = true;
    this.#tick = -1;
    const listener = this.#onDrained;
    this.#onDrained = null;
    listener?.();
  }

  onClosed(): void {
    this.#settle();
    const onGone = this.#onGone;
    this.#onGone = null;
    this.#onDrained = null;
    onGone?.();
  }

  #count(): void {
    bufferedTotal += this.#bytes - this.#counted;
    this.#counted = this.#bytes;
  }

  #settle(): void {
    this.#isBlocked = false;
    this.#isDoubtful = false;
    this.#bytes = 0;
    this.#count();
  }
}
