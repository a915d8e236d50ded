/**
 * The gateway of one server thread: its listener, the queue of captured exchanges, and the connection to the student.
 * Part of the composition root; each of the server threads has one instance.
 */
import type { MessagePort } from 'node:worker_threads';
import type { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import type { ApiLog } from '../api/api.ts';
import type { Config } from '../config.ts';
import { errorOfStatus, toMessagesBody } from '../errors.ts';
import { ArrivalCounter } from '../gateway/capture/arrival-counter.ts';
import type { CaptureAdmin } from '../gateway/capture/capture-control.ts';
import { type CaptureCounters, CaptureQueue, type LeftAtStop } from '../gateway/capture/capture-queue.ts';
import { DropReport } from '../gateway/capture/drop-report.ts';
import { QueuePlaces } from '../gateway/capture/queue-places.ts';
import { Gateway } from '../gateway/gateway.ts';
import { Relegation } from '../gateway/relegation/relegation.ts';
import type { RelegationCounters } from '../gateway/relegation/relegation-ledger.ts';
import { StudentLink } from '../gateway/relegation/student-link.ts';
import type { ProxiedRoute } from '../gateway/route-table.ts';
import type { HttpServer, ServerOptions } from '../http/http-server.ts';
import { startServer } from '../http/server.ts';
import { DRAIN_DEADLINE_MS } from '../limits.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import { paceOf, tlsOf, urlOf } from './listening.ts';

/** Minimum time that the capture writer gets after the drain for its last flush and its end. */
export const CAPTURE_STOP_MS = 5_000;

/** The services that a gateway gets from its thread. */
export interface GatewayServices {
  config: Config;
  /** null: nothing is captured. */
  writer: CaptureWriterClient | null;
  /** Orders captured exchanges across server threads. */
  arrivals: SharedArrayBuffer;
  /** Memory of `QueuePlaces`, shared by all server threads. */
  queue_places: SharedArrayBuffer;
  /** Answers for all server threads together. */
  admin: CaptureAdmin;
  log: ApiLog;
}

export class GatewayServer {
  /** Without a trailing slash. */
  readonly url: string;
  readonly port: number;
  readonly #server: HttpServer;
  readonly #gateway: Gateway;
  readonly #queue: CaptureQueue | null;
  readonly #relegation: Relegation | null;
  readonly #log: ApiLog;
  readonly #config: Config;
  /** Listeners for decrypted requests of the proxy, by target host. */
  readonly #routes = new Map<string, Promise<HttpServer>>();
  /** Listeners in {@link closeRoute}. */
  readonly #closing = new Set<Promise<void>>();
  #isDraining = false;

  /**
   * Starts the gateway and its listener.
   * @throws Error if the address cannot be bound; then nothing listens
   */
  static async start({
    config,
    writer,
    arrivals,
    queue_places,
    admin,
    log,
  }: GatewayServices): Promise<GatewayServer> {
    const queue = writer === null ? null : openQueue(config, writer, { arrivals, queue_places }, log);
    const relegation =
      config.relegation === null
        ? null
        : new Relegation(
            config.relegation.mode,
            new StudentLink(config.relegation.timeout_ms),
            config.relegation.client_keys,
            config.relegation_wires,
            config.capture.run_headers,
          );
    const gateway = new Gateway({
      bases: config.gateway,
      note: config.capture.note,
      capture: queue,
      admin,
      relegation,
      allowed_hosts: config.allowed_hosts,
      upstream_ca: config.gateway.upstream_ca,
    });
    try {
      const server = await listen(config, gateway, log);
      const url = urlOf(server, config.gateway.tls);
      return new GatewayServer({ server, url, gateway, queue, relegation, log, config });
    } catch (thrown) {
      await gateway.close();
      throw thrown;
    }
  }

  private constructor(parts: {
    server: HttpServer;
    url: string;
    gateway: Gateway;
    queue: CaptureQueue | null;
    relegation: Relegation | null;
    log: ApiLog;
    config: Config;
  }) {
    this.#server = parts.server;
    this.#gateway = parts.gateway;
    this.#queue = parts.queue;
    this.#relegation = parts.relegation;
    this.#log = parts.log;
    this.#config = parts.config;
    this.url = parts.url;
    this.port = parts.server.port;
  }

  /** Returns this thread's counts of captured exchanges; null: nothing is captured. */
  captureCounters(): CaptureCounters | null {
    return this.#queue?.counters() ?? null;
  }

  /** Returns this thread's counts of relegated steps; null: relegation is off. */
  relegationCounters(): RelegationCounters | null {
    return this.#relegation?.ledger.counters() ?? null;
  }

  /** Attaches the port of a new student. Without relegation, closes the port. */
  attachStudent(port: MessagePort, facts: StudentFacts): void {
    if (this.#relegation === null) port.close();
    else this.#relegation.link.attach(port, facts);
  }

  /**
   * Records that there is no student now.
   * @param isExpected whether a student is being loaded
   */
  withdrawStudent(isExpected: boolean): void {
    this.#relegation?.link.withdraw(isExpected);
  }

  /**
   * Waits until the queued exchanges are stored.
   * @param deadlineMs longest wait
   */
  async settle(deadlineMs: number): Promise<void> {
    await this.#queue?.settle(deadlineMs);
  }

  /** Stops capturing. */
  kill(): void {
    this.#queue?.kill();
  }

  /**
   * Listens on loopback for decrypted requests of the proxy to one host. Another local process that connects to this
   * port reaches the host with its own keys, as it could through the gateway's port.
   * @returns the port, the same for every call with this host
   * @throws Error while the gateway is being drained, or if the listener cannot be opened
   */
  async openRoute(route: ProxiedRoute): Promise<number> {
    if (this.#isDraining) throw new Error('the gateway is being drained');
    const known = this.#routes.get(route.authority);
    const server = known ?? startServer(describeListener(this.#config, this.#gateway.handlerOf(route)));
    this.#routes.set(route.authority, server);
    if (known === undefined)
      server.catch(() => {
        if (this.#routes.get(route.authority) === server) this.#routes.delete(route.authority);
      });
    return (await server).port;
  }

  /** Closes the listener for a host that has no tunnel any more. Requests in progress end first. */
  async closeRoute(authority: string): Promise<void> {
    const server = this.#routes.get(authority);
    if (server === undefined) return;
    this.#routes.delete(authority);
    const closing = server.then((opened) => opened.drain(DRAIN_DEADLINE_MS)).catch(() => {});
    this.#closing.add(closing);
    await closing;
    this.#closing.delete(closing);
  }

  /** Ends the tunnels, stops accepting requests, and waits for the requests in progress until the deadline. */
  async drain(deadlineMs: number = DRAIN_DEADLINE_MS): Promise<void> {
    this.#isDraining = true;
    this.#gateway.endTunnels();
    const routes = await Promise.allSettled(this.#routes.values());
    const servers = routes.flatMap((route) => (route.status === 'fulfilled' ? [route.value] : []));
    const drains = [this.#server, ...servers].map((server) => server.drain(deadlineMs));
    await Promise.all([...drains, ...this.#closing]);
  }

  /**
   * Closes the gateway after the drain, and passes captured exchanges to the writer. Exchanges that the
   * writer does not take in time are dropped, and the log says how many.
   * @param begunAt when the drain began, by `performance.now()`. The writer gets the rest of
   * DRAIN_DEADLINE_MS, and at least CAPTURE_STOP_MS
   */
  async close(begunAt: number): Promise<void> {
    this.#relegation?.link.close();
    await this.#gateway.close();
    const patienceMs = Math.max(CAPTURE_STOP_MS, DRAIN_DEADLINE_MS - (performance.now() - begunAt));
    const left = (await this.#queue?.end(patienceMs)) ?? null;
    if (left !== null) this.#log.error(left, describeLeft(left));
  }
}

/**
 * Opens the queue for the writer. The limit on exchanges applies to all threads together; the limit on bytes is this
 * thread's share.
 */
function openQueue(
  config: Config,
  writer: CaptureWriterClient,
  { arrivals, queue_places }: Pick<GatewayServices, 'arrivals' | 'queue_places'>,
  log: ApiLog,
): CaptureQueue {
  const share = (total: number) => Math.floor(total / config.server_threads);
  const drops = new DropReport(log);
  const queue = new CaptureQueue(writer, {
    max_queue: config.capture.max_queue,
    places: new QueuePlaces(config.capture.max_queue, queue_places),
    max_queue_bytes: share(config.capture.max_queue_bytes),
    max_capture_bytes: config.capture.max_capture_bytes,
    arrivals: new ArrivalCounter(arrivals),
    onDrop: (cause, exchanges) => drops.tell(cause, exchanges),
  });
  writer.onReturn(() => queue.retryNow());
  return queue;
}

function listen(config: Config, gateway: Gateway, log: ApiLog): Promise<HttpServer> {
  return startServer({
    ...describeListener(config, gateway.onStream),
    host: config.gateway.host,
    port: config.gateway.port,
    isShared: config.server_threads > 1,
    ...tlsOf(config.gateway.tls, log),
  });
}

/** Makes the options of a listener on loopback, at any free port, without TLS. */
function describeListener(config: Config, onStream: ServerOptions['onStream']): ServerOptions {
  return {
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    ...paceOf(config),
    switches_protocols: true,
    onStream,
    describeError: (status, message) => JSON.stringify(toMessagesBody(errorOfStatus(status, message))),
  };
}

/** Describes the exchanges that were not stored, as a line for the log. */
function describeLeft({ exchanges, may_be_stored, reason }: LeftAtStop): string {
  const some = may_be_stored === 0 ? '' : `; the writer has ${may_be_stored} of them and may store them yet`;
  return `${exchanges} exchanges were not stored before the process ended${some}: ${reason}`;
}
