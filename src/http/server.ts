/**
 * An HTTP/1.1 listener on uWebSockets.js: one catch-all handler that makes an HttpStream of every request and hands it
 * over when it is safe to act on. Server threads; the only place that touches the native library.
 *
 * Where the addon is there (`native/socket-engine.ts`), the library reads the sockets through it. Messages that two parsers
 * could read in two ways do not reach the library, and connections beyond the caps are answered before it sees them.
 *
 * Before the server hands a request over, it has judged the framing (`framing-guard.ts`). A chunked request has shown its first
 * chunk, and the parser had a chance to reject it. A request with a length has shown its first bytes, or the server has waited
 * a moment. So the gateway forwards nothing malformed, and mostly has the whole body.
 */

import type { HttpRequest, HttpResponse, us_listen_socket } from 'uWebSockets.js';
import { PORT_KINDS, SWITCHED_BYTES, socketEngine } from '../../native/socket-engine.ts';
import type { CertificateFiles } from '../std/certificate-files.ts';
import { type CertificateOutcome, CertificateWatch } from './certificate-watch.ts';
import { findRefusal, isContinueExpected, judgeFraming, looksMisread } from './framing-guard.ts';
import { HttpStream, type RequestHead } from './http-stream.ts';
import { explainListenFailure, findPort } from './port.ts';

export interface ServerOptions {
  host: string;
  /** 0: one that the system picks. */
  port: number;
  /** Other threads listen on the same port, too; their starter has made sure that no other process does. */
  isShared: boolean;
  /** Gets every request that passed the guards. */
  onStream: (stream: HttpStream) => void;
  /** Body of a refusal: the two ports speak different error shapes. */
  describeError: (status: number, message: string) => string;
  /** Left out: bodies may come as slowly as they like. */
  pace?: UploadPace;
  /** Left out: clients speak without TLS. */
  tls?: ServerTls;
  /**
   * Left out: a request for WebSocket is one like any other. True: it is a stream with `is_switch`, where the addon is there
   * (`HttpStream.writeSwitch`); its connection ends with it.
   */
  switches_protocols?: boolean;
}

export interface ServerTls {
  /** Checked by `checkCertificate`; read again when they change. */
  files: CertificateFiles;
  /** Told of each change. */
  onChange: (outcome: CertificateOutcome) => void;
}

/** What of a body has to come. A body that we keep from coming is not looked at. */
export interface UploadPace {
  bytes_per_sec: number;
  /** On average over this time. */
  window_ms: number;
}

export interface HttpServer {
  readonly host: string;
  readonly port: number;
  /** Requests being answered. */
  readonly open: number;
  /**
   * Stops listening, lets the open streams finish and closes every connection.
   * @param deadlineMs after it, what is still open is cut
   */
  drain(deadlineMs: number): Promise<void>;
}

/** A request with a length that has sent no body yet waits this long for its first bytes before it is handed over. */
const FIRST_BYTES_WAIT_MS = 10;
/** How often slow streams are kept from the parser's 10-second limit. */
const KEEP_ALIVE_SWEEP_MS = 4_000;
/** How often a listener that has no descriptors left looks for one. */
const ACCEPT_AGAIN_MS = 500;
/** The reason behind the mark (`native/socket-engine.ts`). */
const REASON_DIGITS = 2;
const SWITCHED_LENGTH = String(SWITCHED_BYTES);
const NOT_ASCII = /[^\0-\x7f]/;
const REPLACEMENT = '\ufffd';

/** The library's ListenOptions, which its types declare as an enum. */
const ListenMode = { LIBUS_LISTEN_DEFAULT: 0, LIBUS_LISTEN_EXCLUSIVE_PORT: 1 } as const;

interface AddressListener {
  listen(host: string, port: number, options: number, done: (socket: us_listen_socket | false) => void): void;
}

/** Ports that the system picks are tried so often. */
const PORT_TRIES = 5;

type NativeModule = typeof import('uWebSockets.js');
type TemplatedApp = ReturnType<NativeModule['App']>;

/** The same to a client that speaks TLS, before anything is agreed on: an alert, fatal, of an internal error (RFC 8446, 6.2). */
const TOO_MANY_ALERT = '\x15\x03\x03\x00\x02\x02\x50';
/** What a client reads whose connection is one too many, and one whose body comes too slowly. */
const TOO_MANY = 'Too many connections; try again later';
const TOO_SLOW = 'The request body came too slowly';
/** In the time over which a pace is held it is looked at so often. */
const PACE_LOOKS = 4;

/**
 * Loads the native library, which `startServer` does too. `UWS_HTTP_MAX_HEADERS_SIZE` must be in the environment by now
 * (config.ts sees to it), since the library reads it as it loads.
 */
export async function loadServer(): Promise<NativeModule> {
  return ((await import('uWebSockets.js')) as unknown as { default: NativeModule }).default;
}

/**
 * Starts listening. See `loadServer` on the environment.
 * @throws Error when the address cannot be bound
 */
export async function startServer(options: ServerOptions): Promise<HttpServer> {
  const native = await loadServer();
  if (isHungUp) throw new Error('the thread is ending');
  // Removes the server mark from every reply (a switch of the library; no public name).
  (native as unknown as { _cfg(key: string): void })._cfg('999999990007');
  return new Listener(native, options).listen();
}

/** In the place of one that nobody can tell. */
const UNREAD_HEAD: RequestHead = Object.freeze({
  method: 'GET',
  path: '/',
  query: null,
  headers: [],
  framing: 'none',
  content_length: 0,
});

/** Those of this thread that listen. */
const listeners = new Set<Listener>();
let isHungUp = false;

/**
 * Closes every socket of this thread's servers at once, and lets no server start. For a thread that is about to be ended
 * from outside, which must hold none then: the native library would end the process with a stack trace.
 * @returns when they are closed
 */
export async function hangUp(): Promise<void> {
  isHungUp = true;
  for (const listener of listeners) listener.hangUp();
  // The library lets go of a socket one tick of the loop after it has closed it, and the loop of its handle in the next.
  for (let tick = 0; tick < 3; tick++) await new Promise((resolve) => setImmediate(resolve));
}

class Listener implements HttpServer {
  readonly host: string;
  port = 0;
  readonly #native: NativeModule;
  /** The last one listens; those before it showed earlier certificates, and keep the connections of their time. */
  readonly #apps: TemplatedApp[] = [];
  readonly #options: ServerOptions;
  #certificate: CertificateWatch | null = null;
  #listenSocket: us_listen_socket | null = null;
  /** A list with the place of each stream noted on it: a Set rehashes under such a coming and going. */
  readonly #streams: HttpStream[] = [];
  #awaitTimer: NodeJS.Timeout | null = null;
  readonly #sweepTimers: NodeJS.Timeout[] = [];
  /** What the library reads instead of what is refused; '' where the sockets are not watched. */
  readonly #mark: string;
  #isDraining = false;
  #onIdle: (() => void) | null = null;
  /** A refusal closes its connection only behind what is already parsed: what was pipelined after it is not served. */
  #isPoisoned = false;

  constructor(native: NativeModule, options: ServerOptions) {
    this.#native = native;
    this.#options = options;
    this.host = options.host;
    const mark = socketEngine.watchConnections();
    // Over TLS what is not seen decrypted is not seen.
    const isWatched = options.tls === undefined || socketEngine.watchSecureConnections() === 1;
    this.#mark = isWatched ? mark : '';
  }

  /** @throws Error when the certificate's files do not do */
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
    return this.#streams.length;
  }

  async listen(): Promise<HttpServer> {
    const { host, port, isShared, tls, pace, switches_protocols = false } = this.#options;
    // A new certificate needs a new listener beside the first, so the port is shared, and others are looked for before.
    const isOwn = tls !== undefined && !isShared;
    this.#listenSocket = isOwn ? await this.#listenBeside(host, port) : await this.#listenOn(port, isShared);
    listeners.add(this);
    this.port = this.#native.us_socket_local_port(this.#listenSocket as never);
    if (this.#mark !== '') {
      const kind = switches_protocols ? PORT_KINDS.switches_protocols : 0;
      if (tls === undefined) socketEngine.openPort(this.port, this.#describeCrowd(), kind);
      else socketEngine.openPort(this.port, TOO_MANY_ALERT, kind + PORT_KINDS.secure);
      this.#sweep(ACCEPT_AGAIN_MS, socketEngine.resumeAccepting);
    }
    this.#sweep(KEEP_ALIVE_SWEEP_MS, () => {
      for (const stream of this.#streams) stream.keepAlive();
    });
    if (pace !== undefined) this.#sweep(pace.window_ms / PACE_LOOKS, () => this.#holdPace(pace));
    if (tls !== undefined)
      this.#certificate = new CertificateWatch(tls.files, () => this.#renewCertificate(), tls.onChange);
    return this;
  }

  /** On a port that can be shared with a later listener of ours, and is nobody else's. */
  async #listenBeside(host: string, port: number): Promise<us_listen_socket> {
    for (let left = port === 0 ? PORT_TRIES : 1; ; left--) {
      try {
        return await this.#listenOn(await findPort(host, port), true);
      } catch (thrown) {
        // The port that was found belongs to somebody else by now, a connection that has just begun, say.
        if (left === 1) throw thrown;
        this.#apps.pop()?.close();
      }
    }
  }

  #listenOn(port: number, isShared: boolean): Promise<us_listen_socket> {
    const { promise, resolve, reject } = Promise.withResolvers<us_listen_socket>();
    const { host } = this.#options;
    const { LIBUS_LISTEN_DEFAULT, LIBUS_LISTEN_EXCLUSIVE_PORT } = ListenMode;
    // The library takes an address together with options; its types do not say so.
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

  /** From now on new connections are shown the certificate that lies in the files; those that are open go on. */
  async #renewCertificate(): Promise<void> {
    const listenSocket = await this.#listenOn(this.port, true);
    // Behind the poll of the loop, which has accepted all that waited: what comes until the next line is reset.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#listenSocket === null) {
      this.#native.us_listen_socket_close(listenSocket);
      return;
    }
    this.#native.us_listen_socket_close(this.#listenSocket);
    this.#listenSocket = listenSocket;
  }

  #sweep(every_ms: number, look: () => void): void {
    this.#sweepTimers.push(setInterval(look, every_ms).unref());
  }

  /** The whole answer, since nobody but the system is asked to send it. */
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
    if (this.#streams.length > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onIdle = resolve;
      const timer = setTimeout(resolve, deadlineMs);
      await promise;
      clearTimeout(timer);
    }
    for (const timer of this.#sweepTimers) clearInterval(timer);
    if (this.#awaitTimer !== null) clearTimeout(this.#awaitTimer);
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
    if (this.#isPoisoned) {
      // Left pending so that the refusal before it still goes out; then the connection ends. Behind a pending request the
      // parser takes no other of its connection, so the next one that comes is somebody else's.
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
        // The parser answers this in lower case; other clients write another (Java `100-Continue`), and mean the same.
        isGoAheadDue = value !== '100-continue' && isContinueExpected(value);
      }
    });
    // The addon's own two lines stand behind all others; nobody else knows the mark.
    const isSwitch =
      contentLength === SWITCHED_LENGTH && this.#mark !== '' && headers[headers.length - 4] === this.#mark;
    if (isSwitch) {
      headers.length -= 4;
      contentLength = null;
      contentLengthCount = 0;
    }
    const verdict = judgeFraming(contentLength, contentLengthCount, transferEncoding, transferEncodingCount);
    const query = req.getQuery() as string | undefined;
    const head: RequestHead = {
      method: req.getCaseSensitiveMethod(),
      path,
      query: query ?? null,
      headers,
      framing: verdict.framing,
      content_length: verdict.content_length,
    };
    const refusal = verdict.refusal ?? restoreBytes(head, req);
    const stream = new HttpStream(res, head, this.#onGone);
    if (refusal !== null) {
      this.#refuse(stream, 400, refusal);
      return;
    }
    if (this.#isDraining) {
      this.#refuse(stream, 503, 'The server is shutting down');
      return;
    }
    stream.place = this.#streams.length;
    this.#streams.push(stream);
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

  /** Hands the stream over with its first bytes, or after a moment without any. */
  #awaitLength(res: HttpResponse, stream: HttpStream): void {
    stream.isAwaited = true;
    this.#awaitTimer ??= setTimeout(this.#endWait, FIRST_BYTES_WAIT_MS);
    res.onData((bytes, isLast) => {
      // An empty first call comes with the head when the body is still on its way.
      if (bytes.byteLength === 0 && !isLast) return;
      this.#takeBody(stream, bytes, isLast);
      this.#handOver(stream);
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

  /** Ends a request whose body cannot come to its end, with an answer where none has begun. */
  #breakOff(stream: HttpStream, status: number, message: string): void {
    if (stream.replied) stream.destroy();
    else this.#answer(stream, status, message, true);
  }

  /** Ends requests whose bodies come too slowly. */
  #holdPace({ bytes_per_sec, window_ms }: UploadPace): void {
    const now = performance.now();
    for (const stream of [...this.#streams]) {
      if (stream.bodyComplete || stream.is_switch) continue;
      const isLookedAt = stream.paceFrom > 0 && !stream.isBodyPaused;
      if (isLookedAt && now - stream.paceFrom < window_ms) continue;
      const came = stream.bodyBytes - stream.paceFromBytes;
      if (isLookedAt && came < (bytes_per_sec * (now - stream.paceFrom)) / 1_000) {
        socketEngine.countSlowUpload();
        this.#breakOff(stream, 408, TOO_SLOW);
        continue;
      }
      stream.paceFrom = now;
      stream.paceFromBytes = stream.bodyBytes;
    }
  }

  /** Those that have waited for up to this long, and perhaps not the whole of it, go without body bytes. */
  readonly #endWait = (): void => {
    this.#awaitTimer = null;
    for (const stream of [...this.#streams]) this.#handOver(stream);
  };

  #handOver(stream: HttpStream): void {
    if (!stream.isAwaited) return;
    stream.isAwaited = false;
    this.#options.onStream(stream);
  }

  /** Hands the stream over one tick of the loop after its first chunk, unless the parser has rejected it by then. */
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

  /** Answers a request that the library was not shown, and ends its connection. */
  #refuseUnread(res: HttpResponse, reason: number): void {
    const { status, words } = findRefusal(reason);
    this.#answer(new HttpStream(res, UNREAD_HEAD, this.#onGone), status, words, true);
  }

  #answer(stream: HttpStream, status: number, message: string, aborted = false): void {
    const body = this.#options.describeError(status, message);
    stream.reply(status, 'Content-Type: application/json\r\n', body, true, aborted);
  }

  #refuse(stream: HttpStream, status: 400 | 503, message: string): void {
    // The connection of a HEAD is closed at once.
    this.#isPoisoned = stream.head.method !== 'HEAD';
    setImmediate(() => {
      this.#isPoisoned = false;
    });
    this.#answer(stream, status, message);
  }

  /** A connection came (1) or went (-1). */
  readonly #onConnection = (_res: HttpResponse, change: { valueOf(): number }): void => {
    if (change.valueOf() < 0) this.#isPoisoned = false;
  };

  readonly #onGone = (stream: HttpStream): void => {
    if (stream.place >= 0) {
      const last = this.#streams.pop()!;
      if (last !== stream) {
        this.#streams[stream.place] = last;
        last.place = stream.place;
      }
      stream.place = -1;
    }
    stream.isAwaited = false;
    if (this.#streams.length === 0) this.#onIdle?.();
  };
}

/**
 * The native library shows bytes above 127 as UTF-8 text. This puts the bytes back, one a character.
 * @returns why the request must be refused: bytes that were not UTF-8 are lost by now, and forwarding others instead
 *   would not be transparent
 */
function restoreBytes(head: RequestHead, req: HttpRequest): string | null {
  if (NOT_ASCII.test(head.path)) {
    if (head.path.includes(REPLACEMENT)) return 'The path is not valid UTF-8';
    head.path = toBytes(head.path);
  }
  if (head.query !== null && NOT_ASCII.test(head.query)) {
    if (head.query.includes(REPLACEMENT)) return 'The query is not valid UTF-8';
    head.query = toBytes(head.query);
  }
  const headers = head.headers;
  for (let at = 1; at < headers.length; at += 2) {
    const value = headers[at]!;
    if (!NOT_ASCII.test(value)) continue;
    if (!value.includes(REPLACEMENT)) {
      headers[at] = toBytes(value);
      continue;
    }
    // Another accessor gives the bytes of the first line of that name.
    const name = headers[at - 1]!;
    if (headers.indexOf(name) !== at - 1) return `A repeated header (${name}) is not valid UTF-8`;
    headers[at] = req.getHeader(name);
  }
  return null;
}

function toBytes(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}
