/**
 * Finds figures that grow with the history: `npm run bench -- growth`. It makes databases of several sizes: captured
 * exchanges with the code of the capture process, and monitored runs in the form of the run actor. For each size it
 * measures bytes on the disk, processor time of writing, the time and processor time in which a started service reads
 * its backlog, the memory of the service, and for each list the p99 and the processor time of a request. It reports the
 * figures that grow (GROWS_TIMES), except those that other work of the machine changes. Bytes, writing and reading are
 * divided by the number of exchanges or runs. Own process.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { databasePaths } from '../src/storage/lmdb/stores.ts';
import { makeCaptureDatabase } from './capture-database.ts';
import { CAPTURE_LISTS } from './capture-lists.ts';
import { type Curve, drawCurves } from './curve-svg.ts';
import { KeptConnection } from './kept-connection.ts';
import { readAnonBytes, readBusyUs, readCpuUs, readDiskBytes } from './process-meter.ts';
import { startProduct } from './product.ts';
import { Samples } from './quantiles.ts';
import { type Provenance, saveResult, takeProvenance } from './results.ts';
import { ORG, writeRuns } from './run-database.ts';

interface GrowthPlan {
  /** Sizes, ascending. */
  exchanges: number[];
  runs: number[];
  /** Number of requests for each list. */
  asks: number;
}

export const GROWTH_FULL: GrowthPlan = {
  exchanges: [20_000, 100_000, 300_000],
  runs: [1_000, 50_000, 200_000],
  asks: 100,
};
export const GROWTH_QUICK: GrowthPlan = { exchanges: [500, 2_000], runs: [500, 2_000], asks: 10 };

/** The figures of one size. Those whose name ends in `per_1000` are divided by the thousands of exchanges or runs. */
export interface GrowthPoint {
  /** Exchanges or runs. */
  count: number;
  disk_bytes_per_1000: number;
  write_cpu_ms_per_1000: number;
  /** Time from when the service listens until it has read its backlog and is idle (IDLE). */
  backlog_ms_per_1000: number;
  read_cpu_ms_per_1000: number;
  anon_bytes: number;
  list_p99_ms: Record<string, number>;
  /** Processor time of the service per request. Unlike the p99, it does not include other work of the machine. */
  list_cpu_ms: Record<string, number>;
}

interface GrowthReport {
  exchanges: GrowthPoint[];
  runs: GrowthPoint[];
  grows: string[];
}

/** Exchanges of a run of `capture-database.ts`, and bytes of a run on the wire. */
const EXCHANGES_PER_RUN = 5.23;
const RUN_BYTES = 4_000;

const RUN_LISTS = [
  `/v1/monitor/runs?org_id=${ORG}&limit=100`,
  `/v1/monitor/runs?org_id=${ORG}&limit=100&project_id=web`,
  `/v1/monitor/runs?org_id=${ORG}&outcome=success`,
  `/v1/monitor/runs?org_id=${ORG}&agent_name=rare`,
  `/v1/monitor/runs?org_id=${ORG}&outcome=never+reported`,
];

/**
 * A service is idle if its threads run, or wait for a core, for less than `share` of a period of `ms`, in `times`
 * successive periods.
 */
const IDLE = { ms: 1_000, share: 0.05, times: 3 } as const;
/** Interval between requests that check whether the service has read its backlog. */
const POLL_MS = 100;
/**
 * A series grows if its largest size gives more than this many times the value of its smallest size. A value in
 * milliseconds must also be larger by more than `GROWS_MS`.
 */
const GROWS_TIMES = 1.5;
const GROWS_MS = 5;
/** Lines of the chart. */
const CURVES = 8;

/** Makes and measures the databases of all sizes. */
export async function runGrowthBench({
  plan,
  save,
  say,
}: {
  plan: GrowthPlan;
  save: boolean;
  say: (what: string) => void;
}): Promise<GrowthReport> {
  const dir = mkdtempSync(join(tmpdir(), 'bench-growth-'));
  try {
    const exchanges: GrowthPoint[] = [];
    for (const count of plan.exchanges)
      exchanges.push(await measureExchanges(join(dir, `exchanges-${count}`), count, plan.asks, say));
    const runs: GrowthPoint[] = [];
    for (const count of plan.runs)
      runs.push(await measureRuns(join(dir, `runs-${count}`), count, plan.asks, say));
    const report = { exchanges, runs, grows: [...findGrowing(exchanges), ...findGrowing(runs)] };
    say('');
    console.log(describeGrowth(report).join('\n'));
    if (save) keep({ ...takeProvenance(), suite: 'growth', ...report });
    return report;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measureExchanges(
  dir: string,
  count: number,
  asks: number,
  say: (what: string) => void,
): Promise<GrowthPoint> {
  const before = process.cpuUsage();
  const made = await makeCaptureDatabase({
    dir,
    runs: Math.max(3, Math.round(count / EXCHANGES_PER_RUN)),
    run_bytes: RUN_BYTES,
    tell: (runs) => {
      if (runs % 1_000 === 0) say(`${count} exchanges: ${runs} runs written`);
    },
  });
  const write_cpu_ms = cpuMsSince(before);
  const isReadIn = async (connection: KeptConnection): Promise<boolean> => {
    const list = JSON.parse(await connection.read('/capture/runs?limit=1')) as { being_read: object | null };
    return list.being_read === null;
  };
  return measureService(dir, {
    count: made.exchanges,
    write_cpu_ms,
    asks,
    lists: CAPTURE_LISTS,
    isReadIn,
    say,
  });
}

async function measureRuns(
  dir: string,
  count: number,
  asks: number,
  say: (what: string) => void,
): Promise<GrowthPoint> {
  const before = process.cpuUsage();
  await writeRuns(databasePaths(dir), count, say);
  const write_cpu_ms = cpuMsSince(before);
  const isReadIn = async (connection: KeptConnection): Promise<boolean> => {
    await connection.read(RUN_LISTS[0]!);
    return true;
  };
  return measureService(dir, { count, write_cpu_ms, asks, lists: RUN_LISTS, isReadIn, say });
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

interface Measuring {
  count: number;
  write_cpu_ms: number;
  asks: number;
  lists: readonly string[];
  isReadIn: (connection: KeptConnection) => Promise<boolean>;
  say: (what: string) => void;
}

/** Starts the service over the folder, waits until it has read its backlog, and requests its lists. */
async function measureService(dir: string, measuring: Measuring): Promise<GrowthPoint> {
  const { count, write_cpu_ms, asks, lists, isReadIn, say } = measuring;
  const disk = readDiskBytes(dir);
  const product = await startProduct(dir, { AUTH_DB_URL: 'embedded:' });
  const connection = new KeptConnection(product.port);
  try {
    say(`${count}: the service reads`);
    const startedMs = performance.now();
    const startedUs = readCpuUs(product.pid);
    while (!(await isReadIn(connection))) await delay(POLL_MS);
    // The service reads bodies in advance, which would count as a cost of the requests.
    await untilIdle(product.pid);
    const thousands = count / 1_000;
    const backlog_ms = performance.now() - startedMs;
    const read_cpu_ms = (readCpuUs(product.pid) - startedUs) / 1_000;
    const list_p99_ms: Record<string, number> = {};
    const list_cpu_ms: Record<string, number> = {};
    for (const path of lists) {
      say(`${count}: ${path}`);
      // The first request does not count, because it may fill caches that later requests use.
      await connection.read(path);
      const beforeUs = readCpuUs(product.pid);
      list_p99_ms[path] = await timeList(connection, path, asks);
      list_cpu_ms[path] = (readCpuUs(product.pid) - beforeUs) / 1_000 / asks;
    }
    return {
      count,
      disk_bytes_per_1000: disk / thousands,
      write_cpu_ms_per_1000: write_cpu_ms / thousands,
      backlog_ms_per_1000: backlog_ms / thousands,
      read_cpu_ms_per_1000: read_cpu_ms / thousands,
      anon_bytes: readAnonBytes(product.pid),
      list_p99_ms,
      list_cpu_ms,
    };
  } finally {
    connection.close();
    await product.stop();
    rmSync(dir, { recursive: true, force: true });
    rmSync(`${dir}.log`, { force: true });
  }
}

/** Waits until the service is almost idle. Threads that wait for a core do not count as idle. */
async function untilIdle(pid: number): Promise<void> {
  for (let quiet = 0; quiet < IDLE.times; ) {
    const beforeUs = readBusyUs(pid);
    await delay(IDLE.ms);
    quiet = readBusyUs(pid) - beforeUs > IDLE.share * IDLE.ms * 1_000 ? 0 : quiet + 1;
  }
}

async function timeList(connection: KeptConnection, path: string, asks: number): Promise<number> {
  const took = new Samples();
  for (let ask = 0; ask < asks; ask++) {
    const fromMs = performance.now();
    await connection.read(path);
    took.add(performance.now() - fromMs);
  }
  return took.quantiles().p99;
}

/** A figure at all sizes. */
interface Series {
  name: string;
  values: number[];
  unit: 'B' | 'µs' | 'ms' | 'MB';
  /** Whether other work of the machine changes the figures. Such a series is not judged. */
  isNoisy: boolean;
}

/** Lists all figures of an axis, each at all sizes. */
function listSeries(points: readonly GrowthPoint[]): Series[] {
  const of = (
    name: string,
    unit: Series['unit'],
    pick: (point: GrowthPoint) => number,
    isNoisy = false,
  ): Series => ({ name, unit, isNoisy, values: points.map(pick) });
  return [
    of('disk bytes per item', 'B', (point) => point.disk_bytes_per_1000 / 1_000),
    of('processor time of writing an item', 'µs', (point) => point.write_cpu_ms_per_1000),
    of('time of reading the backlog, per item', 'µs', (point) => point.backlog_ms_per_1000, true),
    of('processor time of reading an item', 'µs', (point) => point.read_cpu_ms_per_1000),
    of('memory', 'MB', (point) => point.anon_bytes / 1e6),
    ...Object.keys(points[0]?.list_p99_ms ?? {}).flatMap((path) => {
      const name = path.replace(`org_id=${ORG}&`, '');
      return [
        of(`p99 of ${name}`, 'ms', (point) => point.list_p99_ms[path]!, true),
        of(`processor time of ${name}`, 'ms', (point) => point.list_cpu_ms[path]!),
      ];
    }),
  ];
}

/** Names the series that grow with the history (`GROWS_TIMES`), the steepest first. Noisy series are left out. */
export function findGrowing(points: readonly GrowthPoint[]): string[] {
  return listSeries(points)
    .filter(({ isNoisy }) => !isNoisy)
    .map(({ name, unit, values }) => ({ name, unit, first: values[0]!, last: values.at(-1)! }))
    .filter(
      ({ unit, first, last }) => last > GROWS_TIMES * first && (unit !== 'ms' || last - first > GROWS_MS),
    )
    .sort((a, b) => b.last / b.first - a.last / a.first)
    .map(({ name, first, last }) => `${name}: ${(last / first).toFixed(1)} times`);
}

export function describeGrowth({ exchanges, runs, grows }: GrowthReport): string[] {
  const table = (noun: string, points: readonly GrowthPoint[]): string[] => [
    `${noun.padEnd(64)} ${points.map(({ count }) => count.toLocaleString('en-US').padStart(12)).join('')}`,
    ...listSeries(points).map(
      ({ name, values, unit }) =>
        `${name.padEnd(64)} ${values.map((value) => `${value.toFixed(unit === 'ms' ? 1 : 0)} ${unit}`.padStart(12)).join('')}`,
    ),
    '',
  ];
  return [
    ...table('exchanges', exchanges),
    ...table('runs', runs),
    grows.length === 0 ? 'nothing grows' : `grows:\n  ${grows.join('\n  ')}`,
  ];
}

function keep(result: Provenance & { suite: 'growth' } & GrowthReport): void {
  const file = saveResult(result);
  writeFileSync(
    file.replace(/\.json$/, '.svg'),
    drawCurves(
      [...toCurves(result.exchanges), ...toCurves(result.runs)]
        .sort((a, b) => b.points.at(-1)![1] - a.points.at(-1)![1])
        .slice(0, CURVES),
      {
        title: `The ${CURVES} figures that grow most with the history`,
        axis: 'captured exchanges or monitored runs; figures as multiples of those at the smallest size',
        reaches: 2,
      },
    ),
  );
  console.log(`\n${file}`);
}

function toCurves(points: readonly GrowthPoint[]): Curve[] {
  const judged = listSeries(points).filter(({ isNoisy, values }) => !isNoisy && values[0]! > 0);
  return judged.map(({ name, values }) => ({
    name,
    points: points.map(({ count }, at) => [count, values[at]! / values[0]!] as const),
  }));
}
