/**
 * Connects the API's dispatch to a listener: collects a request's body up to the limit, calls the dispatch, and sends
 * the answer. Server threads.
 */

import type { EventStream } from '../contract/handler.ts';
import type { RequestHeaders } from '../contract/route.ts';
import { BusyPoll } from './busy-poll.ts';
import { sendEventStream } from './event-stream.ts';
import type { HttpStream } from './http-stream.ts';
import { STATUS_CODES } from './status-codes.ts';

/**
 * Maximum number of bytes beyond the limit that are read and dropped, so that the client reads the
 * answer 413. After more bytes the connection is closed.
 */
const DROPPED_BODY_BYTES = 64 << 20;
/**
 * Maximum total size of the incomplete request bodies of one listener on one server thread, or the maximum
 * size of one body if that is larger. When it is exceeded, the oldest of these requests get 503 until the
 * remaining bodies fit.
 */
const OPEN_BODIES_BYTES = 512 << 20;
/**
 * Smaller bodies do not count towards OPEN_BODIES_BYTES, because the limit on connections bounds
 * their number.
 */
export const OPEN_BODY_BYTES_MIN = 64 << 10;

/** A request in the form that the dispatch takes (`UnroutedRequest` of `src/api`). */
export interface CollectedRequest {
  method: string;
  path: string;
  query: string;
  headers: RequestHeaders;
  body: Uint8Array;
  /** The client's IP address; '' if it is first read after the stream has closed. */
  readonly address: string;
  /** The body exceeds the limit; `body` is empty. */
  oversized?: boolean;
  /** The body was dropped, before all of it had arrived, to make room for others; `body` is empty. */
  crowded_out?: boolean;
}

interface DispatchedReply {
  status: number;
  headers: readonly (readonly [name: string, value: string])[];
  body: string | Uint8Array;
  /** Server-sent events instead of the body. */
  stream?: EventStream;
}

type Dispatch = (request: CollectedRequest) => DispatchedReply | Promise<DispatchedReply>;

interface ApiListenerOptions {
  /**
   * Larger bodies get 413. The rest of such a body is read and dropped, up to a bound: most clients read the answer only after
   * they have sent everything, and a closed connection would hide it from them.
   */
  max_body_bytes: number;
  /** Maximum bytes of incomplete bodies together. Beyond it, the oldest body is dropped. */
  open_bodies_bytes?: number;
  /** Makes the event loop busy-poll after an answer. */
  busyPoll?: BusyPoll;
}

/**
 * Makes a listener's handler, which collects the body of a request, calls the dispatch and sends its answer.
 * @param dispatch never rejects
 */
export function serveApi(
  dispatch: Dispatch,
  {
    max_body_bytes: maxBodyBytes,
    open_bodies_bytes: openBytes = Math.max(OPEN_BODIES_BYTES, maxBodyBytes),
    busyPoll = new BusyPoll(0),
  }: ApiListenerOptions,
): (stream: HttpStream) => void {
  const patience = maxBodyBytes + DROPPED_BODY_BYTES;
  const open = new OpenBodies(openBytes);
  const responder = new Responder(dispatch, busyPoll);
  return (stream) => {
    const { content_length } = stream.head;
    if (content_length > maxBodyBytes) {
      // The parser skips the rest of the body of an answered request.
      responder.refuseBody(stream, 'oversized', content_length > patience);
      return;
    }
    if (stream.bodyComplete) {
      let bytes = 0;
      for (const piece of stream.received) bytes += piece.length;
      if (bytes > maxBodyBytes) responder.refuseBody(stream, 'oversized', false);
      else responder.answer(stream, stream.received);
      return;
    }
    const body = new OpenBody(stream.received, () => responder.refuseBody(stream, 'crowded_out', false));
    const take = (isLast: boolean) => {
      const isLarge = body.bytes > maxBodyBytes;
      if (isLarge) body.drop();
      if (isLarge || isLast) open.end(body);
      else open.count(body);
      if (body.bytes > patience) responder.refuseBody(stream, 'oversized', true);
      else if (isLast && isLarge) responder.refuseBody(stream, 'oversized', false);
      else if (isLast) responder.answer(stream, body.pieces);
    };
    stream.events.onBody = (chunk, isLast) => {
      if (stream.closed || stream.replied) return;
      body.push(chunk);
      take(isLast);
    };
    stream.events.onClosed = () => open.end(body);
    take(false);
  };
}

/**
 * Number of pieces that are joined into one. A piece of one byte takes a hundred times its size as
 * an object, and it can keep a whole block of shared memory alive (body-pieces.ts).
 */
const PIECES_JOINED = 64;

/** The part of a body that has arrived. */
class OpenBody {
  bytes = 0;
  /** Bytes that count towards the bound of all bodies. */
  counted_bytes = 0;
  readonly pieces: Buffer[];
  readonly giveUp: () => void;
  /** Number of pieces at the beginning that were joined from others. */
  #joined = 0;

  /** @param giveUp answers the request without the rest of the body */
  constructor(pieces: Buffer[], giveUp: () => void) {
    this.pieces = pieces;
    this.giveUp = giveUp;
    for (const piece of pieces) this.bytes += piece.length;
  }

  push(piece: Buffer): void {
    this.bytes += piece.length;
    this.pieces.push(piece);
    if (this.pieces.length - this.#joined < PIECES_JOINED) return;
    this.pieces.push(Buffer.concat(this.pieces.splice(this.#joined)));
    this.#joined++;
  }

  drop(): void {
    this.pieces.length = 0;
    this.#joined = 0;
  }
}

/**
 * The incomplete bodies of at least OPEN_BODY_BYTES_MIN. Their total size is bounded, because
 * clients can keep them open for any time.
 */
class OpenBodies {
  readonly #maxBytes: number;
  /** In order of arrival. */
  readonly #bodies = new Set<OpenBody>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Records that the body has grown. May drop the oldest body, which may be this one. */
  count(body: OpenBody): void {
    if (body.bytes < OPEN_BODY_BYTES_MIN) return;
    this.#bodies.add(body);
    this.#bytes += body.bytes - body.counted_bytes;
    body.counted_bytes = body.bytes;
    for (const oldest of this.#bodies) {
      if (this.#bytes <= this.#maxBytes) return;
      this.end(oldest);
      oldest.drop();
      oldest.giveUp();
    }
  }

  /** Stops counting the body. Has no effect on a body that is not counted. */
  end(body: OpenBody): void {
    if (!this.#bodies.delete(body)) return;
    this.#bytes -= body.counted_bytes;
    body.counted_bytes = 0;
  }
}

/** Passes requests to the dispatch and sends its answers. */
class Responder {
  readonly #dispatch: Dispatch;
  readonly #busyPoll: BusyPoll;

  constructor(dispatch: Dispatch, busyPoll: BusyPoll) {
    this.#dispatch = dispatch;
    this.#busyPoll = busyPoll;
  }

  answer(stream: HttpStream, chunks: Buffer[]): void {
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    this.#respond(stream, new StreamRequest(stream, body, null), false);
  }

  /**
   * Answers through the dispatch, in the format of its errors.
   * @param isUnread the rest of the body will not be read, so the connection must end
   */
  refuseBody(stream: HttpStream, unread: Unread, isUnread: boolean): void {
    stream.events.onBody = () => {};
    stream.received = [];
    this.#respond(stream, new StreamRequest(stream, Buffer.alloc(0), unread), isUnread);
  }

  #respond(stream: HttpStream, request: StreamRequest, closeConnection: boolean): void {
    this.#busyPoll.open();
    const reply = this.#dispatch(request);
    if (reply instanceof Promise) void reply.then((settled) => this.#send(stream, settled, closeConnection));
    else this.#send(stream, reply, closeConnection);
  }

  #send(stream: HttpStream, reply: DispatchedReply, closeConnection: boolean): void {
    send(stream, reply, closeConnection);
    this.#busyPoll.close();
  }
}

/** Why the dispatch gets a request without its body. */
type Unread = 'oversized' | 'crowded_out';

/**
 * A stream's request in the form that the dispatch takes. It is a class, because V8 creates a hidden class
 * for each object literal with a getter, and frees it only in a full collection.
 */
class StreamRequest implements CollectedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: RequestHeaders;
  readonly body: Uint8Array;
  readonly oversized: boolean;
  readonly crowded_out: boolean;
  readonly #stream: HttpStream;

  constructor(stream: HttpStream, body: Uint8Array, unread: Unread | null) {
    const { head } = stream;
    this.method = head.method;
    this.path = head.path;
    this.query = head.query ?? '';
    this.headers = new FlatHeaders(head.headers);
    this.body = body;
    this.oversized = unread === 'oversized';
    this.crowded_out = unread === 'crowded_out';
    this.#stream = stream;
  }

  /** Read on demand, because reading it is a system call and few requests need it. */
  get address(): string {
    return this.#stream.address;
  }
}

function send(stream: HttpStream, reply: DispatchedReply, closeConnection: boolean): void {
  let lines = '';
  for (const [name, value] of reply.headers) lines += `${name}: ${value}\r\n`;
  if (reply.stream !== undefined) {
    sendEventStream(stream, `${reply.status} ${STATUS_CODES[reply.status]}`, lines, reply.stream);
    return;
  }
  const body = typeof reply.body === 'string' ? reply.body : Buffer.from(reply.body);
  stream.reply(reply.status, lines, body, closeConnection);
}

/**
 * The headers of a request as a flat list, which each look-up searches. Few headers are read, so a map of all headers
 * would cost more.
 */
class FlatHeaders implements RequestHeaders {
  readonly #flat: readonly string[];

  /** @param flat [name, value, …] */
  constructor(flat: readonly string[]) {
    this.#flat = flat;
  }

  get(name: string): string | undefined {
    const flat = this.#flat;
    let value: string | undefined;
    for (let at = 0; at < flat.length; at += 2) {
      if (flat[at] !== name) continue;
      value = value === undefined ? flat[at + 1] : `${value}, ${flat[at + 1]}`;
    }
    return value;
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }
}
