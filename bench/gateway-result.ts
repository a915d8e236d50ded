/** What the gateway's bench is asked to measure and what it finds: types, kept in bench/results as JSON. Bench process. */
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

/** What to measure and how long; see QUICK and FULL. */
export interface GatewayPlan {
  phases: GatewayPhase[];
  targets: TargetName[];
  bodies: number[];
  connections: number[];
  rounds: number;
  seconds: number;
  /** For the targets that run on Node, whose code gets fast by running; the others take a tenth of it. */
  warmUpSeconds: number;
  /** Requests of the latency probe to each target, by body size. */
  probeRequests: Record<number, number>;
  streams: number[];
  streamRounds: number;
  stallMs: number;
}

/** One load on one target. */
export interface LoadSample extends ThroughputResult {
  /** Processor time of the target for it, until its queue was empty again; per answered request; microseconds. */
  cpuUs: number;
  cpuUsPerRequest: number;
  /** The same by thread, "pid/tid name". */
  threadCpuUs: Record<string, number>;
  /** Exchanges still queued for the writer when the load ended, and the seconds until none were. */
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

/** Requests through tunnels that CONNECT opened, in TLS on both sides. */
export interface ProxiedCell {
  tunnels: number;
  bytes: number;
  rounds: Partial<Record<ProxyName, ProxiedResult & { cpuUs: number }>>[];
}

/** The same load on a gateway that exports spans and on one that does not, in turns. */
export interface ExportCell {
  connections: number;
  bytes: number;
  rounds: Record<'off' | 'on', LoadSample>[];
  /** Of the one that exports, when all had come to rest. */
  exported: { exchanges: number; spans: number; waiting: number };
}

/** What capture did under one group of loads: the gateway was started for the group and stopped after it. */
interface CaptureTotals {
  group: string;
  attempted: number;
  captured: number;
  dropped: number;
  /** Blocks of all files under the data directory, and their share of one exchange. */
  diskBytes: number;
  diskBytesPerExchange: number;
  /** What gzip of each exchange's two bodies alone would have taken; NaN where the group mixes workloads. */
  gzipBytesPerExchange: number;
  peakRssBytes: Partial<Record<TargetName, number>>;
  /** True when the forwarder counted exchanges although it was told not to capture. */
  forwarderCaptured: boolean;
}

export interface GatewayResult extends Provenance {
  suite: 'gateway';
  nginx: string | null;
  plan: GatewayPlan;
  latency: ({ bytes: number } & LatencyResult)[];
  throughput: ThroughputCell[];
  /** Clients speak TLS to nginx and the gateway, which speak plain HTTP to the upstream; `direct` is without TLS. */
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
