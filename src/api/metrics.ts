/**
 * The content of `/metrics`, in the text format of Prometheus. Each server thread counts its own requests.
 * The main thread sums these counts and adds its own metrics: processor time and memory, actors, capture.
 * Server threads and main thread.
 */
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { CAPTURE_REASONS, CAPTURE_STATUSES, type CaptureHealth } from '../domain/capture-health.ts';
import type { LedgerTotal } from '../domain/student-ledger.ts';
import type { TrafficFigures } from '../domain/traffic-figures.ts';
import type { ConnectionCounts } from '../http/connection-watch.ts';
import type { HostStats } from '../runtime/host-stats.ts';
import type { Answered } from './dispatch.ts';
import { DomainMetrics } from './domain-metrics.ts';
import { EXPIRING_KINDS, type ExpiringKind } from './retention.ts';

/** One thread's metrics as data, which another thread sums. */
export type MetricsData = object[];

/** Upper bounds of the histograms' buckets, in seconds: the first for a health check, the last for making patterns. */
const DURATION_BUCKETS_S = [
  0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
/** The route label of unknown paths. Their texts come from callers, and their number is unlimited. */
const NO_ROUTE = 'none';

/**
 * Counts of one route and method, as plain numbers that are cheap to increase. They become metrics when they are read.
 */
interface RouteMeters {
  by_status: Map<number, number>;
  /** Number of answers per bucket. The last number counts answers that are slower than all buckets. */
  buckets: Float64Array;
  sum_s: number;
}

const REQUESTS = 'understudy_http_requests_total';
const DURATIONS = 'understudy_http_request_duration_seconds';

const EXPIRED = 'understudy_retention_deleted_total';
const LAST_PASS = 'understudy_retention_pass_timestamp_seconds';
const WAITS = 'understudy_retention_waits_for_confirmation';

/** Makes the metric that says whether the deletion by age in one part of the service waits for a confirmation. */
function describeWaits(of: 'records' | 'captures', waits: boolean): object {
  return {
    name: WAITS,
    help: '1 if the clock jumped: until understudy retention --confirm, at most one more day is deleted by age',
    type: 'gauge',
    values: [{ value: waits ? 1 : 0, labels: { of } }],
    aggregator: 'max',
  };
}

/** Metrics of one server thread: its requests, and its deletions by age. */
export class ApiMetrics {
  readonly #expired = new Map<string, number>(EXPIRING_KINDS.map((kind) => [kind, 0]));
  #lastPassS: number | null = null;
  #waits: boolean | null = null;
  /** Functions that return the counts of other parts of the thread. */
  readonly #others: (() => MetricsData)[] = [];
  /** Counts by route, then by method. */
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

  /** Adds a function that returns the metrics of another part of the thread; every {@link read} calls it. */
  show(list: () => MetricsData): void {
    this.#others.push(list);
  }

  /** Counts deleted items. */
  countExpired(kind: ExpiringKind, deleted: number): void {
    this.#expired.set(kind, this.#expired.get(kind)! + deleted);
  }

  /** Records whether the pass that starts now waits for a confirmation of the clock. */
  noteWaits(waits: boolean): void {
    this.#waits = waits;
  }

  /** Records the end of a complete pass. */
  notePass(nowMs: number): void {
    this.#lastPassS = nowMs / 1_000;
  }

  /** Returns the metrics in the form in which the library sums several processes. */
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
        help: 'Requests of the API by route, method and status; status 429: over the rate limit',
        type: 'counter',
        values: requests,
        aggregator: 'sum',
      },
      {
        name: DURATIONS,
        help: 'Time from the complete request to its answer, by route',
        type: 'histogram',
        values: durations,
        aggregator: 'sum',
      },
      {
        name: EXPIRED,
        help: 'Items that the service deleted by age (RETENTION_DAYS), by kind',
        type: 'counter',
        values: [...this.#expired].map(([kind, value]) => ({ value, labels: { kind } })),
        aggregator: 'sum',
      },
      ...this.#others.flatMap((list) => list()),
      ...(this.#waits === null ? [] : [describeWaits('records', this.#waits)]),
      ...(this.#lastPassS === null
        ? []
        : [
            {
              name: LAST_PASS,
              help: 'Time of the last complete pass of the deletion by age',
              type: 'gauge',
              values: [{ value: this.#lastPassS, labels: {} }],
              aggregator: 'max',
            },
          ]),
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

/**
 * The sources of the main thread's metrics. If a source throws, or its promise rejects, only the metrics of this source
 * are missing; for a server thread, its last counts are shown.
 */
interface MetricsSources {
  /** Metrics of every server thread. */
  servers(): Promise<MetricsData>[];
  actors(): Promise<(HostStats | null)[]>;
  /** State of both ports. */
  connections?(): ConnectionCounts;
  /** The implementation that checks the framing of requests. */
  framing_guard?(): string;
  /** The gateway's stats (document 3); null in a process without a gateway. */
  capture(): Promise<object> | null;
  /** Counts of judged captured runs; absent: runs are not judged. */
  verdicts?(): { differing_runs: number };
  /** Figures of the captured traffic of this UTC day; null: not known now. Absent: nothing is captured. */
  today?(): Promise<TrafficFigures | null>;
  /**
   * For each place of `backup --follow`, the time up to which its last point contains all changes.
   */
  points?(): { place: string; from_ms: number }[];
  /** Databases of the API, by their names. */
  databases?(): Record<string, { oldest_read_s: number }>;
}

/** Kinds of a metric: a counter only grows while the process runs, a gauge goes up and down. */
const GROWS = Counter;
const VARIES = Gauge;

/** Metrics from the gateway's stats. */
const CAPTURE_NUMBERS = [
  ['exchanges', 'attempted', 'attempted_total', GROWS, 'Exchanges that passed'],
  ['exchanges', 'captured', 'captured_total', GROWS, 'Stored exchanges'],
  ['exchanges', 'in_flight', 'in_flight', VARIES, 'Exchanges in progress or not stored yet'],
  ['exchanges', 'aborted', 'aborted_total', GROWS, 'Exchanges that one side aborted'],
  ['writer', 'queue_depth', 'queue_depth', VARIES, 'Exchanges waiting for the writer'],
  ['writer', 'queue_bytes', 'queue_bytes', VARIES, 'Bytes waiting for the writer'],
  ['db', 'damaged', 'damaged', VARIES, 'Damaged capture files that were set aside and still exist'],
] as const;

/** Metrics of deletion by age. */
const EXPIRED_NUMBERS = [
  ['files', 'expired_files_total', GROWS, 'Sealed capture files that were removed by age'],
  ['exchanges', 'expired_exchanges_total', GROWS, 'Captured exchanges that were removed by age'],
  [
    'attachments',
    'expired_attachments_total',
    GROWS,
    'Attachments that were removed with captured exchanges by age',
  ],
  [
    'passed_at_s',
    'expired_pass_timestamp_seconds',
    VARIES,
    'Time of the last complete pass over the captures for deletion by age; 0: not yet',
  ],
] as const;

/** Metrics of the sealed capture files in a bucket. */
const BUCKET_NUMBERS = [
  ['waiting_files', VARIES, 'Sealed capture files that are not in the bucket yet'],
  ['waiting_bytes', VARIES, 'Bytes of sealed capture files that are not in the bucket yet'],
  ['offloaded_files', VARIES, 'Sealed capture files whose bodies are only in the bucket'],
  ['offloaded_bytes', VARIES, 'Bytes of bodies in sealed capture files that are only in the bucket'],
  ['removing', VARIES, 'Objects and folders that are to be removed from the bucket'],
  ['sent_bytes', GROWS, 'Bytes that were sent to the bucket'],
] as const;

/** Metrics of the process that writes the capture database. */
const PROCESS_NUMBERS = [
  ['restarts', 'restarts_total', GROWS, 1, 'Restarts of the capture process after an unexpected end'],
  [
    'silent_ms',
    'silent_seconds',
    VARIES,
    1 / 1_000,
    'Seconds for which the capture process has not answered; 0 while it does',
  ],
  [
    'memory_bytes',
    'memory_bytes',
    VARIES,
    1,
    'Resident memory of the capture process, including memory shared with this process',
  ],
] as const;

/** Metrics of the work that the writer has postponed. */
const PACKING_GAUGES = [
  ['waiting_blocks', 'waiting_blocks', 'Blocks waiting for compression'],
  ['waiting_bytes', 'waiting_bytes', 'Bytes of blocks waiting for compression'],
  ['oldest_s', 'oldest_seconds', 'Seconds for which the oldest block that waits for compression has waited'],
  ['unindexed', 'unindexed', 'Exchanges waiting for the index'],
  ['share', 'share', 'Share of one core that postponed work may use while exchanges arrive'],
] as const;

/** Metrics of the index's backlog. */
const INDEXING_GAUGES = [
  ['exchanges', 'Stored exchanges that are not indexed yet'],
  ['seconds', 'Seconds since the oldest exchange that is not indexed was stored'],
] as const;

/** Metrics of the full-text index. */
const TEXT_INDEX_GAUGES = [
  ['unsearched', 'Stored exchanges that are missing in the full-text index'],
  ['cut', 'Exchanges that are only partly in the full-text index'],
  ['bytes', 'Bytes of the full-text index'],
  ['segments', 'Files of the full-text index'],
] as const;

/** Counts of the stats by cause. */
const CAPTURE_COUNTERS = [
  [
    'writer',
    'errors_by_cause',
    'errors_total',
    'Batches that could not be written, and exchanges that were set aside',
  ],
  ['exchanges', 'dropped_by_cause', 'dropped_total', 'Forwarded exchanges that are not stored'],
  ['exchanges', 'withheld_by_cause', 'withheld_total', 'Stored exchanges without one of their bodies'],
] as const;

/** Metrics of the export of spans, if it is on. */
const OTEL_NUMBERS = [
  ['exchanges', GROWS, 'exported_exchanges_total', 'Captured turns that a collector has accepted'],
  ['spans', GROWS, 'exported_spans_total', 'Spans that a collector has accepted'],
  ['waiting', VARIES, 'waiting_exchanges', 'Stored exchanges that the export has not processed yet'],
] as const;

/** Metrics of relegation, if it is on. */
const RELEGATION_COUNTERS = [
  ['served', 'served_total', 'Steps that the student served'],
  ['errors', 'errors_total', 'Steps on which the student failed, which also count as fallbacks'],
] as const;

/** Counts of relegation with a label. */
const RELEGATION_COUNTERS_BY = [
  ['fallbacks', 'fallbacks_total', 'reason', 'Steps that went to the upstream, by reason'],
  ['tokens_saved', 'tokens_saved_total', 'kind', 'Approximate number of tokens that the upstream was spared'],
  [
    'shadow',
    'shadow_total',
    'outcome',
    'Shadow mode: steps that the student would have served, compared steps, steps with agreement, and steps whose upstream answer was read in two different ways',
  ],
  [
    'audit',
    'audit_total',
    'outcome',
    'Audits: steps that the upstream served instead of the student, compared steps, steps with agreement, and steps whose upstream answer was read in two different ways',
  ],
] as const;

const ACTOR_NUMBERS = [
  ['live', 'live', VARIES, 'Actors in memory'],
  ['mailbox_depth', 'mailbox_depth', VARIES, 'Messages that wait for an actor'],
  ['handled', 'handled_total', GROWS, 'Messages handled since the thread started'],
  ['errors', 'errors_total', GROWS, 'Handlers that threw since the thread started'],
  ['restarts', 'restarts_total', GROWS, 'Actors restarted since the thread started'],
  ['dead_letters', 'dead_letters_total', GROWS, 'Messages that reached no actor since the thread started'],
] as const;

/** Metrics of the whole process; main thread. */
export class ProcessMetrics {
  readonly #sources: MetricsSources;
  /** Processor time, memory, event loop and garbage collection of the process and of this thread. */
  readonly #own = new Registry();
  readonly #domain = new DomainMetrics();
  /**
   * The last counts of each server thread. They remain in use while the thread does not answer.
   */
  readonly #counted: MetricsData[] = [];
  #rendering: Promise<string> | null = null;

  constructor(sources: MetricsSources, version: string) {
    this.#sources = sources;
    collectDefaultMetrics({ register: this.#own });
    new Gauge({
      name: 'understudy_info',
      help: 'The running version',
      labelNames: ['version'],
      registers: [this.#own],
    }).set({ version }, 1);
  }

  /** Writes all metrics as text. Concurrent callers share one result. */
  render(): Promise<string> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = null;
    });
    return this.#rendering;
  }

  async #render(): Promise<string> {
    const { servers, actors, capture, connections, verdicts, framing_guard, today, points, databases } =
      this.#sources;
    const [requests, hosts, stats, figures] = await Promise.all([
      Promise.allSettled(servers()),
      actors().catch((): null[] => []),
      (async () => capture())().catch(() => null),
      (async () => today?.() ?? null)().catch(() => null),
    ]);
    for (const [at, answer] of requests.entries())
      if (answer.status === 'fulfilled') this.#counted[at] = answer.value;
    const answered = hosts.flatMap((host) => host ?? []);
    const captured = stats as Record<string, Record<string, unknown>> | null;
    const parts = [
      this.#own,
      AggregatorRegistry.aggregate([...Object.values(this.#counted), listCaptureWaits(captured)]),
      ...describeIf(connections, describeConnections),
      ...describeIf(framing_guard, describeFramingGuard),
      this.#domain.describe(answered),
      describeActors(answered),
      describeCapture(captured),
      ...describeIf(verdicts, describeVerdicts),
      ...(figures === null ? [] : [describeToday(figures)]),
      ...describeIf(points, describePoints),
      ...describeIf(databases ?? (() => ({})), (reads) => describeReads(reads, captured)),
    ];
    return (await Promise.all(parts.map((part) => part.metrics()))).join('\n');
  }
}

/** The metrics of a source; none if there is no such source, or if it throws. */
function describeIf<Value>(
  source: (() => Value) | undefined,
  describe: (value: Value) => Registry,
): Registry[] {
  if (source === undefined) return [];
  try {
    return [describe(source())];
  } catch {
    return [];
  }
}

/**
 * Makes the metric that says whether the deletion of captures by age waits for a confirmation. It is added to
 * the server threads' metric of the same name. [] if captures are never deleted by age.
 */
function listCaptureWaits(stats: Record<string, Record<string, unknown>> | null): MetricsData {
  const expired = stats?.db?.expired as { waits_for_confirmation?: boolean } | null | undefined;
  const waits = expired?.waits_for_confirmation;
  return waits === undefined ? [] : [describeWaits('captures', waits)];
}

const TODAY_NUMBERS = [
  'exchanges',
  'turns',
  'student_turns',
  'errors',
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'unpriced_turns',
  'estimated_turns',
] as const;

/**
 * Describes the figures that the screen Costs shows for one day. An unknown cost has no series, because 0
 * would be wrong.
 */
function describeToday(figures: TrafficFigures): Registry {
  const registry = new Registry();
  const registers = [registry];
  const gauge = new Gauge({
    name: 'understudy_today',
    help: 'Captured traffic that began on this UTC day, as GET /capture/figures?days=1 has it',
    labelNames: ['of'],
    registers,
  });
  for (const name of TODAY_NUMBERS) gauge.set({ of: name }, figures[name]);
  if (figures.cost_usd === null) return registry;
  new Gauge({
    name: 'understudy_today_cost_usd',
    help: 'Dollars for turns of upstreams that began on this UTC day, as far as prices are known',
    registers,
  }).set(figures.cost_usd);
  return registry;
}

function describePoints(points: readonly { place: string; from_ms: number }[]): Registry {
  const registry = new Registry();
  if (points.length === 0) return registry;
  const gauge = new Gauge({
    name: 'understudy_backup_point_timestamp_seconds',
    help: 'Everything acknowledged before this time is in the place of backup --follow',
    labelNames: ['place'],
    registers: [registry],
  });
  for (const { place, from_ms } of points) gauge.set({ place }, from_ms / 1_000);
  return registry;
}

function describeReads(
  databases: Readonly<Record<string, { oldest_read_s: number }>>,
  stats: Record<string, Record<string, unknown>> | null,
): Registry {
  const registry = new Registry();
  const ages = Object.entries(databases).map(([name, { oldest_read_s }]) => [name, oldest_read_s] as const);
  const captures = stats?.db?.oldest_read_s;
  if (typeof captures === 'number') ages.push(['capture.mdb', captures]);
  if (ages.length === 0) return registry;
  const gauge = new Gauge({
    name: 'understudy_database_oldest_read_seconds',
    help: 'Age of the oldest read transaction of another process, which prevents the reuse of freed pages; 0 without one',
    labelNames: ['database'],
    registers: [registry],
  });
  for (const [database, age] of ages) gauge.set({ database }, age);
  return registry;
}

function describeVerdicts({ differing_runs }: { differing_runs: number }): Registry {
  const registry = new Registry();
  new Counter({
    name: 'understudy_capture_reading_differs_total',
    help: 'Judged runs with an answer that the next request repeats differently from how it was read',
    registers: [registry],
  }).inc(differing_runs);
  return registry;
}

function describeFramingGuard(kind: string): Registry {
  const registry = new Registry();
  const help =
    'Implementation that checks the framing of requests: native, js if the addon does not run, or node for node:http';
  const registers = [registry];
  new Gauge({ name: 'understudy_framing_guard', help, labelNames: ['kind'], registers }).set({ kind }, 1);
  return registry;
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
  gauge('open', 'Open connections of both ports', open);
  gauge('max', 'Maximum number of connections; 0: unlimited', max);
  const refusals = new Counter({
    name: 'understudy_connections_refused_total',
    help: 'Refused connections: beyond a cap, or ended because of a message that can be read in two ways',
    labelNames: ['reason'],
    registers,
  });
  for (const [reason, count] of Object.entries(refused)) refusals.inc({ reason }, count);
  const counter = (name: string, help: string, value: number): void => {
    new Counter({ name: `understudy_connections_${name}_total`, help, registers }).inc(value);
  };
  counter('slow_uploads', 'Requests that were ended because their bodies arrived too slowly', slow_uploads);
  counter('accept_pauses', 'New connections for which there was no file descriptor', accept_pauses);
  return registry;
}

function describeActors(hosts: readonly HostStats[]): Registry {
  const registry = new Registry();
  for (const [of, name, Kind, help] of ACTOR_NUMBERS) {
    const metric = new Kind({
      name: `understudy_actors_${name}`,
      help,
      labelNames: ['kind', 'thread'],
      registers: [registry],
    });
    for (const { index, kinds } of hosts) {
      for (const [kind, stats] of Object.entries(kinds)) metric.inc({ kind, thread: index }, stats[of]);
    }
  }
  return registry;
}

function describeCapture(stats: Record<string, Record<string, unknown>> | null): Registry {
  const registry = new Registry();
  if (stats === null) return registry;
  const add = (Kind: typeof Counter | typeof Gauge, name: string, help: string, value: unknown): void => {
    if (typeof value !== 'number') return;
    new Kind({ name: `understudy_capture_${name}`, help, registers: [registry] }).inc(value);
  };
  for (const [part, of, name, Kind, help] of CAPTURE_NUMBERS) add(Kind, name, help, stats[part]?.[of]);
  const expired = (stats.db?.expired ?? {}) as Record<string, unknown>;
  for (const [of, name, Kind, help] of EXPIRED_NUMBERS) add(Kind, name, help, expired[of]);
  const bucket = stats.db?.bucket as Record<string, unknown> | null | undefined;
  for (const [of, Kind, help] of BUCKET_NUMBERS)
    add(Kind, Kind === GROWS ? `bucket_${of}_total` : `bucket_${of}`, help, bucket?.[of]);
  if (bucket != null)
    add(Gauge, 'bucket_failing', '1 if the last use of the bucket failed', bucket.failure === null ? 0 : 1);
  const own = (stats.writer?.process ?? {}) as Record<string, unknown>;
  for (const [of, name, Kind, unit, help] of PROCESS_NUMBERS) {
    const value = own[of];
    add(Kind, `process_${name}`, help, typeof value === 'number' ? value * unit : undefined);
  }
  const packing = stats.writer?.packing as Record<string, unknown> | undefined;
  for (const [of, name, help] of PACKING_GAUGES) add(Gauge, `packing_${name}`, help, packing?.[of]);
  const behind = stats.writer?.indexing_behind as Record<string, unknown> | undefined;
  for (const [of, help] of INDEXING_GAUGES) add(Gauge, `indexing_behind_${of}`, help, behind?.[of]);
  const text = stats.writer?.text_index as Record<string, unknown> | undefined;
  for (const [of, help] of TEXT_INDEX_GAUGES) add(Gauge, `text_index_${of}`, help, text?.[of]);
  for (const [part, counts, name, help] of CAPTURE_COUNTERS) {
    const values = stats[part]?.[counts];
    if (typeof values === 'object' && values !== null)
      addCounts(registry, `understudy_capture_${name}`, help, 'cause', values as Record<string, number>);
  }
  addHealth(registry, stats);
  if (stats.otel !== undefined) addOtel(registry, stats.otel);
  if (stats.relegation?.enabled === true) addRelegation(registry, stats.relegation);
  if (stats.proxy !== undefined) addProxy(registry, stats.proxy as never);
  return registry;
}

/** Adds one counter with a value for each of the counts; the label holds the count's name. */
function addCounts(
  registry: Registry,
  name: string,
  help: string,
  label: string,
  counts: Readonly<Record<string, number>>,
): void {
  const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
  for (const [value, count] of Object.entries(counts)) counter.inc({ [label]: value }, count);
}

/** Adds 1 or 0 for each possible status and reason of capture, and the age of the oldest unconfirmed batch. */
function addHealth(registry: Registry, stats: Record<string, unknown>): void {
  const { status, reasons = [] } = stats as unknown as CaptureHealth;
  const registers = [registry];
  const statuses = new Gauge({
    name: 'understudy_capture_status',
    help: '1 for the present state of capture',
    labelNames: ['status'],
    registers,
  });
  for (const known of CAPTURE_STATUSES) statuses.set({ status: known }, known === status ? 1 : 0);
  const gauge = new Gauge({
    name: 'understudy_capture_reason',
    help: '1 for each present reason why capture is not ok',
    labelNames: ['reason'],
    registers,
  });
  for (const known of CAPTURE_REASONS) {
    gauge.set({ reason: known }, reasons.some(({ reason }) => reason === known) ? 1 : 0);
  }
  const writer = stats.writer as Record<string, unknown> | undefined;
  new Gauge({
    name: 'understudy_capture_oldest_append_seconds',
    help: 'Age of the oldest batch that the writer has not confirmed',
    registers,
  }).set(Number(writer?.oldest_append_ms ?? 0) / 1_000);
}

function addOtel(registry: Registry, otel: Record<string, unknown>): void {
  const registers = [registry];
  for (const [of, Kind, name, help] of OTEL_NUMBERS)
    new Kind({ name: `understudy_otel_${name}`, help, registers }).inc(Number(otel[of]));
  const failing = 'understudy_otel_failing';
  new Gauge({ name: failing, help: '1 while the collector does not accept spans', registers }).set(
    otel.failing === null ? 0 : 1,
  );
  const givenUp = 'Spans and exchanges that no collector will get, by cause';
  const counts = otel.given_up_by_cause as Record<string, number>;
  addCounts(registry, 'understudy_otel_given_up_total', givenUp, 'cause', counts);
}

function addRelegation(registry: Registry, relegation: Record<string, unknown>): void {
  const registers = [registry];
  for (const [of, name, help] of RELEGATION_COUNTERS) {
    new Counter({ name: `understudy_relegation_${name}`, help, registers }).inc(Number(relegation[of]));
  }
  for (const [of, name, label, help] of RELEGATION_COUNTERS_BY) {
    const counts = relegation[of] as Record<string, number>;
    addCounts(registry, `understudy_relegation_${name}`, help, label, counts);
  }
  const audit = relegation.audit as Record<string, number>;
  new Counter({
    name: 'understudy_relegation_audit_errors_total',
    help: 'Compared steps for which the student would have answered differently from the upstream',
    registers,
  }).inc((audit.compared ?? 0) - (audit.agreed ?? 0));
  const suspended = new Gauge({
    name: 'understudy_relegation_suspended',
    help: 'Agents and kinds of answers with which the student was wrong too often',
    labelNames: ['of'],
    registers,
  });
  for (const [of, count] of Object.entries(relegation.suspended as Record<string, number>))
    suspended.set({ of }, count);
  new Gauge({
    name: 'understudy_relegation_expired',
    help: '1 if the student has expired',
    registers,
  }).set(relegation.expired === true ? 1 : 0);
  addLedger(registers, (relegation.ledger_total ?? null) as LedgerTotal | null);
  new Gauge({
    name: 'understudy_relegation_ready',
    help: '1 if there is a student to ask',
    registers,
  }).set(relegation.student === null ? 0 : 1);
}

/** Adds the metrics of the proxy's tunnels. */
function addProxy(
  registry: Registry,
  { open, tunnels, refused }: Record<string, Record<string, number>>,
): void {
  const registers = [registry];
  const name = 'understudy_proxy_tunnels_open';
  const gauge = new Gauge({ name, help: 'Open tunnels, by kind', labelNames: ['kind'], registers });
  for (const [kind, count] of Object.entries(open ?? {})) gauge.set({ kind }, count);
  addCounts(
    registry,
    'understudy_proxy_tunnels_total',
    'Tunnels opened so far, by kind',
    'kind',
    tunnels ?? {},
  );
  const why = 'Clients of the proxy that got no tunnel, by reason';
  addCounts(registry, 'understudy_proxy_refused_total', why, 'reason', refused ?? {});
}

/**
 * Adds metrics from the ledger, which survives restarts. They sum all agents, because each agent's name would
 * make another series. An unknown figure has no series, because 0 would be wrong. Adds nothing without a
 * ledger.
 */
function addLedger(registers: Registry[], total: LedgerTotal | null): void {
  if (total === null) return;
  const gauge = new Gauge({
    name: 'understudy_relegation_ledger',
    help: 'Over the days in the ledger: served steps, steps without a price and with a guessed price, compared and wrong audited answers, late take-overs',
    labelNames: ['of'],
    registers,
  });
  for (const name of ['served', 'unpriced', 'guessed', 'compared', 'wrong', 'late'] as const)
    gauge.set({ of: name }, total[name]);
  if (total.saved_usd === null) return;
  new Gauge({
    name: 'understudy_relegation_ledger_saved_usd',
    help: 'Estimated net saving over the days in the ledger, in dollars: what the upstream would have charged for the served steps, minus the costs of the student’s service and of late take-overs; negative: the student cost more than it saved',
    registers,
  }).set(total.saved_usd);
}

/** The registry's media type. */
export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;
