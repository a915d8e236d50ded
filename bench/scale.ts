/**
 * Measures API boxes that share a PostgreSQL database: `npm run bench -- scale`. It measures steps, written rows and
 * retrieval with one and two boxes, and with one box that has its own database, in alternating rounds. Load, boxes and
 * database share the machine's cores. So the separate processor times of boxes and database are more meaningful than
 * the requests per second. Own process.
 */
import type { ChildProcess } from 'node:child_process';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { type Curve, drawCurves } from './curve-svg.ts';
import { JsonLine } from './json-line.ts';
import { BenchPostgres, type DatabaseCounts } from './postgres.ts';
import { readCpuUs } from './process-meter.ts';
import { PRODUCT_KEY, type Product, startProduct } from './product.ts';
import { type Quantiles, Samples, takeMedian } from './quantiles.ts';
import { type Provenance, saveResult, takeProvenance } from './results.ts';
import { RetrieveClient, Situations } from './retrieve-client.ts';
import type { StepJob, StepResult } from './step-load.ts';
import { startBenchProcess } from './targets.ts';

interface ScaleBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

const MEASURES = ['steps', 'rows', 'retrieval'] as const;
type Measured = (typeof MEASURES)[number];

/** Figures of one round of one measure. */
interface Sample {
  per_s: number;
  p50_us: number;
  p99_us: number;
  /** Processor time of all boxes, and of the database, in microseconds per request. */
  box_us: number;
  database_us: number;
  /** Statements that commit, per request; each is one round trip. */
  commits: number;
  wal_bytes: number;
  stored_bytes: number;
  /** Requests of the round that were answered with 503. Refused rows and retrievals are sent again. */
  refused: number;
}

/** Medians of the rounds. */
interface ScalePoint extends Sample {
  what: Measured;
  /** 0: one box with its own database. */
  boxes: number;
}

interface ScaleResult extends Provenance {
  suite: 'scale';
  agents_per_box: number;
  points: ScalePoint[];
}

const BOXES = [0, 1, 2];
const AGENTS_PER_BOX = 16;
const PATTERNS = 1_000;
/** Requests of each measure and box. */
const REQUESTS = {
  full: { steps: 4_000, rows: 800, retrieval: 400 },
  quick: { steps: 800, rows: 160, retrieval: 80 },
};
const ROUNDS = { full: 3, quick: 1 };

export async function runScaleBench({ quick, save, say }: ScaleBenchOptions): Promise<void> {
  const size = quick ? 'quick' : 'full';
  const dir = mkdtempSync(join(tmpdir(), 'bench-scale-'));
  const stops: (() => Promise<void>)[] = [async () => rmSync(dir, { recursive: true, force: true })];
  try {
    say('starting PostgreSQL');
    const postgres = await BenchPostgres.start();
    stops.push(() => postgres.stop());
    const fleets: Fleet[] = [];
    for (const boxes of BOXES) {
      say(boxes === 0 ? 'starting a box with its own database' : `starting ${boxes} boxes`);
      fleets.push(await startFleet(boxes, join(dir, `${boxes}`), postgres, stops));
    }
    const samples = new Map<string, Sample[]>();
    // The first round warms up.
    for (let round = -1; round < ROUNDS[size]; round++)
      for (const fleet of fleets)
        for (const what of MEASURES) {
          say(
            `${what} with ${fleet.boxes === 0 ? 'one box and its own database' : `${fleet.boxes} boxes`}, round ${round + 1}`,
          );
          const sample = await measure(fleet, what, REQUESTS[size][what], round);
          const key = `${what} ${fleet.boxes}`;
          if (round >= 0) samples.set(key, [...(samples.get(key) ?? []), sample]);
        }
    say('');
    const points = [...samples].map(([key, all]): ScalePoint => {
      const [what, boxes] = key.split(' ') as [Measured, string];
      return { what, boxes: Number(boxes), ...takeMedians(all) };
    });
    const result: ScaleResult = {
      ...takeProvenance(),
      suite: 'scale',
      agents_per_box: AGENTS_PER_BOX,
      points,
    };
    print(result);
    if (save) store(result);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

function takeMedians(all: readonly Sample[]): Sample {
  const names = Object.keys(all[0]!) as (keyof Sample)[];
  return Object.fromEntries(
    names.map((name) => [name, takeMedian(all.map((sample) => sample[name]))]),
  ) as unknown as Sample;
}

/** Figures from the process that sends the load to one box. */
interface LoadFigures {
  latency_us: Quantiles;
  /** Requests that were answered with 503. */
  refused: number;
}

/** The boxes of one variant, each with a process that logs steps. */
interface Fleet {
  boxes: number;
  products: Product[];
  loads: ChildProcess[];
  /** null without a shared database. */
  database: { name: string; postgres: BenchPostgres } | null;
  situations: Situations;
  /** Retrievals so far, so that no two are equal. */
  asked: number;
}

/** Starts boxes that share a database. @param boxes 0: one box with its own database */
async function startFleet(
  boxes: number,
  dir: string,
  postgres: BenchPostgres,
  stops: (() => Promise<void>)[],
): Promise<Fleet> {
  const name = `scale_${boxes}`;
  const env: Record<string, string> = { VECTOR_STORE_URL: 'embedded:', PLAN_CAPS: '{"free": null}' };
  if (boxes === 0) env.AUTH_DB_URL = 'embedded:';
  else {
    env.AUTH_DB_URL = await postgres.createDatabase(name);
    env.AUTH_JWT_SECRET = randomBytes(32).toString('hex');
    migrate(env.AUTH_DB_URL);
  }
  const fleet: Fleet = {
    boxes,
    products: [],
    loads: [],
    database: boxes === 0 ? null : { name, postgres },
    situations: new Situations(1),
    asked: 0,
  };
  for (let at = 0; at < Math.max(1, boxes); at++) {
    const product = await startProduct(`${dir}-${at}`, env);
    stops.push(() => product.stop());
    fleet.products.push(product);
    const { child } = await startBenchProcess<{ ready: true }>('step-load.ts');
    stops.push(async () => child.disconnect());
    fleet.loads.push(child);
  }
  await new RetrieveClient(fleet.products[0]!.port).import(
    Array.from({ length: PATTERNS }, (_, n) => ({
      situation: fleet.situations.situation(n),
      dead_ends: 'Raised the timeout; ran it again; changed the order of the steps.',
      unlock: 'Read the first error of the log instead of the last, and fixed what it named.',
    })),
    'bench',
  );
  return fleet;
}

function migrate(address: string): void {
  const entry = join(import.meta.dirname, '../src/cli/understudy.mjs');
  const { status, stderr } = spawnSync(process.execPath, [entry, 'migrate'], {
    env: { PATH: process.env.PATH, AUTH_DB_URL: address },
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`migrate: ${stderr}`);
}

/** Measures one round of one measure: all boxes get the same load at the same time. */
async function measure(fleet: Fleet, what: Measured, requests: number, round: number): Promise<Sample> {
  const { products, database } = fleet;
  const boxesUs = () => products.reduce((sum, { pid }) => sum + readCpuUs(pid), 0);
  const counted = async (): Promise<DatabaseCounts | null> =>
    (await database?.postgres.count(database.name)) ?? null;
  const databaseUs = () => database?.postgres.cpu_us ?? 0;
  const countsBefore = await counted();
  const before = { boxes: boxesUs(), database: databaseUs(), at: performance.now() };
  const loads = { steps: logSteps, rows: writeRows, retrieval: retrieve };
  const seen = await Promise.all(
    products.map((_, at) => loads[what](fleet, at, requests, `${what}-${round + 1}-${at}`)),
  );
  const took_s = (performance.now() - before.at) / 1_000;
  const all = requests * products.length;
  const [box_us, database_us] = [(boxesUs() - before.boxes) / all, (databaseUs() - before.database) / all];
  const counts = await counted();
  const grown = (pick: (found: DatabaseCounts) => number) =>
    counts === null || countsBefore === null ? 0 : (pick(counts) - pick(countsBefore)) / all;
  return {
    per_s: all / took_s,
    p50_us: takeMedian(seen.map(({ latency_us }) => latency_us.p50)),
    p99_us: Math.max(...seen.map(({ latency_us }) => latency_us.p99)),
    box_us,
    database_us,
    commits: grown(({ commits }) => commits),
    wal_bytes: grown(({ wal_bytes }) => wal_bytes),
    stored_bytes: grown(({ stored_bytes }) => stored_bytes),
    refused: seen.reduce((sum, { refused }) => sum + refused, 0),
  };
}

/**
 * Logs steps. Each agent has one run. All steps of an agent go to the same box, as with a load balancer that has sticky
 * sessions.
 */
async function logSteps(fleet: Fleet, at: number, requests: number, prefix: string): Promise<LoadFigures> {
  const each = Math.ceil(requests / AGENTS_PER_BOX);
  const job: StepJob = {
    targets: [{ name: 'box', port: fleet.products[at]!.port, key: PRODUCT_KEY }],
    connections: AGENTS_PER_BOX,
    requests: each,
    what: 'steps',
    prefix,
    runs: 'own',
    starts_own: true,
    first_index: 0,
    block: each,
  };
  const load = fleet.loads[at]!;
  const answered = new Promise<StepResult>((resolve, reject) => {
    load.once('message', ({ result, error }: { result?: StepResult; error?: string }) =>
      result === undefined ? reject(new Error(error)) : resolve(result),
    );
  });
  load.send(job);
  const { failures, first_failure, latency_us } = (await answered).targets.box!;
  if (failures > 0 && !first_failure.startsWith('503 '))
    throw new Error(`${failures} steps failed, the first with ${first_failure}`);
  return { latency_us, refused: failures };
}

/** Replaces a row of the main tables, with its entry in the audit: an organization's profile. */
function writeRows(fleet: Fleet, at: number, requests: number): Promise<LoadFigures> {
  return repeat(fleet.products[at]!, requests, (line, client, n) =>
    line.post('/v1/monitor/profiles', {
      org_id: `bench-${at}-${client}`,
      name: 'bench',
      weights: { infinite_loop: (n % 100) / 100 + 0.01 },
    }),
  );
}

function retrieve(fleet: Fleet, at: number, requests: number): Promise<LoadFigures> {
  return repeat(fleet.products[at]!, requests, (line) =>
    line.post('/v1/traces/retrieve', { org_id: 'bench', context: fleet.situations.task(fleet.asked++) }),
  );
}

/** Repeats a request over a connection for each agent. */
async function repeat(
  { port }: Product,
  requests: number,
  send: (line: JsonLine, client: number, n: number) => Promise<unknown>,
): Promise<LoadFigures> {
  const samples = new Samples();
  let next = 0;
  let refused = 0;
  const work = async (client: number): Promise<void> => {
    const line = await JsonLine.open(port);
    while (next < requests) {
      const n = next++;
      const startedMs = performance.now();
      while (!(await isTaken(send(line, client, n)))) refused += 1;
      samples.add((performance.now() - startedMs) * 1_000);
    }
    line.close();
  };
  await Promise.all(Array.from({ length: AGENTS_PER_BOX }, (_, client) => work(client)));
  return { latency_us: samples.quantiles(), refused };
}

/** Waits for an answer. @returns false for 503, after which a client repeats the request */
async function isTaken(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return true;
  } catch (thrown) {
    if (!String((thrown as Error).message).startsWith('HTTP/1.1 503 ')) throw thrown;
    return false;
  }
}

/** Computes how the figures change with boxes, relative to one box over the database. */
function toCurves(points: readonly ScalePoint[]): Curve[] {
  return MEASURES.map((name) => {
    const own = points.filter(({ what, boxes }) => what === name && boxes > 0);
    const alone = own.find(({ boxes }) => boxes === 1)!.per_s;
    return { name, points: own.map(({ boxes, per_s }) => [boxes, per_s / alone] as const) };
  });
}

function store(result: ScaleResult): void {
  const file = saveResult(result);
  const picture = join(import.meta.dirname, 'results', file.split('/').at(-1)!.replace(/json$/, 'svg'));
  const { cpu, cores } = result.machine;
  writeFileSync(
    picture,
    drawCurves(toCurves(result.points), {
      title: `${cores} cores, ${cpu}, shared by boxes, database and load`,
      axis: 'boxes over one PostgreSQL; requests per second as multiples of the figure with one box',
      reaches: 2,
    }),
  );
  console.log(`\n${file}\n${relative(process.cwd(), picture)}`);
}

function print({ points, machine }: ScaleResult): void {
  const load = machine.load_average[0]!.toFixed(1);
  console.log(`${machine.cpu}, ${machine.cores} cores, load ${load}; boxes, database and load share them\n`);
  const head = [
    '',
    'boxes',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'box µs',
    'database µs',
    'commits',
    'WAL bytes',
    'refused',
  ];
  const write = (words: readonly string[]) =>
    console.log(words.map((word, at) => (at === 0 ? word.padEnd(10) : word.padStart(12))).join(''));
  write(head);
  for (const point of points)
    write([
      point.what,
      point.boxes === 0 ? 'own' : `${point.boxes}`,
      point.per_s.toFixed(0),
      (point.p50_us / 1_000).toFixed(2),
      (point.p99_us / 1_000).toFixed(2),
      point.box_us.toFixed(0),
      point.database_us.toFixed(0),
      point.commits.toFixed(3),
      point.wal_bytes.toFixed(0),
      point.refused.toFixed(0),
    ]);
  console.log('\nµs, commits and bytes are for one request');
}
