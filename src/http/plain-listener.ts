/**
 * A listener on node:http, for machines without a binary of uWebSockets.js. It passes a stream on
 * under the same conditions as the other listener (`native-listener.ts`). Server thread. Node's
 * parser is strict and decodes each body before anything is forwarded, so a message that two
 * parsers could read differently becomes unambiguous. Unlike the other listener, it skips chunk
 * extensions instead of refusing them.
 */

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { HTTP_HEAD_BYTES } from '../limits.ts';
import { CertificateWatch } from './certificate-watch.ts';
import { findRefusal, judgeFraming } from './framing-guard.ts';
import type { HttpServer, ServerOptions } from './http-server.ts';
import type { HttpStream, RequestHead } from './http-stream.ts';
import { OpenStreams } from './open-streams.ts';
import { plainConnections } from './plain-connections.ts';
import { type PlainHandles, PlainStream } from './plain-stream.ts';
import { describeListenError } from './port.ts';
import { SHUTTING_DOWN, TOO_MANY, TOO_MANY_ALERT, TOO_SLOW } from './refusal-words.ts';
import { STATUS_CODES } from './status-codes.ts';

/**
 * Maximum time for which a connection is idle between requests, and maximum time for a TLS handshake and for
 * the head of a request. The listener on uWebSockets.js closes a silent connection after the same time.
 */
const SILENCE_MS = 10_000;
const SILENCE_LOOK_MS = 2_000;
/**
 * How long a connection that the server ends stays open while its client still sends. If it were
 * closed at once, the answer could be lost.
 */
const LINGER_MS = 2_000;

/**
 * Maximum number of requests of one connection that may wait for the answer to an earlier one. A
 * connection with more is closed.
 */
const PIPELINED_MAX = 1_000;

/** Numbers of refusals (`framing-guard.ts`). */
const START_LINE = 1;
const HEADER_LINE = 2;
const HOST = 3;
const TRAILERS = 12;
const VERSION = 13;
/** The refusal for each of the parser's error codes. All other codes mean `HEADER_LINE`. */
const REFUSAL_OF_CODE: Readonly<Record<string, number>> = {
  HPE_INVALID_METHOD: START_LINE,
  HPE_INVALID_URL: START_LINE,
  HPE_INVALID_CONSTANT: START_LINE,
  HPE_INVALID_VERSION: START_LINE,
  HPE_UNEXPECTED_CONTENT_LENGTH: 6,
  HPE_INVALID_CONTENT_LENGTH: 5,
  HPE_INVALID_TRANSFER_ENCODING: 7,
  HPE_HEADER_OVERFLOW: 8,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 9,
  HPE_INVALID_CHUNK_SIZE: 10,
  HPE_STRICT: 11,
};

/** The listeners of this thread. */
const listeners = new Set<PlainListener>();

/** Starts a listener on node:http. @throws Error when the address cannot be bound */
export function listenPlainly(options: ServerOptions): Promise<HttpServer> {
  return new PlainListener(options).listen();
}

/** Closes every socket of this thread's listeners at once. */
export function hangUpPlain(): void {
  for (const listener of listeners) listener.hangUp();
}

/**
 * A request that treats an upgrade to any protocol but WebSocket as an ordinary request. Node
 * checks `upgrade` before it reads the body.
 */
class PlainRequest extends IncomingMessage {
  declare private asked: boolean | null;

  set upgrade(asked: boolean | null) {
    this.asked = asked;
  }

  get upgrade(): boolean {
    return this.asked === true && isForWebSocket(this);
  }
}

function isForWebSocket({ method, headers, rawHeaders }: IncomingMessage): boolean {
  if (method !== 'GET' || headers.upgrade?.toLowerCase() !== 'websocket') return false;
  return !rawHeaders.some((name, at) => at % 2 === 0 && /^(content-length|transfer-encoding)$/i.test(name));
}

/** A connection, whose requests are passed on one after the other. */
interface Connection {
  open: PlainStream | null;
  /**
   * Functions that serve the requests which arrived before the open request was answered, in the order of
   * arrival. The last function may refuse invalid bytes instead. The socket is paused meanwhile, so the
   * requests fit into one read.
   */
  waiting: (() => void)[];
  /** Whether no further request of the connection is served. */
  isRefused: boolean;
}

class PlainListener implements HttpServer {
  readonly host: string;
  port = 0;
  readonly #options: ServerOptions;
  readonly #server: Server;
  readonly #streams: OpenStreams;
  readonly #connections = new Map<Socket, Connection>();
  #certificate: CertificateWatch | null = null;
  #isDraining = false;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.host = options.host;
    this.#streams = new OpenStreams(options.onStream);
    this.#server = this.#makeServer();
  }

  get open(): number {
    return this.#streams.size;
  }

  #makeServer(): Server {
    const { tls, switches_protocols } = this.#options;
    const given = {
      IncomingMessage: PlainRequest,
      maxHeaderSize: HTTP_HEAD_BYTES,
      requireHostHeader: false,
      keepAliveTimeout: SILENCE_MS,
      headersTimeout: SILENCE_MS,
      connectionsCheckingInterval: SILENCE_LOOK_MS,
      // The pace bounds uploads.
      requestTimeout: 0,
      noDelay: true,
    };
    const server =
      tls === undefined
        ? createServer(given)
        : createSecureServer({ ...given, ...readPair(tls.files), handshakeTimeout: SILENCE_MS });
    this.#admitFirst(server);
    server.on('request', this.#onRequest);
    // Expectations other than 100-continue are ignored.
    server.on('checkExpectation', this.#onRequest);
    if (switches_protocols === true) server.on('upgrade', this.#onSwitch);
    server.on('connect', (_request: IncomingMessage, socket: Socket) => this.#refuseRaw(socket, VERSION));
    server.on('clientError', (thrown: NodeJS.ErrnoException, socket: Socket) => this.#onBad(thrown, socket));
    if (tls !== undefined)
      server.on('secureConnection', (socket: TLSSocket) => socket.disableRenegotiation());
    // Switch off Node's bound on header lines, because Node drops further lines silently.
    server.maxHeadersCount = 0;
    return server;
  }

  /** Refuses connections beyond the limits before Node's server sees them. */
  #admitFirst(server: Server): void {
    const serve = server.listeners('connection');
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) => {
      const giveBack = plainConnections.take(socket.remoteAddress ?? '');
      if (giveBack === null) return this.#refuseConnection(socket);
      socket.once('close', giveBack);
      for (const listener of serve) listener.call(server, socket);
    });
  }

  async listen(): Promise<HttpServer> {
    const { host, port, pace, tls } = this.#options;
    this.#server.listen({ host, port, exclusive: true });
    try {
      await once(this.#server, 'listening');
    } catch (thrown) {
      throw describeListenError(host, port, thrown);
    }
    listeners.add(this);
    this.port = (this.#server.address() as AddressInfo).port;
    if (pace !== undefined) this.#streams.holdPace(pace, this.#endSlow);
    if (tls !== undefined)
      this.#certificate = new CertificateWatch(tls.files, () => this.#renewCertificate(), tls.onChange);
    return this;
  }

  /** Makes new connections use the certificate that is in the files. Open connections continue. */
  async #renewCertificate(): Promise<void> {
    const { tls } = this.#options;
    if ('setSecureContext' in this.#server && tls !== undefined)
      (this.#server as import('node:https').Server).setSecureContext(readPair(tls.files));
  }

  async drain(deadlineMs: number): Promise<void> {
    this.#isDraining = true;
    this.#certificate?.stop();
    this.#server.close();
    await this.#streams.waitIdle(deadlineMs);
    this.hangUp();
  }

  hangUp(): void {
    this.#isDraining = true;
    this.#certificate?.stop();
    this.#streams.stop();
    listeners.delete(this);
    this.#server.close();
    for (const stream of this.#streams) stream.destroy();
    this.#server.closeAllConnections();
  }

  #connectionOf(socket: Socket): Connection {
    let connection = this.#connections.get(socket);
    if (connection === undefined) {
      connection = { open: null, waiting: [], isRefused: false };
      this.#connections.set(socket, connection);
      socket.once('close', () => this.#connections.delete(socket));
    }
    return connection;
  }

  readonly #onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = request;
    this.#inTurn(socket, (connection) => this.#take({ request, response, socket }, connection, false));
  };

  /** Handles a WebSocket handshake. The stream owns the socket from now on. */
  readonly #onSwitch = (request: IncomingMessage, socket: Socket, first: Buffer): void => {
    socket.on('error', () => {});
    this.#inTurn(socket, (connection) => {
      const response = new ServerResponse(request);
      response.assignSocket(socket);
      response.shouldKeepAlive = false;
      response.once('finish', () => linger(socket));
      const stream = this.#take({ request, response, socket }, connection, true);
      if (stream === null) return;
      socket.on('data', (chunk: Buffer) => deliver(stream, chunk, false));
      socket.on('end', () => stream.destroy());
      if (first.length > 0) deliver(stream, first, false);
    });
  };

  /**
   * Calls the function now, or when the earlier requests of the connection have been answered. Does not call it if the
   * connection is refused. Closes the connection if more than PIPELINED_MAX functions wait.
   */
  #inTurn(socket: Socket, act: (connection: Connection) => void): void {
    const connection = this.#connectionOf(socket);
    if (connection.isRefused) return;
    if (connection.open === null) {
      act(connection);
      return;
    }
    connection.waiting.push(() => act(connection));
    if (connection.waiting.length > PIPELINED_MAX) socket.destroy();
  }

  #take(handles: PlainHandles, connection: Connection, isSwitch: boolean): PlainStream | null {
    const { request, socket } = handles;
    const { head, refusal } = readHead(request);
    const stream = new PlainStream(handles, head, (gone) => this.#onGone(gone, socket, connection));
    connection.open = stream;
    if (refusal !== null) {
      const { status, words } = refusal;
      plainConnections.counts.refused_framing++;
      this.#refuse(stream, connection, status, words);
      return null;
    }
    if (this.#isDraining) {
      this.#refuse(stream, connection, 503, SHUTTING_DOWN);
      return null;
    }
    this.#streams.add(stream);
    if (isSwitch) {
      stream.beginSwitch();
      this.#options.onStream(stream);
    } else if (head.framing === 'none') {
      request.resume();
      this.#options.onStream(stream);
    } else this.#awaitBody(request, stream);
    return stream;
  }

  /**
   * Passes the stream on with the first bytes of its body. A request with a length is passed on
   * after a short wait even without bytes.
   */
  #awaitBody(request: IncomingMessage, stream: PlainStream): void {
    const { framing, content_length } = stream.head;
    if (framing === 'length') this.#streams.await(stream);
    else stream.isAwaited = true;
    request.on('data', (chunk: Buffer) => {
      const isLast = framing === 'length' && stream.bodyBytes + chunk.length === content_length;
      deliver(stream, chunk, isLast);
      this.#streams.handOver(stream);
      stream.keepArriving();
    });
    request.on('end', () => {
      if (stream.bodyComplete) return;
      if (request.rawTrailers.length > 0) {
        const { status, words } = findRefusal(TRAILERS);
        this.#breakOff(stream, status, words);
        return;
      }
      deliver(stream, Buffer.alloc(0), true);
      this.#streams.handOver(stream);
    });
  }

  #onGone(stream: HttpStream, socket: Socket, connection: Connection): void {
    this.#streams.remove(stream);
    if (connection.open !== stream) return;
    connection.open = null;
    // Serve the requests in the order of arrival, each in a later tick than the end of the previous
    // one.
    const next = connection.waiting.shift();
    if (next !== undefined && !socket.destroyed) setImmediate(next);
  }

  /** Ends a request whose body cannot be completed. Sends an answer if none has begun. */
  #breakOff(stream: PlainStream, status: number, message: string): void {
    if (stream.replied) stream.destroy();
    else this.#refuse(stream, this.#connectionOf(stream.socket), status, message, true);
  }

  readonly #endSlow = (stream: HttpStream): void => {
    plainConnections.counts.slow_uploads++;
    this.#breakOff(stream as PlainStream, 408, TOO_SLOW);
  };

  /** Answers a request with an error, and ends its connection: no further request is served. */
  #refuse(
    stream: PlainStream,
    connection: Connection,
    status: number,
    message: string,
    aborted = false,
  ): void {
    const { socket } = stream;
    connection.isRefused = true;
    connection.waiting = [];
    socket.destroySoon = () => linger(socket);
    const body = this.#options.describeError(status, message);
    stream.reply(status, 'Content-Type: application/json\r\n', body, true, aborted);
  }

  /** Handles Node's `clientError`: an invalid request, a timeout or a socket error. */
  #onBad(thrown: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#connectionOf(socket);
    if (connection.isRefused) return;
    const number = REFUSAL_OF_CODE[thrown.code ?? ''] ?? (thrown.code?.startsWith('HPE_') ? HEADER_LINE : 0);
    if (number === 0 || !socket.writable) {
      socket.destroy();
      return;
    }
    plainConnections.counts.refused_framing++;
    connection.isRefused = true;
    const { open } = connection;
    const { status, words } = findRefusal(number);
    const isHead = isOfHead(thrown);
    if (open === null) this.#refuseRaw(socket, number, isHead);
    // The rejected bytes follow a valid message, whose answer is sent first.
    else if (open.bodyComplete) connection.waiting.push(() => this.#refuseRaw(socket, number, isHead));
    else this.#breakOff(open, status, words);
  }

  /**
   * Answers a CONNECT request, or a message that Node's parser rejected, and ends its connection.
   * @param isHead whether to send the answer without its body
   */
  #refuseRaw(socket: Socket, number: number, isHead = false): void {
    this.#connectionOf(socket).isRefused = true;
    const { status, words } = findRefusal(number);
    const answer = this.#describe(status, words);
    socket.write(isHead ? answer.slice(0, answer.indexOf('\r\n\r\n') + 4) : answer);
    linger(socket);
  }

  #refuseConnection(socket: Socket): void {
    socket.on('error', () => {});
    // Before the handshake, a TLS client understands only an alert.
    if (this.#options.tls === undefined) socket.write(this.#describe(503, TOO_MANY, 'Retry-After: 1\r\n'));
    else socket.write(TOO_MANY_ALERT, 'latin1');
    linger(socket);
  }

  #describe(status: number, message: string, more = ''): string {
    const body = this.#options.describeError(status, message);
    const lines = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}Connection: close`;
    return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}\r\n\r\n${body}`;
  }
}

function deliver(stream: PlainStream, chunk: Buffer, isLast: boolean): void {
  // A stream takes a whole ArrayBuffer, so a chunk that is a part of one is copied.
  const isWhole = chunk.byteOffset === 0 && chunk.byteLength === chunk.buffer.byteLength;
  const { buffer } = isWhole ? chunk : new Uint8Array(chunk);
  stream.takeBody(buffer as ArrayBuffer, isLast);
}

/** Whether the bytes that Node's parser refused begin with a HEAD, whose answer has no body. */
function isOfHead({ rawPacket }: NodeJS.ErrnoException & { rawPacket?: Buffer }): boolean {
  return rawPacket?.subarray(0, 5).toString('latin1') === 'HEAD ';
}

/**
 * Ends a connection after the written data is sent. Until the client ends the connection too, but for LINGER_MS at
 * most, reads and drops what the client sends.
 */
function linger(socket: Socket): void {
  if (socket.writable) socket.end();
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('end', () => socket.destroy());
  socket.once('close', () => clearTimeout(timer));
}

function readPair({ cert, key }: { cert: string; key: string }): { cert: Buffer; key: Buffer } {
  return { cert: readFileSync(cert), key: readFileSync(key) };
}

/**
 * Reads the head of a request, and judges it.
 * @returns the head, and the reason for refusing the request; null if there is no reason
 */
function readHead(request: IncomingMessage): {
  head: RequestHead;
  refusal: { status: number; words: string } | null;
} {
  const { rawHeaders, url = '', method = '' } = request;
  const headers: string[] = [];
  const counts = { host: 0, 'content-length': 0, 'transfer-encoding': 0 };
  let contentLength: string | null = null;
  let transferEncoding: string | null = null;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase();
    const value = rawHeaders[at + 1]!;
    headers.push(name, value);
    if (Object.hasOwn(counts, name)) counts[name as keyof typeof counts]++;
    if (name === 'content-length') contentLength = value;
    else if (name === 'transfer-encoding') transferEncoding = value;
  }
  const verdict = judgeFraming(
    contentLength,
    counts['content-length'],
    transferEncoding,
    counts['transfer-encoding'],
  );
  const mark = url.indexOf('?');
  const head: RequestHead = {
    method,
    path: mark < 0 ? url : url.slice(0, mark),
    query: mark < 0 ? null : url.slice(mark + 1),
    headers,
    framing: verdict.framing,
    content_length: verdict.content_length,
  };
  if (request.httpVersion !== '1.1') return { head, refusal: findRefusal(VERSION) };
  if (!url.startsWith('/')) return { head, refusal: findRefusal(VERSION) };
  if (counts.host !== 1) return { head, refusal: findRefusal(HOST) };
  return { head, refusal: verdict.refusal === null ? null : { status: 400, words: verdict.refusal } };
}
