/**
 * Measures the gateway while the shared database is unreachable: `npm run bench -- outage`. A service with API and
 * gateway uses a PostgreSQL database, which is killed and started again in alternating rounds at the same request rate.
 * Forwarding must not become slower or fail. Own process.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadJobs } from './load.ts';
import { BenchPostgres } from './postgres.ts';
import { readCpuUs } from './process-meter.ts';
import { PRODUCT_KEY, startProduct } from './product.ts';
import { takeMedian } from './quantiles.ts';
import { type Provenance, saveResult, takeProvenance } from './results.ts';
import { findFreePort, startBenchProcess, startServer } from './targets.ts';

interface OutageBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

interface OutageFigures {
  p50_us: number;
  p99_us: number;
  failed: number;
  /** Processor time of the service for one request, in microseconds. */
  cpu_us: number;
}

interface OutageResult extends Provenance {
  suite: 'outage';
  rate_per_s: number;
  rounds: number;
  /** Medians of the rounds; failed requests are summed. */
  up: OutageFigures;
  down: OutageFigures;
}

const RATE = 400;
const CONNECTIONS = 16;
const BODY_BYTES = 4_096;
const SECONDS = { full: 5, quick: 2 };
const ROUNDS = { full: 7, quick: 1 };
const LOOK_MS = 50;
/** How long the box may take to detect that the database is unreachable, or reachable again. */
const NOTICE_LIMIT_MS = 30_000;

/** Runs the bench. @returns false if a request failed while the database was unreachable */
export async function runOutageBench({ quick, save, say }: OutageBenchOptions): Promise<boolean> {
  const size = quick ? 'quick' : 'full';
  const dir = mkdtempSync(join(tmpdir(), 'bench-outage-'));
  const stops: (() => Promise<void>)[] = [async () => rmSync(dir, { recursive: true, force: true })];
  try {
    say('starting');
    const postgres = await BenchPostgres.start();
    stops.push(() => postgres.stop());
    const upstream = await startServer('upstream.ts');
    stops.push(upstream.stop);
    const service = await startService(
      join(dir, 'service'),
      await postgres.createDatabase('outage'),
      upstream.port,
    );
    stops.push(service.stop);
    const { child } = await startBenchProcess<{ ready: true }>('load.ts');
    stops.push(async () => child.disconnect());
    const load = (): Promise<LoadJobs['throughput'][1]> =>
      new Promise((resolve, reject) => {
        child.once('message', ({ result, error }: { result?: LoadJobs['throughput'][1]; error?: string }) =>
          result === undefined ? reject(new Error(error)) : resolve(result),
        );
        const workload = { kind: 'plain', bytes: BODY_BYTES } as const;
        const job = {
          port: service.gateway_port,
          connections: CONNECTIONS,
          seconds: SECONDS[size],
          workload,
          rate: RATE,
        };
        child.send({ kind: 'throughput', job });
      });
    const rounds = { up: [] as OutageFigures[], down: [] as OutageFigures[] };
    // The first round warms up.
    for (let round = -1; round < ROUNDS[size]; round++)
      for (const state of ['up', 'down'] as const) {
        say(`database ${state}, round ${round + 1}`);
        if (state === 'down') await postgres.kill();
        await waitFor(() => service.canWrite(), state === 'up');
        const before = readCpuUs(service.pid);
        const { answered, failed, latencyUs } = await load();
        const cpu_us = (readCpuUs(service.pid) - before) / answered;
        if (round >= 0) rounds[state].push({ p50_us: latencyUs.p50, p99_us: latencyUs.p99, failed, cpu_us });
        if (state === 'down') await postgres.resume();
      }
    say('');
    const result: OutageResult = {
      ...takeProvenance(),
      suite: 'outage',
      rate_per_s: RATE,
      rounds: ROUNDS[size],
      up: takeMedians(rounds.up),
      down: takeMedians(rounds.down),
    };
    print(result);
    if (save) console.log(`\n${saveResult(result)}`);
    return result.down.failed === 0;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

function takeMedians(rounds: readonly OutageFigures[]): OutageFigures {
  const median = (pick: (figures: OutageFigures) => number) => takeMedian(rounds.map(pick));
  return {
    p50_us: median(({ p50_us }) => p50_us),
    p99_us: median(({ p99_us }) => p99_us),
    failed: rounds.reduce((sum, { failed }) => sum + failed, 0),
    cpu_us: median(({ cpu_us }) => cpu_us),
  };
}

/** Starts API and gateway in one process, over the database. */
async function startService(dir: string, address: string, upstreamPort: number) {
  const [port, gateway_port] = [await findFreePort(), await findFreePort()];
  const entry = join(import.meta.dirname, '../src/cli/understudy.mjs');
  const env = { AUTH_DB_URL: address, AUTH_JWT_SECRET: randomBytes(32).toString('hex') };
  const migrated = spawnSync(process.execPath, [entry, 'migrate'], {
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
  if (migrated.status !== 0) throw new Error(`migrate: ${migrated.stderr}`);
  const { pid, stop } = await startProduct(
    dir,
    {
      ...env,
      PORT: `${port}`,
      GW_PORT: `${gateway_port}`,
      GW_UPSTREAM_BASE: `http://127.0.0.1:${upstreamPort}`,
    },
    undefined,
    null,
    ['up'],
  );
  let written = 0;
  const canWrite = async (): Promise<boolean> => {
    const { status } = await fetch(`http://127.0.0.1:${port}/v1/monitor/profiles`, {
      method: 'POST',
      headers: { authorization: `Bearer ${PRODUCT_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        org_id: 'bench',
        name: 'bench',
        weights: { infinite_loop: (written++ % 9) / 10 },
      }),
    });
    return status === 200;
  };
  return { pid, stop, gateway_port, canWrite };
}

/** Waits until the service notices the state of the database. */
async function waitFor(look: () => Promise<boolean>, wanted: boolean): Promise<void> {
  const endMs = performance.now() + NOTICE_LIMIT_MS;
  while ((await look()) !== wanted) {
    if (performance.now() > endMs) throw new Error('the service does not notice the state of the database');
    await delay(LOOK_MS);
  }
}

function print({ machine, rate_per_s, up, down }: OutageResult): void {
  const load = machine.load_average[0]!.toFixed(1);
  console.log(`${machine.cpu}, ${machine.cores} cores, load ${load}; ${rate_per_s} requests a second\n`);
  console.log('database      p50 ms      p99 ms      CPU µs      failed');
  for (const [name, { p50_us, p99_us, cpu_us, failed }] of Object.entries({ up, down }))
    console.log(
      `${name.padEnd(8)}${(p50_us / 1_000).toFixed(2).padStart(12)}${(p99_us / 1_000).toFixed(2).padStart(12)}${cpu_us.toFixed(0).padStart(12)}${String(failed).padStart(12)}`,
    );
}
