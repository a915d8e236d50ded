/**
 * One request and its reply on an HTTP/1.1 connection (a stream, in the terms of RFC 9113). It provides the request
 * head, body chunks that stay valid after their callback, and a reply that is sent byte for byte. Server threads.
 * Two classes extend it: `NativeStream` on uWebSockets.js and `PlainStream` on node:http. Their handles are used only
 * in this folder.
 */

import { BodyPieces } from './body-pieces.ts';
import type { BodyFraming } from './framing-guard.ts';

/**
 * The request line and the headers as the client sent them, except for the case of header names. Strings hold one byte
 * a character (latin1).
 */
export interface RequestHead {
  method: string;
  /** Raw path, never decoded. */
  path: string;
  /** Raw, without `?`; null for a target without `?`. */
  query: string | null;
  /** Flat [name, value, …] in wire order, duplicates kept; names in lower case. */
  headers: string[];
  framing: BodyFraming;
  /** Declared length of the body in bytes; 0 without `length` framing. */
  content_length: number;
}

/**
 * How the reply's body is delimited. `bodyless`: HEAD, 204, 304; `bytes` is the value of Content-Length, if present.
 */
export type ReplyFraming =
  | { kind: 'length'; bytes: number }
  | { kind: 'chunked' }
  | { kind: 'bodyless'; bytes: number | null; chunked: boolean };

/** Callbacks of the stream's owner. All are optional; none is called after `onClosed`. */
export interface StreamEvents {
  /** More of the request body, after the chunks that `received` had when the stream was passed on. */
  onBody?: (chunk: Buffer, isLast: boolean) => void;
  /** The client accepts no more data for now: stop producing. */
  onBlocked?: () => void;
  /** The client takes data again. */
  onDrained?: () => void;
  /**
   * The stream has ended. `aborted`: the client disconnected or the stream was destroyed before the whole reply was
   * passed to the system, or the reply answers a request whose body will not be completed. Called once.
   */
  onClosed?: (aborted: boolean) => void;
}

export abstract class HttpStream {
  readonly head: RequestHead;
  /** The memory of the chunks. The owner may release it when it has used all chunks. */
  readonly pieces = new BodyPieces();
  /**
   * Set by an owner that provides the memory: copies a chunk, so that it stays valid after the
   * library's callback.
   */
  keepPiece: ((bytes: ArrayBuffer) => Buffer) | null = null;
  /** The whole body has arrived. */
  bodyComplete: boolean;
  events: StreamEvents = {};
  /** The client has disconnected, the reply is complete, or the stream was destroyed: writes have no effect. */
  closed = false;
  /** The head of the reply is staged or sent. */
  replied = false;
  isBodyPaused = false;
  /** Bytes of the body so far. */
  bodyBytes = 0;
  /** When the measurement of the body's rate began, on the monotonic clock, and the bytes at that time; 0: not yet. */
  paceFrom = 0;
  paceFromBytes = 0;
  /** Index in the listener's list of open streams; -1 outside the list. */
  place = -1;
  /** The listener waits for the first body bytes before it passes the stream on. */
  isAwaited = false;
  /**
   * Whether the client requests another protocol. Then all bytes after the head belong to that
   * protocol, and the connection ends with the stream.
   */
  is_switch = false;
  /**
   * True: nothing is sent automatically, because the owner calls `flush` or `end` after each write,
   * in the same callback.
   */
  isFlushedByOwner = false;
  /** The reply is complete, sent or staged. */
  protected isEnded = false;

  readonly #onGone: (stream: HttpStream) => void;
  #address: string | null = null;
  #received: Buffer[] = [];
  /** Body bytes of the running callback, still in the library's memory. */
  #arriving: ArrayBuffer | null = null;

  /**
   * @param onGone called once, when the stream has ended for any reason (before `onClosed`)
   */
  constructor(head: RequestHead, onGone: (stream: HttpStream) => void) {
    this.head = head;
    this.#onGone = onGone;
    this.bodyComplete = head.framing === 'none';
  }

  /** Marks the body as endless. The listener calls it before it passes the stream on. */
  beginSwitch(): void {
    this.is_switch = true;
    this.bodyComplete = false;
    this.keepPiece = (bytes) => Buffer.from(new Uint8Array(bytes));
  }

  /** Body chunks that arrived while `events.onBody` was not set, in order. The owner takes them. */
  get received(): Buffer[] {
    this.keepArriving();
    return this.#received;
  }

  set received(chunks: Buffer[]) {
    this.#arriving = null;
    this.#received = chunks;
  }

  /** The peer's IP address; '' if the first call comes after the stream has closed. */
  get address(): string {
    if (this.#address !== null) return this.#address;
    if (this.closed) return '';
    this.#address = this.readAddress();
    return this.#address;
  }

  /**
   * Stops reading the request body, as back-pressure to the client. Has no effect after the reply is complete, because
   * the body would never be resumed.
   */
  pauseBody(): void {
    if (this.closed || this.isBodyPaused || this.isEnded) return;
    this.isBodyPaused = true;
    this.holdBody();
  }

  resumeBody(): void {
    if (this.closed || !this.isBodyPaused) return;
    this.isBodyPaused = false;
    this.releaseBody();
  }

  /** Prevents the timeout of a silent connection, because an upload or a reader may be slow. */
  abstract keepAlive(): void;

  /**
   * Accepts the other protocol. Later writes are sent unchanged, and `destroy` ends the connection.
   * @param headerLines `name: value\r\n` each
   */
  abstract writeSwitch(headerLines: string): void;

  /**
   * Sends an informational answer (1xx) at once.
   * @param status code and reason, `103 Early Hints`
   * @param headers flat pairs
   */
  abstract writeInformational(status: string, headers: string[]): void;

  /**
   * Stages the reply's head. It is sent at the end of this tick, together with everything staged until then.
   * @param status code and reason, `200 OK`
   * @param headerLines `name: value\r\n` each, without Date, Content-Length and Transfer-Encoding
   */
  abstract writeHead(status: string, headerLines: string, framing: ReplyFraming): void;

  /**
   * Stages body bytes. `events.onBlocked` says when to pause. The chunk must not change until this tick ends, or until `flush` or
   * `end` returns.
   */
  abstract write(chunk: Buffer): void;

  /** Sends staged data now instead of at the end of this tick. */
  abstract flush(): void;

  /**
   * Completes the reply.
   * @param trailers flat pairs; the connection may be closed after them
   */
  abstract end(trailers?: string[] | null): void;

  /**
   * Sends a whole reply at once.
   * @param closeConnection whether the connection ends with the reply, so that no pipelined request is served
   * @param aborted passed to `onClosed`; true: the request is incomplete, and will not be completed
   */
  abstract reply(
    status: number,
    headerLines: string,
    body: string | Buffer,
    closeConnection?: boolean,
    aborted?: boolean,
  ): void;

  /**
   * Ends the connection without completing the reply. Written data is still sent if the client
   * accepts it. The client then finds that the body is incomplete.
   */
  abstract destroy(): void;

  protected abstract readAddress(): string;
  protected abstract holdBody(): void;
  protected abstract releaseBody(): void;

  /**
   * Called by the subclass with more of the body, which lies in the library's memory.
   * `keepArriving` must be called before the library's callback ends. Until then, a new owner of
   * the stream may set `keepPiece`.
   */
  takeBody(bytes: ArrayBuffer, isLast: boolean): void {
    if (isLast) this.bodyComplete = true;
    this.bodyBytes += bytes.byteLength;
    // Ignore the rest of a request that was answered early, because its owner no longer uses the
    // stream.
    if (this.closed) return;
    if (this.events.onBody !== undefined) this.events.onBody(this.#keep(bytes), isLast);
    else if (bytes.byteLength > 0) this.#arriving = bytes;
  }

  /** Copies body bytes that were not consumed, because the library reuses their buffer after the callback. */
  keepArriving(): void {
    const bytes = this.#arriving;
    if (bytes === null) return;
    this.#arriving = null;
    this.#received.push(this.#keep(bytes));
  }

  #keep(bytes: ArrayBuffer): Buffer {
    return this.keepPiece === null ? this.pieces.keep(bytes) : this.keepPiece(bytes);
  }

  /** Marks the stream as closed, and calls `onGone` and then `events.onClosed`. Further calls have no effect. */
  protected close(aborted: boolean): void {
    if (this.closed) return;
    this.closed = true;
    this.#onGone(this);
    this.events.onClosed?.(aborted);
  }
}

/** Converts flat pairs to header lines. */
export function joinLines(headers: readonly string[]): string {
  let lines = '';
  for (let at = 0; at < headers.length; at += 2) lines += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return lines;
}
