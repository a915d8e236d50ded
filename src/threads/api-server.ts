/**
 * The API of one server thread: its listener, and its connections to stores and actors. Part of the composition root;
 * each of the server threads has one instance.
 */

import { FindingsClient } from '../../actors/findings-index/client.ts';
import { LiveHubReader, type SubscribingAsker } from '../../actors/live-hub/client.ts';
import { PatternIndexClient } from '../../actors/pattern-index/client.ts';
import { SharedSearch } from '../../actors/pattern-index/shared-search.ts';
import { PatternMakerClient } from '../../actors/pattern-maker/client.ts';
import { RunClient } from '../../actors/run/client.ts';
import { AlertMeasures } from '../alerts/alert-measures.ts';
import { AlertSender } from '../alerts/alert-outbox.ts';
import { AlertTargets } from '../alerts/alert-targets.ts';
import { AlertWatch } from '../alerts/alert-watch.ts';
import { type ApiLog, createApi } from '../api/api.ts';
import { BoxDuty } from '../api/box-duty.ts';
import { createChecks, type SharedMemory } from '../api/checks.ts';
import type { ControlPlane } from '../api/control-plane.ts';
import { DeletedScopes } from '../api/deleted-scopes.ts';
import type { FindingsServices } from '../api/findings.ts';
import { FindingsEmbedding } from '../api/findings-embedding.ts';
import { answerReady, type ReadinessProbes } from '../api/health.ts';
import { LiveReaders } from '../api/live-readers.ts';
import { ApiMetrics, type MetricsData } from '../api/metrics.ts';
import { Operators } from '../api/operators.ts';
import type { Checks } from '../api/pipeline.ts';
import { Retention } from '../api/retention.ts';
import { UnfinishedDeletions } from '../api/unfinished-deletions.ts';
import { KeyUses } from '../auth/key-uses.ts';
import { identifyOwner, readCaptureOwner } from '../auth/owner.ts';
import { Revocations } from '../auth/revocations.ts';
import { openBilling } from '../billing/open-billing.ts';
import { ConfigError } from '../config/config-error.ts';
import { isLoopback, toLocalUrl } from '../config/local-address.ts';
import type { Config } from '../config.ts';
import type { CaptureAsker } from '../domain/captured-run.ts';
import { situationVectorsId } from '../domain/situation-vectors.ts';
import { errorOfStatus, toApiBody } from '../errors.ts';
import type { CaptureAdmin } from '../gateway/capture/capture-control.ts';
import { AllowedHosts } from '../http/allowed-hosts.ts';
import { serveApi } from '../http/api-listener.ts';
import { BusyPoll } from '../http/busy-poll.ts';
import type { HttpServer } from '../http/http-server.ts';
import { startServer } from '../http/server.ts';
import { DRAIN_DEADLINE_MS } from '../limits.ts';
import type { ActorClient } from '../runtime/actor-client.ts';
import type { ComputeTask } from '../runtime/actor-thread.ts';
import { COMPUTE_DEADLINE_MS, COMPUTE_QUEUE_CALLS, DirectChannel } from '../runtime/direct-channel.ts';
import type { Embedder } from '../search/embedder.ts';
import { SharedIndexes } from '../search/index-catalog.ts';
import { openEmbedder } from '../search/open-embedder.ts';
import { ThreadEmbedder } from '../search/thread-embedder.ts';
import { findWriteFault } from '../std/file-place.ts';
import { closeStores, openStores, servicePaths } from '../storage/lmdb/stores.ts';
import { RetentionClock, recordsNotePath } from '../storage/retention-clock.ts';
import { listOldRows, OUTCOME_LISTING, RUN_LISTING, TRACE_LISTING } from '../storage/row-listing.ts';
import type { TableStores } from '../storage/stores.ts';
import { renameAgent, reportStudent } from '../student/student-report.ts';
import { paceOf, tlsOf, urlOf } from './listening.ts';
import { SharedLiveSource } from './shared-live.ts';
import { SharedRequests } from './shared-requests.ts';
import { STOPPING } from './stop-notice.ts';

/**
 * Maximum number of batches of texts that a server thread has sent to the model and that are not
 * answered yet.
 */
const SHARED_SEARCH_RUNS = 4;
/**
 * Interval at which the process looks for interrupted work: traces whose processing into patterns was
 * interrupted, and unfinished deletions. Each time, a box that shares a database first finds out whether it
 * is on duty.
 */
const RESUME_TRACES_MS = 30_000;

/** The services that an API gets from its thread. */
export interface ApiServices {
  config: Config;
  /** Capture's part of `/health`; null: nothing is captured. */
  capture: Pick<CaptureAdmin, 'health'> | null;
  /** The gateway's stats; null: this process has no gateway. */
  stats: (() => Promise<object>) | null;
  /** Reads what is captured. */
  captures: CaptureAsker;
  probes: ReadinessProbes;
  /** This thread's client for calls to the actors. */
  asker: SubscribingAsker & Pick<ActorClient, 'fence'>;
  /** Runs tasks of the stateless pool. */
  compute: ComputeTask;
  shared: SharedMemory;
  log: ApiLog;
  /** The text of `/metrics`, for all server threads together. */
  renderMetrics: () => Promise<string>;
  /** Port of the same process's gateway; null: there is no gateway. */
  gateway_port: number | null;
}

/** Resources that are opened before the listener starts and closed after it has drained. */
interface OpenParts {
  stores: TableStores;
  /** null: this box shares no database. */
  shared: SharedRequests | null;
  live: LiveReaders | null;
  /** The live stream of all boxes; null: readers follow the hubs of this process. */
  live_source: SharedLiveSource | null;
  embedder: Embedder;
  findings: FindingsServices;
  /** null: only the pattern index searches, if patterns are on. */
  patterns: PatternSearch | null;
  metrics: ApiMetrics;
  key_uses: KeyUses;
  alerts: { sender: AlertSender; targets: AlertTargets };
}

/** Searches patterns on this thread, with its own channel to the model. */
interface PatternSearch {
  search: SharedSearch;
  close(): void;
}

export class ApiServer {
  /** Without a trailing slash. */
  readonly url: string;
  readonly #server: HttpServer;
  readonly #parts: OpenParts;
  readonly #patternMakers: PatternMakerClient;
  readonly #deletions: UnfinishedDeletions;
  readonly #retention: Retention;
  /**
   * Decides which box does the background work; null: this box shares no database and does all of
   * it.
   */
  readonly #duty: BoxDuty | null;
  readonly #alerts: AlertWatch;
  readonly #patterns: PatternIndexClient | null;
  readonly #hasOrganization: boolean;
  #tending: NodeJS.Timeout | undefined;
  #listing: Promise<void> = Promise.resolve();
  #isDraining = false;

  /**
   * Opens the stores and services, and starts the listener.
   * @throws Error if a database or the embedder cannot be opened, or the address cannot be bound; then nothing
   *   listens
   */
  static async start(services: ApiServices): Promise<ApiServer> {
    const parts = await openParts(services);
    try {
      return new ApiServer(services, parts, await listen(services, parts));
    } catch (thrown) {
      await closeParts(parts);
      throw thrown;
    }
  }

  private constructor(services: ApiServices, parts: OpenParts, server: HttpServer) {
    const { config, asker, log } = services;
    this.#parts = parts;
    this.#server = server;
    this.#patternMakers = new PatternMakerClient(asker, parts.stores.accounts.traces);
    this.#duty = parts.shared === null ? null : new BoxDuty(parts.stores.accounts);
    this.#deletions = new UnfinishedDeletions({
      asker,
      stores: parts.stores,
      findings: parts.findings.findings,
      has_patterns: config.engines.vector_store !== null,
      is_shared: parts.shared !== null,
    });
    const { metrics } = parts;
    const { runs, traces, findings } = config.retention_days;
    const ages = new RetentionClock({
      path: recordsNotePath(config.data_dir),
      days: { runs, traces, findings },
      warn: (facts, words) => log.warn(facts, words),
    });
    this.#retention = new Retention({
      nowForAges: async () => {
        const nowMs = await ages.nowForAges();
        metrics.noteWaits(ages.waits);
        return nowMs;
      },
      days: config.retention_days,
      stores: parts.stores,
      runs: new RunClient(asker),
      traces: this.#patternMakers,
      findings: parts.findings.findings,
      count: (kind, deleted) => metrics.countExpired(kind, deleted),
      onPass: () => metrics.notePass(Date.now()),
      isElsewhere: () => this.#duty !== null && !this.#duty.is_on,
      report: (err) => log.error({ err }, 'expired data cannot be deleted now; the service tries again'),
    });
    this.#alerts = watchAlerts(services, parts);
    metrics.show(() => this.#alerts.listMetrics());
    metrics.show(() => parts.shared?.listMetrics() ?? []);
    this.#patterns = config.engines.vector_store === null ? null : new PatternIndexClient(asker);
    this.#hasOrganization = config.operators.org !== null;
    this.url = urlOf(server, config.api.tls);
  }

  /** This thread's counts, for the sum over all threads. */
  metrics(): Promise<MetricsData> {
    return this.#parts.metrics.read();
  }

  /**
   * Starts the work in the background: embeds texts that have no vector of the current model, loads the
   * patterns, resumes interrupted traces and deletions, deletes expired data, watches for alerts, and adds
   * rows of earlier versions to the lists. One server thread does this for the process. Of boxes that share a
   * database, only the one on duty resumes and deletes, and only boxes with GW_ORG watch for alerts.
   */
  tend(): void {
    this.#parts.findings.embedding.tendAll();
    // Loads the stored patterns before the first request for them.
    void this.#patterns?.open().catch(() => {});
    // If the store does not answer now, the next attempt follows later.
    const resume = async () => {
      const isOnDuty = (await this.#duty?.renew().catch(() => false)) ?? true;
      if (!isOnDuty || this.#isDraining) return;
      void this.#patternMakers.resume(this.#duty !== null).catch(() => {});
      void this.#deletions.resume();
    };
    // Start retention after this attempt, because only then is it known whether this box is on duty.
    void resume().then(() => this.#retention.start());
    this.#tending = setInterval(resume, RESUME_TRACES_MS).unref();
    const { runs, main } = this.#parts.stores;
    const isStopped = () => this.#isDraining;
    // If boxes share a database, only boxes with GW_ORG check the alerts and send the messages.
    if (this.#parts.shared === null || this.#hasOrganization) this.#alerts.start();
    this.#listing = listOldRows(runs, RUN_LISTING, isStopped)
      .then(() => listOldRows(runs, OUTCOME_LISTING, isStopped))
      .then(() => listOldRows(main, TRACE_LISTING, isStopped))
      .catch(() => {});
  }

  /** Stops accepting requests, ends event streams and alerts, and waits for the requests in progress. */
  async drain(): Promise<void> {
    clearInterval(this.#tending);
    this.#isDraining = true;
    const drained = Promise.all([this.#server.drain(DRAIN_DEADLINE_MS), this.#alerts.end()]);
    // An event stream never ends by itself. Its readers reconnect to the next process.
    this.#parts.live?.close();
    await drained;
    await this.#duty?.end().catch(() => {});
  }

  /** Closes the stores and services after the drain. */
  async close(): Promise<void> {
    await this.#listing;
    await this.#retention.end();
    await closeParts(this.#parts);
  }
}

async function openParts(services: ApiServices): Promise<OpenParts> {
  const { config, asker, compute, shared, log } = services;
  const stores = openStores(servicePaths(config, shared.seat));
  try {
    const embedder = await openEmbedder(config.embedding, compute, config.compute_threads, (reason) =>
      log.error({ reason }, 'requests that need embeddings get 503 until the embedding service answers'),
    ).catch((thrown: unknown) => {
      throw explainEmbedder(thrown, config.embedding);
    });
    const revocations = new Revocations(shared.revocations);
    const deleted = new DeletedScopes(stores.accounts, revocations);
    const live_source = shared.seat === null ? null : new SharedLiveSource(shared.seat);
    const live =
      config.engines.live_stream === null
        ? null
        : new LiveReaders(live_source ?? new LiveHubReader(asker), revocations, {
            hiddenIn: (org_id) => deleted.hiddenIn(org_id),
          });
    const findings = openFindings(services, stores, embedder);
    const patterns = openSearch(services, embedder);
    const key_uses = new KeyUses(stores.accounts);
    return {
      stores,
      shared: shared.seat === null ? null : new SharedRequests(shared.seat),
      live,
      live_source,
      embedder,
      findings,
      patterns,
      metrics: new ApiMetrics(),
      key_uses,
      alerts: openAlerts(config),
    };
  } catch (thrown) {
    await closeStores(stores);
    throw thrown;
  }
}

async function closeParts(parts: OpenParts): Promise<void> {
  const { stores, shared, live_source, embedder, findings, patterns, key_uses } = parts;
  patterns?.close();
  await key_uses.flush();
  await findings.embedding.close();
  await embedder.close();
  await shared?.close();
  await live_source?.close();
  await closeStores(stores);
}

function openAlerts({ alerts }: Config): OpenParts['alerts'] {
  const targets = new AlertTargets(alerts.private_targets);
  return { targets, sender: new AlertSender(alerts, targets) };
}

function watchAlerts(services: ApiServices, parts: OpenParts): AlertWatch {
  const { config, captures, stats, log } = services;
  const { stores, alerts } = parts;
  // A stopping service is not ready, but that is no reason for an alert.
  const isReady = async () =>
    (await services.probes.actors?.()) === STOPPING ||
    (await answerReady(readinessOf(services, parts))).status === 200;
  return new AlertWatch({
    accounts: stores.accounts,
    org_id: config.operators.org ?? '',
    measures: new AlertMeasures({ captures, stats, isReady, data_dir: config.data_dir }),
    sender: alerts.sender,
    report: (err) => log.error({ err }, 'alerts cannot be checked or delivered now; the service tries again'),
  });
}

function readinessOf({ config, probes }: ApiServices, { stores, shared }: OpenParts): ReadinessProbes {
  return {
    ...probes,
    storage: () => canRead(stores) && (shared?.refusal ?? findWriteFault(config.data_dir) ?? true),
  };
}

/**
 * Makes the error of a failed start, whose text says why the embedder cannot be opened. A thrown value that
 * is not an Error is returned as it is.
 */
function explainEmbedder(thrown: unknown, { model_dir, remote }: Config['embedding']): unknown {
  if (!(thrown instanceof Error)) return thrown;
  if (remote !== null || model_dir === null)
    return Object.assign(new Error(thrown.message, { cause: thrown }), { code: 'EEMBEDDING' });
  const allowed = `must be a folder of an ONNX export with model.onnx and tokenizer.json; ${thrown.message}`;
  return new ConfigError('EMBEDDING_MODEL_DIR', model_dir, allowed);
}

function openFindings(
  { asker, log }: ApiServices,
  stores: TableStores,
  embedder: Embedder,
): FindingsServices {
  const findings = new FindingsClient(asker, stores.accounts.findings, embedder);
  const embedding = new FindingsEmbedding(findings, embedder, (_codebase, embedded, left) =>
    log.debug({ embedded, left }, 'findings got their vectors'),
  );
  return { findings, embedder, embedding };
}

/**
 * Opens the search for patterns on this thread.
 * @returns null if patterns are off, or if the actor `pattern-index` must search: because the addon is missing, or
 * because the embedder is a remote service. Only the actor calls a remote service, so that all threads together keep
 * the service's rate limit and share cached vectors.
 */
function openSearch({ config, asker, compute, shared }: ApiServices, { id }: Embedder): PatternSearch | null {
  if (config.engines.vector_store === null || config.embedding.remote !== null) return null;
  const channel = new DirectChannel(compute, {
    call_deadline_ms: COMPUTE_DEADLINE_MS,
    calls_max: COMPUTE_QUEUE_CALLS,
  });
  // The model's thread merges the texts of several threads into one run.
  const own = new ThreadEmbedder(() => openEmbedder(config.embedding, channel.run, SHARED_SEARCH_RUNS));
  const embedder = { id, embed: (texts: readonly string[]) => own.embed(texts) };
  const close = () => {
    void own.close();
    channel.close();
  };
  try {
    const indexes = new SharedIndexes(shared.pattern_catalog, situationVectorsId(embedder));
    return { search: new SharedSearch({ indexes, embedder, index: new PatternIndexClient(asker) }), close };
  } catch {
    return null;
  }
}

async function listen(services: ApiServices, parts: OpenParts): Promise<HttpServer> {
  const { config, capture, stats, captures, asker, shared, log, renderMetrics, gateway_port } = services;
  const { stores, live, findings, patterns, metrics, key_uses } = parts;
  const { shared: access } = parts;
  const checks = createChecks({
    config,
    asker,
    stores,
    shared,
    key_uses,
    ...(access === null ? {} : { countBoxes: () => access.boxes }),
  });
  const operators = openOperators(config, checks);
  const dispatch = createApi(
    {
      version: config.version,
      probes: readinessOf(services, parts),
      ...(capture === null ? {} : { capture: async () => (await capture.health()).status }),
      asker,
      stores,
      checks,
      live,
      has_patterns: config.engines.vector_store !== null,
      ...(patterns === null ? {} : { search: patterns.search }),
      findings,
      renderMetrics,
      control: {
        ...(await openControl(config, shared)),
        retention_days: config.retention_days,
        ...(config.server_threads > 1 ? { settle: () => asker.fence() } : {}),
      },
      captures: {
        reader: captures,
        stats: stats === null ? null : async () => ({ ...(await stats()), org_id: config.operators.org }),
        student: () => reportStudent(config.relegation),
        nameAgent: (agent, name) => renameAgent(config.relegation, agent, name),
        accounts: stores.accounts,
        owner: readCaptureOwner(config),
        operators,
      },
      alerts: {
        ...parts.alerts,
        accounts: stores.accounts,
        org_id: config.operators.org,
        has_mail: config.alerts.mail !== null,
        operators,
      },
      public_url: config.api.public_url,
      speaks_tls: config.api.tls !== null,
      gateway:
        gateway_port === null
          ? null
          : {
              port: gateway_port,
              is_local: isLoopback(config.gateway.host),
              is_secure: config.gateway.tls !== null,
            },
      max_body_bytes: config.api.max_body_bytes,
    },
    {
      cors_origins: config.api.cors_origins,
      ...(parts.shared === null ? {} : { shared: parts.shared }),
      hosts: new AllowedHosts(config.allowed_hosts),
      log,
      metrics,
    },
  );
  // On a single core, a server that busy-polls would block the thread for which it waits.
  const busy_poll_us = config.cores > 1 ? config.api.busy_poll_us : 0;
  return startServer({
    host: config.api.host,
    port: config.api.port,
    isShared: config.server_threads > 1,
    ...paceOf(config),
    ...tlsOf(config.api.tls, log),
    onStream: serveApi(dispatch, {
      max_body_bytes: config.api.max_body_bytes,
      busyPoll: new BusyPoll(busy_poll_us),
    }),
    describeError: (status, message) => JSON.stringify(toApiBody(errorOfStatus(status, message))),
  });
}

/** Checks that both databases can be read. @throws the store's error if one cannot */
function canRead({ accounts, run_records }: TableStores): boolean {
  accounts.users.find('?');
  run_records.findStart({ org_id: '?', run_id: '?' });
  return true;
}

/**
 * Makes the `Operators`. The sign-in link in the terminal is signed with this service's AUTH_JWT_SECRET.
 * There is no link without this secret, or if an identity provider issues the tokens.
 */
function openOperators({ auth, operators }: Config, { memberships }: Checks): Operators {
  const isOwnSecret = auth.jwks_url === null && auth.jwt_secret !== null;
  return new Operators({ config: operators, owner: isOwnSecret ? identifyOwner(auth) : null, memberships });
}

/** Opens the control plane with its parts of the configuration. */
async function openControl(
  { api, billing }: Config,
  { revocations, user_epochs, event_locks }: SharedMemory,
): Promise<Omit<ControlPlane, 'retention_days'>> {
  const return_url = `${api.public_url ?? toLocalUrl(urlOf(api, api.tls))}/`;
  return {
    plan_caps: billing.plan_caps,
    ...(await openBilling(billing, return_url)),
    revocations,
    user_epochs,
    event_locks,
  };
}
