/**
 * What `/metrics` tells, in the text format of Prometheus. Each server thread counts its own requests; the main thread
 * adds them up and puts its own beside them: processor time and memory, actors, capture. Server threads and main thread.
 */
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { CAPTURE_REASONS, CAPTURE_STATUSES, type CaptureHealth } from '../domain/capture-health.ts';
import type { ConnectionCounts } from '../http/connection-watch.ts';
import type { HostStats } from '../runtime/host-stats.ts';
import type { Answered } from './dispatch.ts';

/** One thread's metrics as data, for another thread to add up. */
export type MetricsData = object[];

/** Seconds: from a health check to a distillation. */
const DURATION_BUCKETS_S = [
  0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
/** For a path that leads nowhere: its text is the caller's, and there is no end of those. */
const NO_ROUTE = 'none';

/** What was counted of one route, in numbers that cost nothing to add to; they become metrics when somebody reads. */
interface RouteMeters {
  by_status: Map<number, number>;
  /** Answers that took so long and longer than the bucket before; the last: longer than all. */
  buckets: Float64Array;
  sum_s: number;
}

const REQUESTS = 'understudy_http_requests_total';
const DURATIONS = 'understudy_http_request_duration_seconds';

/** Requests of one server thread. */
export class ApiMetrics {
  /** By route, then by method. */
  readonly #routes = new Map<string, Map<string, RouteMeters>>();

  observe({
    route,
    method,
    status,
    duration_ms,
  }: Pick<Answered, 'route' | 'method' | 'status' | 'duration_ms'>): void {
    const meters = this.#metersOf(route ?? NO_ROUTE, route === null ? NO_ROUTE : method);
    meters.by_status.set(status, (meters.by_status.get(status) ?? 0) + 1);
    const seconds = duration_ms / 1000;
    let at = 0;
    while (at < DURATION_BUCKETS_S.length && seconds > DURATION_BUCKETS_S[at]!) at++;
    meters.buckets[at]!++;
    meters.sum_s += seconds;
  }

  /** In the form in which the library adds up the metrics of several processes. */
  async read(): Promise<MetricsData> {
    const requests: object[] = [];
    const durations: object[] = [];
    for (const [route, methods] of this.#routes) {
      const buckets = new Float64Array(DURATION_BUCKETS_S.length + 1);
      let sum = 0;
      for (const [method, meters] of methods) {
        for (const [status, value] of meters.by_status) {
          requests.push({ value, labels: { route, method, status: String(status) } });
        }
        meters.buckets.forEach((count, at) => {
          buckets[at]! += count;
        });
        sum += meters.sum_s;
      }
      let count = 0;
      buckets.forEach((more, at) => {
        count += more;
        const le = DURATION_BUCKETS_S[at] ?? '+Inf';
        durations.push({ value: count, metricName: `${DURATIONS}_bucket`, labels: { le, route } });
      });
      durations.push({ value: sum, metricName: `${DURATIONS}_sum`, labels: { route } });
      durations.push({ value: count, metricName: `${DURATIONS}_count`, labels: { route } });
    }
    return [
      {
        name: REQUESTS,
        help: 'Requests of the API by route, method and status; 429 are those over their rate',
        type: 'counter',
        values: requests,
        aggregator: 'sum',
      },
      {
        name: DURATIONS,
        help: 'From the whole request to its answer, by route',
        type: 'histogram',
        values: durations,
        aggregator: 'sum',
      },
    ];
  }

  #metersOf(route: string, method: string): RouteMeters {
    let methods = this.#routes.get(route);
    if (methods === undefined) {
      methods = new Map();
      this.#routes.set(route, methods);
    }
    let meters = methods.get(method);
    if (meters === undefined) {
      meters = { by_status: new Map(), buckets: new Float64Array(DURATION_BUCKETS_S.length + 1), sum_s: 0 };
      methods.set(method, meters);
    }
    return meters;
  }
}

/** Where the main thread finds what it adds. Each may fail: its metrics are missing then, the others are there. */
export interface MetricsSources {
  /** Of every server thread. */
  servers(): Promise<MetricsData>[];
  actors(): Promise<(HostStats | null)[]>;
  /** Of both ports. */
  connections?(): ConnectionCounts;
  /** The gateway's stats (document 3); null in a process without it. */
  capture(): Promise<object> | null;
}

/** Numbers of the gateway's stats that are worth watching. */
const CAPTURE_GAUGES = [
  ['exchanges', 'attempted', 'Exchanges that passed'],
  ['exchanges', 'captured', 'Exchanges that are stored'],
  ['exchanges', 'dropped', 'Exchanges that passed and are not stored'],
  ['exchanges', 'in_flight', 'Exchanges that are on their way to the store'],
  ['exchanges', 'aborted', 'Exchanges that one side broke off'],
  ['writer', 'queue_depth', 'Exchanges that wait for the writer'],
  ['writer', 'queue_bytes', 'Bytes that wait for the writer'],
  ['writer', 'errors', 'Batches that could not be written'],
  ['db', 'damaged', 'Damaged capture files that were set aside and lie there still'],
] as const;

/** The same of the process that writes the capture database. */
const PROCESS_GAUGES = [
  ['restarts', 'Times that the capture process ended by itself and was started again'],
  ['silent_ms', 'Milliseconds for which the capture process has not answered; 0 while it does'],
  ['memory_bytes', 'Resident memory of the capture process, with what it shares with this one'],
] as const;

/** The same of what the writer has put off. */
const PACKING_GAUGES = [
  ['waiting_blocks', 'Blocks that wait to be compressed'],
  ['waiting_bytes', 'Bytes of blocks that wait to be compressed'],
  ['oldest_s', 'Seconds that the oldest of these blocks has waited'],
  ['unindexed', 'Exchanges that wait for the index'],
  ['share', 'Part of one core that putting this in order may take while exchanges come'],
] as const;

/** Counts of the stats that are kept by cause. */
const CAPTURE_COUNTERS = [
  ['writer', 'errors_by_cause', 'errors_total', 'Batches that could not be written and exchanges set apart'],
  ['exchanges', 'dropped_by_cause', 'dropped_total', 'Exchanges that passed and are not stored'],
  ['exchanges', 'withheld_by_cause', 'withheld_total', 'Stored exchanges of which a body was withheld'],
] as const;

/** The same of relegation, where it is on. */
const RELEGATION_GAUGES = [
  ['served', 'Steps that the student served'],
  ['fallback', 'Steps that went to the upstream'],
  ['errors', 'Of those, the ones that the student failed on'],
] as const;

const ACTOR_GAUGES = [
  ['live', 'Actors in memory'],
  ['mailbox_depth', 'Messages that wait'],
  ['handled', 'Messages handled since the thread started'],
  ['errors', 'Handlers that threw since the thread started'],
  ['restarts', 'Actors started again since the thread started'],
  ['dead_letters', 'Messages that reached nobody since the thread started'],
] as const;

/** The whole process; main thread. */
export class ProcessMetrics {
  readonly #sources: MetricsSources;
  /** Processor time, memory, event loop and garbage collection of the process and of this thread. */
  readonly #own = new Registry();
  #rendering: Promise<string> | null = null;

  constructor(sources: MetricsSources, version: string) {
    this.#sources = sources;
    collectDefaultMetrics({ register: this.#own });
    new Gauge({
      name: 'understudy_info',
      help: 'The version that runs',
      labelNames: ['version'],
      registers: [this.#own],
    }).set({ version }, 1);
  }

  /** Everything, as text. Several askers at once get the same. */
  render(): Promise<string> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = null;
    });
    return this.#rendering;
  }

  async #render(): Promise<string> {
    const { servers, actors, capture, connections } = this.#sources;
    const [requests, hosts, stats] = await Promise.all([
      Promise.allSettled(servers()),
      actors().catch((): null[] => []),
      capture()?.catch(() => null) ?? null,
    ]);
    const counted = requests.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const parts = [
      this.#own,
      AggregatorRegistry.aggregate(counted),
      ...(connections === undefined ? [] : [describeConnections(connections())]),
      describeActors(hosts.flatMap((host) => host ?? [])),
      describeCapture(stats as Record<string, Record<string, unknown>> | null),
    ];
    return (await Promise.all(parts.map((part) => part.metrics()))).join('\n');
  }
}

function describeConnections({
  open,
  max,
  refused,
  slow_uploads,
  accept_pauses,
}: ConnectionCounts): Registry {
  const registry = new Registry();
  const registers = [registry];
  const gauge = (name: string, help: string, value: number): void => {
    new Gauge({ name: `understudy_connections_${name}`, help, registers }).set(value);
  };
  gauge('open', 'Connections of both ports', open);
  gauge('max', 'Connections that are taken at most; 0: any number', max);
  const refusals = new Gauge({
    name: 'understudy_connections_refused',
    help: 'Since the start: connections beyond a cap, and those that ended with a message of two readings',
    labelNames: ['reason'],
    registers,
  });
  for (const [reason, count] of Object.entries(refused)) refusals.set({ reason }, count);
  gauge(
    'slow_uploads',
    'Requests since the start that were ended since their bodies came too slowly',
    slow_uploads,
  );
  gauge('accept_pauses', 'How often no descriptor was left for a new connection', accept_pauses);
  return registry;
}

function describeActors(hosts: readonly HostStats[]): Registry {
  const registry = new Registry();
  for (const [name, help] of ACTOR_GAUGES) {
    const labelNames = ['kind', 'thread'] as const;
    const gauge = new Gauge({ name: `understudy_actors_${name}`, help, labelNames, registers: [registry] });
    for (const { index, kinds } of hosts) {
      for (const [kind, stats] of Object.entries(kinds)) gauge.set({ kind, thread: index }, stats[name]);
    }
  }
  return registry;
}

function describeCapture(stats: Record<string, Record<string, unknown>> | null): Registry {
  const registry = new Registry();
  if (stats === null) return registry;
  for (const [part, name, help] of CAPTURE_GAUGES) {
    const value = stats[part]?.[name];
    if (typeof value !== 'number') continue;
    new Gauge({ name: `understudy_capture_${name}`, help, registers: [registry] }).set(value);
  }
  const own = (stats.writer?.process ?? {}) as Record<string, unknown>;
  for (const [name, help] of PROCESS_GAUGES) {
    const value = own[name];
    if (typeof value !== 'number') continue;
    new Gauge({ name: `understudy_capture_process_${name}`, help, registers: [registry] }).set(value);
  }
  const packing = stats.writer?.packing as Record<string, unknown> | undefined;
  for (const [name, help] of PACKING_GAUGES) {
    const value = packing?.[name];
    if (typeof value !== 'number') continue;
    new Gauge({ name: `understudy_capture_packing_${name}`, help, registers: [registry] }).set(value);
  }
  for (const [part, counts, name, help] of CAPTURE_COUNTERS) {
    const values = stats[part]?.[counts];
    if (typeof values !== 'object' || values === null) continue;
    const counter = new Counter({
      name: `understudy_capture_${name}`,
      help,
      labelNames: ['cause'],
      registers: [registry],
    });
    for (const [cause, count] of Object.entries(values)) counter.inc({ cause }, count as number);
  }
  addHealth(registry, stats);
  if (stats.relegation?.enabled === true) addRelegation(registry, stats.relegation);
  return registry;
}

/** One gauge for each word that the status and its reasons may be: 1 for those that hold. */
function addHealth(registry: Registry, stats: Record<string, unknown>): void {
  const { status, reasons = [] } = stats as unknown as CaptureHealth;
  const registers = [registry];
  const statuses = new Gauge({
    name: 'understudy_capture_status',
    help: '1 for how capture is doing',
    labelNames: ['status'],
    registers,
  });
  for (const one of CAPTURE_STATUSES) statuses.set({ status: one }, one === status ? 1 : 0);
  const gauge = new Gauge({
    name: 'understudy_capture_reason',
    help: '1 for each reason why it is not ok',
    labelNames: ['reason'],
    registers,
  });
  for (const one of CAPTURE_REASONS) {
    gauge.set({ reason: one }, reasons.some(({ reason }) => reason === one) ? 1 : 0);
  }
  const writer = stats.writer as Record<string, unknown> | undefined;
  new Gauge({
    name: 'understudy_capture_oldest_append_seconds',
    help: 'How long the writer has had the oldest batch that it has not answered',
    registers,
  }).set(Number(writer?.oldest_append_ms ?? 0) / 1_000);
}

function addRelegation(registry: Registry, relegation: Record<string, unknown>): void {
  const registers = [registry];
  for (const [name, help] of RELEGATION_GAUGES) {
    new Gauge({ name: `understudy_relegation_${name}`, help, registers }).set(Number(relegation[name]));
  }
  const addCounts = (name: string, help: string, label: string): void => {
    const gauge = new Gauge({
      name: `understudy_relegation_${name}`,
      help,
      labelNames: [label],
      registers,
    });
    for (const [its, count] of Object.entries(relegation[name] as Record<string, number>))
      gauge.set({ [label]: its }, count);
  };
  addCounts('fallbacks', 'Steps that went to the upstream, by reason', 'reason');
  addCounts('tokens_saved', 'Tokens that the upstream was spared, about', 'kind');
  addCounts(
    'shadow',
    'Shadow mode: steps that the student would have served, compared ones, and those that agreed',
    'outcome',
  );
  addCounts(
    'audit',
    'Steps that the student would have served and the upstream did, compared ones, and those that agreed',
    'outcome',
  );
  addCounts('suspended', 'Agents and kinds of answers that the student was wrong with too often', 'of');
  new Gauge({
    name: 'understudy_relegation_expired',
    help: '1 when the student is older than it may be',
    registers,
  }).set(relegation.expired === true ? 1 : 0);
  if (typeof relegation.money_saved_usd === 'number') {
    new Gauge({
      name: 'understudy_relegation_money_saved_usd',
      help: 'What that would have cost, in dollars',
      registers,
    }).set(relegation.money_saved_usd);
  }
  new Gauge({
    name: 'understudy_relegation_ready',
    help: '1 when there is a student to ask',
    registers,
  }).set(relegation.student === null ? 0 : 1);
}

/** The registry's media type. */
export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;
