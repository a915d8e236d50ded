/**
 * Measures how throughput grows with the number of cores: `npm run bench -- cores`. It loads the gateway (and nginx
 * with as many workers), steps and retrieval with 1, 2, 4, … server threads, each variant bound to as many cores, in
 * alternating rounds. The load is not bound, so it may share the cores of the target. Own process.
 */
import type { ChildProcess } from 'node:child_process';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { countUsableCores } from '../src/std/usable-cores.ts';
import { type Curve, drawCurves } from './curve-svg.ts';
import type { LoadJobs } from './load.ts';
import { readCpuUs } from './process-meter.ts';
import { PRODUCT_KEY, type Product, startProduct } from './product.ts';
import { Samples, takeMedian } from './quantiles.ts';
import { type Provenance, readLastResult, saveResult, takeProvenance } from './results.ts';
import { RetrieveClient, Situations } from './retrieve-client.ts';
import { describeStart, measureStart, type StartFigures } from './start.ts';
import type { StepJob, StepResult } from './step-load.ts';
import { findNginx, startBenchProcess, startServer, startTargets, type Target } from './targets.ts';

interface CoresBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

/** A figure of one variant. */
interface CoresPoint {
  /** `pool`: agents that send each step over a different connection. */
  what: 'gateway' | 'nginx' | 'steps' | 'pool' | 'retrieval';
  threads: number;
  /** Median of the rounds. */
  per_s: number;
  /** Processor time of the target and its children, in microseconds per request. */
  cpu_us: number;
}

interface CoresResult extends Provenance {
  suite: 'cores';
  points: CoresPoint[];
  /** One for each number of server threads in STARTED_THREADS. */
  starts: StartFigures[];
}

const BODY_BYTES = 4_096;
const CONNECTIONS_PER_THREAD = 16;
const PATTERNS = 1_000;
const STEPS = { full: 20_000, quick: 4_000 };
const RETRIEVALS = { full: 1_500, quick: 300 };
const LOAD_S = { full: 3, quick: 1 };
const ROUNDS = { full: 5, quick: 2 };
const IDLE_MS = { full: 10_000, quick: 3_000 };
const STARTED_THREADS = [1, 16];

/** Runs the bench. @returns false if a figure with more threads is below the one with a single thread */
export async function runCoresBench({ quick, save, say }: CoresBenchOptions): Promise<boolean> {
  const size = quick ? 'quick' : 'full';
  const dir = mkdtempSync(join(tmpdir(), 'bench-cores-'));
  const cores = countUsableCores();
  const counts = [1, 2, 4, 8, 16, 32, 64].filter((count) => count <= cores);
  const hasNginx = findNginx() !== null;
  if (!hasNginx) console.log('nginx is not installed: left out');
  if (spawnSync('taskset', ['--version']).error !== undefined)
    throw new Error('the cores suite needs taskset');
  const stops: (() => Promise<void>)[] = [];
  try {
    const variants: Variant[] = [];
    for (const threads of counts) {
      say(`starting ${threads}`);
      const variant = await startVariant(threads, join(dir, String(threads)), hasNginx, stops);
      variants.push(variant);
    }
    const samples = new Map<string, { per_s: number; cpu_us: number }[]>();
    // Round -1 only warms up; its figures are not kept.
    for (let round = -1; round < ROUNDS[size]; round++) {
      for (const variant of variants) {
        for (const [what, measure] of Object.entries(variant.measures)) {
          say(`${what} with ${variant.threads}, round ${round + 1}`);
          const sample = await measure(round < 0 ? 'full' : size, round);
          const key = `${what} ${variant.threads}`;
          if (round >= 0) samples.set(key, [...(samples.get(key) ?? []), sample]);
        }
      }
    }
    const points = [...samples].map(([key, all]): CoresPoint => {
      const [what, threads] = key.split(' ') as [CoresPoint['what'], string];
      const median = (pick: (sample: { per_s: number; cpu_us: number }) => number) =>
        takeMedian(all.map(pick));
      return {
        what,
        threads: Number(threads),
        per_s: median((s) => s.per_s),
        cpu_us: median((s) => s.cpu_us),
      };
    });
    for (const stop of stops.splice(0).reverse()) await stop();
    const starts: StartFigures[] = [];
    for (const threads of STARTED_THREADS) {
      say(`start of ${threads}`);
      starts.push(await measureStart(join(dir, `start-${threads}`), threads, IDLE_MS[size]));
    }
    say('');
    const result: CoresResult = { ...takeProvenance(), suite: 'cores', points, starts };
    print(result, readLastResult<CoresResult>('cores', result));
    if (save) {
      const file = saveResult(result);
      const picture = join(
        import.meta.dirname,
        'results',
        `${file.split('/').at(-1)!.replace(/json$/, 'svg')}`,
      );
      writeFileSync(
        picture,
        drawCurves(toCurves(points), {
          title: `${cores} cores, ${result.machine.cpu}, shared with the load`,
          axis: 'server threads, bound to as many cores; requests per second as multiples of the figure with one thread',
          reaches: Math.max(...points.map(({ threads }) => threads)),
        }),
      );
      console.log(`\n${file}\n${relative(process.cwd(), picture)}`);
    }
    return toCurves(points).every(({ points: curve }) => curve.every(([, times]) => times >= 1));
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

type Measure = (size: 'full' | 'quick', round: number) => Promise<{ per_s: number; cpu_us: number }>;

interface Variant {
  threads: number;
  measures: Partial<Record<CoresPoint['what'], Measure>>;
}

async function importPatterns(product: Product, situations: Situations): Promise<RetrieveClient> {
  const client = new RetrieveClient(product.port);
  await client.import(
    Array.from({ length: PATTERNS }, (_, n) => ({
      situation: situations.situation(n),
      dead_ends: 'Raised the timeout; ran it again; changed the order of the steps.',
      unlock: 'Read the first error of the log instead of the last, and fixed what it named.',
    })),
    'bench',
  );
  return client;
}

/** Starts a variant with this many threads, bound to as many cores. */
async function startVariant(
  threads: number,
  dir: string,
  hasNginx: boolean,
  stops: (() => Promise<void>)[],
): Promise<Variant> {
  const product = await startProduct(
    `${dir}-product`,
    { SERVER_THREADS: String(threads), VECTOR_STORE_URL: 'embedded:', PLAN_CAPS: '{"free": null}' },
    threads,
  );
  stops.push(() => product.stop());
  const upstream = await startServer('upstream.ts');
  stops.push(upstream.stop);
  const targets = await startTargets(
    hasNginx ? ['nginx', 'gateway'] : ['gateway'],
    upstream.port,
    `${dir}-targets`,
    [],
    threads,
  );
  for (const target of targets) stops.push(target.stop);
  const load = await startBenchProcess<{ ready: true }>('load.ts');
  const stepLoad = await startBenchProcess<{ ready: true }>('step-load.ts');
  stops.push(async () => {
    load.child.disconnect();
    stepLoad.child.disconnect();
  });
  const situations = new Situations(1);
  const client = await importPatterns(product, situations);
  const forward =
    (target: Target): Measure =>
    async (size) => {
      const before = readCpuUs(target.pid!);
      const { answered, failed, requestsPerS } = await askLoad(load.child, {
        port: target.port,
        connections: CONNECTIONS_PER_THREAD * threads,
        seconds: LOAD_S[size],
        workload: { kind: 'plain', bytes: BODY_BYTES },
      });
      if (failed > 0) throw new Error(`${failed} requests to ${target.name} failed`);
      return { per_s: requestsPerS, cpu_us: (readCpuUs(target.pid!) - before) / answered };
    };
  const measures: Variant['measures'] = {};
  for (const target of targets) measures[target.name as 'nginx' | 'gateway'] = forward(target);
  const steps =
    (isPooled: boolean): Measure =>
    async (size, round) => {
      const agents = CONNECTIONS_PER_THREAD * threads;
      const requests = Math.ceil(STEPS[size] / agents);
      const before = readCpuUs(product.pid);
      const prefix = `${isPooled ? 'pool' : 'run'}${round}`;
      const { per_s } = await logSteps(stepLoad.child, product, agents, requests, prefix, isPooled);
      return { per_s, cpu_us: (readCpuUs(product.pid) - before) / (requests * agents) };
    };
  measures.steps = steps(false);
  measures.pool = steps(true);
  let asked = 0;
  measures.retrieval = async (size) => {
    const before = readCpuUs(product.pid);
    const startedMs = performance.now();
    await client.repeat(RETRIEVALS[size], CONNECTIONS_PER_THREAD * threads, new Samples(), () =>
      situations.task(asked++),
    );
    const per_s = (RETRIEVALS[size] * 1_000) / (performance.now() - startedMs);
    return { per_s, cpu_us: (readCpuUs(product.pid) - before) / RETRIEVALS[size] };
  };
  return { threads, measures };
}

function askLoad(child: ChildProcess, job: LoadJobs['throughput'][0]): Promise<LoadJobs['throughput'][1]> {
  return ask(child, { kind: 'throughput', job });
}

async function logSteps(
  child: ChildProcess,
  { port }: Product,
  connections: number,
  requests: number,
  prefix: string,
  isPooled: boolean,
): Promise<StepResult['targets'][string]> {
  const targets = [{ name: 'step', port, key: PRODUCT_KEY }];
  const job: StepJob = {
    targets,
    connections,
    requests,
    what: 'steps',
    prefix,
    runs: 'own',
    is_pooled: isPooled,
    starts_own: true,
    first_index: 0,
    block: requests,
  };
  const { step } = (await ask<StepResult>(child, job)).targets;
  if (step!.failures > 0)
    throw new Error(`${step!.failures} steps failed, the first with ${step!.first_failure}`);
  return step!;
}

async function ask<Result>(child: ChildProcess, message: object): Promise<Result> {
  const answered = new Promise<{ result?: Result; error?: string }>((resolve, reject) => {
    child.once('message', (answer) => resolve(answer as { result?: Result }));
    child.once('exit', () => reject(new Error('the load process ended')));
  });
  child.send(message);
  const { result, error } = await answered;
  child.removeAllListeners('exit');
  if (result === undefined) throw new Error(error);
  return result;
}

/** Divides each figure by the figure with a single thread. */
function toCurves(points: readonly CoresPoint[]): Curve[] {
  const names = [...new Set(points.map(({ what }) => what))];
  return names.map((name) => {
    const own = points.filter(({ what }) => what === name);
    const alone = own.find(({ threads }) => threads === 1)!.per_s;
    return { name, points: own.map(({ threads, per_s }) => [threads, per_s / alone] as const) };
  });
}

function print({ points, starts, machine }: CoresResult, last: CoresResult | null): void {
  console.log(
    `${machine.cpu}, ${machine.cores} cores, load ${machine.load_average[0]!.toFixed(1)}; the load shares them\n`,
  );
  console.log('             threads   requests/s   times one   µs of processor   last time');
  for (const { what, threads, per_s, cpu_us } of points) {
    const alone = points.find((point) => point.what === what && point.threads === 1)!.per_s;
    const before = last?.points.find((point) => point.what === what && point.threads === threads);
    const change =
      before === undefined ? '' : `${(per_s / before.per_s).toFixed(2)} of ${before.per_s.toFixed(0)}`;
    console.log(
      `${what.padEnd(12)} ${String(threads).padStart(7)} ${per_s.toFixed(0).padStart(12)} ${(per_s / alone).toFixed(2).padStart(11)} ${cpu_us.toFixed(0).padStart(17)}   ${change}`,
    );
  }
  for (const start of starts) console.log(describeStart(start));
}
