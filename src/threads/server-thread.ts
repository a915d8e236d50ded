/**
 * One server thread: the listeners of the API and the gateway, with all their parts. Part of the composition root. The
 * main thread is one server thread. With SERVER_THREADS above 1 there are additional server threads
 * (server-thread-entry.ts), which listen on the same ports. Server threads.
 */
import type { MessagePort } from 'node:worker_threads';
import type { MetricsData } from '../api/metrics.ts';
import type { ThreadCapture } from '../gateway/capture/capture-control.ts';
import type { CaptureCounters } from '../gateway/capture/capture-queue.ts';
import type { RelegationCounters } from '../gateway/relegation/relegation-ledger.ts';
import type { ProxiedRoute } from '../gateway/route-table.ts';
import type { ComputeTask } from '../runtime/actor-thread.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';
import { ApiServer, type ApiServices } from './api-server.ts';
import { GatewayServer, type GatewayServices } from './gateway-server.ts';

/** Which listeners a process has. */
export interface Parts {
  api: boolean;
  gateway: boolean;
}

export interface ServerThreadServices
  extends GatewayServices,
    Pick<ApiServices, 'captures' | 'probes' | 'asker' | 'shared' | 'renderMetrics'> {
  parts: Parts;
  /** null without an API. */
  compute: ComputeTask | null;
}

export class ServerThread implements ThreadCapture {
  readonly #gateway: GatewayServer | null;
  readonly #api: ApiServer | null;

  /**
   * Starts the listeners of this thread.
   * @throws Error if an address cannot be bound; then nothing listens
   */
  static async start(services: ServerThreadServices): Promise<ServerThread> {
    const { parts, writer, admin } = services;
    const gateway = parts.gateway ? await GatewayServer.start(services) : null;
    if (!parts.api) return new ServerThread(gateway, null);
    try {
      const api = await ApiServer.start({
        ...services,
        capture: writer === null ? null : admin,
        stats: parts.gateway ? () => admin.stats() : null,
        compute: services.compute!,
        gateway_port: gateway?.port ?? null,
      });
      return new ServerThread(gateway, api);
    } catch (thrown) {
      await gateway?.drain(0);
      await gateway?.close(Number.NEGATIVE_INFINITY);
      throw thrown;
    }
  }

  private constructor(gateway: GatewayServer | null, api: ApiServer | null) {
    this.#gateway = gateway;
    this.#api = api;
  }

  /** URL of the API without a trailing slash; null if the API was not requested. */
  get api_url(): string | null {
    return this.#api?.url ?? null;
  }

  get gateway_url(): string | null {
    return this.#gateway?.url ?? null;
  }

  async counters(): Promise<CaptureCounters | null> {
    return this.#gateway?.captureCounters() ?? null;
  }

  async relegation(): Promise<RelegationCounters | null> {
    return this.#gateway?.relegationCounters() ?? null;
  }

  /**
   * Listens for decrypted requests of the proxy to one host.
   * @returns the port, on loopback
   * @throws Error if this thread has no gateway
   */
  async openRoute(route: ProxiedRoute): Promise<number> {
    if (this.#gateway === null) throw new Error('there is no gateway here');
    return this.#gateway.openRoute(route);
  }

  /** Closes the listener for a host that has no tunnel any more. */
  async closeRoute(authority: string): Promise<void> {
    await this.#gateway?.closeRoute(authority);
  }

  /** Attaches the port of a new student. Without a gateway, closes the port. */
  attachStudent(port: MessagePort, facts: StudentFacts): void {
    if (this.#gateway === null) port.close();
    else this.#gateway.attachStudent(port, facts);
  }

  /**
   * Records that there is no student now.
   * @param isExpected whether a student is being loaded
   */
  withdrawStudent(isExpected: boolean): void {
    this.#gateway?.withdrawStudent(isExpected);
  }

  /** This thread's counts, for the sum over all threads; [] without an API. */
  async metrics(): Promise<MetricsData> {
    return (await this.#api?.metrics()) ?? [];
  }

  async settle(deadlineMs: number): Promise<void> {
    await this.#gateway?.settle(deadlineMs);
  }

  async kill(): Promise<void> {
    this.#gateway?.kill();
  }

  /** Does unfinished work in the background. One server thread does this for the process. */
  tend(): void {
    this.#api?.tend();
  }

  /** Finishes the current requests, and passes captured exchanges to the writer. */
  async stop(): Promise<void> {
    const begunAt = performance.now();
    await Promise.all([this.#gateway?.drain(), this.#api?.drain()]);
    await this.#gateway?.close(begunAt);
    await this.#api?.close();
  }
}
