/**
 * Measures what it costs to log and score a step: `npm run bench -- steps`. It compares the product (`understudy
 * serve`, one server thread, one actor thread) with a bare uWebSockets.js echo of the same JSON, in alternating rounds.
 * The figures are the time that a step adds at one connection, and the requests a second at eight. Further figures show
 * how the cost changes along one run of 5,000 steps, and how cost and memory change from one live run to 100,000. Own
 * process.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readAnonBytes, readDiskBytes, readRssBytes } from './process-meter.ts';
import { takeMedian } from './quantiles.ts';
import { saveResult, takeProvenance } from './results.ts';
import type { StepJob, StepResult } from './step-load.ts';
import { startBenchProcess, startServer } from './targets.ts';

interface StepsBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

interface Plan {
  rounds: number;
  /** Requests per round at one connection, and at each of eight. */
  latency_requests: number;
  throughput_requests: number;
  run_steps: number;
  live_runs: number[];
  live_steps: number;
}

const FULL: Plan = {
  rounds: 5,
  latency_requests: 4_000,
  throughput_requests: 4_000,
  run_steps: 5_000,
  live_runs: [1, 1_000, 10_000, 100_000],
  live_steps: 20_000,
};
const QUICK: Plan = {
  ...FULL,
  rounds: 2,
  latency_requests: 1_500,
  throughput_requests: 1_500,
  live_runs: [1, 2_000],
  live_steps: 4_000,
};

const KEY = 'bench-static-key';
const START_LIMIT_MS = 20_000;
const CONNECTIONS = 8;
/** The goals of the contract: added time at p50, share of the echo's requests a second, memory of live runs. */
const ADDED_P50_US_MAX = 150;
const ECHO_SHARE_MIN = 0.5;
const LIVE_BYTES_MAX = 1e9;

interface Product {
  port: number;
  pid: number;
  dir: string;
  stop(): Promise<void>;
}

interface LiveRuns {
  runs: number;
  p50_us: number;
  per_s: number;
  anon_bytes: number;
  rss_bytes: number;
  disk_bytes: number;
}

/** Runs the bench. @returns false when a goal is missed */
export async function runStepsBench({ quick, save, say }: StepsBenchOptions): Promise<boolean> {
  const plan = quick ? QUICK : FULL;
  const load = await startBenchProcess<{ ready: true }>('step-load.ts');
  const echo = await startServer('json-echo.ts');
  const dir = mkdtempSync(join(tmpdir(), 'bench-steps-'));
  let product = await startProduct(dir);
  const ask = (job: StepJob) => askLoad(load.child, job);
  try {
    const both = (): StepJob['targets'] => [
      { name: 'echo', port: echo.port, key: KEY },
      { name: 'step', port: product.port, key: KEY },
    ];
    say('one connection');
    const latency = await measureBeside(ask, both, product, plan.rounds, plan.latency_requests, 1, 'lat');
    say('eight connections');
    const throughput = await measureBeside(
      ask,
      both,
      product,
      plan.rounds,
      plan.throughput_requests,
      CONNECTIONS,
      'thr',
    );

    say('along one run');
    await startRuns(ask, product, 'long', 1);
    const long = await ask({
      ...stepsJob(product, 'long', plan.run_steps, 1),
      runs: 'own',
    });
    const curve = long.targets.step!.parts_us;

    await product.stop();
    product = await startProduct(join(dir, 'live'));
    const live = await measureLiveRuns(ask, product, plan, say);

    const added_p50_us = latency.step_p50_us - latency.echo_p50_us;
    const echo_share = throughput.step_per_s / throughput.echo_per_s;
    // Mapped pages of the database are part of the system's file cache, and each mapping counts them again. The system
    // reclaims them when it needs memory. So they are not counted here.
    const live_bytes = live.at(-1)!.anon_bytes;
    const goals = {
      added_p50: added_p50_us <= ADDED_P50_US_MAX,
      echo_share: echo_share >= ECHO_SHARE_MIN,
      live_memory: live_bytes <= LIVE_BYTES_MAX,
    };
    say('');
    print({ latency, throughput, curve, live, added_p50_us, echo_share, goals });
    const figures = { latency, throughput, added_p50_us, echo_share, curve_p50_us: curve, live, goals };
    if (save) console.log(`\n${saveResult({ ...takeProvenance(), suite: 'steps', ...figures })}`);
    return Object.values(goals).every(Boolean);
  } finally {
    load.child.disconnect();
    await echo.stop();
    await product.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Measures the time and memory of each number of live runs in the plan. */
async function measureLiveRuns(
  ask: (job: StepJob) => Promise<StepResult>,
  product: Product,
  plan: typeof FULL,
  say: (what: string) => void,
): Promise<LiveRuns[]> {
  const live: LiveRuns[] = [];
  // The first hundred runs load and compile code, which is not a cost of a run.
  await startRuns(ask, product, 'warm', 100);
  await ask({ ...stepsJob(product, 'warm', 2_000, 1), runs: 100 });
  const before = { anon: readAnonBytes(product.pid), rss: readRssBytes(product.pid) };
  let started = 0;
  for (const [at, runs] of plan.live_runs.entries()) {
    say(`${runs} live runs`);
    await startRuns(ask, product, 'live', runs - started, started);
    // Each run gets a few steps first, which are not measured.
    for (let sweep = 0; sweep < 3; sweep++) await sweepRuns(ask, product, runs, 3 * at + sweep);
    started = runs;
    const result = await ask({
      ...stepsJob(product, 'live', Math.ceil(plan.live_steps / CONNECTIONS), Math.min(CONNECTIONS, runs)),
      runs,
      first_index: (3 * at + 3) * 1_000_000 - 500_000,
    });
    live.push({
      runs,
      p50_us: result.targets.step!.latency_us.p50,
      per_s: result.targets.step!.per_s,
      anon_bytes: readAnonBytes(product.pid) - before.anon,
      rss_bytes: readRssBytes(product.pid) - before.rss,
      disk_bytes: readDiskBytes(product.dir),
    });
  }
  return live;
}

/** Measures echo and step alternately, and returns the medians over the rounds. */
async function measureBeside(
  ask: (job: StepJob) => Promise<StepResult>,
  targets: () => StepJob['targets'],
  product: Product,
  rounds: number,
  requests: number,
  connections: number,
  prefix: string,
) {
  const echo: StepResult['targets'][string][] = [];
  const step: StepResult['targets'][string][] = [];
  for (let round = -1; round < rounds; round++) {
    const runPrefix = `${prefix}${round + 1}`;
    await startRuns(ask, product, runPrefix, connections);
    const result = await ask({
      targets: targets(),
      connections,
      // The first round warms up.
      requests: round < 0 ? Math.ceil(requests / 2) : requests,
      what: 'steps',
      prefix: runPrefix,
      runs: 'own',
      first_index: 0,
      block: connections === 1 ? 100 : Math.ceil(requests / 4),
    });
    if (round < 0) continue;
    echo.push(result.targets.echo!);
    step.push(result.targets.step!);
  }
  const over = (from: typeof echo, pick: (round: (typeof echo)[number]) => number) =>
    takeMedian(from.map(pick));
  return {
    connections,
    echo_p50_us: over(echo, (round) => round.latency_us.p50),
    step_p50_us: over(step, (round) => round.latency_us.p50),
    echo_p99_us: over(echo, (round) => round.latency_us.p99),
    step_p99_us: over(step, (round) => round.latency_us.p99),
    echo_per_s: over(echo, (round) => round.per_s),
    step_per_s: over(step, (round) => round.per_s),
  };
}

function stepsJob(product: Product, prefix: string, requests: number, connections: number): StepJob {
  return {
    targets: [{ name: 'step', port: product.port, key: KEY }],
    connections,
    requests,
    what: 'steps',
    prefix,
    runs: 'own',
    first_index: 0,
    block: requests,
  };
}

/** Logs at least one step in each run. */
async function sweepRuns(
  ask: (job: StepJob) => Promise<StepResult>,
  product: Product,
  runs: number,
  index: number,
): Promise<void> {
  const requests = Math.ceil(runs / CONNECTIONS);
  await ask({ ...stepsJob(product, 'live', requests, CONNECTIONS), runs, first_index: index * 1_000_000 });
}

async function startRuns(
  ask: (job: StepJob) => Promise<StepResult>,
  product: Product,
  prefix: string,
  count: number,
  from = 0,
): Promise<void> {
  if (count <= 0) return;
  const connections = Math.min(count, 32);
  await ask({
    ...stepsJob(product, prefix, Math.ceil(count / connections), connections),
    what: 'start',
    first_index: from,
  });
}

/** Has the load process do a job. @throws Error with the first answer that was not 200 */
async function askLoad(child: ChildProcess, job: StepJob): Promise<StepResult> {
  const answered = new Promise<{ result?: StepResult; error?: string }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { result?: StepResult }));
    child.once('exit', () => reject(new Error('the load process ended')));
  });
  child.send(job);
  const { result, error } = await answered;
  child.removeAllListeners('exit');
  if (result === undefined) throw new Error(error);
  for (const { failures, first_failure } of Object.values(result.targets)) {
    if (failures > 0) throw new Error(`${failures} requests failed, the first with ${first_failure}`);
  }
  return result;
}

async function startProduct(dataDir: string): Promise<Product> {
  const logFile = `${dataDir}.log`;
  const log = openSync(logFile, 'w');
  const entry = join(import.meta.dirname, '../src/cli/understudy.mjs');
  const child = spawn(process.execPath, [entry, 'serve', '--port', '0'], {
    stdio: ['ignore', 'pipe', log],
    env: {
      PATH: process.env.PATH,
      DATA_DIR: dataDir,
      SVC_KEYS: KEY,
      RATE_LIMIT_PER_SEC: '100000000',
      RATE_LIMIT_BURST: '100000000',
      ACTOR_THREADS: '1',
      SERVER_THREADS: '1',
    },
  });
  let said = '';
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const url = new Promise<string>((resolve) => {
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const match = /http:\/\/[\d.]+:(\d+)/.exec(said);
      if (match !== null) resolve(match[1]!);
    });
  });
  const failed = Promise.race([ended, delay(START_LIMIT_MS, undefined, { ref: false })]).then(() => null);
  const port = await Promise.race([url, failed]);
  if (port === null) {
    child.kill('SIGKILL');
    throw new Error(`the product did not start:\n${said}\n${readFileSync(logFile, 'utf8').slice(-2_000)}`);
  }
  return {
    port: Number(port),
    pid: child.pid!,
    dir: dataDir,
    stop: async () => {
      child.kill('SIGTERM');
      await Promise.race([ended, delay(10_000, undefined, { ref: false })]);
      child.kill('SIGKILL');
      await ended;
    },
  };
}

function print(figures: {
  latency: Awaited<ReturnType<typeof measureBeside>>;
  throughput: Awaited<ReturnType<typeof measureBeside>>;
  curve: number[];
  live: {
    runs: number;
    p50_us: number;
    per_s: number;
    anon_bytes: number;
    rss_bytes: number;
    disk_bytes: number;
  }[];
  added_p50_us: number;
  echo_share: number;
  goals: Record<string, boolean>;
}): void {
  const { latency, throughput, curve, live, added_p50_us, echo_share, goals } = figures;
  const us = (value: number) => `${value.toFixed(0)} µs`;
  const mb = (value: number) => `${(value / 1e6).toFixed(0)} MB`;
  const verdict = (met: boolean | undefined) => (met ? 'met' : 'MISSED');
  console.log(
    `steps, one connection     echo p50 ${us(latency.echo_p50_us)}, p99 ${us(latency.echo_p99_us)}; step p50 ${us(latency.step_p50_us)}, p99 ${us(latency.step_p99_us)}`,
  );
  console.log(
    `  added p50               ${us(added_p50_us)}   (at most ${ADDED_P50_US_MAX}: ${verdict(goals.added_p50)})`,
  );
  console.log(
    `steps, eight connections  echo ${throughput.echo_per_s.toFixed(0)}/s; step ${throughput.step_per_s.toFixed(0)}/s`,
  );
  console.log(
    `  share of the echo       ${echo_share.toFixed(2)}   (at least ${ECHO_SHARE_MIN}: ${verdict(goals.echo_share)})`,
  );
  console.log(`along a run, p50 by tenth ${curve.map((value) => value.toFixed(0)).join(' ')} µs`);
  for (const { runs, p50_us, per_s, anon_bytes, rss_bytes, disk_bytes } of live) {
    console.log(
      `${String(runs).padStart(7)} live runs         p50 ${us(p50_us)} at ${Math.min(CONNECTIONS, runs)} connection${runs === 1 ? '' : 's'}, ${per_s.toFixed(0)}/s; memory +${mb(rss_bytes)} (${mb(anon_bytes)} without the database's map), disk ${mb(disk_bytes)}`,
    );
  }
  console.log(
    `  ${`${live.at(-1)!.runs.toLocaleString('en-US')} live runs`.padEnd(24)}${verdict(goals.live_memory)} (at most ${mb(LIVE_BYTES_MAX)} without the map)`,
  );
}

if (import.meta.main) {
  const quick = process.argv.includes('--quick');
  const met = await runStepsBench({ quick, save: false, say: (what) => what && console.error(what) });
  process.exit(met ? 0 : 1);
}
