/**
 * Controls the proxy thread: starts it, connects its tunnels to the gateway, and restarts it after an unexpected end.
 * Part of the composition root; main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { DRAIN_DEADLINE_MS } from '../limits.ts';
import type { TunnelCounts } from '../proxy/tunnel-counts.ts';
import { OwnThread } from '../std/own-thread.ts';
import { ProxyRoutes, type RoutedServer } from './proxy-routes.ts';
import type { ProxyControl, ProxyServices, ProxyTask } from './proxy-thread-entry.ts';

/** V8 heap of the thread. Forwarded bytes are outside the heap. */
const PROXY_HEAP_MB = 256;
/** Delay before the thread restarts. It doubles from the first value to the last. */
const PROXY_RESTART_MS = { first: 200, last: 30_000 } as const;

export interface ProxyThreadOptions extends Omit<ProxyTask, 'control' | 'services' | 'counts'> {
  /** Module that runs a {@link ProxyTask} in its own thread. */
  entry: URL;
  counts: TunnelCounts;
  /** All server threads. Tunnels are spread over them. */
  servers: readonly RoutedServer[];
  log: { error(fields: object, words: string): void };
}

/**
 * How long tunnels may continue after the gateway's drain, so that clients receive the last bytes
 * of answers.
 */
const LAST_BYTES_MS = 1_000;

/** One life of the thread. */
interface Seat {
  control: Comlink.Remote<ProxyControl>;
  /** Why the thread exited; never rejects. */
  ended: Promise<string>;
}

export class ProxyThread {
  readonly #options: ProxyThreadOptions;
  readonly #routes: ProxyRoutes;
  #seat: Seat | null = null;
  #restart: NodeJS.Timeout | null = null;
  #restartMs: number = PROXY_RESTART_MS.first;
  #drainedAt: number | null = null;
  #port = 0;

  constructor(options: ProxyThreadOptions) {
    this.#options = options;
    this.#routes = new ProxyRoutes(options.servers);
  }

  /** The proxy's address without a trailing slash, for HTTPS_PROXY of clients. */
  get url(): string {
    const { host } = this.#options;
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.#port}`;
  }

  /**
   * Starts the thread, and waits until it listens.
   * @throws Error if the address cannot be bound, or the authority cannot be opened
   */
  async start(): Promise<void> {
    this.#port = await this.#listen(this.#options.port);
  }

  /** Stops accepting connections. */
  async drain(): Promise<void> {
    this.#drainedAt = performance.now();
    if (this.#restart !== null) clearTimeout(this.#restart);
    const seat = this.#seat;
    if (seat !== null) await Promise.race([seat.control.drain(), seat.ended]).catch(() => {});
  }

  /** Ends the thread, after the gateway's drain. */
  async stop(): Promise<void> {
    if (this.#drainedAt === null) await this.drain();
    const seat = this.#seat;
    const left = Math.max(DRAIN_DEADLINE_MS - (performance.now() - this.#drainedAt!), LAST_BYTES_MS);
    // The port closes right after the answer, so the answer may be lost. So also stop waiting when
    // the thread has ended.
    if (seat !== null) await Promise.race([seat.control.stop(left).catch(() => {}), seat.ended]);
    await seat?.ended;
  }

  async #listen(port: number): Promise<number> {
    const control = new MessageChannel();
    const services = new MessageChannel();
    const { entry, servers: _servers, log: _log, counts, ...rest } = this.#options;
    const task: ProxyTask = {
      ...rest,
      port,
      counts: counts.memory,
      control: control.port2,
      services: services.port2,
    };
    const remote: ProxyServices = {
      openRoute: (authority, provider) => this.#routes.take({ authority, provider }),
      leaveRoute: (authority) => this.#routes.leave(authority),
    };
    Comlink.expose(remote, nodeEndpoint(services.port1));
    const thread = new OwnThread(entry, task, {
      transfer: [control.port2, services.port2],
      heap_mb: PROXY_HEAP_MB,
    });
    const ended = thread.ended
      .then(
        () => 'stopped',
        (thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown)),
      )
      .finally(() => {
        control.port1.close();
        services.port1.close();
      });
    const seat: Seat = { control: Comlink.wrap<ProxyControl>(nodeEndpoint(control.port1)), ended };
    this.#seat = seat;
    const failed = ended.then((reason): never => {
      throw new Error(`the proxy thread ended: ${reason}`);
    });
    failed.catch(() => {});
    try {
      const bound = await Promise.race([seat.control.listen(), failed]);
      void ended.then((reason) => this.#onEnded(seat, reason));
      return bound;
    } catch (thrown) {
      await Promise.race([seat.control.stop(0).catch(() => {}), ended]);
      this.#seat = null;
      throw thrown;
    }
  }

  /**
   * Restarts the thread after an unexpected end, which a client may have caused. The gateway
   * continues meanwhile.
   */
  #onEnded(seat: Seat, reason: string): void {
    if (this.#seat !== seat) return;
    this.#seat = null;
    this.#options.counts.forgetOpen();
    this.#routes.leaveAll();
    if (this.#drainedAt !== null) return;
    this.#options.log.error({ reason }, 'the proxy thread ended; it is started again');
    this.#startLater();
  }

  #startLater(): void {
    this.#restart = setTimeout(() => {
      this.#listen(this.#port).then(
        () => {
          this.#restartMs = PROXY_RESTART_MS.first;
        },
        () => {
          if (this.#drainedAt === null) this.#startLater();
        },
      );
    }, this.#restartMs).unref();
    this.#restartMs = Math.min(this.#restartMs * 2, PROXY_RESTART_MS.last);
  }
}
