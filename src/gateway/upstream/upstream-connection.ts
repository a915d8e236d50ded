/**
 * One HTTP/1.1 connection to an upstream: a socket through which requests are sent one after the other. All
 * plain connections of the thread read into one shared buffer, and answers are parsed as they arrive. Server
 * threads.
 *
 * The connection ends, with `onError` of the current handler, if the upstream violates the protocol, is
 * silent for too long, or disconnects before its answer is complete. Unrequested bytes end an idle
 * connection. After a complete answer, which ends with `onEnd`, the connection also ends if bytes followed
 * the answer, or if the upload was not complete.
 *
 * An upstream that stops reading an upload may have sent an answer. So after a failed write, the connection
 * first reads the bytes that have arrived.
 */

import { connect as connectTcp, isIP, type Socket, type TcpNetConnectOpts } from 'node:net';
import { connect as connectTls, type SecureContext, TLSSocket } from 'node:tls';
import { getSystemErrorName } from 'node:util';
import { SEND_HEAD_BYTES, socketEngine } from '../../../native/socket-engine.ts';
import { UpstreamError } from './answer-error.ts';
import type { Fields } from './field-section.ts';
import { type ResponseHead, ResponseParser, type ResponseSink } from './response-parser.ts';

/** How long an upstream connection may take to open (address lookup, TCP, TLS) before the client gets 502. */
export const UPSTREAM_CONNECT_MS = 30_000;

/** A request to send. */
export interface UpstreamRequest {
  method: string;
  /**
   * Request line and header lines, each with its line end; without framing and the blank line. One byte per character.
   */
  head: string;
  /** `length`: the body has `bytes` bytes; it is in `body`, or follows through `write`. */
  framing: { kind: 'none' } | { kind: 'length'; bytes: number } | { kind: 'chunked' };
  /** The whole body, if it is available; null: there is no body, or it follows through `write`. */
  body: Buffer | null;
}

/**
 * Receives an answer. Exactly one of `onEnd` and `onError` is called, as the last method; neither is called after
 * `UpstreamConnection.abort`.
 */
export interface AnswerHandler {
  /** The request has its connection, which may still be connecting. */
  onConnection(connection: UpstreamConnection): void;
  /** Informational heads, then a final one. */
  onHead(head: ResponseHead): void;
  /**
   * A piece of the body, a view on a reused buffer: its bytes are valid until `onRead`, `onEnd` or `onError` returns.
   */
  onBody(chunk: Buffer): void;
  /** All bytes of this read were passed to `onBody`, and the answer continues. */
  onRead(): void;
  onEnd(trailers: Fields | null): void;
  onError(error: UpstreamError): void;
  /** The upload may continue after `write` asked for a pause. */
  onUploadDrained(): void;
}

/** Notifications from a connection to its pool. */
export interface ConnectionOwner {
  /** TLS session of an earlier connection to the same origin, to resume. */
  session: Buffer | undefined;
  /** Trusted authorities; undefined for the default ones. */
  readonly trust: SecureContext | undefined;
  /** The answer is complete, and the connection may be used for another request. */
  onRest(connection: UpstreamConnection): void;
  /** The connection has ended, or accepts no more requests. */
  onGone(connection: UpstreamConnection): void;
}

/** Maximum bytes of one read of a plain socket. */
const READ_BYTES = 64 * 1024;
/** Maximum bytes of one read of a TLS socket: the size of a TLS record. */
const TLS_READ_BYTES = 16 * 1024;
/** How many bytes of a request body may wait for a slow upstream before the client is paused. */
const UPLOAD_BUFFER_BYTES = 256 * 1024;
const KEEP_ALIVE_PROBE_MS = 60_000;

/** Methods whose requests are expected to have a body. */
const WITH_BODY = new Set(['POST', 'PUT', 'PATCH', 'QUERY', 'PROPFIND', 'PROPPATCH']);

/**
 * All sockets of the thread share this buffer, because the bytes of a read are consumed before any
 * socket reads again.
 */
const sharedBuffer = Buffer.allocUnsafeSlow(READ_BYTES);

const NOTHING = Buffer.alloc(0);
const CHUNK_END = Buffer.from('\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

export class UpstreamConnection implements ResponseSink {
  /** Number of requests whose head was written to this connection. */
  requests = 0;
  /** When the idle connection must not be used any more, by `performance.now()`. The pool sets it. */
  expires_at = 0;
  /** Sweeps of the pool since the last activity. */
  silent_sweeps = 0;

  readonly #owner: ConnectionOwner;
  readonly #url: URL;
  /** null until it is opened. */
  #socket: Socket | null = null;
  readonly #parser = new ResponseParser(this);
  readonly #connectTimer: NodeJS.Timeout;
  #isConnected = false;
  #isOver = false;
  #isPaused = false;
  #handler: AnswerHandler | null = null;
  #request: UpstreamRequest | null = null;
  /** Pieces of an upload that came before the connection was open. */
  #early: Buffer[] = [];
  #isUploadDone = true;
  #uploadBytes = 0;
  #isUploadBlocked = false;
  /**
   * The error of a failed write: then nothing more is sent, but bytes that the upstream sent before
   * are still read.
   */
  #lostUpload: UpstreamError | null = null;

  constructor(url: URL, owner: ConnectionOwner) {
    this.#url = url;
    this.#owner = owner;
    this.#connectTimer = setTimeout(() => {
      this.#fail(new UpstreamError('ETIMEDOUT', 'the connection took too long'));
    }, UPSTREAM_CONNECT_MS);
  }

  /**
   * Whether the upstream waits for the gateway, because reading is paused or the client has not
   * sent its body yet. Then its silence does not count.
   */
  get isWaitingForUs(): boolean {
    return this.#isPaused || (!this.#isUploadDone && !this.#isUploadBlocked);
  }

  get isIdle(): boolean {
    return this.#handler === null;
  }

  /** How long the upstream keeps an idle connection, by its last answer; null if not stated. */
  get kept_ms(): number | null {
    return this.#parser.kept_ms;
  }

  /** Begins to connect. Call it once. */
  open(): void {
    if (this.#isOver) return;
    this.#socket = this.#connect(this.#url);
    if (this.#isPaused) this.#socket.pause();
  }

  /** Sends a request as soon as the connection is open. Call it only while the connection is idle. */
  begin(request: UpstreamRequest, handler: AnswerHandler): void {
    this.#handler = handler;
    this.#request = request;
    this.#isUploadDone = request.body !== null || request.framing.kind === 'none';
    this.#uploadBytes = 0;
    this.silent_sweeps = 0;
    handler.onConnection(this);
    if (this.#isConnected) this.#sendRequest();
  }

  /**
   * Sends more of the request body.
   * @returns false to wait for `onUploadDrained`
   */
  write(handler: AnswerHandler, chunk: Buffer, isLast: boolean): boolean {
    if (handler !== this.#handler || this.#isUploadDone) return true;
    this.#uploadBytes += chunk.length;
    if (isLast) this.#isUploadDone = true;
    this.silent_sweeps = 0;
    const { framing } = this.#request!;
    if (framing.kind === 'length') {
      // The upstream would read excess bytes as the next request, or the next request as missing
      // bytes.
      if (this.#uploadBytes > framing.bytes || (isLast && this.#uploadBytes < framing.bytes)) {
        this.#fail(new UpstreamError('BAD_UPLOAD', 'a body of another length than announced'));
        return true;
      }
    }
    if (!this.#isConnected) {
      if (chunk.length > 0) this.#early.push(chunk);
      this.#isUploadBlocked = this.#uploadBytes > UPLOAD_BUFFER_BYTES;
      return !this.#isUploadBlocked;
    }
    this.#writeBody(framing.kind === 'chunked', chunk, isLast);
    if (this.#lostUpload !== null) return true;
    // The socket also asks for a pause after a large piece that the system took at once; that pause is not needed.
    const socket = this.#socket!;
    this.#isUploadBlocked = socket.writableNeedDrain && socket.writableLength > 0;
    return !this.#isUploadBlocked;
  }

  /**
   * Whether the system has taken all of the written upload, so that its memory may be reused. False before the
   * connection is open, and for a handler whose exchange is over.
   */
  hasTakenUpload(handler: AnswerHandler): boolean {
    return handler === this.#handler && this.#isConnected && this.#socket!.writableLength === 0;
  }

  /** Stops reading the answer. `onBody` may still be called with bytes that were already read. */
  pause(handler: AnswerHandler): void {
    if (handler !== this.#handler || this.#isPaused || this.#isOver) return;
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(handler: AnswerHandler): void {
    if (handler === this.#handler) this.#resume();
  }

  /** Ends the connection, because the answer is no longer wanted. The handler is not called again. */
  abort(handler: AnswerHandler): void {
    if (handler !== this.#handler) return;
    this.#handler = null;
    this.#end();
  }

  /** Closes the connection, and calls `onError` of its handler, if there is one. */
  destroy(error: UpstreamError): void {
    this.#fail(error);
  }

  onHead(head: ResponseHead): void {
    this.#handler?.onHead(head);
  }

  onBody(chunk: Buffer): void {
    this.#handler?.onBody(chunk);
  }

  #connect(url: URL): Socket {
    const isSecure = url.protocol === 'https:';
    const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname;
    const buffer = isSecure ? Buffer.allocUnsafeSlow(TLS_READ_BYTES) : sharedBuffer;
    const options: TcpNetConnectOpts & { highWaterMark: number } = {
      host,
      port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
      // The gateway closes its side itself, so that it can first find out how the upstream's side
      // ended.
      allowHalfOpen: true,
      highWaterMark: UPLOAD_BUFFER_BYTES,
      onread: {
        buffer,
        callback: (bytes) => {
          this.#read(buffer, bytes);
          return true;
        },
      },
    };
    const socket = isSecure
      ? connectTls({
          ...options,
          // TLS allows no IP address as server name. The certificate is still checked against the
          // address.
          ...(isIP(host) === 0 && { servername: host }),
          ALPNProtocols: ['http/1.1'],
          session: this.#owner.session,
          // Certificates are checked even if NODE_TLS_REJECT_UNAUTHORIZED is 0, because the requests contain
          // API keys.
          rejectUnauthorized: true,
          ...(this.#owner.trust !== undefined && { secureContext: this.#owner.trust }),
        })
      : connectTcp(options);
    this.#outliveFailedWrites(socket);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_PROBE_MS);
    // With TLS, nothing is written before the other side has authenticated itself.
    socket.once(isSecure ? 'secureConnect' : 'connect', () => this.#onConnected());
    socket.on('drain', () => this.#onDrain());
    socket.on('end', () => this.#onEnd());
    socket.on('error', (error) => this.#fail(describeSocketError(error)));
    socket.on('close', () => this.#fail(new UpstreamError('ECONNRESET', 'the connection was closed')));
    if (isSecure) {
      socket.on('session', (session: Buffer) => {
        this.#owner.session = session;
      });
    }
    return socket;
  }

  /**
   * Makes the received bytes readable after a failed write. Node destroys a stream whose write fails,
   * together with received bytes that were not read yet. So this function hides the failure from the stream
   * if the upstream has closed the connection.
   */
  #outliveFailedWrites(socket: Socket): void {
    const write = socket._write;
    const writev = socket._writev!;
    const outlive =
      (callback: (error?: Error | null) => void) =>
      (error?: NodeJS.ErrnoException | null): void => {
        if (error == null || !CONNECTION_DEATHS.has(error.code ?? '')) {
          callback(error);
          return;
        }
        this.#onUploadLost(describeSocketError(error));
        callback();
      };
    socket._write = (chunk, encoding, callback) => {
      if (this.#lostUpload === null) write.call(socket, chunk, encoding, outlive(callback));
      else callback();
    };
    socket._writev = (chunks, callback) => {
      if (this.#lostUpload === null) writev.call(socket, chunks, outlive(callback));
      else callback();
    };
  }

  #onUploadLost(error: UpstreamError): void {
    if (this.#isOver || this.#lostUpload !== null) return;
    this.#lostUpload = error;
    // Discard the rest of the body, which the client may still send.
    this.#isUploadDone = true;
    this.#onDrain();
  }

  #onConnected(): void {
    clearTimeout(this.#connectTimer);
    if (this.#isOver) return;
    this.#isConnected = true;
    if (this.#handler !== null) this.#sendRequest();
  }

  #sendRequest(): void {
    const { method, head, framing, body } = this.#request!;
    const socket = this.#socket!;
    this.requests++;
    this.#parser.begin(method);
    if (framing.kind === 'none') {
      this.#writeWhole(`${head}\r\n`, NOTHING);
      return;
    }
    if (framing.kind === 'length' && body !== null) {
      this.#writeWhole(`${head}content-length: ${framing.bytes}\r\n\r\n`, body);
      return;
    }
    socket.cork();
    const isChunked = framing.kind === 'chunked';
    socket.write(
      isChunked
        ? `${head}transfer-encoding: chunked\r\n\r\n`
        : `${head}content-length: ${framing.bytes}\r\n\r\n`,
      'latin1',
    );
    const early = this.#early;
    this.#early = [];
    for (const chunk of early) this.#writeBody(isChunked, chunk, false);
    if (isChunked && this.#isUploadDone) socket.write(LAST_CHUNK);
    socket.uncork();
    if (!socket.writableNeedDrain) this.#onDrain();
  }

  /**
   * Writes directly to the socket as much as the system accepts at once, because writing through the stream
   * takes twice as long. The remaining bytes wait in the stream, so their memory must stay unchanged until
   * the exchange ends.
   */
  #writeWhole(head: string, body: Buffer): void {
    const socket = this.#socket!;
    const taken = this.#sendNow(socket, head, body);
    if (taken === head.length + body.length) return;
    if (taken < 0) {
      this.#onSendFailed(socket, getSystemErrorName(taken));
      return;
    }
    socket.cork();
    if (taken < head.length) socket.write(head.slice(taken), 'latin1');
    if (body.length > 0) socket.write(body.subarray(Math.max(taken - head.length, 0)));
    socket.uncork();
  }

  /** Handles the failure of a direct write, which the system does not report to the stream. */
  #onSendFailed(socket: Socket, code: string): void {
    const error = Object.assign(new Error(`write ${code}`), { code });
    if (CONNECTION_DEATHS.has(code)) this.#onUploadLost(describeSocketError(error));
    else socket.destroy(error);
  }

  /**
   * Writes head and body to the socket with a system call, without the stream.
   * @returns the number of bytes that the system took, 0 if the stream must be used; or a negative error
   * number
   */
  #sendNow(socket: Socket, head: string, body: Buffer): number {
    if (socket.writableLength > 0 || socket.writableCorked > 0 || head.length > SEND_HEAD_BYTES) return 0;
    if (this.#lostUpload !== null || socket instanceof TLSSocket) return 0;
    // Read the descriptor each time, because the system soon gives a closed descriptor's number to another socket.
    const descriptor = (socket as unknown as WithHandle)._handle?.fd ?? -1;
    return descriptor < 0 ? 0 : socketEngine.sendNow(descriptor, head, body);
  }

  #writeBody(isChunked: boolean, chunk: Buffer, isLast: boolean): void {
    const socket = this.#socket!;
    if (!isChunked) {
      if (chunk.length > 0) this.#writeWhole('', chunk);
      return;
    }
    socket.cork();
    if (chunk.length > 0) {
      socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
      socket.write(chunk);
      socket.write(CHUNK_END);
    }
    if (isLast) socket.write(LAST_CHUNK);
    socket.uncork();
  }

  #onDrain(): void {
    if (!this.#isUploadBlocked) return;
    this.#isUploadBlocked = false;
    this.silent_sweeps = 0;
    this.#handler?.onUploadDrained();
  }

  #read(buffer: Buffer, bytes: number): void {
    if (this.#isOver) return;
    if (this.#handler === null || !this.#isConnected) {
      this.#fail(new UpstreamError('BAD_ANSWER', 'unrequested bytes'));
      return;
    }
    this.silent_sweeps = 0;
    let used: number;
    try {
      used = this.#parser.execute(buffer, bytes);
    } catch (error) {
      this.#fail(error as UpstreamError);
      return;
    }
    if (this.#parser.isComplete) this.#complete(used < bytes);
    else this.#handler?.onRead();
  }

  #onEnd(): void {
    if (this.#isOver) return;
    const socket = this.#socket!;
    if (!this.#parser.isUnframed || socket instanceof TLSSocket) {
      this.#finish(true);
    } else if (socket.writableLength === 0) {
      // If a reset arrives together with bytes, the system reports an orderly end. An empty write
      // then fails and reveals the reset.
      socket.write(NOTHING, (error) => this.#finish(error == null && this.#hasEnded()));
    } else {
      // An empty write would wait behind the upload, which an upstream that has ended may never read. It is
      // not needed: after a reset, the waiting upload is retried in the same tick, and that write fails.
      setImmediate(() => this.#finish(this.#hasEnded()));
    }
  }

  /** Whether the upstream closed its side in an orderly way before any reset. */
  #hasEnded(): boolean {
    return this.#lostUpload === null || (TELLS_END_BEFORE_RESET && this.#lostUpload.code === 'EPIPE');
  }

  /** Ends the answer, because the upstream sends no more. @param isOrderly false after a reset */
  #finish(isOrderly: boolean): void {
    if (this.#isOver) return;
    if (isOrderly && this.#handler !== null && this.#parser.finish()) this.#complete(true);
    else this.#fail(new UpstreamError('ECONNRESET', 'the upstream closed the connection'));
  }

  #complete(isSpent: boolean): void {
    const handler = this.#handler;
    // Without a handler the exchange was aborted meanwhile, and the connection has ended.
    if (handler === null) return;
    const { method, framing } = this.#request!;
    this.#handler = null;
    this.#request = null;
    const canServeMore =
      !isSpent &&
      this.#parser.isKept &&
      this.#isUploadDone &&
      this.#lostUpload === null &&
      this.#socket!.writableLength === 0 &&
      // An upstream that does not expect a body may leave it unread.
      (framing.kind === 'none' || WITH_BODY.has(method));
    if (canServeMore) {
      this.#resume();
      this.#owner.onRest(this);
    } else {
      this.#end();
    }
    handler.onEnd(this.#parser.trailers);
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.silent_sweeps = 0;
    this.#socket?.resume();
  }

  #fail(reason: UpstreamError): void {
    if (this.#isOver) return;
    const handler = this.#handler;
    // If a write failed earlier, report its error as the cause.
    const error = this.#lostUpload !== null && CONNECTION_DEATHS.has(reason.code) ? this.#lostUpload : reason;
    this.#handler = null;
    error.isStaleConnection =
      this.requests > 1 && !this.#parser.hasBegun && CONNECTION_DEATHS.has(error.code);
    this.#end();
    handler?.onError(error);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#request = null;
    this.#early = [];
    this.#parser.stop();
    clearTimeout(this.#connectTimer);
    this.#owner.onGone(this);
    this.#socket?.destroy();
  }
}

/** A socket's handle, null once it is destroyed; the descriptor is -1 if absent. */
interface WithHandle {
  _handle?: { fd?: number } | null;
}

/** Error codes of a connection that the other side has closed. */
const CONNECTION_DEATHS = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED']);

/**
 * The first write on a reset connection fails with EPIPE if the upstream's end arrived before the
 * reset, otherwise with ECONNRESET (tcp_reset). On other systems it may be EPIPE in both cases.
 */
const TELLS_END_BEFORE_RESET = process.platform === 'linux';

/**
 * Makes an UpstreamError of a socket's error. An AggregateError without a code, for several tried addresses,
 * gets the code of the first address.
 */
function describeSocketError(error: NodeJS.ErrnoException): UpstreamError {
  const first = error instanceof AggregateError ? (error.errors[0] as NodeJS.ErrnoException) : error;
  return new UpstreamError(error.code ?? first.code ?? '', error.message, { cause: error });
}
