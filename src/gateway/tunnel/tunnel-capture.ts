/**
 * Captures the messages of one WebSocket connection as exchanges. In the Responses protocol, each
 * `response.create` with the events that answer it becomes an exchange, like a request with a
 * streamed answer. Everything else is kept as frames: one line of JSON per message. Server threads.
 */
import type { EndCause } from '../../domain/end-cause.ts';
import type { ApiShape } from '../../domain/exchange.ts';
import type { HttpStream } from '../../http/http-stream.ts';
import { classifyRequest, type RequestClass } from '../../providers/classify.ts';
import type { CaptureQueue } from '../capture/capture-queue.ts';
import type { Tee } from '../capture/tee.ts';
import { describeExchange, type ForwardContext } from '../forward.ts';
import type { FilteredRequest } from '../headers.ts';
import type { Destination } from '../route-table.ts';
import { MessageReader, TUNNEL_MESSAGE_BYTES } from './message-reader.ts';
import type { TunnelTap } from './tunnel.ts';

/** Collected frames become an exchange at this size. */
const TUNNEL_PART_BYTES = 4 << 20;
/** Maximum number of open turns of one connection. A further turn ends the oldest one as aborted. */
const TUNNEL_STREAMS_MAX = 64;

/** Bytes of one direction, and the time at which they arrived. */
interface Piece {
  reader: MessageReader;
  bytes: Buffer;
  /** Orders the messages in it among the requests of all threads. */
  arrival: number;
  /** By `performance.now()`. */
  at: number;
  at_ms: number;
}

/** An exchange that is open. */
interface OpenExchange {
  tee: Tee;
  at: number;
  at_ms: number;
  first_byte_ms: number | null;
  status: number;
}

const FRAMES: RequestClass = Object.freeze({ kind: 'other', shape: null });
const TURN: RequestClass = Object.freeze({ kind: 'turn', shape: 'responses' });
/** The events that end an answer. */
const LAST_EVENTS = new Set(['response.completed', 'response.failed', 'response.incomplete', 'error']);
/** The stream id of turns for which the client gives no stream id. */
const NO_STREAM = '';

interface WireEvent {
  type?: unknown;
  stream_id?: unknown;
  status?: unknown;
  response?: unknown;
}

export class TunnelCapture implements TunnelTap {
  readonly #context: ForwardContext;
  readonly #capture: CaptureQueue;
  readonly #stream: HttpStream;
  readonly #destination: Destination;
  readonly #filtered: FilteredRequest;
  readonly #shape: ApiShape | null;
  readonly #startedAt = performance.now();
  readonly #startedAtMs = Date.now();
  /**
   * When the upstream refused the handshake, by `performance.now()`; null if it accepted or has not
   * answered.
   */
  #answeredAt: number | null = null;
  #status = 0;
  #endCause: EndCause | null = null;
  #headers: string[] = [];
  #fromClient: MessageReader | null = null;
  #fromUpstream: MessageReader | null = null;
  readonly #waiting: Piece[] = [];
  #waitingBytes = 0;
  /**
   * The piece that is being read. Its messages get the stamps of its arrival. When they are
   * inflated, the client may already have the answer and may have sent the next request on another
   * connection.
   */
  #piece: Piece | null = null;
  /** Set when the connection has closed: called after the last message was read. */
  #onRead: (() => void) | null = null;
  #frames: OpenExchange | null = null;
  /** Open turns by stream, oldest first. */
  readonly #turns = new Map<string, OpenExchange>();
  #isClosed = false;
  #isCut = false;

  constructor(
    context: ForwardContext,
    capture: CaptureQueue,
    stream: HttpStream,
    destination: Destination,
    filtered: FilteredRequest,
  ) {
    this.#context = context;
    this.#capture = capture;
    this.#stream = stream;
    this.#destination = destination;
    this.#filtered = filtered;
    this.#shape = classifyRequest(destination.route, 'POST', destination.path).shape;
  }

  open(status: number, headers: string[]): void {
    this.#status = status;
    this.#headers = headers;
    if (status !== 101) {
      this.#answeredAt = performance.now();
      this.#openFrames();
      return;
    }
    const extensions = headers
      .filter((_, at) => at % 2 === 1 && headers[at - 1]!.toLowerCase() === 'sec-websocket-extensions')
      .join(', ');
    const onGivenUp = () => this.#cut();
    const onIdle = () => this.#readWaiting();
    try {
      this.#fromClient = new MessageReader(true, extensions, {
        onMessage: (data, isBinary) => this.#takeRequest(data, isBinary),
        onClose: (code, reason) => this.#note('request', { close: code, reason }),
        onGivenUp,
        onIdle,
      });
      this.#fromUpstream = new MessageReader(false, extensions, {
        onMessage: (data, isBinary) => this.#takeEvent(data, isBinary),
        onClose: (code, reason) => this.#note('response', { close: code, reason }),
        onGivenUp,
        onIdle,
      });
    } catch {
      this.#cut();
    }
  }

  fail(cause: EndCause): void {
    this.#endCause = cause;
    this.open(502, []);
  }

  fromClient(bytes: Buffer): void {
    this.#read(this.#fromClient, bytes);
  }

  fromUpstream(bytes: Buffer): void {
    if (this.#status === 101) {
      this.#read(this.#fromUpstream, bytes);
    } else if (this.#frames !== null) this.#frames.tee.add(this.#frames.tee.response, bytes);
  }

  /**
   * Reads the pieces of both sides one after the other. Inflating is asynchronous, and an answer must not be
   * read before its question.
   */
  #read(reader: MessageReader | null, bytes: Buffer): void {
    if (reader === null || this.#isCut) return;
    // A copy: the reader unmasks in place, and the bytes may not have been sent yet.
    const arrival = this.#capture.stampArrival();
    this.#waiting.push({ reader, bytes: Buffer.from(bytes), arrival, ...tellTime() });
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes > TUNNEL_MESSAGE_BYTES) this.#cut();
    else this.#readWaiting();
  }

  #readWaiting(): void {
    while (this.#waiting.length > 0 && !this.#isReading()) {
      const piece = this.#waiting.shift()!;
      this.#waitingBytes -= piece.bytes.length;
      this.#piece = piece;
      piece.reader.read(piece.bytes);
    }
    if (this.#isReading()) return;
    this.#piece = null;
    this.#onRead?.();
  }

  #isReading(): boolean {
    return this.#fromClient?.isBusy === true || this.#fromUpstream?.isBusy === true;
  }

  close(isAborted: boolean): void {
    this.#onRead ??= () => this.#end(isAborted);
    this.#readWaiting();
  }

  cancel(): void {
    this.#isClosed = true;
  }

  #end(isAborted: boolean): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#fromClient?.end();
    this.#fromUpstream?.end();
    // An unanswered handshake becomes an exchange, like an unanswered request.
    if (this.#status === 0) this.#openFrames();
    for (const turn of this.#turns.values()) this.#submit(turn, TURN, true);
    this.#turns.clear();
    if (this.#frames !== null) this.#submit(this.#frames, FRAMES, isAborted);
    this.#frames = null;
  }

  #takeRequest(data: Buffer, isBinary: boolean): void {
    const event = this.#shape === 'responses' && !isBinary ? parse(data) : null;
    if (event?.type !== 'response.create') {
      this.#noteMessage('request', data, isBinary);
      return;
    }
    const stream = typeof event.stream_id === 'string' ? event.stream_id : NO_STREAM;
    // A client that sends a new question on a stream has given up its previous one.
    this.#endTurn(stream, true);
    if (this.#turns.size >= TUNNEL_STREAMS_MAX) this.#endTurn(this.#turns.keys().next().value!, true);
    const turn = this.#begin();
    if (turn === null) return;
    const { response } = event;
    const isNested = typeof response === 'object' && response !== null;
    turn.tee.add(turn.tee.request, isNested ? Buffer.from(JSON.stringify({ ...event, ...response })) : data);
    turn.status = 200;
    this.#turns.set(stream, turn);
  }

  #takeEvent(data: Buffer, isBinary: boolean): void {
    const event = this.#turns.size > 0 && !isBinary ? parse(data) : null;
    const stream = typeof event?.stream_id === 'string' ? event.stream_id : NO_STREAM;
    const turn = event === null ? undefined : this.#turns.get(stream);
    if (turn === undefined || typeof event?.type !== 'string') {
      this.#noteMessage('response', data, isBinary);
      return;
    }
    turn.first_byte_ms ??= this.#now() - turn.at;
    const text = data.includes(0x0a) ? JSON.stringify(event) : data.toString();
    turn.tee.add(
      turn.tee.response,
      Buffer.from(`event: ${event.type.replace(/[\r\n]/g, ' ')}\ndata: ${text}\n\n`),
    );
    if (!LAST_EVENTS.has(event.type)) return;
    if (event.type === 'error' && Number.isInteger(event.status)) turn.status = Number(event.status);
    this.#endTurn(stream, false);
  }

  #endTurn(stream: string, isAborted: boolean): void {
    const turn = this.#turns.get(stream);
    if (turn === undefined) return;
    this.#turns.delete(stream);
    this.#submit(turn, TURN, isAborted);
  }

  #noteMessage(side: 'request' | 'response', data: Buffer, isBinary: boolean): void {
    this.#note(side, isBinary ? { binary: data.toString('base64') } : { text: data.toString() });
  }

  #note(side: 'request' | 'response', what: object): void {
    if (this.#isClosed || this.#isCut) return;
    if (this.#shape === 'responses' && this.#frames === null && 'close' in what) return;
    const frames = this.#openFrames();
    if (frames === null) return;
    const at_ms = Math.round(this.#now() - this.#startedAt);
    frames.tee.add(frames.tee[side], Buffer.from(`${JSON.stringify({ at_ms, ...what })}\n`));
    if (frames.tee.kept_bytes < TUNNEL_PART_BYTES) return;
    this.#frames = null;
    this.#submit(frames, FRAMES, false);
  }

  #openFrames(): OpenExchange | null {
    this.#frames ??= this.#begin();
    return this.#frames;
  }

  #begin(): OpenExchange | null {
    const tee = this.#capture.begin(this.#piece?.arrival);
    if (tee === null) return null;
    const begun = { tee, first_byte_ms: null, status: this.#status };
    if (this.#status === 101) {
      const { at, at_ms } = this.#piece ?? tellTime();
      return { ...begun, at, at_ms };
    }
    const first_byte_ms = this.#answeredAt === null ? null : this.#answeredAt - this.#startedAt;
    return { ...begun, at: this.#startedAt, at_ms: this.#startedAtMs, first_byte_ms };
  }

  /**
   * Returns when the message that is being read arrived, or the current time if no message is being read; by
   * `performance.now()`.
   */
  #now(): number {
    return this.#piece?.at ?? performance.now();
  }

  /**
   * Stops reading messages, and marks the open exchanges as truncated. If no exchange of frames is open, it
   * first begins one, so that the captures show the truncation.
   */
  #cut(): void {
    if (this.#isCut) return;
    this.#isCut = true;
    this.#waiting.length = 0;
    this.#fromClient?.end();
    this.#fromUpstream?.end();
    this.#openFrames();
    for (const open of [this.#frames, ...this.#turns.values()]) if (open !== null) open.tee.truncated = true;
  }

  #submit(open: OpenExchange, requestClass: RequestClass, aborted: boolean): void {
    const isRefused = this.#status !== 101;
    const type = requestClass === TURN ? 'text/event-stream' : 'application/x-ndjson';
    const exchange = describeExchange(
      this.#context,
      this.#stream.head,
      this.#destination,
      requestClass,
      open.tee,
      {
        run_id: this.#filtered.run_id,
        // The handshake's number cannot apply to several turns.
        seq: null,
        status: open.status,
        started_at_ms: open.at_ms,
        first_byte_ms: open.first_byte_ms,
        duration_ms: this.#now() - open.at,
        aborted,
        ...(this.#endCause === null ? {} : { end_cause: this.#endCause }),
        served_by: 'upstream',
        request_form: this.#filtered.form,
        response_headers: isRefused ? this.#headers : [...this.#headers, 'content-type', type],
      },
    );
    this.#capture.submit(open.tee, exchange);
  }
}

/**
 * Reads the present time from both clocks: `at` by `performance.now()`, `at_ms` in milliseconds since the
 * epoch.
 */
function tellTime(): { at: number; at_ms: number } {
  return { at: performance.now(), at_ms: Date.now() };
}

function parse(data: Buffer): WireEvent | null {
  try {
    const value: unknown = JSON.parse(data.toString());
    return typeof value === 'object' && value !== null ? value : null;
  } catch {
    return null;
  }
}
