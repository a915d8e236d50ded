/**
 * Forwards one exchange to the upstream and back: passes bytes on as they arrive and decodes
 * nothing. The upstream's connection calls the methods of AnswerHandler as the answer arrives. A
 * forward owns the client's stream. Server threads.
 *
 * An exchange ends when the answer is complete, the client disconnects or the upstream fails. These
 * may happen in any order, each at most once. The finished exchange is then submitted to capture, if
 * necessary after relegation's decision. A request that cannot be sent, because it is malformed, is
 * not captured.
 */

import { describeEnd, type EndCause, findEndCause } from '../domain/end-cause.ts';
import { DECISION_FIELD, type FinishedExchange } from '../domain/exchange.ts';
import { CatalogueError, toMessagesBody } from '../errors.ts';
import type { HttpStream, ReplyFraming, RequestHead } from '../http/http-stream.ts';
import type { RequestClass } from '../providers/classify.ts';
import type { CaptureQueue } from './capture/capture-queue.ts';
import { LENT_BYTES_MIN, type Tee } from './capture/tee.ts';
import {
  type FilteredRequest,
  filterFields,
  filterRequestHeaders,
  filterResponseHeaders,
  replaceHeaders,
} from './headers.ts';
import type { Destination } from './route-table.ts';
import type { UpstreamError } from './upstream/answer-error.ts';
import type { Fields } from './upstream/field-section.ts';
import { makeRequestHead } from './upstream/request-head.ts';
import type { ResponseHead } from './upstream/response-parser.ts';
import type { AnswerHandler, UpstreamConnection, UpstreamRequest } from './upstream/upstream-connection.ts';

const NOTHING = Buffer.alloc(0);
const NO_PIECES: readonly Buffer[] = [];

/** Shared by all exchanges of a server thread. */
export interface ForwardContext {
  /** null when capture is switched off. */
  capture: CaptureQueue | null;
  note: string;
}

/** The beginning of an exchange that relegation started, because it asked the student first. */
export interface BegunExchange {
  /** The result of `CaptureQueue.begin`. */
  tee: Tee | null;
  /** When the request arrived, by `performance.now()` and in milliseconds since the epoch. */
  at: number;
  at_ms: number;
}

/** The fields of an exchange that depend on who answered it: the upstream or the student. */
type ExchangeCourse = Pick<
  FinishedExchange,
  | 'run_id'
  | 'seq'
  | 'status'
  | 'started_at_ms'
  | 'first_byte_ms'
  | 'duration_ms'
  | 'aborted'
  | 'end_cause'
  | 'served_by'
  | 'request_form'
  | 'response_headers'
>;

/**
 * Describes the exchange in the form that capture takes. All such objects have the same fields in the same
 * order, so V8 gives them one hidden class. An object spread would make each later field slow to add.
 */
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
    arrival: tee.arrival,
    first_byte_ms: course.first_byte_ms,
    duration_ms: course.duration_ms,
    aborted: course.aborted,
    end_cause: findEnd(course),
    truncated: tee.truncated,
    served_by: course.served_by,
    request_headers: head.headers,
    request_form: course.request_form,
    response_headers: course.response_headers,
    request_bytes: tee.request.bytes,
    response_bytes: tee.response.bytes,
    request_cells: tee.request.cells,
    request_kept_bytes: tee.request.kept_bytes,
    response_cells: tee.response.cells,
    response_kept_bytes: tee.response.kept_bytes,
  };
}

/**
 * Finds the cause of an exchange's end; undefined for an exchange that succeeded. If no cause is known, the client has
 * ended an exchange that was aborted or has no answer. For any other exchange, a status of 400 or above is the cause.
 */
function findEnd({ end_cause, aborted, status }: ExchangeCourse): EndCause | undefined {
  if (end_cause !== undefined) return end_cause;
  if (aborted || status === 0) return 'client_gone';
  return status >= 400 ? 'upstream_status' : undefined;
}

export class Forward implements AnswerHandler {
  /** Receives the answer's status, if set. */
  onStatus: ((status: number) => void) | null = null;
  /**
   * If true, the exchange is submitted to capture only after relegation's decision, which always
   * arrives.
   */
  awaitsDecision = false;
  /** Relegation's decision, as capture keeps it. */
  #decision: string | null = null;
  /** The exchange after its end, while it waits for the decision. */
  #held: FinishedExchange | null = null;
  readonly #context: ForwardContext;
  readonly #stream: HttpStream;
  readonly #destination: Destination;
  readonly #requestClass: RequestClass;
  readonly #request: FilteredRequest;
  readonly #tee: Tee | null;
  /** Whether no other code has seen the request's body. */
  readonly #ownsBody: boolean;
  readonly #startedAt: number;
  readonly #startedAtMs: number;
  /** The connection on which the request is sent, until the answer ends. */
  #connection: UpstreamConnection | null = null;
  #sent: UpstreamRequest | null = null;
  #retries = 0;
  #status = 0;
  #responseHeaders: string[] = [];
  /** The last piece of the request that was forwarded from capture's copy. */
  #lent: Buffer | null = null;
  /** The last piece of an upload, until the system has taken all of it. */
  #leaving: Buffer | null = null;
  /** Parts of the request and of the answer that were passed on but not yet copied for capture. */
  #unkept: readonly Buffer[] = NO_PIECES;
  #unkeptAnswer: Buffer[] = [];
  #firstByteMs: number | null = null;
  /** Why the upstream's side ended; null when it has not failed. */
  #endCause: EndCause | null = null;
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
    this.#request = filterRequestHeaders(stream.head);
    this.#ownsBody = begun === null;
    this.#tee = begun === null ? (context.capture?.begin() ?? null) : begun.tee;
  }

  /** Sends the request. Errors of any kind come back through the handler's methods. */
  start(): void {
    const stream = this.#stream;
    const { framing, content_length } = stream.head;
    if (this.#tee !== null && framing === 'length') {
      this.#tee.request.announced_bytes = content_length;
      if (this.#ownsBody && content_length >= LENT_BYTES_MIN) stream.keepPiece = this.#lendPiece;
    }
    const received = stream.received;
    stream.received = [];
    stream.isFlushedByOwner = true;
    stream.events = {
      onBody: this.#onBody,
      onBlocked: () => this.#connection?.pause(this),
      onDrained: () => this.#connection?.resume(this),
      onClosed: this.#onClosed,
    };
    let head: string;
    try {
      head = this.#makeHead();
    } catch (error) {
      this.onError(error as UpstreamError);
      return;
    }
    let body: Buffer | null = null;
    if (framing === 'length' && stream.bodyComplete) {
      body = received.length === 1 ? received[0]! : Buffer.concat(received);
    }
    // If the body was joined, keep only the joined body, and not its chunks as well.
    const pieces = body === null ? received : [body];
    this.#sent = {
      method: stream.head.method,
      head,
      framing:
        framing === 'length'
          ? { kind: 'length', bytes: content_length }
          : framing === 'chunked'
            ? { kind: 'chunked' }
            : { kind: 'none' },
      body,
    };
    if (this.#ownsBody && body !== null && body.length < LENT_BYTES_MIN)
      this.#tee?.keepView(this.#tee.request, body);
    else this.#unkept = this.#lent === null ? pieces : received.filter((piece) => piece !== this.#lent);
    this.#destination.upstream.pool.send(this.#sent, this);
    this.#keep();
    if (body === null && framing !== 'none') this.#upload(pieces, stream.bodyComplete);
  }

  #makeHead(): string {
    const { upstream, path, headers } = this.#destination;
    const { method, query } = this.#stream.head;
    const { has_zero_length } = this.#request;
    let { lines } = this.#request;
    if (headers !== undefined && lines !== null) lines = replaceHeaders(lines, headers);
    return makeRequestHead(
      method,
      upstream.base_path + path,
      query,
      upstream.host,
      lines !== null && has_zero_length ? `${lines}content-length: 0\r\n` : lines,
    );
  }

  /** Sends pieces of a body that is not sent whole. */
  #upload(pieces: readonly Buffer[], isComplete: boolean): void {
    for (let at = 0; at < pieces.length; at++) {
      this.#uploadPiece(pieces[at]!, isComplete && at === pieces.length - 1);
    }
    if (isComplete && pieces.length === 0) this.#uploadPiece(NOTHING, true);
  }

  #uploadPiece(piece: Buffer, isLast: boolean): void {
    if (this.#connection?.write(this, piece, isLast) === false) this.#stream.pauseBody();
  }

  /**
   * Copies a piece of the body for capture. Returns this copy to be forwarded if the copy is in one piece, otherwise
   * another copy. The function is a field and not a closure that `start` creates: the stream would retain such a
   * closure, and a third of all objects then survived each young-generation collection.
   */
  readonly #lendPiece = (bytes: ArrayBuffer): Buffer => {
    this.#lent = this.#tee!.lend(new Uint8Array(bytes));
    return this.#lent ?? this.#stream.pieces.keep(bytes);
  };

  readonly #onBody = (chunk: Buffer, isLast: boolean): void => {
    if (this.#tee !== null && chunk !== this.#lent) this.#tee.add(this.#tee.request, chunk);
    this.#uploadPiece(chunk, isLast);
    if (isLast || !this.#ownsBody || chunk === this.#lent) return;
    this.#leaving = chunk;
    this.#reuse();
  };

  /**
   * Gives back the memory of the last piece of an upload, once the system has taken it. A retry reads the body from
   * capture's copy.
   */
  #reuse(): void {
    const piece = this.#leaving;
    if (piece === null || this.#connection?.hasTakenUpload(this) !== true) return;
    this.#leaving = null;
    this.#stream.pieces.giveBack(piece);
  }

  /**
   * The client's stream has closed: the whole answer was handed to the operating system, or the
   * client disconnected.
   */
  readonly #onClosed = (aborted: boolean): void => {
    this.#connection?.abort(this);
    this.#connection = null;
    // This memory may be reused: either the operating system has taken all sent bytes, or the connection's socket is
    // closed.
    this.#sent = null;
    this.#leaving = null;
    this.#finish(aborted);
    if (this.#ownsBody) this.#stream.pieces.release();
  };

  onConnection(connection: UpstreamConnection): void {
    this.#connection = connection;
  }

  onHead(head: ResponseHead): void {
    const stream = this.#stream;
    if (head.status < 200) {
      stream.writeInformational(`${head.status} ${head.reason}`, filterFields(head));
      return;
    }
    const { status, content_length } = head;
    this.#status = status;
    this.onStatus?.(status);
    this.#firstByteMs = performance.now() - this.#startedAt;
    this.#responseHeaders = head.headers;
    let framing: ReplyFraming;
    if (stream.head.method === 'HEAD' || status === 204 || status === 304) {
      framing = { kind: 'bodyless', bytes: content_length, chunked: head.is_chunked };
    } else if (content_length !== null) {
      framing = { kind: 'length', bytes: content_length };
      if (this.#tee !== null) this.#tee.response.announced_bytes = content_length;
    } else {
      framing = { kind: 'chunked' };
    }
    const { lines, has_trailer } = filterResponseHeaders(head);
    stream.writeHead(
      `${status} ${head.reason}`,
      has_trailer ? `${lines}Connection: close\r\n` : lines,
      framing,
    );
  }

  onBody(chunk: Buffer): void {
    if (this.#tee !== null) this.#unkeptAnswer.push(chunk);
    this.#stream.write(chunk);
  }

  onRead(): void {
    this.#stream.flush();
    this.#keep();
  }

  onEnd(trailers: Fields | null): void {
    this.#connection = null;
    this.#stream.end(trailers === null ? null : filterFields(trailers));
    this.#keep();
  }

  /**
   * Gives capture a copy of the bytes that were passed on. Call it after they were passed on and before their
   * memory is reused.
   */
  #keep(): void {
    const tee = this.#tee;
    if (tee !== null && !this.#isOver) {
      for (const piece of this.#unkept) tee.add(tee.request, piece);
      for (const chunk of this.#unkeptAnswer) tee.add(tee.response, chunk);
    }
    this.#unkept = NO_PIECES;
    // Creating a new array is much faster in V8 than emptying one.
    if (this.#unkeptAnswer.length > 0) this.#unkeptAnswer = [];
  }

  onError(error: UpstreamError): void {
    this.#keep();
    this.#connection = null;
    if (this.#isOver) return;
    if (this.#isWorthRetry(error)) {
      this.#retries++;
      this.#sendAgain();
      return;
    }
    this.#endCause = findEndCause(error.code);
    if (this.#stream.replied) {
      this.#stream.destroy();
      return;
    }
    const refusal = describeFailure(error);
    if (refusal.status < 500 && this.#context.capture !== null) {
      // The request was not sent, so there is no exchange to capture.
      this.#context.capture.cancel(this.#tee);
      this.#isOver = true;
    }
    this.#status = refusal.status;
    replyError(this.#stream, refusal);
  }

  onUploadDrained(): void {
    this.#reuse();
    this.#stream.resumeBody();
  }

  /**
   * Whether the request may be sent again: once, if a reused connection closed before the first
   * byte of the answer and the whole body is still in memory.
   */
  #isWorthRetry(error: UpstreamError): boolean {
    if (this.#retries > 0 || !error.isStaleConnection || this.#stream.replied || !this.#stream.bodyComplete)
      return false;
    if (this.#stream.head.framing === 'none' || this.#sent!.body !== null) return true;
    return this.#tee !== null && this.#tee.request.kept_bytes === this.#tee.request.bytes && !this.#tee.lost;
  }

  #sendAgain(): void {
    const sent = this.#sent!;
    this.#destination.upstream.pool.send(sent, this);
    if (sent.body === null && sent.framing.kind !== 'none') {
      this.#upload(this.#tee?.request.copyOut() ?? [], true);
    }
  }

  /**
   * Keeps a view of an answer that arrived in one chunk. The batch copies the bytes from the read buffer later.
   */
  #keepWhole(tee: Tee): void {
    const [chunk] = this.#unkeptAnswer;
    if (!this.#ownsBody || chunk === undefined || this.#unkeptAnswer.length > 1) return;
    if (tee.response.bytes > 0 || chunk.length >= LENT_BYTES_MIN) return;
    this.#unkeptAnswer = [];
    tee.keepView(tee.response, chunk);
  }

  #finish(aborted: boolean): void {
    if (this.#isOver) return;
    if (this.#tee !== null) this.#keepWhole(this.#tee);
    this.#keep();
    this.#isOver = true;
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
        end_cause: this.#endCause ?? undefined,
        served_by: 'upstream',
        request_form: this.#request.form,
        response_headers: this.#responseHeaders,
      },
    );
    if (this.awaitsDecision && this.#decision === null) this.#held = exchange;
    else this.#submit(exchange);
  }

  /** Records relegation's decision about the step; only the first call counts. */
  noteDecision(decision: string): void {
    this.#decision ??= decision;
    const held = this.#held;
    this.#held = null;
    if (held !== null) this.#submit(held);
  }

  #submit(exchange: FinishedExchange): void {
    if (this.#decision !== null)
      exchange.response_headers = [...exchange.response_headers, DECISION_FIELD, this.#decision];
    this.#context.capture!.submit(this.#tee!, exchange);
  }
}

/**
 * Makes the error 502 for a failed connection. Its text states the cause and, if there is one, the error
 * code, but no addresses.
 */
export function makeUpstreamFailure(code: string, cause: Error): CatalogueError {
  const why = describeEnd(findEndCause(code));
  const words = `The exchange failed: ${why}${code === '' ? '' : ` (${code})`}`;
  return new CatalogueError('upstream_failed', words, { cause });
}

/** Answers with an error in the shape of the Messages API, for every client (document 3). */
export function replyError(stream: HttpStream, error: CatalogueError, headerLines = ''): void {
  stream.reply(
    error.status,
    `Content-Type: application/json\r\n${headerLines}`,
    JSON.stringify(toMessagesBody(error)),
  );
}

/**
 * Makes the error for the client: 400 for a request that cannot be sent (`BAD_REQUEST`), otherwise 502. Its
 * text contains no addresses.
 */
function describeFailure(error: UpstreamError): CatalogueError {
  const { code } = error;
  if (code === 'BAD_REQUEST') {
    return new CatalogueError('malformed_request', `The request cannot be forwarded: ${error.message}`);
  }
  return makeUpstreamFailure(code, error);
}
