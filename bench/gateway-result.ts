/**
 * The plan and the result of the gateway's bench. Results are stored in bench/results as JSON. Types; bench process.
 */
import type { LatencyResult } from './load-latency.ts';
import type { MessagesResult } from './load-messages.ts';
import type { ProxiedResult } from './load-proxied.ts';
import type { StreamsResult } from './load-streams.ts';
import type { ThroughputResult } from './load-throughput.ts';
import type { ProxyName } from './proxy-targets.ts';
import type { Provenance } from './results.ts';
import type { StallResult } from './stall.ts';
import type { TargetName } from './targets.ts';
import type { Workload } from './workload.ts';

export type GatewayPhase =
  | 'latency'
  | 'throughput'
  | 'conversation'
  | 'streams'
  | 'stall'
  | 'wrk'
  | 'tls'
  | 'websocket'
  | 'proxy'
  | 'otel';
export const GATEWAY_PHASES: GatewayPhase[] = [
  'latency',
  'throughput',
  'conversation',
  'streams',
  'stall',
  'wrk',
  'tls',
  'websocket',
  'proxy',
  'otel',
];

/** The measurements and their durations; see QUICK and FULL. */
export interface GatewayPlan {
  phases: GatewayPhase[];
  targets: TargetName[];
  bodies: number[];
  connections: number[];
  rounds: number;
  seconds: number;
  /**
   * Duration for targets on Node, whose code is compiled while it runs. `direct` and `nginx` get a tenth of it, except
   * in the phases `websocket` and `proxy`.
   */
  warmUpSeconds: number;
  /** Requests of the latency probe to each target, by body size. */
  probeRequests: Record<number, number>;
  streams: number[];
  streamRounds: number;
  stallMs: number;
}

/** One load on one target. */
export interface LoadSample extends ThroughputResult {
  /**
   * Processor time of the target until its queue was empty again, in microseconds: in all, and per answered request.
   */
  cpuUs: number;
  cpuUsPerRequest: number;
  /** Processor time by thread, with keys "pid/tid name". */
  threadCpuUs: Record<string, number>;
  /** Exchanges that were queued for the writer when the load ended, and the seconds until the queue was empty. */
  backlog: number;
  settleS: number;
}

export interface ThroughputCell {
  workload: Workload;
  connections: number;
  rounds: Partial<Record<TargetName, LoadSample>>[];
}

export interface StreamsCell {
  streams: number;
  rounds: Partial<Record<TargetName, StreamsResult & { cpuUs: number }>>[];
}

export interface MessagesCell {
  sockets: number;
  bytes: number;
  rounds: Partial<Record<TargetName, MessagesResult & { cpuUs: number }>>[];
}

/** Requests through CONNECT tunnels, with TLS on both sides of the proxy. */
export interface ProxiedCell {
  tunnels: number;
  bytes: number;
  rounds: Partial<Record<ProxyName, ProxiedResult & { cpuUs: number }>>[];
}

/** The same load on a gateway that exports spans and on one that does not, alternating. */
export interface ExportCell {
  connections: number;
  bytes: number;
  rounds: Record<'off' | 'on', LoadSample>[];
  /** Figures of the exporting gateway when its queues were empty. */
  exported: { exchanges: number; spans: number; waiting: number };
}

/** Capture's work during one group of loads. The gateway was started for the group and stopped after it. */
interface CaptureTotals {
  group: string;
  attempted: number;
  captured: number;
  dropped: number;
  /** Disk blocks of all files under the data directory, in total and per exchange. */
  diskBytes: number;
  diskBytesPerExchange: number;
  /** Size of each exchange's two bodies with gzip; NaN if this was not measured for the group. */
  gzipBytesPerExchange: number;
  peakRssBytes: Partial<Record<TargetName, number>>;
  /** Whether the gateway without capture counted captured exchanges, which would be an error. */
  forwarderCaptured: boolean;
}

export interface GatewayResult extends Provenance {
  suite: 'gateway';
  nginx: string | null;
  plan: GatewayPlan;
  latency: ({ bytes: number } & LatencyResult)[];
  throughput: ThroughputCell[];
  /** Clients use TLS to the targets, which use plain HTTP to the upstream. `direct` uses no TLS. */
  tls: ThroughputCell[];
  messages: MessagesCell[];
  proxied: ProxiedCell[];
  exports: ExportCell[];
  streams: StreamsCell[];
  stalls: StallResult[];
  wrk: { round: number; requestsPerS: Partial<Record<TargetName, number>> }[];
  capture: CaptureTotals[];
  elapsed_s: number;
}
