/**
 * One exchange on its way to the upstream and back: bytes in, bytes out, nothing decoded, nothing waited for. It is
 * the handler that undici calls as the answer arrives, and the owner of the client's stream. Front threads.
 *
 * What can end it, in any order and each exactly once: the answer is complete, the client goes away, the upstream
 * fails. Whatever it was, the exchange is handed to capture at the end.
 */

import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { FinishedExchange } from '../domain/exchange.ts';
import { CatalogueError, toMessagesBody } from '../errors.ts';
import type { HttpStream, ReplyFraming, RequestHead } from '../http/http-stream.ts';
import type { CaptureQueue } from './capture-queue.ts';
import {
  type FilteredRequest,
  filterRequestHeaders,
  filterResponseHeaders,
  filterTrailers,
} from './headers.ts';
import type { Destination } from './route-table.ts';
import type { Tee } from './tee.ts';
import type { RequestClass } from './turns/classify.ts';
import type { Connection, PooledHandler, SocketState } from './upstream.ts';

/** Request body bytes that wait for a slow upstream before the client is told to wait. */
const UPLOAD_BUFFER_BYTES = 256 * 1024;

/** Codes with which a connection dies. Any of them on a reused connection, before an answer, is worth one retry. */
const CONNECTION_DEATHS = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ECONNABORTED']);

/** One piece with a known length, a stream with an announced one, or an iterable, which undici frames by chunks. */
type RequestBody = Buffer | Readable | AsyncIterable<Buffer> | null;

/** What all exchanges of a front share. */
export interface ForwardContext {
  /** null: capture is switched off altogether. */
  capture: CaptureQueue | null;
  note: string;
}

/** An exchange that somebody else has begun: the student was asked first. */
export interface BegunExchange {
  /** What `CaptureQueue.begin` gave. */
  tee: Tee | null;
  /** When the request came: on the clock of `performance.now()`, and in milliseconds since the epoch. */
  at: number;
  at_ms: number;
}

/** How an exchange went, as far as only whoever answered it knows. */
type ExchangeCourse = Pick<
  FinishedExchange,
  | 'run_id'
  | 'seq'
  | 'status'
  | 'started_at_ms'
  | 'first_byte_ms'
  | 'duration_ms'
  | 'aborted'
  | 'served_by'
  | 'response_headers'
>;

/** The exchange as capture takes it. Its fields in one order, so that the writer sees one kind of object. */
export function describeExchange(
  { note }: ForwardContext,
  head: RequestHead,
  { provider }: Destination,
  { kind, shape }: RequestClass,
  tee: Tee,
  course: ExchangeCourse,
): FinishedExchange {
  return {
    run_id: course.run_id,
    seq: course.seq,
    note,
    provider,
    kind,
    shape,
    method: head.method,
    path: head.path,
    query: head.query ?? '',
    status: course.status,
    started_at_ms: course.started_at_ms,
    first_byte_ms: course.first_byte_ms,
    duration_ms: course.duration_ms,
    aborted: course.aborted,
    truncated: tee.truncated,
    served_by: course.served_by,
    request_headers: head.headers,
    response_headers: course.response_headers,
    request_bytes: tee.request.bytes,
    response_bytes: tee.response.bytes,
    request_chunks: tee.request.chunks,
    response_chunks: tee.response.chunks,
  };
}

export class Forward implements PooledHandler {
  /** The connection has carried a request before. */
  isConnectionReused = false;
  /** The socket that carries the request, once it does. */
  connection: Readonly<SocketState> | null = null;

  readonly #context: ForwardContext;
  readonly #stream: HttpStream;
  readonly #destination: Destination;
  readonly #requestClass: RequestClass;
  readonly #request: FilteredRequest;
  readonly #tee: Tee | null;
  readonly #startedAt: number;
  readonly #startedAtMs: number;
  #pooled: Connection | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  /** A body that arrives while it is sent. */
  #upload: Readable | null = null;
  /** A body that was sent as one piece; kept for a retry. */
  #wholeBody: Buffer | null = null;
  #retries = 0;
  #status = 0;
  #responseHeaders: string[] = [];
  #firstByteMs: number | null = null;
  #isUpstreamDone = false;
  #isOver = false;

  constructor(
    context: ForwardContext,
    stream: HttpStream,
    destination: Destination,
    requestClass: RequestClass,
    begun: BegunExchange | null = null,
  ) {
    this.#startedAt = begun?.at ?? performance.now();
    this.#startedAtMs = begun?.at_ms ?? Date.now();
    this.#context = context;
    this.#stream = stream;
    this.#destination = destination;
    this.#requestClass = requestClass;
    const head = stream.head;
    this.#request = filterRequestHeaders(
      head,
      destination.upstream.host,
      // A body that is all here goes as one buffer, whose length undici announces; one that is not needs our word.
      head.framing === 'length' && !stream.bodyComplete ? String(head.content_length) : null,
    );
    this.#tee = begun === null ? (context.capture?.begin() ?? null) : begun.tee;
  }

  /** Sends the request. Errors of any kind come back through the handler's methods. */
  start(): void {
    const stream = this.#stream;
    const received = stream.received;
    stream.received = [];
    const body = this.#makeBody(received);
    if (this.#tee !== null) {
      // The joined body, where there is one, so that its chunks are not kept beside it.
      const kept = Buffer.isBuffer(body) ? [body] : received;
      for (const chunk of kept) this.#tee.add(this.#tee.request, chunk);
    }
    stream.events = {
      onBody: this.#onBody,
      onBlocked: () => this.#controller?.pause(),
      onDrained: () => this.#controller?.resume(),
      onClosed: this.#onClosed,
    };
    this.#dispatch(body);
  }

  #makeBody(received: Buffer[]): RequestBody {
    const stream = this.#stream;
    if (stream.head.framing === 'none') return null;
    if (stream.head.framing === 'length' && stream.bodyComplete) {
      this.#wholeBody = received.length === 1 ? received[0]! : Buffer.concat(received);
      return this.#wholeBody;
    }
    const upload = new Readable({
      highWaterMark: UPLOAD_BUFFER_BYTES,
      read: () => stream.resumeBody(),
    });
    // Without a listener an aborted upload would end the process; the exchange learns of it through its handler.
    upload.on('error', () => {});
    for (const chunk of received) upload.push(chunk);
    if (stream.bodyComplete) upload.push(null);
    this.#upload = upload;
    return stream.head.framing === 'chunked' ? iterateChunks(upload) : upload;
  }

  #dispatch(body: RequestBody): void {
    const { upstream, path } = this.#destination;
    const { method, query } = this.#stream.head;
    const target = upstream.base_path + path;
    upstream.pool.dispatch(
      {
        path: query === null ? target : `${target}?${query}`,
        method: method as Dispatcher.HttpMethod,
        headers: this.#request.headers,
        // undici takes iterables too; its types do not say so.
        body: body as Buffer | Readable | null,
      },
      this,
    );
  }

  readonly #onBody = (chunk: Buffer, isLast: boolean): void => {
    if (this.#tee !== null) this.#tee.add(this.#tee.request, chunk);
    const upload = this.#upload;
    // Once the upstream is done, nothing reads it any more.
    if (upload === null || upload.destroyed || this.#isUpstreamDone) return;
    if (chunk.length > 0 && !upload.push(chunk)) this.#stream.pauseBody();
    if (isLast) upload.push(null);
  };

  /** The client's side is over: everything handed to the system, or the client gone. */
  readonly #onClosed = (aborted: boolean): void => {
    this.#finish(aborted);
    if (!this.#isUpstreamDone) {
      this.#isUpstreamDone = true;
      this.#controller?.abort(new Error('the client went away'));
    }
  };

  onConnection(connection: Connection): void {
    this.#pooled = connection;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isOver) {
      controller.abort(new Error('the client went away'));
      return;
    }
    this.#controller = controller;
    const { socket } = this.#pooled!;
    this.connection = socket;
    this.isConnectionReused = socket.requests > 0;
    socket.requests++;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
    statusText?: string,
  ): void {
    const raw = (controller.rawHeaders ?? []) as (Buffer | string)[];
    const filtered = filterResponseHeaders(raw, headers.connection);
    if (status < 200) {
      this.#stream.writeInformational(`${status} ${statusText ?? ''}`, filtered.all);
      return;
    }
    this.#status = status;
    this.#firstByteMs = performance.now() - this.#startedAt;
    this.#responseHeaders = filtered.all;
    let framing: ReplyFraming;
    if (this.#stream.head.method === 'HEAD' || status === 204 || status === 304) {
      framing = { kind: 'bodyless', bytes: filtered.content_length, chunked: filtered.is_chunked };
    } else if (filtered.content_length !== null) {
      framing = { kind: 'length', bytes: filtered.content_length };
    } else {
      framing = { kind: 'chunked' };
    }
    const lines = filtered.has_trailer ? `${filtered.lines}Connection: close\r\n` : filtered.lines;
    this.#stream.writeHead(`${status} ${statusText ?? ''}`, lines, framing);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#tee !== null) this.#tee.add(this.#tee.response, chunk);
    this.#stream.write(chunk);
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    this.#isUpstreamDone = true;
    if (this.connection?.wasReset) {
      this.#stream.destroy();
      return;
    }
    const trailers = controller.rawTrailers as (Buffer | string)[] | null | undefined;
    this.#stream.end(trailers != null && trailers.length > 0 ? filterTrailers(trailers) : null);
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#isOver) return;
    if (this.#isWorthRetry(error)) {
      this.#retries++;
      this.#dispatch(this.#repeatBody());
      return;
    }
    this.#isUpstreamDone = true;
    if (this.#stream.replied) {
      this.#stream.destroy();
      return;
    }
    const refusal = describeFailure(error);
    if (refusal.status < 500 && this.#context.capture !== null) {
      // undici would not send it: nothing reached the upstream, so there is no exchange.
      this.#context.capture.cancel(this.#tee);
      this.#isOver = true;
    }
    this.#status = refusal.status;
    replyError(this.#stream, refusal);
  }

  /** One retry, on a reused connection that died before a byte of the answer, with the whole body still at hand. */
  #isWorthRetry(error: Error): boolean {
    if (this.#retries > 0 || !this.isConnectionReused || this.#stream.replied || !this.#stream.bodyComplete)
      return false;
    if (!CONNECTION_DEATHS.has((error as NodeJS.ErrnoException).code ?? '')) return false;
    if (this.#stream.head.framing === 'none' || this.#wholeBody !== null) return true;
    return this.#tee !== null && this.#tee.request.kept_bytes === this.#tee.request.bytes && !this.#tee.lost;
  }

  #repeatBody(): RequestBody {
    return this.#wholeBody ?? this.#makeBody([...((this.#tee?.request.chunks ?? []) as Buffer[])]);
  }

  #finish(aborted: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#upload?.destroy();
    const tee = this.#tee;
    if (tee === null || this.#context.capture === null) return;
    const exchange = describeExchange(
      this.#context,
      this.#stream.head,
      this.#destination,
      this.#requestClass,
      tee,
      {
        run_id: this.#request.run_id,
        seq: this.#request.seq,
        status: this.#status,
        started_at_ms: this.#startedAtMs,
        first_byte_ms: this.#firstByteMs,
        duration_ms: performance.now() - this.#startedAt,
        aborted,
        served_by: 'upstream',
        response_headers: this.#responseHeaders,
      },
    );
    this.#context.capture.submit(tee, exchange);
  }
}

/** Answers with an error shaped like the messages API's, whoever the client is (document 3). */
export function replyError(stream: HttpStream, error: CatalogueError, headerLines = ''): void {
  stream.reply(
    error.status,
    `Content-Type: application/json\r\n${headerLines}`,
    JSON.stringify(toMessagesBody(error)),
  );
}

/** What the client reads; addresses and causes stay here. */
function describeFailure(error: Error): CatalogueError {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED') {
    return new CatalogueError('malformed_request', `The request cannot be forwarded: ${error.message}`);
  }
  return new CatalogueError(
    'upstream_failed',
    `The upstream did not answer${code === '' ? '' : ` (${code})`}`,
    {
      cause: error,
    },
  );
}

/** undici would announce a length for a stream that has ended by the time it is sent; an iterable hides that. */
async function* iterateChunks(upload: Readable): AsyncIterable<Buffer> {
  for await (const chunk of upload) yield chunk as Buffer;
}
