/**
 * `npm run bench -- gateway`: measures what the gateway costs, compared with the same gateway without capture, a
 * node:http proxy, nginx and no proxy, on one machine. Own process; load, upstream and targets are separate processes.
 *
 * It measures most loads in rounds over the targets (A B C D A B C D …) and shows the median of the rounds. Ratios
 * compare figures of the same round, because a machine that is slow for a while then affects both. Single requests go
 * to the targets in short alternating blocks (load-latency.ts), and stalled readers wait at all targets at once
 * (stall.ts).
 */
import type { ChildProcess } from 'node:child_process';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { CertificateFiles } from '../src/std/certificate-files.ts';
import { BENCH_CERTIFICATE, BENCH_KEY } from './certificate.ts';
import { printGatewayReport } from './gateway-report.ts';
import type {
  ExportCell,
  GatewayPhase,
  GatewayPlan,
  GatewayResult,
  LoadSample,
  MessagesCell,
  ProxiedCell,
  StreamsCell,
  ThroughputCell,
} from './gateway-result.ts';
import { GATEWAY_PHASES } from './gateway-result.ts';
import type { LoadJobs } from './load.ts';
import { readCpuUs, readDiskBytes, readPeakBytes, readThreadCpuUs, resetPeak } from './process-meter.ts';
import { PROXY_NAMES, type ProxyTarget, startProxyTarget } from './proxy-targets.ts';
import { saveResult, takeProvenance } from './results.ts';
import { measureStalls } from './stall.ts';
import {
  askServer,
  findNginx,
  startBenchProcess,
  startGateway,
  startServer,
  startTargets,
  TARGET_NAMES,
  type Target,
  type TargetName,
} from './targets.ts';
import { CONVERSATION_TURNS, makeAnswer, makeRequests, type Workload } from './workload.ts';

const SMALL = 4 * 1024;
const LARGE = 300 * 1024;
/** Bytes of a WebSocket message. */
const MESSAGE = 1024;
const STREAM_FRAMES = 64;
const STALL_MEGABYTES = 200;
const SETTLE_LIMIT_MS = 20_000;
/**
 * A gateway rests if it uses at most REST_CPU_US of processor time in REST_MS. Processor time is counted in steps of
 * 10 ms.
 */
const REST_CPU_US = 20_000;
const REST_MS = 300;

export const FULL: GatewayPlan = {
  phases: GATEWAY_PHASES,
  targets: TARGET_NAMES,
  bodies: [SMALL, LARGE],
  connections: [1, 32, 256],
  rounds: 3,
  seconds: 1,
  warmUpSeconds: 6,
  probeRequests: { [SMALL]: 5000, [LARGE]: 800 },
  streams: [32, 128, 512],
  streamRounds: 4,
  stallMs: 12_000,
};

export const QUICK: GatewayPlan = {
  ...FULL,
  phases: ['latency', 'throughput', 'conversation', 'tls', 'websocket', 'proxy', 'otel', 'streams', 'stall'],
  targets: ['direct', 'nginx', 'forwarder', 'gateway'],
  connections: [1, 32],
  rounds: 1,
  seconds: 0.5,
  warmUpSeconds: 0.8,
  probeRequests: { [SMALL]: 800, [LARGE]: 150 },
  streams: [512],
  streamRounds: 1,
  stallMs: 3000,
};

/** The fields of `GET /__gw/stats` that this bench reads. */
interface GatewayStats {
  writer: { queue_depth: number; dropped: number };
  exchanges: { attempted: number; captured: number; dropped: number; in_flight: number };
}

async function fetchStats(target: Target): Promise<GatewayStats> {
  return JSON.parse((await askServer(target, '/__gw/stats')).body) as GatewayStats;
}

/**
 * Waits after a load, until a gateway has written all captured exchanges or SETTLE_LIMIT_MS have passed. Other targets
 * only get a short pause.
 */
async function settle(target: Target): Promise<{ backlog: number; settleS: number }> {
  await delay(20);
  if (target.dataDir === null) return { backlog: 0, settleS: 0 };
  const from = performance.now();
  let stats = await fetchStats(target);
  const backlog = stats.writer.queue_depth;
  while (
    stats.writer.queue_depth + stats.exchanges.in_flight > 0 &&
    performance.now() - from < SETTLE_LIMIT_MS
  ) {
    await delay(20);
    stats = await fetchStats(target);
  }
  // The answer is 409 or 404 if nothing is captured. Then there is nothing to flush.
  await askServer(target, '/__gw/flush', 'POST');
  return { backlog, settleS: (performance.now() - from) / 1000 };
}

/**
 * Waits until a gateway rests because it has completed its deferred work, which packs the stored exchanges, or until
 * SETTLE_LIMIT_MS have passed.
 */
async function rest({ pid, dataDir }: Target): Promise<void> {
  if (pid === null || dataDir === null) return;
  const from = performance.now();
  for (let usedUs = Number.POSITIVE_INFINITY; usedUs > REST_CPU_US; ) {
    if (performance.now() - from > SETTLE_LIMIT_MS) return;
    const before = readCpuUs(pid);
    await delay(REST_MS);
    usedUs = readCpuUs(pid) - before;
  }
}

/** Sends jobs to the load process, and waits for the results. */
class Load {
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  ask<K extends keyof LoadJobs>(kind: K, job: LoadJobs[K][0]): Promise<LoadJobs[K][1]> {
    return new Promise((resolve, reject) => {
      const onExit = (): void => reject(new Error('the load process ended'));
      this.#child.once('exit', onExit);
      this.#child.once('message', (message: { result: LoadJobs[K][1]; error?: string }) => {
        this.#child.off('exit', onExit);
        if (message.error) reject(new Error(`${kind}: ${message.error}`));
        else resolve(message.result);
      });
      this.#child.send({ kind, job });
    });
  }
}

/**
 * Pauses all gateways except the given target. An idle gateway packs the exchanges that it stored, and would take
 * processor time from the measured target.
 */
function leaveAlone(target: Pick<Target, 'pid'>, targets: readonly Target[]): void {
  for (const { pid, dataDir } of targets) if (pid !== null && dataDir !== null) process.kill(pid, 'SIGSTOP');
  if (target.pid !== null) process.kill(target.pid, 'SIGCONT');
}

function letAllRun(targets: readonly Target[]): void {
  for (const { pid } of targets) if (pid !== null) process.kill(pid, 'SIGCONT');
}

const subtractThreads = (
  after: Record<string, number>,
  before: Record<string, number>,
): Record<string, number> =>
  Object.fromEntries(
    Object.entries(after)
      .map(([thread, us]): [string, number] => [thread, us - (before[thread] ?? 0)])
      .filter(([, us]) => us > 0),
  );

async function loadOne(
  load: Load,
  target: Target,
  workload: Workload,
  connections: number,
  seconds: number,
): Promise<LoadSample> {
  const { pid } = target;
  const cpuBefore = pid ? readCpuUs(pid) : Number.NaN;
  const threadsBefore = pid ? readThreadCpuUs(pid) : {};
  const { port, isSecure } = target;
  const result = await load.ask('throughput', { port, isSecure, connections, seconds, workload });
  const { backlog, settleS } = await settle(target);
  const cpuUs = pid ? readCpuUs(pid) - cpuBefore : Number.NaN;
  const threadCpuUs = pid ? subtractThreads(readThreadCpuUs(pid), threadsBefore) : {};
  return { ...result, cpuUs, cpuUsPerRequest: cpuUs / result.answered, threadCpuUs, backlog, settleS };
}

/** Measures the mean size of an exchange's two bodies, each compressed with gzip, over the exchanges of a run. */
function measureGzipAlone(workload: Workload): number {
  const next = makeRequests(workload, 1, 0);
  let sum = 0;
  for (let i = 0; i < CONVERSATION_TURNS; i++) {
    const request = next();
    const bodyAt = request.indexOf('\r\n\r\n') + 4;
    const replyBytes = Number(/reply=(\d+)/.exec(request.toString('latin1', 0, 200))?.[1]);
    const answer = makeAnswer(replyBytes);
    answer.refresh(i);
    sum += gzipSync(request.subarray(bodyAt)).length + gzipSync(answer.buffer).length;
  }
  return sum / CONVERSATION_TURNS;
}

/** Measures with wrk as a cross-check. wrk needs less processor time than autocannon. @returns requests a second */
function runWrk(target: Target, connections: number, seconds: number, dir: string): number {
  const script = join(dir, 'bench.lua');
  writeFileSync(
    script,
    `local filler = string.rep("cross check words ", 220)
local n = 0
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
function request()
  n = n + 1
  local from = n % 900
  return wrk.format(nil, "/v1/messages?reply=${SMALL}", nil,
    '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"' .. n .. string.sub(filler, from, from + 3000) .. '"}]}')
end
`,
  );
  const args = [
    '-t',
    '1',
    '-c',
    String(connections),
    '-d',
    `${Math.max(1, Math.round(seconds))}s`,
    '-s',
    script,
  ];
  const done = spawnSync('wrk', [...args, `http://127.0.0.1:${target.port}/`], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  return Number(/Requests\/sec:\s*([\d.]+)/.exec(done.stdout ?? '')?.[1] ?? Number.NaN);
}

interface Bench {
  plan: GatewayPlan;
  load: Load;
  upstreamPort: number;
  dir: string;
  nodeArgs: string[];
  result: GatewayResult;
  say: (what: string) => void;
}

/** Starts all targets for a group of loads, runs the loads, reads capture's figures, and stops the targets. */
async function withTargets(
  bench: Bench,
  group: string,
  gzipOf: Workload | null,
  work: (targets: Target[]) => Promise<void>,
  upstreamPort = bench.upstreamPort,
  tls: CertificateFiles | null = null,
): Promise<void> {
  const { plan, result } = bench;
  bench.say(`${group}: start`);
  const isOther = tls !== null || upstreamPort !== bench.upstreamPort;
  const targets = await startTargets(
    // `node-http` supports neither TLS nor WebSocket.
    isOther ? plan.targets.filter((name) => name !== 'node-http') : plan.targets,
    upstreamPort,
    join(bench.dir, group.replaceAll(' ', '-')),
    bench.nodeArgs,
    undefined,
    tls,
  );
  try {
    for (const target of targets) if (target.pid) resetPeak(target.pid);
    await work(targets);
    letAllRun(targets);
    const peakRssBytes = Object.fromEntries(
      targets.filter((t) => t.pid !== null).map((t) => [t.name, readPeakBytes(t.pid as number)]),
    );
    const gateway = targets.find((t) => t.name === 'gateway');
    const forwarder = targets.find((t) => t.name === 'forwarder');
    if (gateway?.dataDir) {
      const { exchanges } = await fetchStats(gateway);
      const diskBytes = readDiskBytes(gateway.dataDir);
      result.capture.push({
        group,
        attempted: exchanges.attempted,
        captured: exchanges.captured,
        dropped: exchanges.dropped,
        diskBytes,
        diskBytesPerExchange: diskBytes / exchanges.captured,
        gzipBytesPerExchange: gzipOf ? measureGzipAlone(gzipOf) : Number.NaN,
        peakRssBytes,
        forwarderCaptured: forwarder ? (await fetchStats(forwarder)).exchanges.captured > 0 : false,
      });
    }
  } finally {
    letAllRun(targets);
    for (const target of targets) await target.stop();
  }
}

async function measureCell(
  bench: Bench,
  targets: Target[],
  workload: Workload,
  connections: number,
  into: ThroughputCell[] = bench.result.throughput,
): Promise<void> {
  const cell: ThroughputCell = { workload, connections, rounds: [] };
  const label = workload.kind === 'plain' ? `${workload.bytes / 1024} KB` : workload.kind;
  for (let round = 0; round < bench.plan.rounds; round++) {
    const samples: ThroughputCell['rounds'][number] = {};
    for (const target of targets) {
      bench.say(`${label}, ${connections} connections, round ${round + 1}: ${target.name}`);
      leaveAlone(target, targets);
      samples[target.name] = await loadOne(bench.load, target, workload, connections, bench.plan.seconds);
    }
    cell.rounds.push(samples);
  }
  letAllRun(targets);
  into.push(cell);
}

async function warmUp(bench: Bench, targets: Target[], workload: Workload): Promise<void> {
  for (const target of targets) {
    bench.say(`warm-up: ${target.name}`);
    const isNode = target.name !== 'direct' && target.name !== 'nginx';
    await loadOne(bench.load, target, workload, 32, bench.plan.warmUpSeconds * (isNode ? 1 : 0.1));
  }
}

async function measureBodies(bench: Bench, bytes: number): Promise<void> {
  const { plan, result } = bench;
  const workload: Workload = { kind: 'plain', bytes };
  const group = `bodies of ${bytes / 1024} KB`;
  await withTargets(bench, group, workload, async (targets) => {
    await warmUp(bench, targets, workload);
    if (plan.phases.includes('latency')) {
      bench.say(`${group}: one request at a time`);
      const probed = targets.map(({ name, port }) => ({ name, port }));
      const requests = plan.probeRequests[bytes] ?? 500;
      result.latency.push({
        bytes,
        ...(await bench.load.ask('latency', { targets: probed, bytes, requests })),
      });
      for (const target of targets) await settle(target);
    }
    if (plan.phases.includes('throughput')) {
      for (const connections of plan.connections) await measureCell(bench, targets, workload, connections);
    }
    if (plan.phases.includes('wrk') && bytes === SMALL && spawnSync('wrk', ['-v']).error === undefined) {
      for (let round = 0; round < 2; round++) {
        const requestsPerS: Partial<Record<TargetName, number>> = {};
        for (const target of targets) {
          bench.say(`cross-check with wrk: ${target.name}`);
          requestsPerS[target.name] = runWrk(target, 32, plan.seconds, bench.dir);
          await settle(target);
        }
        result.wrk.push({ round, requestsPerS });
      }
    }
  });
}

async function measureConversations(bench: Bench): Promise<void> {
  const workload: Workload = { kind: 'conversation' };
  await withTargets(bench, 'conversations', workload, async (targets) => {
    await warmUp(bench, targets, workload);
    await measureCell(bench, targets, workload, 32);
  });
}

function writeCertificate(dir: string): CertificateFiles {
  const files = { cert: join(dir, 'cert.pem'), key: join(dir, 'key.pem') };
  writeFileSync(files.cert, BENCH_CERTIFICATE);
  writeFileSync(files.key, BENCH_KEY, { mode: 0o600 });
  return files;
}

/** Measures targets that clients reach over TLS. The upstream is the same as without TLS. */
async function measureTls(bench: Bench, tls: CertificateFiles): Promise<void> {
  const workload: Workload = { kind: 'plain', bytes: SMALL };
  const measure = async (targets: Target[]): Promise<void> => {
    await warmUp(bench, targets, workload);
    await measureCell(bench, targets, workload, 32, bench.result.tls);
  };
  await withTargets(bench, 'TLS', null, measure, bench.upstreamPort, tls);
}

async function measureAllMessages(bench: Bench): Promise<void> {
  const { plan, result, load } = bench;
  const upstream = await startServer('echo-sockets.ts');
  const measure = async (targets: Target[]): Promise<void> => {
    const ask = (target: Target, sockets: number, seconds: number) =>
      load.ask('messages', { port: target.port, sockets, seconds, bytes: MESSAGE });
    for (const target of targets) {
      bench.say(`WebSocket, warm-up: ${target.name}`);
      await ask(target, 32, plan.warmUpSeconds);
      await settle(target);
    }
    for (const sockets of [1, 32]) {
      const cell: MessagesCell = { sockets, bytes: MESSAGE, rounds: [] };
      for (let round = 0; round < plan.rounds; round++) {
        const samples: MessagesCell['rounds'][number] = {};
        for (const target of targets) {
          bench.say(`WebSocket, ${sockets} sockets, round ${round + 1}: ${target.name}`);
          leaveAlone(target, targets);
          const before = target.pid ? readCpuUs(target.pid) : Number.NaN;
          const measured = await ask(target, sockets, plan.seconds);
          await settle(target);
          samples[target.name] = {
            ...measured,
            cpuUs: target.pid ? readCpuUs(target.pid) - before : Number.NaN,
          };
        }
        cell.rounds.push(samples);
      }
      letAllRun(targets);
      result.messages.push(cell);
    }
  };
  try {
    await withTargets(bench, 'WebSocket', null, measure, upstream.port);
  } finally {
    await upstream.stop();
  }
}

/** Measures CONNECT tunnels. The proxy terminates their TLS, and uses TLS to the upstream as well. */
async function measureAllProxied(bench: Bench, tls: CertificateFiles): Promise<void> {
  const { plan, result, load } = bench;
  const upstream = await startServer('upstream.ts', [tls.cert, tls.key]);
  const dir = join(bench.dir, 'proxied');
  const targets: ProxyTarget[] = [];
  try {
    for (const name of PROXY_NAMES) {
      const target = await startProxyTarget(name, upstream.port, dir, tls);
      if (target === null) console.log(`${name} is not installed: left out`);
      else targets.push(target);
    }
    const ask = async ({ proxyPort, gateway }: ProxyTarget, tunnels: number, seconds: number) => {
      const job = { proxyPort, upstreamPort: upstream.port, tunnels, seconds, bytes: SMALL };
      const measured = await load.ask('proxied', job);
      if (gateway !== null) await settle(gateway);
      return measured;
    };
    for (const target of targets) {
      bench.say(`proxy, warm-up: ${target.name}`);
      await ask(target, 32, plan.warmUpSeconds);
    }
    const gateways = targets.flatMap(({ gateway }) => gateway ?? []);
    for (const tunnels of [1, 32]) {
      const cell: ProxiedCell = { tunnels, bytes: SMALL, rounds: [] };
      for (let round = 0; round < plan.rounds; round++) {
        const samples: ProxiedCell['rounds'][number] = {};
        for (const target of targets) {
          bench.say(`proxy, ${tunnels} tunnels, round ${round + 1}: ${target.name}`);
          leaveAlone(target, gateways);
          const before = target.pid ? readCpuUs(target.pid) : Number.NaN;
          const measured = await ask(target, tunnels, plan.seconds);
          samples[target.name] = {
            ...measured,
            cpuUs: target.pid ? readCpuUs(target.pid) - before : Number.NaN,
          };
        }
        cell.rounds.push(samples);
      }
      result.proxied.push(cell);
      letAllRun(gateways);
    }
  } finally {
    for (const { gateway } of targets) if (gateway !== null) letAllRun([gateway]);
    for (const target of targets) await target.stop();
    await upstream.stop();
  }
}

/** Measures two gateways with capture. One of them sends spans to a collector that accepts everything. */
async function measureExport(bench: Bench): Promise<void> {
  const { plan, result, load } = bench;
  const collector = await startServer('span-collector.ts');
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.port}` };
  const start = (way: 'off' | 'on', env: Record<string, string>) =>
    startGateway(
      'gateway',
      bench.upstreamPort,
      join(bench.dir, `otel-${way}`),
      [],
      undefined,
      undefined,
      null,
      env,
    );
  const off = await start('off', {});
  const on = await start('on', endpoint);
  const workload: Workload = { kind: 'plain', bytes: SMALL };
  const cell: ExportCell = {
    connections: 32,
    bytes: SMALL,
    rounds: [],
    exported: { exchanges: 0, spans: 0, waiting: 0 },
  };
  try {
    for (const target of [off, on]) {
      bench.say('export, warm-up');
      await loadOne(load, target, workload, cell.connections, plan.warmUpSeconds);
    }
    for (let round = 0; round < plan.rounds; round++) {
      const samples: Partial<ExportCell['rounds'][number]> = {};
      for (const [way, target] of [
        ['off', off],
        ['on', on],
      ] as const) {
        bench.say(`export ${way}, round ${round + 1}`);
        leaveAlone(target, [off, on]);
        samples[way] = await loadOne(load, target, workload, cell.connections, plan.seconds);
      }
      cell.rounds.push(samples as ExportCell['rounds'][number]);
    }
    letAllRun([off, on]);
    await rest(on);
    const { otel } = (await fetchStats(on)) as unknown as { otel: ExportCell['exported'] };
    cell.exported = { exchanges: otel.exchanges, spans: otel.spans, waiting: otel.waiting };
    result.exports.push(cell);
  } finally {
    letAllRun([off, on]);
    await off.stop();
    await on.stop();
    await collector.stop();
  }
}

async function measureAllStreams(bench: Bench): Promise<void> {
  const { plan, result } = bench;
  await withTargets(bench, 'streams', null, async (targets) => {
    for (const target of targets) {
      bench.say(`streams, warm-up: ${target.name}`);
      await bench.load.ask('streams', { port: target.port, streams: 64, framesPerStream: STREAM_FRAMES });
      await settle(target);
      await rest(target);
    }
    for (const streams of plan.streams) {
      const cell: StreamsCell = { streams, rounds: [] };
      for (let round = 0; round < plan.streamRounds; round++) {
        const samples: StreamsCell['rounds'][number] = {};
        for (const target of targets) {
          bench.say(`${streams} streams, round ${round + 1}: ${target.name}`);
          const before = target.pid ? readCpuUs(target.pid) : Number.NaN;
          const job = { port: target.port, streams, framesPerStream: STREAM_FRAMES };
          const measured = await bench.load.ask('streams', job);
          await settle(target);
          await rest(target);
          samples[target.name] = {
            ...measured,
            cpuUs: target.pid ? readCpuUs(target.pid) - before : Number.NaN,
          };
        }
        cell.rounds.push(samples);
      }
      result.streams.push(cell);
    }
  });
}

async function measureAllStalls(bench: Bench): Promise<void> {
  bench.say(`stalled readers: ${bench.plan.stallMs / 1000} s`);
  const upstream = await startServer('bulk-upstream.ts');
  const names = bench.plan.targets.filter((name) => name !== 'direct');
  const targets = await startTargets(names, upstream.port, join(bench.dir, 'stall'), bench.nodeArgs);
  try {
    bench.result.stalls = await measureStalls(targets, upstream.port, STALL_MEGABYTES, bench.plan.stallMs);
  } finally {
    letAllRun(targets);
    for (const target of targets) await target.stop();
    await upstream.stop();
  }
}

interface GatewayBenchOptions {
  plan: GatewayPlan;
  /** Flags for the Node process that runs the gateway with capture, for example those of a profiler. */
  nodeArgs: string[];
  /** Whether to write the figures to bench/results. */
  save: boolean;
  /** Shows progress; does nothing if the output is not a terminal. */
  say: (what: string) => void;
}

/** Returns the result for the file, without the threads' processor times, which only the printed report shows. */
function withoutThreads(result: GatewayResult): GatewayResult {
  return JSON.parse(
    JSON.stringify(result, (key, value: unknown) => (key === 'threadCpuUs' ? undefined : value)),
  ) as GatewayResult;
}

/**
 * Runs the plan and prints its report. Resolves with whether every goal was met. Rejects if a target fails to start.
 */
export async function runGatewayBench(options: GatewayBenchOptions): Promise<boolean> {
  const startedAt = performance.now();
  const nginx = findNginx();
  const plan = { ...options.plan };
  if (nginx === null && plan.targets.includes('nginx')) {
    console.log('nginx is not in PATH. It is left out, and so are the two goals that compare with it.');
    plan.targets = plan.targets.filter((name) => name !== 'nginx');
  }
  const dir = mkdtempSync(join(tmpdir(), 'understudy-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const upstream = await startServer('upstream.ts');
  const loadProcess = await startBenchProcess('load.ts');
  const result: GatewayResult = {
    suite: 'gateway',
    ...takeProvenance(),
    nginx,
    plan,
    latency: [],
    throughput: [],
    tls: [],
    messages: [],
    proxied: [],
    exports: [],
    streams: [],
    stalls: [],
    wrk: [],
    capture: [],
    elapsed_s: 0,
  };
  const load = new Load(loadProcess.child);
  const { nodeArgs, say } = options;
  const bench: Bench = { plan, load, upstreamPort: upstream.port, dir, nodeArgs, result, say };
  const wants = (...phases: GatewayPhase[]): boolean => phases.some((phase) => plan.phases.includes(phase));

  if (wants('latency', 'throughput', 'wrk'))
    for (const bytes of plan.bodies) await measureBodies(bench, bytes);
  if (wants('conversation')) await measureConversations(bench);
  const certificate = writeCertificate(dir);
  if (wants('tls')) await measureTls(bench, certificate);
  if (wants('websocket')) await measureAllMessages(bench);
  if (wants('proxy')) await measureAllProxied(bench, certificate);
  if (wants('otel')) await measureExport(bench);
  if (wants('streams')) await measureAllStreams(bench);
  if (wants('stall')) await measureAllStalls(bench);

  await upstream.stop();
  loadProcess.child.disconnect();
  result.elapsed_s = (performance.now() - startedAt) / 1000;
  say('');
  const met = printGatewayReport(result);
  if (options.save) console.log(`\nwritten to ${saveResult(withoutThreads(result))}`);
  return met;
}
