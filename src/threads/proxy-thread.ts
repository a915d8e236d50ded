/**
 * The proxy thread from the outside: starts it, gives its tunnels their ways into the gateway, starts it again when it
 * ends by itself. Part of the composition root; main thread.
 */
import { MessageChannel } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import type { ProxiedRoute } from '../gateway/route-table.ts';
import { DRAIN_DEADLINE_MS, PROXY_HEAP_MB, PROXY_RESTART_MS, PROXY_ROUTES_MAX } from '../limits.ts';
import type { TunnelCounts } from '../proxy/tunnel-counts.ts';
import { endPool } from '../std/loading-threads.ts';
import type { ProxyControl, ProxyServices, ProxyTask } from './proxy-thread-entry.ts';

/** A server thread as far as the proxy knows it. */
export interface RoutedServer {
  openRoute(route: ProxiedRoute): Promise<number>;
}

export interface ProxyThreadOptions extends Omit<ProxyTask, 'control' | 'services' | 'counts'> {
  /** Module whose default export runs a {@link ProxyTask}. */
  entry: URL;
  counts: TunnelCounts;
  /** Every server thread; each takes its share of the tunnels. */
  servers: readonly RoutedServer[];
  log: { error(fields: object, words: string): void };
}

/** What is left of answers is on its way to clients when the gateway is done with them. */
const LAST_BYTES_MS = 1_000;

/** One run of the thread. */
interface Seat {
  control: Comlink.Remote<ProxyControl>;
  /** Settles when the thread is done with it, whatever the reason; never rejects. */
  ended: Promise<string>;
}

export class ProxyThread {
  readonly #options: ProxyThreadOptions;
  readonly #pool: Piscina;
  /** Ports by host, one of each server thread. */
  readonly #routes = new Map<string, Promise<number[]>>();
  #next = 0;
  #seat: Seat | null = null;
  #restart: NodeJS.Timeout | null = null;
  #restartMs: number = PROXY_RESTART_MS.first;
  #drainedAt: number | null = null;
  #port = 0;

  constructor(options: ProxyThreadOptions) {
    this.#options = options;
    this.#pool = new Piscina({
      filename: options.entry.href,
      minThreads: 0,
      maxThreads: 1,
      concurrentTasksPerWorker: 1,
      idleTimeout: 0,
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: PROXY_HEAP_MB },
    });
    // A thread's end is told to its seat; without a listener piscina's event would end the process.
    this.#pool.on('error', () => {});
  }

  /** Where it listens, without a trailing slash; what clients set HTTPS_PROXY to. */
  get url(): string {
    const { host } = this.#options;
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.#port}`;
  }

  /**
   * @returns once it listens
   * @throws Error when the address cannot be bound, or the authority not be opened
   */
  async start(): Promise<void> {
    this.#port = await this.#listen(this.#options.port);
  }

  /** Takes no more connections. */
  async drain(): Promise<void> {
    this.#drainedAt = performance.now();
    if (this.#restart !== null) clearTimeout(this.#restart);
    const seat = this.#seat;
    if (seat !== null) await Promise.race([seat.control.drain(), seat.ended]).catch(() => {});
  }

  /** Ends it, when the gateway is drained. */
  async stop(): Promise<void> {
    if (this.#drainedAt === null) await this.drain();
    const seat = this.#seat;
    const left = Math.max(DRAIN_DEADLINE_MS - (performance.now() - this.#drainedAt!), LAST_BYTES_MS);
    // The answer may be lost with the port that closes behind it; the end of the task is answer enough.
    if (seat !== null) await Promise.race([seat.control.stop(left).catch(() => {}), seat.ended]);
    await seat?.ended;
    await endPool(this.#pool);
  }

  async #listen(port: number): Promise<number> {
    const control = new MessageChannel();
    const services = new MessageChannel();
    const { entry: _entry, servers: _servers, log: _log, counts, ...rest } = this.#options;
    const task: ProxyTask = {
      ...rest,
      port,
      counts: counts.memory,
      control: control.port2,
      services: services.port2,
    };
    const remote: ProxyServices = {
      openRoute: (authority, provider) => this.#openRoute({ authority, provider }),
    };
    Comlink.expose(remote, nodeEndpoint(services.port1));
    const run = this.#pool.run(task, { transferList: [control.port2, services.port2] }) as Promise<void>;
    const ended = run
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

  /** Whatever its clients did to it, the gateway goes on. */
  #onEnded(seat: Seat, reason: string): void {
    if (this.#seat !== seat) return;
    this.#seat = null;
    this.#options.counts.forgetOpen();
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

  /** Of the server threads' ports for the host, each in its turn; null for one host too many. */
  async #openRoute(route: ProxiedRoute): Promise<number | null> {
    const { servers } = this.#options;
    let ports = this.#routes.get(route.authority);
    if (ports === undefined) {
      if (this.#routes.size >= PROXY_ROUTES_MAX) return null;
      ports = Promise.all(servers.map((server) => server.openRoute(route)));
      this.#routes.set(route.authority, ports);
      ports.catch(() => this.#routes.delete(route.authority));
    }
    this.#next = (this.#next + 1) % servers.length;
    return ports.then(
      (found) => found[this.#next % found.length]!,
      () => null,
    );
  }
}
