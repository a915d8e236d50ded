/**
 * The proxy's listener: accepts only CONNECT. A tunnel to a configured host is decrypted and goes through the gateway.
 * Any other tunnel passes blind. Its host is not stored, and is logged only at the level debug. Proxy thread.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { ServerHttp2Session } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { findProxyHost, type ProxyHost } from '../domain/proxy-host.ts';
import { TUNNEL_IDLE_MS } from '../limits.ts';
import { createDeferred } from '../std/deferred.ts';
import { BlindTunnel, connectBlind, type Target } from './blind-tunnel.ts';
import { ClientConnections, PROXY_HEADS_MAX } from './client-connections.ts';
import { serveHttp2 } from './http2-tunnel.ts';
import type { LeafCertificates } from './leaf-certificates.ts';
import { type BlindReach, ReachableAddresses, UnreachableError } from './reachable-address.ts';
import { agreeWithClient, PROXY_HANDSHAKE_MS, passToGateway } from './terminated-tunnel.ts';
import type { TunnelCounts, TunnelRefusal } from './tunnel-counts.ts';

/** Maximum size of a CONNECT's head, and longest time for its arrival. */
const PROXY_HEAD_BYTES = 16 << 10;
const PROXY_HEAD_MS = 10_000;

interface ProxyServerOptions {
  host: string;
  port: number;
  hosts: readonly ProxyHost[];
  /** Keys, of which a client must send one. Empty: no key is required. Secret. */
  keys: readonly string[];
  blind: BlindReach;
  /** Other ports that this process listens on. */
  own_ports: readonly number[];
  tunnels_max: number;
  /** MAX_CONNECTIONS_PER_ADDRESS; null for the default. */
  by_address: number | null;
  leaves: LeafCertificates;
  counts: TunnelCounts;
  /**
   * Opens a route to a host for a tunnel.
   * @param over resolves when the tunnel no longer needs the route
   * @returns the port of the gateway's listener for the host; null if no listener can be opened now
   */
  openRoute(host: ProxyHost, target: Target, over: Promise<void>): Promise<number | null>;
  log: { debug(fields: object, words: string): void };
}

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n';
const KEEP_ALIVE_PROBE_MS = 60_000;
const WAY_IN =
  'This is a proxy for HTTPS_PROXY: it accepts only CONNECT. For plain http:// unset HTTP_PROXY, or name the host in NO_PROXY.\n';

/** The answer on a connection beyond the cap of its address. */
const TOO_MANY = 'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

/** The answer to a client that gets no tunnel. */
interface Refusal {
  status: string;
  why: TunnelRefusal;
  words: string;
  headers?: string;
}

const REFUSALS = {
  request: {
    status: '400 Bad Request',
    why: 'request',
    words: 'CONNECT needs a valid host:port, and no body',
  },
  credential: {
    status: '407 Proxy Authentication Required',
    why: 'credential',
    words: 'This proxy needs a valid key: http://any:KEY@host:port',
    headers: 'Proxy-Authenticate: Basic realm="understudy"\r\n',
  },
  address: { status: '403 Forbidden', why: 'address', words: 'This proxy does not allow that destination' },
  capacity: {
    status: '503 Service Unavailable',
    why: 'capacity',
    words: 'Too many tunnels; try again later',
  },
  unreachable: { status: '502 Bad Gateway', why: 'unreachable', words: 'The host cannot be reached' },
  late: { status: '504 Gateway Timeout', why: 'unreachable', words: 'The host did not answer in time' },
} as const satisfies Record<string, Refusal>;

export class ProxyServer {
  readonly #options: ProxyServerOptions;
  readonly #server: Server;
  readonly #keys: readonly Buffer[];
  readonly #clients: ClientConnections;
  readonly #blind = new Set<BlindTunnel>();
  readonly #sessions = new Set<ServerHttp2Session>();
  #addresses: ReachableAddresses | null = null;
  /** Number of tunnels that are open or being opened. */
  #taken = 0;
  #isDraining = false;

  constructor(options: ProxyServerOptions) {
    this.#options = options;
    this.#keys = options.keys.map(digest);
    this.#clients = new ClientConnections(options.by_address, options.counts);
    this.#server = createServer(
      {
        maxHeaderSize: PROXY_HEAD_BYTES,
        headersTimeout: PROXY_HEAD_MS,
        requestTimeout: PROXY_HEAD_MS,
        connectionsCheckingInterval: 1_000,
        insecureHTTPParser: false,
        noDelay: true,
        // With keep-alive, the proxy notices that a client's machine has disconnected.
        keepAlive: true,
        keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS,
      },
      (request, response) => this.#refusePlain(request, response),
    );
    // A second bound behind the caps of `ClientConnections`, because a dropped connection may take a moment to close.
    this.#server.maxConnections = options.tunnels_max + 2 * PROXY_HEADS_MAX;
    this.#server.on('connection', (socket: Socket) => {
      // No other code handles errors of the socket before a tunnel is open.
      socket.on('error', () => {});
      if (!this.#clients.add(socket)) socket.end(TOO_MANY, () => socket.destroy());
    });
    this.#server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      void this.#take(request, socket as Socket, head);
    });
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
      this.#onBadHead(error, socket as Socket);
    });
  }

  /** Begins to listen. @returns the port @throws Error when the address cannot be bound */
  async listen(): Promise<number> {
    const { host, port, own_ports, blind } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once('error', reject);
    this.#server.listen({ host, port, exclusive: true }, resolve);
    await promise;
    const ownPort = (this.#server.address() as AddressInfo).port;
    if (blind !== 'off') this.#addresses = new ReachableAddresses(blind, new Set([...own_ports, ownPort]));
    return ownPort;
  }

  /**
   * Accepts no more connections. Decrypted tunnels end with the gateway. Blind tunnels end when no bytes pass through
   * them.
   */
  drain(): void {
    this.#isDraining = true;
    this.#server.close();
    this.#server.closeIdleConnections();
    for (const session of this.#sessions) session.close();
    const look = () => {
      for (const tunnel of [...this.#blind]) if (!tunnel.isBusy(TUNNEL_IDLE_MS)) tunnel.cut();
    };
    setInterval(look, TUNNEL_IDLE_MS / 4).unref();
    look();
  }

  /** Resolves when no tunnel is open any more, or after the deadline. */
  async waitForTunnels(deadlineMs: number): Promise<void> {
    const until = performance.now() + deadlineMs;
    while (this.#taken > 0 && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, TUNNEL_IDLE_MS / 10));
  }

  /** Closes all connections and the listener. */
  close(): void {
    if (!this.#isDraining) this.drain();
    for (const session of this.#sessions) session.destroy();
    this.#clients.destroy();
    for (const tunnel of [...this.#blind]) tunnel.cut();
  }

  async #take(request: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
    client.setTimeout(0);
    const target = readTarget(request);
    if (target === null) return this.#refuse(client, REFUSALS.request);
    if (!this.#isKnown(request)) return this.#refuse(client, REFUSALS.credential);
    if (this.#isDraining || this.#taken >= this.#options.tunnels_max)
      return this.#refuse(client, REFUSALS.capacity);
    this.#taken++;
    this.#clients.giveTunnel(client);
    const over = createDeferred<void>();
    let isGivenBack = false;
    const giveBack = () => {
      if (!isGivenBack) this.#taken--;
      isGivenBack = true;
      over.resolve();
    };
    const named = findProxyHost(this.#options.hosts, target.host, target.port);
    try {
      if (named === undefined) await this.#takeBlind(target, client, head, giveBack);
      else await this.#takeNamed(named, target, client, head, { over: over.promise, giveBack });
    } catch {
      client.destroy();
      giveBack();
    }
  }

  async #takeBlind(target: Target, client: Socket, head: Buffer, giveBack: () => void): Promise<void> {
    if (this.#addresses === null) {
      giveBack();
      return this.#refuse(client, REFUSALS.address);
    }
    const givingUp = new AbortController();
    const onGone = () => givingUp.abort(new Error('the client went away'));
    client.once('close', onGone);
    let socket: Socket;
    try {
      socket = await connectBlind(target, this.#addresses, givingUp.signal);
    } catch (thrown) {
      giveBack();
      if (thrown instanceof UnreachableError) return this.#refuse(client, REFUSALS.address);
      const { code } = thrown as NodeJS.ErrnoException;
      return this.#refuse(client, code === 'ETIMEDOUT' ? REFUSALS.late : REFUSALS.unreachable, code);
    } finally {
      client.off('close', onGone);
    }
    if (client.destroyed) {
      socket.destroy();
      giveBack();
      return;
    }
    const { counts, log } = this.#options;
    counts.begin('blind');
    log.debug({ host: target.host, port: target.port }, 'a blind tunnel is open');
    client.write(ESTABLISHED);
    if (head.length > 0) client.unshift(head);
    const tunnel = new BlindTunnel(client, socket, () => {
      this.#blind.delete(tunnel);
      counts.end('blind');
      giveBack();
    });
    this.#blind.add(tunnel);
  }

  async #takeNamed(
    named: ProxyHost,
    target: Target,
    client: Socket,
    head: Buffer,
    { over, giveBack }: { over: Promise<void>; giveBack: () => void },
  ): Promise<void> {
    const { leaves, counts, openRoute, log } = this.#options;
    const late = new Promise<null>((resolve) => setTimeout(resolve, PROXY_HANDSHAKE_MS, null).unref());
    // A gateway that is ending never answers, so the wait has a time limit.
    const route = Promise.race([openRoute(named, target, over), late]);
    const [port, context] = await Promise.all([route, leaves.get(target.host)]);
    if (port === null) {
      giveBack();
      return this.#refuse(client, REFUSALS.capacity);
    }
    client.write(ESTABLISHED);
    // Put back the bytes that the client has sent before it got an answer: the TLS handshake reads them.
    if (head.length > 0) client.unshift(head);
    const agreed = await agreeWithClient(client, target.host, context).catch((thrown: Error) => {
      counts.refuse('handshake');
      log.debug({ host: target.host, reason: thrown.message }, 'a TLS handshake with a client failed');
      return null;
    });
    if (agreed === null) return giveBack();
    counts.begin('terminated');
    const onOver = () => {
      counts.end('terminated');
      giveBack();
    };
    if (agreed.protocol === 'http/1.1') {
      passToGateway(agreed.socket, port, onOver);
      return;
    }
    const authority = target.port === 443 ? target.host : `${target.host}:${target.port}`;
    const session = serveHttp2(agreed.socket, authority, port, () => {
      this.#sessions.delete(session);
      onOver();
    });
    this.#sessions.add(session);
    if (this.#isDraining) session.close();
  }

  #isKnown(request: IncomingMessage): boolean {
    if (this.#keys.length === 0) return true;
    const [scheme = '', value = ''] = (request.headers['proxy-authorization'] ?? '').split(' ');
    let shown = value;
    if (scheme.toLowerCase() === 'basic') {
      const text = Buffer.from(value, 'base64').toString();
      shown = text.slice(text.indexOf(':') + 1);
    } else if (scheme.toLowerCase() !== 'bearer') return false;
    const shownDigest = digest(shown);
    // All keys are compared, so that the duration does not reveal how close a guess is.
    return this.#keys.filter((key) => timingSafeEqual(key, shownDigest)).length > 0;
  }

  #refuse(client: Socket, refusal: Refusal, code?: string): void {
    this.#options.counts.refuse(refusal.why);
    if (client.destroyed) return;
    const known = code !== undefined && /^E[A-Z]+$/.test(code) ? ` (${code})` : '';
    answer(client, refusal.status, `${refusal.words}${known}\n`, refusal.headers);
  }

  #refusePlain(request: IncomingMessage, response: ServerResponse): void {
    this.#options.counts.refuse('request');
    const isAbsolute = /^[a-z][a-z\d+.-]*:\/\//i.test(request.url ?? '');
    response.writeHead(isAbsolute ? 501 : 400, { 'content-type': 'text/plain', connection: 'close' });
    response.end(WAY_IN);
  }

  #onBadHead(error: NodeJS.ErrnoException, socket: Socket): void {
    if (socket.destroyed || !socket.writable) {
      socket.destroy();
      return;
    }
    this.#options.counts.refuse('request');
    const { code } = error;
    if (code === 'HPE_HEADER_OVERFLOW')
      answer(socket, '431 Request Header Fields Too Large', 'The head is too large\n');
    else if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
      answer(socket, '408 Request Timeout', 'The head came too slowly\n');
    else answer(socket, '400 Bad Request', 'The request is malformed\n');
  }
}

/**
 * Answers the client and ends the connection. Further bytes of the client are read, so that the client receives the
 * answer.
 */
function answer(client: Socket, status: string, words: string, headers = ''): void {
  const length = Buffer.byteLength(words);
  client.end(
    `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${length}\r\n${headers}Connection: close\r\n\r\n${words}`,
  );
  client.resume();
  // The connection is closed after this time, even if the client still sends.
  setTimeout(() => client.destroy(), PROXY_HEAD_MS).unref();
}

/** Reads the destination of a CONNECT; null for a request without host and port, or with a body, which CONNECT cannot have. */
function readTarget({ url = '', headers }: IncomingMessage): Target | null {
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) return null;
  const [, inBrackets, name, digits = ''] =
    /^(?:\[([\da-f:.]{2,45})\]|([^[\]:/?#@\s]{1,254})):(\d{1,5})$/i.exec(url) ?? [];
  const port = Number(digits);
  if (port < 1 || port > 65_535) return null;
  if (inBrackets !== undefined)
    return isIP(inBrackets) === 6 ? { host: inBrackets.toLowerCase(), port } : null;
  const host = name!.toLowerCase().replace(/\.$/, '');
  // Other forms of an address (0x7f.1, 2130706433) are refused, because some systems would accept them as addresses.
  const isName = /^[a-z\d_-]{1,63}(\.[a-z\d_-]{1,63})*$/.test(host) && !/(^|\.)(\d+|0x[\da-f]*)$/.test(host);
  return isName || isIP(host) === 4 ? { host, port } : null;
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
