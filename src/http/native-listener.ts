/**
 * A listener on uWebSockets.js: one catch-all handler makes a stream of every request and passes it
 * on when the request has passed the checks. Only this file loads the native library. Server
 * threads. If the addon is available (`native/socket-engine.ts`), the library reads the sockets
 * through it. Then messages that two parsers could read differently do not reach the library, and
 * connections beyond the limits are refused before the library sees them. Before a request is passed on, its
 * framing has been checked (`framing-guard.ts`). For a chunked request, the first chunk has arrived
 * and the parser had a chance to reject it. For a request with a length, the first bytes have
 * arrived, or the listener has waited briefly. So the gateway forwards nothing malformed, and
 * usually has the whole body.
 */

import type { HttpRequest, HttpResponse, us_listen_socket } from 'uWebSockets.js';
import {
  PORT_KINDS,
  RAW_HEAD,
  SWITCHED_BYTES,
  socketEngine,
  UNKNOWN_HEAD,
} from '../../native/socket-engine.ts';
import { CertificateWatch } from './certificate-watch.ts';
import { findRefusal, isContinueExpected, judgeFraming, looksMisread } from './framing-guard.ts';
import type { HttpServer, ServerOptions } from './http-server.ts';
import type { HttpStream, RequestHead } from './http-stream.ts';
import { recallHeaders, rememberHeaders } from './known-heads.ts';
import { NativeStream } from './native-stream.ts';
import { OpenStreams } from './open-streams.ts';
import { explainListenFailure, findPort } from './port.ts';
import { restoreValues } from './raw-head.ts';
import { SHUTTING_DOWN, TOO_MANY, TOO_MANY_ALERT, TOO_SLOW } from './refusal-words.ts';

/** Interval at which the 10-second timeout of open streams is restarted. */
const KEEP_ALIVE_SWEEP_MS = 4_000;
/** Interval at which a listener without free descriptors tries to accept again. */
const ACCEPT_AGAIN_MS = 500;
/** Number of digits of the refusal's reason after the mark (`native/socket-engine.ts`). */
const REASON_DIGITS = 2;
const SWITCHED_LENGTH = String(SWITCHED_BYTES);
const NOT_ASCII = /[^\0-\x7f]/;
const REPLACEMENT = '\ufffd';

/** The library's ListenOptions, which its types declare as an enum. */
const ListenMode = { LIBUS_LISTEN_DEFAULT: 0, LIBUS_LISTEN_EXCLUSIVE_PORT: 1 } as const;

interface AddressListener {
  listen(host: string, port: number, options: number, done: (socket: us_listen_socket | false) => void): void;
}

/** Maximum number of attempts to find a free port. */
const PORT_TRIES = 5;

export type NativeModule = typeof import('uWebSockets.js');
type TemplatedApp = ReturnType<NativeModule['App']>;

/** Loads the native library. Returns null if it has no loadable binary for this machine. */
export async function loadNative(): Promise<NativeModule | null> {
  try {
    return ((await import('uWebSockets.js')) as unknown as { default: NativeModule }).default;
  } catch {
    return null;
  }
}

/**
 * Starts a listener on uWebSockets.js.
 * @throws Error when the address cannot be bound
 */
export async function listenNatively(native: NativeModule, options: ServerOptions): Promise<HttpServer> {
  // Removes the server's name from every reply (an undocumented option of the library).
  (native as unknown as { _cfg(key: string): void })._cfg('999999990007');
  return new NativeListener(native, options).listen();
}

/** Placeholder for the head of a request that was not read. */
const UNREAD_HEAD: RequestHead = Object.freeze({
  method: 'GET',
  path: '/',
  query: null,
  headers: [],
  framing: 'none',
  content_length: 0,
});

/** The listening servers of this thread. */
const listeners = new Set<NativeListener>();

/** Closes every socket of this thread's listeners at once. @returns when they are closed */
export async function hangUpNative(): Promise<void> {
  for (const listener of listeners) listener.hangUp();
  // The library frees a socket one tick after it was closed, and the loop frees its handle in the next tick.
  for (let tick = 0; tick < 3; tick++) await new Promise((resolve) => setImmediate(resolve));
}

class NativeListener implements HttpServer {
  readonly host: string;
  port = 0;
  readonly #native: NativeModule;
  /**
   * The last app listens. The earlier apps have earlier certificates and still serve their
   * connections.
   */
  readonly #apps: TemplatedApp[] = [];
  readonly #options: ServerOptions;
  #certificate: CertificateWatch | null = null;
  #listenSocket: us_listen_socket | null = null;
  readonly #streams: OpenStreams;
  /** Replaces a refused message in the library's input; '' if the sockets are not watched. */
  readonly #mark: string;
  #isDraining = false;
  /**
   * True while a refusal is pending. Its connection is closed after the parsed messages, and
   * requests pipelined after it are not served.
   */
  #isPoisoned = false;

  constructor(native: NativeModule, options: ServerOptions) {
    this.#native = native;
    this.#options = options;
    this.#streams = new OpenStreams(options.onStream);
    this.host = options.host;
    const mark = socketEngine.watchConnections();
    // With TLS, the bytes are only visible after the library has decrypted them.
    const isWatched = options.tls === undefined || socketEngine.watchSecureConnections() === 1;
    this.#mark = isWatched ? mark : '';
  }

  /**
   * Creates an app, with the present certificate if the listener uses TLS.
   * @throws Error when the certificate's files are invalid
   */
  #openApp(): TemplatedApp {
    const { tls } = this.#options;
    const app =
      tls === undefined
        ? this.#native.App()
        : this.#native.SSLApp({ cert_file_name: tls.files.cert, key_file_name: tls.files.key });
    app.filter(this.#onConnection);
    app.any('/*', (res, req) => this.#take(res, req));
    this.#apps.push(app);
    return app;
  }

  get open(): number {
    return this.#streams.size;
  }

  async listen(): Promise<HttpServer> {
    const { host, port, isShared, tls, pace, switches_protocols = false } = this.#options;
    // A new certificate needs a second listener on the port. So the port is shared, after a check that no other
    // process has it.
    const isOwn = tls !== undefined && !isShared;
    this.#listenSocket = isOwn ? await this.#listenBeside(host, port) : await this.#listenOn(port, isShared);
    listeners.add(this);
    this.port = this.#native.us_socket_local_port(this.#listenSocket as never);
    if (this.#mark !== '') {
      const kind = switches_protocols ? PORT_KINDS.switches_protocols : 0;
      if (tls === undefined) socketEngine.openPort(this.port, this.#describeCrowd(), kind);
      else socketEngine.openPort(this.port, TOO_MANY_ALERT, kind + PORT_KINDS.secure);
      this.#streams.sweep(ACCEPT_AGAIN_MS, socketEngine.resumeAccepting);
    }
    this.#streams.sweep(KEEP_ALIVE_SWEEP_MS, () => {
      for (const stream of this.#streams) stream.keepAlive();
    });
    if (pace !== undefined) this.#streams.holdPace(pace, this.#endSlow);
    if (tls !== undefined)
      this.#certificate = new CertificateWatch(tls.files, () => this.#renewCertificate(), tls.onChange);
    return this;
  }

  /** Listens on a port that later listeners of this process can share and that no other process has. */
  async #listenBeside(host: string, port: number): Promise<us_listen_socket> {
    for (let left = port === 0 ? PORT_TRIES : 1; ; left--) {
      try {
        return await this.#listenOn(await findPort(host, port), true);
      } catch (thrown) {
        // Another socket has taken the port meanwhile, for example a new connection.
        if (left === 1) throw thrown;
        this.#apps.pop()?.close();
      }
    }
  }

  #listenOn(port: number, isShared: boolean): Promise<us_listen_socket> {
    const { promise, resolve, reject } = Promise.withResolvers<us_listen_socket>();
    const { host } = this.#options;
    const { LIBUS_LISTEN_DEFAULT, LIBUS_LISTEN_EXCLUSIVE_PORT } = ListenMode;
    // The library accepts an address together with options; its types do not say so.
    (this.#openApp() as unknown as AddressListener).listen(
      host,
      port,
      isShared ? LIBUS_LISTEN_DEFAULT : LIBUS_LISTEN_EXCLUSIVE_PORT,
      (socket) => {
        if (socket === false) explainListenFailure(host, port).then(reject);
        else resolve(socket as us_listen_socket);
      },
    );
    return promise;
  }

  /** Makes new connections use the certificate that is in the files. Open connections continue. */
  async #renewCertificate(): Promise<void> {
    const listenSocket = await this.#listenOn(this.port, true);
    // Waits for the loop's poll, which accepts all waiting connections. Connections that arrive between the poll and
    // the next line are reset.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#listenSocket === null) {
      this.#native.us_listen_socket_close(listenSocket);
      return;
    }
    this.#native.us_listen_socket_close(this.#listenSocket);
    this.#listenSocket = listenSocket;
  }

  /**
   * Makes the complete answer to a connection beyond the limits. The answer includes the head,
   * because the addon sends it without the library.
   */
  #describeCrowd(): string {
    const body = Buffer.from(this.#options.describeError(503, TOO_MANY));
    const lines = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\nRetry-After: 1\r\nConnection: close`;
    return `HTTP/1.1 503 Service Unavailable\r\n${lines}\r\n\r\n${body.toString('latin1')}`;
  }

  #stopListening(): void {
    this.#certificate?.stop();
    if (this.#listenSocket === null) return;
    this.#listenSocket = null;
    if (this.#mark !== '') socketEngine.closePort(this.port);
  }

  async drain(deadlineMs: number): Promise<void> {
    this.#isDraining = true;
    if (this.#listenSocket !== null) {
      this.#native.us_listen_socket_close(this.#listenSocket);
      this.#stopListening();
    }
    await this.#streams.waitIdle(deadlineMs);
    this.#streams.stop();
    listeners.delete(this);
    this.#closeApps();
  }

  hangUp(): void {
    this.#isDraining = true;
    this.#stopListening();
    this.#closeApps();
  }

  #closeApps(): void {
    for (const app of this.#apps.splice(0)) app.close();
  }

  #take(res: HttpResponse, req: HttpRequest): void {
    const slot = socketEngine.takeHead();
    if (this.#isPoisoned) {
      // The request stays pending until the refusal of the earlier request is sent; then the connection ends. After a
      // pending request the parser accepts no further request on its connection, so the next request belongs to another
      // connection.
      this.#isPoisoned = false;
      let isGone = false;
      res.onAborted(() => {
        isGone = true;
      });
      setImmediate(() => {
        if (!isGone) res.close();
      });
      return;
    }
    const path = req.getUrl();
    if (
      this.#mark !== '' &&
      path.length === 1 + this.#mark.length + REASON_DIGITS &&
      path.startsWith(this.#mark, 1)
    ) {
      this.#refuseUnread(res, Number(path.slice(-REASON_DIGITS)));
      return;
    }
    const {
      headers,
      verdict,
      is_switch: isSwitch,
      is_go_ahead_due: isGoAheadDue,
    } = slot >= 0 ? recallFields(slot, req) : readFields(req, this.#mark);
    const query = req.getQuery() as string | undefined;
    const head: RequestHead = {
      method: req.getCaseSensitiveMethod(),
      path,
      query: query ?? null,
      headers,
      framing: verdict.framing,
      content_length: verdict.content_length,
    };
    const areRestored = slot >= 0 || (slot === RAW_HEAD && restoreValues(headers));
    const refusal =
      verdict.refusal ?? restoreTarget(head) ?? (areRestored ? null : restoreFields(headers, req));
    const stream = new NativeStream(res, head, this.#onGone);
    if (refusal !== null) {
      this.#refuse(stream, 400, refusal);
      return;
    }
    if (this.#isDraining) {
      this.#refuse(stream, 503, SHUTTING_DOWN);
      return;
    }
    if (slot === UNKNOWN_HEAD && !isSwitch) rememberHeaders(headers);
    this.#streams.add(stream);
    if (isSwitch) {
      stream.beginSwitch();
      res.onData((bytes, isLast) => {
        stream.takeBody(bytes, isLast);
        stream.keepArriving();
      });
      this.#options.onStream(stream);
      return;
    }
    if (isGoAheadDue && verdict.framing !== 'none') stream.writeInformational('100 Continue', []);
    if (verdict.framing === 'none') this.#options.onStream(stream);
    else if (verdict.framing === 'length') this.#awaitLength(res, stream);
    else this.#awaitChunk(res, stream);
  }

  /** Passes the stream on with the first bytes of its body, or without any after a short wait. */
  #awaitLength(res: HttpResponse, stream: HttpStream): void {
    this.#streams.await(stream);
    res.onData((bytes, isLast) => {
      // Ignore the empty first call, which comes with the head.
      if (bytes.byteLength === 0 && !isLast) return;
      this.#takeBody(stream, bytes, isLast);
      this.#streams.handOver(stream);
      stream.keepArriving();
    });
  }

  #takeBody(stream: HttpStream, bytes: ArrayBuffer, isLast: boolean): void {
    if (
      bytes.byteLength === this.#mark.length + REASON_DIGITS &&
      this.#mark !== '' &&
      stream.head.framing === 'chunked'
    ) {
      const text = Buffer.from(bytes).toString('latin1');
      if (text.startsWith(this.#mark)) {
        const { status, words } = findRefusal(Number(text.slice(-REASON_DIGITS)));
        this.#breakOff(stream, status, words);
        return;
      }
    }
    stream.takeBody(bytes, isLast);
  }

  /** Ends a request whose body cannot be completed. Sends an answer if none has begun. */
  #breakOff(stream: HttpStream, status: number, message: string): void {
    if (stream.replied) stream.destroy();
    else this.#answer(stream, status, message, true);
  }

  readonly #endSlow = (stream: HttpStream): void => {
    socketEngine.countSlowUpload();
    this.#breakOff(stream, 408, TOO_SLOW);
  };

  /**
   * Passes the stream on one tick after its first chunk. By then the parser may have closed the stream, or the chunk
   * may look like a misread chunk extension; such a request is refused.
   */
  #awaitChunk(res: HttpResponse, stream: HttpStream): void {
    let calls = 0;
    res.onData((bytes, isLast) => {
      if (bytes.byteLength === 0 && !isLast) return;
      this.#takeBody(stream, bytes, isLast);
      stream.keepArriving();
      calls++;
      if (calls > 1) return;
      setImmediate(() => {
        if (stream.closed) return;
        const first = stream.received[0];
        if (calls === 1 && !stream.bodyComplete && first !== undefined && looksMisread(first)) {
          this.#refuse(stream, 400, 'Chunk extensions are not supported');
          return;
        }
        this.#options.onStream(stream);
      });
    });
  }

  /** Answers a request that the addon did not pass to the library, and ends its connection. */
  #refuseUnread(res: HttpResponse, reason: number): void {
    const { status, words } = findRefusal(reason);
    this.#answer(new NativeStream(res, UNREAD_HEAD, this.#onGone), status, words, true);
  }

  #answer(stream: HttpStream, status: number, message: string, aborted = false): void {
    const body = this.#options.describeError(status, message);
    stream.reply(status, 'Content-Type: application/json\r\n', body, true, aborted);
  }

  #refuse(stream: HttpStream, status: 400 | 503, message: string): void {
    // After a HEAD request, the connection is closed at once.
    this.#isPoisoned = stream.head.method !== 'HEAD';
    setImmediate(() => {
      this.#isPoisoned = false;
    });
    this.#answer(stream, status, message);
  }

  /** Counts a connection that opened (1) or closed (-1). */
  readonly #onConnection = (_res: HttpResponse, change: { valueOf(): number }): void => {
    if (change.valueOf() < 0) this.#isPoisoned = false;
  };

  readonly #onGone = (stream: HttpStream): void => this.#streams.remove(stream);
}

/** The header lines of a request, and what the listener reads from them. */
interface ReadFields {
  headers: string[];
  verdict: ReturnType<typeof judgeFraming>;
  is_switch: boolean;
  /** Whether the client waits for `100 Continue`, which the parser does not send in this case. */
  is_go_ahead_due: boolean;
}

/** Reads the header lines of a request whose head the addon knows. @param slot which `takeHead` has returned */
function recallFields(slot: number, req: HttpRequest): ReadFields {
  const { headers, content_length } = recallHeaders(slot, req);
  const verdict = judgeFraming(content_length, content_length === null ? 0 : 1, null, 0);
  return { headers, verdict, is_switch: false, is_go_ahead_due: false };
}

/** Reads the header lines of a request one by one. @param mark the addon's mark; '' without the addon */
function readFields(req: HttpRequest, mark: string): ReadFields {
  const headers: string[] = [];
  let contentLength: string | null = null;
  let contentLengthCount = 0;
  let transferEncoding: string | null = null;
  let transferEncodingCount = 0;
  let isGoAheadDue = false;
  req.forEach((name, value) => {
    headers.push(name, value);
    if (name === 'content-length') {
      contentLength = value;
      contentLengthCount++;
    } else if (name === 'transfer-encoding') {
      transferEncoding = value;
      transferEncodingCount++;
    } else if (name === 'expect') {
      // The parser recognizes only `100-continue` in lower case. Some clients write it differently (Java:
      // `100-Continue`).
      isGoAheadDue = value !== '100-continue' && isContinueExpected(value);
    }
  });
  // The addon appends two header lines to a request for WebSocket. One of them contains the mark, which no client
  // knows.
  const isSwitch = contentLength === SWITCHED_LENGTH && mark !== '' && headers[headers.length - 4] === mark;
  if (isSwitch) {
    headers.length -= 4;
    contentLength = null;
    contentLengthCount = 0;
  }
  const verdict = judgeFraming(contentLength, contentLengthCount, transferEncoding, transferEncodingCount);
  return { headers, verdict, is_switch: isSwitch, is_go_ahead_due: isGoAheadDue };
}

/**
 * Restores the bytes of the path and the query, one per character. The native library has decoded bytes above
 * 127 as UTF-8.
 * @returns null if the path and the query are restored; otherwise the reason for a refusal: the original
 * bytes are lost, because they were not UTF-8
 */
function restoreTarget(head: RequestHead): string | null {
  if (NOT_ASCII.test(head.path)) {
    if (head.path.includes(REPLACEMENT)) return 'The path is not valid UTF-8';
    head.path = toBytes(head.path);
  }
  if (head.query !== null && NOT_ASCII.test(head.query)) {
    if (head.query.includes(REPLACEMENT)) return 'The query is not valid UTF-8';
    head.query = toBytes(head.query);
  }
  return null;
}

/**
 * Restores the bytes of header values, like `restoreTarget`.
 * @returns null, or the reason for a refusal
 */
function restoreFields(headers: string[], req: HttpRequest): string | null {
  for (let at = 1; at < headers.length; at += 2) {
    const value = headers[at]!;
    if (!NOT_ASCII.test(value)) continue;
    if (!value.includes(REPLACEMENT)) {
      headers[at] = toBytes(value);
      continue;
    }
    // `getHeader` returns the bytes unchanged, but only for the first line of a name.
    const name = headers[at - 1]!;
    if (headers.indexOf(name) !== at - 1) return `A repeated header (${name}) is not valid UTF-8`;
    headers[at] = req.getHeader(name);
  }
  return null;
}

function toBytes(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}
