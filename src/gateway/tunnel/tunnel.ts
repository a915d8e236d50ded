/**
 * One WebSocket connection: sends the client's handshake to the upstream and, if the upstream
 * accepts, passes bytes on unchanged in both directions. It parses no frames and waits only for the
 * slower side. Capture gets copies of the bytes. Server threads.
 */
import { type ClientRequest, type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import type { Duplex } from 'node:stream';
import { type EndCause, findEndCause } from '../../domain/end-cause.ts';
import { CatalogueError } from '../../errors.ts';
import type { HttpStream } from '../../http/http-stream.ts';
import { makeUpstreamFailure, replyError } from '../forward.ts';
import { type FilteredRequest, replaceHeaders } from '../headers.ts';
import type { Destination } from '../route-table.ts';

/**
 * Maximum bytes of the head of the upstream's answer to a WebSocket handshake, and of its body if the upstream refuses.
 */
const TUNNEL_HEAD_BYTES = 12 << 10;
const TUNNEL_REFUSAL_BYTES = 1 << 20;
/** The text for a client to which the upstream's refusal cannot be passed on. */
const UNSENT_REFUSAL = `The upstream refused the WebSocket, and its answer broke off or has over ${TUNNEL_REFUSAL_BYTES} bytes`;
/** How long the upstream may take to receive what a client sent before closing its side. */
const TUNNEL_LINGER_MS = 5_000;

/** Observes an open tunnel; its methods must be fast and must not throw. */
export interface TunnelTap {
  /**
   * The upstream has answered. With status 101 the tunnel is open. With any other status the upstream has refused, and
   * the body of its answer follows through `fromUpstream`.
   * @param headers flat pairs
   */
  open(status: number, headers: string[]): void;
  /** The upstream did not answer, and the client receives 502. */
  fail(cause: EndCause): void;
  fromClient(bytes: Buffer): void;
  fromUpstream(bytes: Buffer): void;
  /** The connection has closed. @param isAborted whether one side closed it abnormally */
  close(isAborted: boolean): void;
  /** The handshake was not sent to the upstream, so there is no exchange. Called instead of all other methods. */
  cancel(): void;
}

/**
 * Headers of the upstream's answer that are not forwarded, because they are hop-by-hop or the
 * listener writes them.
 */
const ANSWER_OWN = new Set(['date', 'content-length', 'transfer-encoding', 'keep-alive', 'proxy-connection']);

export class Tunnel {
  /** When bytes last passed, by `performance.now()`. */
  busy_at_ms = performance.now();
  readonly #stream: HttpStream;
  readonly #destination: Destination;
  readonly #filtered: FilteredRequest;
  #tap: TunnelTap | null;
  readonly #onOver: (tunnel: Tunnel) => void;
  #request: ClientRequest | null = null;
  #upstream: Duplex | null = null;
  /** Bytes that the client sent before the answer. */
  #early: Buffer[] = [];
  /** Whether bytes wait that the client does not read. */
  #isBlocked = false;
  /** Whether the upstream has ended, and its last bytes are on their way to the client. */
  #isEnding = false;
  #isOver = false;

  /**
   * @param onOver called once, when the client's side has closed; the upstream's side may take TUNNEL_LINGER_MS longer
   */
  constructor(
    stream: HttpStream,
    destination: Destination,
    filtered: FilteredRequest,
    tap: TunnelTap | null,
    onOver: (tunnel: Tunnel) => void,
  ) {
    this.#stream = stream;
    this.#destination = destination;
    this.#filtered = filtered;
    this.#tap = tap;
    this.#onOver = onOver;
  }

  start(): void {
    const stream = this.#stream;
    // A client should not send before the answer. If it does, the bytes wait, and its disconnection is not noticed.
    stream.events = {
      onBody: (chunk) => {
        if (chunk.length === 0) return;
        this.#early.push(chunk);
        stream.pauseBody();
      },
      onClosed: (aborted) => this.#finish(aborted),
    };
    const headers = this.#makeHeaders();
    if (headers === null) {
      this.#refuse();
      return;
    }
    const { upstream, path } = this.#destination;
    const { query } = stream.head;
    const { protocol, hostname, port } = new URL(upstream.origin);
    const options = {
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? null : Number(port),
      path: `${upstream.base_path}${path}${query === null ? '' : `?${query}`}`,
      headers,
      setHost: false,
      agent: false,
      maxHeaderSize: TUNNEL_HEAD_BYTES,
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: true,
      ...(upstream.trust !== undefined && { secureContext: upstream.trust }),
    };
    try {
      this.#request = protocol === 'https:' ? requestSecure(options) : requestPlain(options);
    } catch {
      this.#refuse();
      return;
    }
    this.#request.once('upgrade', (answer, socket, head) => this.#open(answer, socket, head));
    this.#request.once('response', (answer) => this.#relay(answer));
    this.#request.on('error', (error) => this.#fail(error));
    this.#request.end();
  }

  /** Ends both sides now. */
  cut(): void {
    this.#request?.destroy();
    this.#stream.destroy();
  }

  /** Refuses the handshake. Nothing has reached the upstream, so nothing is captured. */
  #refuse(): void {
    this.#tap?.cancel();
    this.#tap = null;
    replyError(
      this.#stream,
      new CatalogueError(
        'malformed_request',
        'The request cannot be forwarded: invalid path, query or header',
      ),
    );
  }

  /**
   * Makes the headers of the handshake for the upstream, as flat pairs; null when another parser could read
   * the client's headers differently.
   */
  #makeHeaders(): string[] | null {
    const { upstream, headers: added } = this.#destination;
    let { lines } = this.#filtered;
    if (lines === null) return null;
    if (added !== undefined) lines = replaceHeaders(lines, added);
    const pairs = ['host', upstream.host, 'connection', 'Upgrade', 'upgrade', 'websocket'];
    for (const line of lines.split('\r\n')) {
      if (line === '') continue;
      const colon = line.indexOf(': ');
      pairs.push(line.slice(0, colon), line.slice(colon + 2));
    }
    return pairs;
  }

  #open(answer: IncomingMessage, upstream: Duplex, head: Buffer): void {
    const stream = this.#stream;
    this.#upstream = upstream;
    upstream.on('error', () => {});
    if (stream.closed) {
      upstream.destroy();
      return;
    }
    const { rawHeaders } = answer;
    this.#tap?.open(101, rawHeaders);
    stream.events = {
      onBody: (chunk) => this.#passUp(chunk),
      onBlocked: () => {
        this.#isBlocked = true;
        upstream.pause();
      },
      onDrained: () => {
        this.#isBlocked = false;
        if (this.#isEnding) this.#stream.destroy();
        else upstream.resume();
      },
      onClosed: (aborted) => this.#finish(aborted),
    };
    stream.writeSwitch(toLines(rawHeaders));
    if (head.length > 0) this.#passDown(head);
    stream.resumeBody();
    for (const chunk of this.#early) this.#passUp(chunk);
    this.#early = [];
    upstream.on('data', (chunk: Buffer) => this.#passDown(chunk));
    upstream.on('drain', () => stream.resumeBody());
    upstream.on('close', () => this.#endDown());
    // Otherwise a 101 would be sent only together with the first byte after it.
    stream.flush();
  }

  #passUp(chunk: Buffer): void {
    this.busy_at_ms = performance.now();
    if (chunk.length === 0) return;
    if (this.#upstream?.write(chunk) === false) this.#stream.pauseBody();
    this.#tap?.fromClient(chunk);
  }

  #passDown(chunk: Buffer): void {
    this.busy_at_ms = performance.now();
    this.#stream.write(chunk);
    this.#stream.flush();
    this.#tap?.fromUpstream(chunk);
  }

  /**
   * Closes the client's side after the upstream has closed, once the client has received the bytes that
   * arrived.
   */
  #endDown(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    if (!this.#isBlocked) this.#stream.destroy();
  }

  /**
   * Passes on the answer of an upstream that refuses, and ends the connection. If the answer is incomplete or too long,
   * the client gets an error instead.
   */
  #relay(answer: IncomingMessage): void {
    const stream = this.#stream;
    this.#tap?.open(answer.statusCode!, answer.rawHeaders);
    const pieces: Buffer[] = [];
    let bytes = 0;
    answer.on('error', () => {});
    answer.on('data', (piece: Buffer) => {
      pieces.push(piece);
      bytes += piece.length;
      this.#tap?.fromUpstream(piece);
      if (bytes > TUNNEL_REFUSAL_BYTES) answer.destroy();
    });
    answer.on('close', () => {
      if (answer.complete && bytes <= TUNNEL_REFUSAL_BYTES)
        stream.reply(answer.statusCode!, toLines(answer.rawHeaders, HOP_OWN), Buffer.concat(pieces), true);
      else replyError(stream, new CatalogueError('upstream_failed', UNSENT_REFUSAL));
    });
  }

  #fail(error: NodeJS.ErrnoException): void {
    if (this.#upstream !== null || this.#stream.closed) return;
    const code = error.code ?? '';
    this.#tap?.fail(findEndCause(code));
    replyError(this.#stream, makeUpstreamFailure(code, error));
  }

  /**
   * Ends the tunnel after the client's side has closed. An upstream that accepted the handshake still gets
   * the client's last bytes, for at most TUNNEL_LINGER_MS.
   */
  #finish(aborted: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const upstream = this.#upstream;
    if (upstream === null) {
      this.#request?.destroy();
    } else if (!upstream.destroyed) {
      upstream.resume();
      upstream.end();
      setTimeout(() => upstream.destroy(), TUNNEL_LINGER_MS).unref();
    }
    this.#tap?.close(aborted && !this.#isEnding);
    this.#onOver(this);
  }
}

const HOP_OWN = new Set([...ANSWER_OWN, 'connection', 'upgrade']);

function toLines(rawHeaders: readonly string[], left: ReadonlySet<string> = ANSWER_OWN): string {
  let lines = '';
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (!left.has(rawHeaders[at]!.toLowerCase())) lines += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`;
  }
  return lines;
}
