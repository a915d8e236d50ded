/**
 * The API's table: every declared endpoint with its handler. A part of the product adds one line that binds its table
 * to its handlers. Server threads.
 */
import { LiveHubClient } from '../../actors/live-hub/client.ts';
import { PatternIndexClient } from '../../actors/pattern-index/client.ts';
import { RunClient } from '../../actors/run/client.ts';
import { UsageMeterClient } from '../../actors/usage-meter/client.ts';
import { ALERT_ROUTES } from '../contract/alerts.ts';
import { CAPTURES } from '../contract/captures.ts';
import type { Endpoint } from '../contract/endpoint.ts';
import { EVALUATE } from '../contract/evaluate.ts';
import { EXPERIMENTS } from '../contract/experiments.ts';
import { CAPTURE_EXPORTS, EXPORTS, FINDINGS_EXPORT } from '../contract/exports.ts';
import { FINDINGS } from '../contract/findings.ts';
import { type BoundEndpoint, bind } from '../contract/handler.ts';
import { docs, health, metrics, openapi, ready } from '../contract/health.ts';
import { MCP } from '../contract/mcp.ts';
import { OTEL } from '../contract/otel.ts';
import { PATTERNS } from '../contract/patterns.ts';
import { PROFILES } from '../contract/profiles.ts';
import { RETRIEVE } from '../contract/retrieve.ts';
import { type ApiRoute, jsonReply } from '../contract/route.ts';
import { RUN_MARKS_API } from '../contract/run-marks.ts';
import { RUN_RECORDS } from '../contract/run-records.ts';
import { RUNS } from '../contract/runs.ts';
import { STREAM } from '../contract/stream.ts';
import { TRACES } from '../contract/traces.ts';
import { DEFAULT_PLAN_CAPS } from '../domain/plans.ts';
import type { Asker } from '../runtime/actor-client.ts';
import { planReader } from '../storage/accounts/subscriptions.ts';
import type { Stores } from '../storage/ports/stores.ts';
import { type AlertServices, alertHandlers } from './alerts.ts';
import { captureExportHandlers } from './capture-exports.ts';
import { type CaptureServices, captureHandlers } from './captures.ts';
import { type ControlPlane, controlPlaneRoutes } from './control-plane.ts';
import { type DashboardFacts, dashboardRoutes } from './dashboard.ts';
import { DeletedContent } from './deleted-content.ts';
import { type DeletedView, NOTHING_DELETED } from './deleted-scopes.ts';
import { renderDocs } from './docs.ts';
import { evaluateHandlers } from './evaluate.ts';
import { experimentHandlers } from './experiments.ts';
import { type ExportedLists, exportHandlers, findingsExportHandlers } from './exports.ts';
import { type FindingsServices, findingsHandlers } from './findings.ts';
import { guideRoutes } from './guides.ts';
import {
  answerHealth,
  answerMetrics,
  answerReady,
  type CaptureProbe,
  type ReadinessProbes,
} from './health.ts';
import type { LiveReaders } from './live-readers.ts';
import { mcpHandlers } from './mcp.ts';
import { describeApi } from './openapi.ts';
import { guardOperator } from './operator-guard.ts';
import type { Operators } from './operators.ts';
import { otelHandlers } from './otel.ts';
import { pageReply } from './page.ts';
import { pageSessionRoutes } from './page-session.ts';
import { patternHandlers } from './patterns.ts';
import { type Checks, guard } from './pipeline.ts';
import { profileHandlers } from './profiles.ts';
import { type RetrieveServices, retrieveHandlers } from './retrieve.ts';
import { runMarkHandlers } from './run-marks.ts';
import { runRecordHandlers } from './run-records.ts';
import { RunningTotals, withRunningTotals } from './running-totals.ts';
import { runHandlers } from './runs.ts';
import { streamHandlers } from './stream.ts';
import { traceHandlers } from './traces.ts';

/** The parts of the process that handlers need, from the composition root. */
export interface ApiServices {
  version: string;
  probes: ReadinessProbes;
  /** The state of the gateway's capture; absent without a gateway in this process. */
  capture?: CaptureProbe;
  /** Reaches the actors. */
  asker: Asker;
  stores: Stores;
  /** The checks of every request on a `bearer` endpoint. */
  checks: Checks;
  /** Renders `/metrics`; absent in a process without metrics. */
  renderMetrics?: () => Promise<string>;
  /** The parts of the control plane; absent: no routes for signed-in users, and no webhooks. */
  control?: ControlPlane;
  /** Absent: no findings. */
  findings?: FindingsServices;
  /** Whether a vector store is configured; without one, retrieval finds nothing. */
  has_patterns?: boolean;
  /** Searches patterns on this thread; absent: the pattern index searches on its own thread. */
  search?: RetrieveServices['index'];
  /** null or absent: the live stream is off. */
  live?: LiveReaders | null;
  /** Reads captures, and checks who is an operator; absent: no routes for captures. */
  captures?: CaptureServices & { operators: Operators };
  /** Alerts of the operators; absent: no routes for them. */
  alerts?: AlertServices & { operators: Operators };
  /** The gateway of the same process; null or absent: no gateway. */
  gateway?: { port: number; is_local: boolean; is_secure?: boolean } | null;
  /** The public address (PUBLIC_URL); null or absent: the address of the listener. */
  public_url?: string | null;
  /** Largest body, before and after decompression; absent: the default. */
  max_body_bytes?: number;
  /** Whether the API's port uses TLS. */
  speaks_tls?: boolean;
}

const SERVICE_ENDPOINTS: readonly Endpoint[] = [health, ready, metrics, openapi, docs];

/**
 * The product's endpoints, in the order of the API description, one line for each part:
 * `...bind(RUNS, runHandlers(services))`. A service that only some parts need is a separate property of ApiServices. If
 * it is absent, so are its endpoints:
 * `...(services.search ? bind(PATTERNS, patternHandlers(services.search)) : [])`.
 */
function productEndpoints(given: ApiServices): BoundEndpoint[] {
  const deleted = given.checks.deleted ?? NOTHING_DELETED;
  const services = { ...given, deleted };
  const runs = runRecordHandlers(services);
  const traces = traceHandlers(services);
  return [
    ...bind(RUNS, runHandlers(services)),
    ...bind(RUN_RECORDS, runs),
    ...bind(RUN_MARKS_API, runMarkHandlers(services)),
    ...bind(EVALUATE, evaluateHandlers(services)),
    ...bind(PROFILES, profileHandlers(services)),
    ...bind(TRACES, traces),
    ...patternEndpoints(services, deleted, { runs, traces }),
    ...bind(EXPERIMENTS, experimentHandlers(services)),
    ...findingsEndpoints(services, deleted),
    ...bind(STREAM, streamHandlers(services)),
    ...bind(OTEL, otelHandlers(services)),
  ];
}

function patternEndpoints(
  { asker, stores: { accounts }, control, has_patterns, search }: ApiServices,
  deleted: DeletedView,
  lists: Pick<ExportedLists, 'runs' | 'traces'>,
): BoundEndpoint[] {
  const index = has_patterns === true ? new PatternIndexClient(asker) : null;
  const retrieval = {
    index: index === null ? null : (search ?? index),
    patterns: accounts.patterns,
    meter: new UsageMeterClient(asker),
    plans: planReader(accounts.subscriptions),
    plan_caps: control?.plan_caps ?? DEFAULT_PLAN_CAPS,
    live: new LiveHubClient(asker),
    deleted,
  };
  const patterns = patternHandlers({ index, accounts, deleted });
  return [
    ...bind(RETRIEVE, retrieveHandlers(retrieval)),
    ...bind(PATTERNS, patterns),
    ...bind(EXPORTS, exportHandlers({ ...lists, patterns })),
  ];
}

function findingsEndpoints({ findings }: ApiServices, deleted: DeletedView): BoundEndpoint[] {
  if (findings === undefined) return [];
  const handlers = findingsHandlers({ ...findings, deleted });
  return [...bind(FINDINGS, handlers), ...bind(FINDINGS_EXPORT, findingsExportHandlers(handlers))];
}

function operatorRoutes({ captures, alerts, checks, asker, stores }: ApiServices): ApiRoute[] {
  return [
    ...(captures === undefined ? [] : captureRoutes(captures, { checks, asker, stores })),
    ...(alerts === undefined
      ? []
      : guardOperator(ALERT_ROUTES, alertHandlers(alerts), checks, alerts.operators)),
  ];
}

function captureRoutes(
  captures: NonNullable<ApiServices['captures']>,
  { checks, asker, stores }: Pick<ApiServices, 'checks' | 'asker' | 'stores'>,
): ApiRoute[] {
  const { operators } = captures;
  const totals = new RunningTotals(stores.run_reads, new RunClient(asker));
  const reader = withRunningTotals(captures.reader, totals);
  return [
    ...guardOperator(CAPTURES, captureHandlers({ ...captures, reader }), checks, operators),
    ...guardOperator(CAPTURE_EXPORTS, captureExportHandlers({ reader }), checks, operators),
  ];
}

function contentOf({ asker, stores, findings, has_patterns = false }: ApiServices): DeletedContent {
  return new DeletedContent({ asker, stores, findings: findings?.findings ?? null, has_patterns });
}

function dashboardFacts({ version, gateway = null, live = null, control }: ApiServices): DashboardFacts {
  return {
    version,
    gateway_port: gateway === null ? null : gateway.port,
    gateway_is_local: gateway?.is_local ?? true,
    gateway_is_secure: gateway?.is_secure ?? false,
    has_live_stream: live !== null,
    has_billing: control !== undefined && control.processor !== null,
  };
}

/**
 * Makes the table of routes. The API description and its page are made at the first request for them, because making
 * them would take a fifth of a thread's start.
 */
export function apiRoutes(services: ApiServices): ApiRoute[] {
  const { version, probes } = services;
  const endpoints = productEndpoints(services);
  const operator_routes = operatorRoutes(services);
  const tools = bind(MCP, mcpHandlers({ version, endpoints, operator_routes, checks: services.checks }));
  const product = [
    ...[...endpoints, ...tools].map((bound) => guard(bound, services.checks)),
    ...(services.control === undefined
      ? []
      : controlPlaneRoutes(services.control, services.stores, services.checks, contentOf(services))),
    ...operator_routes,
  ];
  const described = [...SERVICE_ENDPOINTS, ...product.map(({ endpoint }) => endpoint)];
  const document = onDemand(() => describeApi(described, version));
  const description = onDemand(() => jsonReply(200, document()));
  const page = onDemand(() => pageReply(renderDocs(document(), version)));
  return [
    { endpoint: health, handle: () => answerHealth(version) },
    { endpoint: ready, handle: () => answerReady(probes, services.capture) },
    {
      endpoint: metrics,
      handle: (request) => answerMetrics(request, services.checks, services.renderMetrics ?? null),
    },
    { endpoint: openapi, handle: description },
    { endpoint: docs, handle: page },
    ...guideRoutes(),
    ...dashboardRoutes(dashboardFacts(services)),
    ...pageSessionRoutes(services.checks, {
      public_url: services.public_url ?? null,
      speaks_tls: services.speaks_tls ?? false,
    }),
    ...product,
  ];
}

/**
 * Delays a computation until its result is needed, and keeps the result.
 * @returns a function that calls `make` at its first call, and returns the result of `make` at every call
 */
function onDemand<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
