/**
 * Puts the API's dispatch behind the listener: collects a request's body up to the cap, calls the dispatch, sends its
 * answer. Front threads.
 */

import { STATUS_CODES } from 'node:http';
import type { EventStream } from '../contract/handler.ts';
import type { RequestHeaders } from '../contract/route.ts';
import { DROPPED_BODY_BYTES } from '../limits.ts';
import { sendEventStream } from './event-stream.ts';
import type { HttpStream } from './http-stream.ts';

/** A request as the dispatch takes it (`UnroutedRequest` of `src/api`, in this folder's own words). */
export interface CollectedRequest {
  method: string;
  path: string;
  query: string;
  headers: RequestHeaders;
  body: Uint8Array;
  /** The other end of the connection, as an IP address; '' once the client is gone. */
  readonly address: string;
  /** The body is beyond the cap; `body` is empty. */
  oversized?: boolean;
}

export interface DispatchedReply {
  status: number;
  headers: readonly (readonly [name: string, value: string])[];
  body: string | Uint8Array;
  /** Server-sent events instead of the body. */
  stream?: EventStream;
}

export type Dispatch = (request: CollectedRequest) => DispatchedReply | Promise<DispatchedReply>;

/**
 * @param dispatch never rejects
 * @param maxBodyBytes beyond it the answer is 413. What the client goes on sending is still read, and dropped, up to a
 *   bound: most look for an answer only when all is sent, and a connection closed under them shows them none.
 * @returns the listener's handler
 */
export function serveApi(dispatch: Dispatch, maxBodyBytes: number): (stream: HttpStream) => void {
  const patience = maxBodyBytes + DROPPED_BODY_BYTES;
  return (stream) => {
    const { content_length } = stream.head;
    if (content_length > maxBodyBytes) {
      // The rest of a request that is answered goes past the parser by itself.
      refuseBody(stream, dispatch, content_length > patience);
      return;
    }
    const chunks = stream.received;
    let bytes = 0;
    for (const chunk of chunks) bytes += chunk.length;
    const take = (isLast: boolean) => {
      const isLarge = bytes > maxBodyBytes;
      if (isLarge) chunks.length = 0;
      if (bytes > patience) refuseBody(stream, dispatch, true);
      else if (isLast && isLarge) refuseBody(stream, dispatch, false);
      else if (isLast) answer(stream, dispatch, chunks);
    };
    stream.events.onBody = (chunk, isLast) => {
      if (stream.closed || stream.replied) return;
      bytes += chunk.length;
      chunks.push(chunk);
      take(isLast);
    };
    take(stream.bodyComplete);
  };
}

function answer(stream: HttpStream, dispatch: Dispatch, chunks: Buffer[]): void {
  const reply = dispatch(
    new StreamRequest(stream, chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks), false),
  );
  if (reply instanceof Promise) void reply.then((settled) => send(stream, settled));
  else send(stream, reply);
}

/**
 * The dispatch says it in its own words.
 * @param isUnread more of the body comes than anybody wants to read, so the connection cannot go on
 */
function refuseBody(stream: HttpStream, dispatch: Dispatch, isUnread: boolean): void {
  stream.events.onBody = () => {};
  stream.received = [];
  const reply = dispatch(new StreamRequest(stream, Buffer.alloc(0), true));
  if (reply instanceof Promise) void reply.then((settled) => send(stream, settled, isUnread));
  else send(stream, reply, isUnread);
}

/** A class, since an object literal with a getter has a shape of its own each time, which lives until a full collection. */
class StreamRequest implements CollectedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: RequestHeaders;
  readonly body: Uint8Array;
  readonly oversized: boolean;
  readonly #stream: HttpStream;

  constructor(stream: HttpStream, body: Uint8Array, oversized: boolean) {
    const { head } = stream;
    this.method = head.method;
    this.path = head.path;
    this.query = head.query ?? '';
    this.headers = new FlatHeaders(head.headers);
    this.body = body;
    this.oversized = oversized;
    this.#stream = stream;
  }

  /** Looked up when it is asked for, as few requests need it: it is a call into the system. */
  get address(): string {
    return this.#stream.address;
  }
}

function send(stream: HttpStream, reply: DispatchedReply, closeConnection = false): void {
  let lines = '';
  for (const [name, value] of reply.headers) lines += `${name}: ${value}\r\n`;
  if (reply.stream !== undefined) {
    sendEventStream(stream, `${reply.status} ${STATUS_CODES[reply.status]}`, lines, reply.stream);
    return;
  }
  const body = typeof reply.body === 'string' ? reply.body : Buffer.from(reply.body);
  stream.reply(reply.status, lines, body, closeConnection);
}

/** Looked through when one is asked for: few are, and to put all into a map costs more than that. */
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
