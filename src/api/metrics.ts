/**
 * What `/metrics` tells, in the text format of Prometheus. Each front thread counts its own requests; the main thread
 * adds them up and puts its own beside them: processor time and memory, actors, capture. Front threads and main thread.
 */
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { HostStats } from '../runtime/host.ts';
import type { Answered } from './dispatch.ts';

/** One thread's metrics as data, for another thread to add up. */
export type MetricsData = object[];

/** Seconds: from a health check to a distillation. */
const DURATION_BUCKETS_S = [
  0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
/** For a path that leads nowhere: its text is the caller's, and there is no end of those. */
const NO_ROUTE = 'none';

interface RouteMeters {
  byStatus: Map<number, { inc(): void }>;
  duration: { observe(seconds: number): void };
}

/** Requests of one front thread. */
export class ApiMetrics {
  readonly #registry = new Registry();
  readonly #requests: Counter<'route' | 'method' | 'status'>;
  readonly #durations: Histogram<'route'>;
  /** By route and method; labels are looked up once. */
  readonly #meters = new Map<string, RouteMeters>();

  constructor() {
    const registers = [this.#registry];
    this.#requests = new Counter({
      name: 'understudy_http_requests_total',
      help: 'Requests of the API by route, method and status; 429 are those over their rate',
      labelNames: ['route', 'method', 'status'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'understudy_http_request_duration_seconds',
      help: 'From the whole request to its answer, by route',
      labelNames: ['route'],
      buckets: DURATION_BUCKETS_S,
      registers,
    });
  }

  observe({ route, method, status, duration_ms }: Answered): void {
    const name = route ?? NO_ROUTE;
    const verb = route === null ? NO_ROUTE : method;
    const key = `${name} ${verb}`;
    let meters = this.#meters.get(key);
    if (meters === undefined) {
      meters = { byStatus: new Map(), duration: this.#durations.labels(name) };
      this.#meters.set(key, meters);
    }
    let requests = meters.byStatus.get(status);
    if (requests === undefined) {
      requests = this.#requests.labels(name, verb, String(status));
      meters.byStatus.set(status, requests);
    }
    requests.inc();
    meters.duration.observe(duration_ms / 1000);
  }

  read(): Promise<MetricsData> {
    return this.#registry.getMetricsAsJSON();
  }
}

/** Where the main thread finds what it adds. Each may fail: its metrics are missing then, the others are there. */
export interface MetricsSources {
  /** Of every front thread. */
  fronts(): Promise<MetricsData>[];
  actors(): Promise<(HostStats | null)[]>;
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
    const { fronts, actors, capture } = this.#sources;
    const [requests, hosts, stats] = await Promise.all([
      Promise.allSettled(fronts()),
      actors().catch((): null[] => []),
      capture()?.catch(() => null) ?? null,
    ]);
    const counted = requests.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const parts = [
      this.#own,
      AggregatorRegistry.aggregate(counted),
      describeActors(hosts.flatMap((host) => host ?? [])),
      describeCapture(stats as Record<string, Record<string, unknown>> | null),
    ];
    return (await Promise.all(parts.map((part) => part.metrics()))).join('\n');
  }
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
  return registry;
}

/** The registry's media type. */
export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;
