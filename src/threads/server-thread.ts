/**
 * One server: the listeners of the API and the gateway with everything that serves them on the same thread — upstream
 * pools, capture queue. Part of the composition root. The main thread runs one; with FRONT_THREADS above 1 further
 * threads run one each (server-thread-entry.ts), all listening on the same ports.
 */
import { availableParallelism } from 'node:os';
import type { MessagePort } from 'node:worker_threads';
import type { CaptureWriterClient } from '../../actors/capture-writer/client.ts';
import { DistillerClient } from '../../actors/distiller/client.ts';
import { FindingsClient } from '../../actors/findings-index/client.ts';
import { LiveHubReader, type SubscribingAsker } from '../../actors/live-hub/client.ts';
import { PatternIndexClient } from '../../actors/pattern-index/client.ts';
import { type ApiLog, createApi } from '../api/api.ts';
import { createChecks, type SharedMemory } from '../api/checks.ts';
import type { ControlPlane } from '../api/control-plane.ts';
import type { FindingsServices } from '../api/findings.ts';
import { FindingsEmbedding } from '../api/findings-embedding.ts';
import type { ReadinessProbes } from '../api/health.ts';
import { LiveReaders } from '../api/live-readers.ts';
import { ApiMetrics, type MetricsData } from '../api/metrics.ts';
import { Revocations } from '../auth/revocations.ts';
import { StripeProcessor, StripeWebhooks } from '../billing/stripe.ts';
import { type Config, ConfigError, isLoopback, toLocalUrl } from '../config.ts';
import { USAGE } from '../domain/usage.ts';
import { errorOfStatus, toApiBody, toMessagesBody } from '../errors.ts';
import type { CaptureAdmin } from '../gateway/admin.ts';
import type { ThreadCapture } from '../gateway/capture/capture-control.ts';
import { type CaptureCounters, CaptureQueue, type LeftAtStop } from '../gateway/capture/capture-queue.ts';
import { DropReport } from '../gateway/capture/drop-report.ts';
import { Gateway } from '../gateway/gateway.ts';
import { Relegation } from '../gateway/relegation/relegation.ts';
import type { RelegationCounters } from '../gateway/relegation/relegation-ledger.ts';
import { StudentLink } from '../gateway/relegation/student-link.ts';
import { AllowedHosts } from '../http/allowed-hosts.ts';
import { serveApi } from '../http/api-listener.ts';
import { BusyPoll } from '../http/busy-poll.ts';
import { type HttpServer, type ServerOptions, startServer } from '../http/server.ts';
import {
  CAPTURE_STOP_MS,
  COMPUTE_THREADS,
  DRAIN_DEADLINE_MS,
  RESUME_TRACES_MS,
  UPLOAD_PACE_WINDOW_MS,
} from '../limits.ts';
import type { ActorClient } from '../runtime/actor-client.ts';
import type { ComputeTask } from '../runtime/actor-thread.ts';
import type { Embedder } from '../search/embedder.ts';
import { openEmbedder } from '../search/open-embedder.ts';
import { closeStores, databasePaths, openStores } from '../storage/lmdb/stores.ts';
import type { Stores } from '../storage/stores.ts';
import type { StudentFacts } from '../student/serving/protocol.ts';

/** Which listeners a process has. */
export interface Parts {
  api: boolean;
  gateway: boolean;
}

export interface ServerThreadServices {
  config: Config;
  parts: Parts;
  /** null: nothing is captured. */
  writer: CaptureWriterClient | null;
  /** Speaks for all servers together. */
  admin: CaptureAdmin;
  probes: ReadinessProbes;
  /** Reaches the actors from this thread. */
  asker: SubscribingAsker & Pick<ActorClient, 'fence'>;
  /** Runs tasks of the stateless pool; null where there is no API. */
  compute: ComputeTask | null;
  shared: SharedMemory;
  log: ApiLog;
  /** What `/metrics` shows: of all servers together. */
  renderMetrics: () => Promise<string>;
}

export class ServerThread implements ThreadCapture {
  /** Without a trailing slash; null when the part was not asked for. */
  readonly api_url: string | null;
  readonly gateway_url: string | null;
  readonly #log: ApiLog;
  readonly #queue: CaptureQueue | null;
  readonly #gateway: Gateway | null;
  readonly #servers: HttpServer[];
  readonly #stores: Stores | null;
  readonly #live: LiveReaders | null;
  readonly #embedder: Embedder | null;
  readonly #findings: FindingsServices | undefined;
  readonly #metrics: ApiMetrics;
  readonly #relegation: Relegation | null;
  readonly #distillers: DistillerClient | null;
  readonly #patterns: PatternIndexClient | null;
  #tending: NodeJS.Timeout | undefined;

  /** @throws Error when an address cannot be bound; nothing listens then */
  static async start(services: ServerThreadServices): Promise<ServerThread> {
    const { config, parts, writer } = services;
    const share = (total: number) => Math.ceil(total / config.server_threads);
    const drops = new DropReport(services.log);
    const queue =
      writer === null
        ? null
        : new CaptureQueue(writer, {
            max_queue: share(config.capture.max_queue),
            max_queue_bytes: share(config.capture.max_queue_bytes),
            max_capture_bytes: config.capture.max_capture_bytes,
            onDrop: (cause, exchanges) => drops.tell(cause, exchanges),
          });
    if (queue !== null) writer?.onReturn(() => queue.retryNow());
    const relegation =
      parts.gateway && config.relegation !== null
        ? new Relegation(
            config.relegation.mode,
            new StudentLink(config.relegation.timeout_ms),
            config.relegation.client_keys,
          )
        : null;
    const gateway = parts.gateway
      ? new Gateway({
          bases: config.gateway,
          note: config.capture.note,
          capture: queue,
          admin: services.admin,
          relegation,
          allowed_hosts: config.allowed_hosts,
        })
      : null;
    const servers: HttpServer[] = [];
    const metrics = new ApiMetrics();
    let stores: Stores | null = null;
    let embedder: Embedder | null = null;
    let findings: FindingsServices | undefined;
    const live =
      config.engines.live_stream === null
        ? null
        : new LiveReaders(new LiveHubReader(services.asker), new Revocations(services.shared.revocations));
    try {
      if (gateway !== null) servers.push(await listenForGateway(config, gateway));
      if (parts.api) {
        stores = openStores(databasePaths(config.data_dir, config.data_key));
        embedder = await openEmbedder(config.embedding, services.compute!, COMPUTE_THREADS, (reason) =>
          services.log.error({ reason }, 'what needs embeddings answers 503 until their service does'),
        ).catch((thrown: unknown) => {
          throw explainEmbedder(thrown, config.embedding);
        });
        findings = openFindings(services, stores, embedder);
        servers.push(await listenForApi(services, stores, live, findings, metrics, servers[0]?.port));
      }
    } catch (thrown) {
      await Promise.all(servers.map((server) => server.drain(0)));
      await gateway?.close();
      await findings?.embedding.close();
      await embedder?.close();
      if (stores !== null) await closeStores(stores);
      throw thrown;
    }
    const distillers = stores === null ? null : new DistillerClient(services.asker, stores.main);
    const hasPatterns = stores !== null && config.engines.vector_store !== null;
    const patterns = hasPatterns ? new PatternIndexClient(services.asker) : null;
    return new ServerThread(
      queue,
      gateway,
      servers,
      stores,
      live,
      embedder,
      findings,
      distillers,
      patterns,
      metrics,
      parts,
      relegation,
      services.log,
    );
  }

  private constructor(
    queue: CaptureQueue | null,
    gateway: Gateway | null,
    servers: HttpServer[],
    stores: Stores | null,
    live: LiveReaders | null,
    embedder: Embedder | null,
    findings: FindingsServices | undefined,
    distillers: DistillerClient | null,
    patterns: PatternIndexClient | null,
    metrics: ApiMetrics,
    parts: Parts,
    relegation: Relegation | null,
    log: ApiLog,
  ) {
    this.#log = log;
    this.#queue = queue;
    this.#gateway = gateway;
    this.#servers = servers;
    this.#stores = stores;
    this.#live = live;
    this.#embedder = embedder;
    this.#findings = findings;
    this.#distillers = distillers;
    this.#patterns = patterns;
    this.#metrics = metrics;
    this.#relegation = relegation;
    this.gateway_url = parts.gateway ? urlOf(servers[0]!) : null;
    this.api_url = parts.api ? urlOf(servers.at(-1)!) : null;
  }

  async counters(): Promise<CaptureCounters | null> {
    return this.#queue?.counters() ?? null;
  }

  async relegation(): Promise<RelegationCounters | null> {
    return this.#relegation?.ledger.counters() ?? null;
  }

  /** There is a student, or another one; the port is the server's from now on. */
  attachStudent(port: MessagePort, facts: StudentFacts): void {
    if (this.#relegation === null) port.close();
    else this.#relegation.link.attach(port, facts);
  }

  /** What this server has counted, for another to add up. */
  metrics(): Promise<MetricsData> {
    return this.#metrics.read();
  }

  async settle(deadlineMs: number): Promise<void> {
    await this.#queue?.settle(deadlineMs);
  }

  async kill(): Promise<void> {
    this.#queue?.kill();
  }

  /**
   * Does in the background what was left: embeds what has no vector of the present model, goes on with traces that a
   * stop or a crash interrupted. One server does it for all.
   */
  tend(): void {
    this.#findings?.embedding.tendAll();
    // The stored patterns are read in before somebody asks for them.
    void this.#patterns?.open().catch(() => {});
    const distillers = this.#distillers;
    if (distillers === null) return;
    // A store that cannot be asked now is asked again.
    const resume = () => void distillers.resume().catch(() => {});
    resume();
    this.#tending = setInterval(resume, RESUME_TRACES_MS).unref();
  }

  /** Finishes what is in flight, and hands what is captured to the writer. */
  async stop(): Promise<void> {
    clearInterval(this.#tending);
    const begunAt = performance.now();
    const drained = this.#servers.map((server) => server.drain(DRAIN_DEADLINE_MS));
    // An event stream never finishes of itself; its readers come again, to the next process.
    this.#live?.close();
    await Promise.all(drained);
    this.#relegation?.link.close();
    await this.#gateway?.close();
    const patienceMs = Math.max(CAPTURE_STOP_MS, DRAIN_DEADLINE_MS - (performance.now() - begunAt));
    const left = (await this.#queue?.end(patienceMs)) ?? null;
    if (left !== null) this.#log.error(left, describeLeft(left));
    await this.#findings?.embedding.close();
    await this.#embedder?.close();
    if (this.#stores !== null) await closeStores(this.#stores);
  }
}

/** The only line that says so: after it the process is gone. */
function describeLeft({ exchanges, may_be_stored, reason }: LeftAtStop): string {
  const some = may_be_stored === 0 ? '' : `; the writer has ${may_be_stored} of them and may store them yet`;
  return `${exchanges} exchanges were not stored before the process ended${some}: ${reason}`;
}

/** Why there is no embedder, for the line that a start ends with: the choice or the installation, no fault of ours. */
function explainEmbedder(thrown: unknown, { model_dir, remote }: Config['embedding']): unknown {
  if (!(thrown instanceof Error)) return thrown;
  if (remote !== null || model_dir === null)
    return Object.assign(new Error(thrown.message, { cause: thrown }), { code: 'EEMBEDDING' });
  const allowed = `allowed is a folder of an ONNX export with model.onnx and tokenizer.json; ${thrown.message}`;
  return new ConfigError('EMBEDDING_MODEL_DIR', model_dir, allowed);
}

function openFindings(
  { asker, log }: ServerThreadServices,
  stores: Stores,
  embedder: Embedder,
): FindingsServices {
  const findings = new FindingsClient(asker, stores.main, embedder);
  const embedding = new FindingsEmbedding(findings, embedder, (_codebase, embedded, left) =>
    log.debug({ embedded, left }, 'findings got their vectors'),
  );
  return { findings, embedder, embedding };
}

function listenForGateway(config: Config, gateway: Gateway): Promise<HttpServer> {
  return startServer({
    host: config.gateway.host,
    port: config.gateway.port,
    isShared: config.server_threads > 1,
    ...paceOf(config),
    onStream: gateway.onStream,
    describeError: (status, message) => JSON.stringify(toMessagesBody(errorOfStatus(status, message))),
  });
}

function listenForApi(
  services: ServerThreadServices,
  stores: Stores,
  live: LiveReaders | null,
  findings: FindingsServices | undefined,
  metrics: ApiMetrics,
  gatewayPort: number | undefined,
): Promise<HttpServer> {
  const { config, probes, asker, shared, log, renderMetrics } = services;
  const checks = createChecks({ config, asker, stores, shared });
  const dispatch = createApi(
    {
      version: config.version,
      probes: { ...probes, storage: () => canRead(stores) },
      ...(services.writer === null ? {} : { capture: async () => (await services.admin.health()).status }),
      asker,
      stores,
      checks,
      live,
      has_patterns: config.engines.vector_store !== null,
      ...(findings === undefined ? {} : { findings }),
      renderMetrics,
      control: {
        ...controlOf(config, shared),
        ...(config.server_threads > 1 ? { settle: () => asker.fence() } : {}),
      },
      gateway:
        gatewayPort === undefined ? null : { port: gatewayPort, is_local: isLoopback(config.gateway.host) },
    },
    {
      cors_origins: config.api.cors_origins,
      hosts: new AllowedHosts(config.allowed_hosts),
      log,
      metrics,
    },
  );
  // A server that polls on a machine's only core keeps whom it waits for from running.
  const busy_poll_us = availableParallelism() > config.server_threads ? config.api.busy_poll_us : 0;
  return startServer({
    host: config.api.host,
    port: config.api.port,
    isShared: config.server_threads > 1,
    ...paceOf(config),
    onStream: serveApi(dispatch, {
      max_body_bytes: config.api.max_body_bytes,
      busyPoll: new BusyPoll(busy_poll_us),
    }),
    describeError: (status, message) => JSON.stringify(toApiBody(errorOfStatus(status, message))),
  });
}

/** Both databases answer. Throws what the store throws, which says no as well. */
function canRead({ main, runs }: Stores): boolean {
  main.get('users', ['?']);
  runs.get(USAGE, ['?']);
  return true;
}

/** The control plane's parts out of the configuration. */
function controlOf({ api, billing }: Config, { revocations, user_epochs }: SharedMemory): ControlPlane {
  const { secret_key, api_base, webhook_secret, webhook_thin_secret, plan_caps } = billing;
  const return_url = `${api.public_url ?? toLocalUrl(urlOf(api))}/`;
  return {
    plan_caps,
    processor: secret_key === null ? null : new StripeProcessor({ secret_key, api_base, return_url }),
    webhooks: new StripeWebhooks({ full: webhook_secret, thin: webhook_thin_secret ?? webhook_secret }),
    revocations,
    user_epochs,
  };
}

function paceOf({ connections }: Config): Pick<ServerOptions, 'pace'> {
  const bytes_per_sec = connections.min_upload_bytes_per_sec;
  return bytes_per_sec === 0 ? {} : { pace: { bytes_per_sec, window_ms: UPLOAD_PACE_WINDOW_MS } };
}

function urlOf({ host, port }: { host: string; port: number }): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
