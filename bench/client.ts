/**
 * Measures what the client library costs the agent: `npm run bench -- client`. The figures are the time of a call of
 * `step`, the processor time of a step including all work in the background, the memory of many steps that get no
 * answer, and how many steps a second reach a distant service. The agent and the service are separate processes; the
 * service is started as a user starts it. Own process.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Understudy } from '../src/client/understudy.ts';
import { PRODUCT_KEY, startProduct } from './product.ts';
import type { Quantiles } from './quantiles.ts';
import { saveResult, takeProvenance } from './results.ts';
import { layWay } from './round-trip.ts';

/** Maximum time of a call of `step` in the agent. */
const STEP_GOAL_US = 20;

interface AgentFigures {
  /** Time of one call of `step`. */
  added_us: Quantiles;
  /** Processor time of the agent's process per step, including the work of the agent itself. */
  cpu_us: number;
  burst_us: number;
  grown_bytes: number;
  dropped: number;
  queuedBytes: number;
}

/** How many steps a second are sent by runs that all wait for answers at the same time. */
interface Pace {
  round_trip_ms: number;
  runs: number;
  steps_per_second: number;
}

interface ClientReport {
  cases: ({ name: string } & AgentFigures)[];
  paces: Pace[];
  goal_us: number;
  goal_met: boolean;
}

export async function runClientBench({
  quick,
  save,
  say,
}: {
  quick: boolean;
  save: boolean;
  say: (what: string) => void;
}): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'understudy-bench-client-'));
  const product = await startProduct(dir, {});
  const silent = createServer();
  const sockets = new Set<Socket>();
  silent.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const there = `http://127.0.0.1:${product.port}`;
  const nowhere = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const steps = quick ? 1_000 : 5_000;
  const burst = quick ? 100_000 : 1_000_000;
  const cases: ClientReport['cases'] = [];
  const paces: Pace[] = [];
  try {
    for (const [name, url, mode, flood] of [
      ['unwatched', there, 'unwatched', 0],
      ['streamed', there, 'streamed', 0],
      ['streaming off', there, 'off', 0],
      ['no answer', nowhere, 'streamed', burst],
    ] as const) {
      say(`client, ${name}`);
      cases.push({ name, ...(await runAgent(url, mode, steps, flood)) });
    }
    for (const round_trip_ms of [0, 20, 100]) {
      for (const runs of [1, 32]) {
        say(`client, ${runs} runs over ${round_trip_ms} ms`);
        paces.push({ round_trip_ms, runs, steps_per_second: await pace(product.port, round_trip_ms, runs) });
      }
    }
  } finally {
    await product.stop();
    for (const socket of sockets) socket.destroy();
    silent.close();
    rmSync(dir, { recursive: true, force: true });
    rmSync(`${dir}.log`, { force: true });
  }
  say('');
  const goal_met = cases.every(({ added_us }) => added_us.p99 < STEP_GOAL_US);
  const report: ClientReport = { cases, paces, goal_us: STEP_GOAL_US, goal_met };
  console.log(describe(report).join('\n'));
  if (save) console.log(saveResult({ suite: 'client', ...takeProvenance(), ...report }));
  return goal_met;
}

async function runAgent(url: string, mode: string, steps: number, burst: number): Promise<AgentFigures> {
  const agent = join(import.meta.dirname, 'client-agent.ts');
  const argv = ['--expose-gc', agent, url, PRODUCT_KEY, mode, String(steps), String(burst)];
  const { stdout } = await promisify(execFile)(process.execPath, argv);
  return JSON.parse(stdout);
}

/** Measures how many steps a second are sent if all steps of the runs are queued at the beginning. */
async function pace(port: number, roundTripMs: number, runs: number): Promise<number> {
  const way = await layWay(port, roundTripMs);
  const understudy = new Understudy({ apiKey: PRODUCT_KEY, baseUrl: way.url, timeoutMs: 60_000 });
  try {
    const from = performance.now();
    // A step takes one round trip, and some time in the service. A single run gets so many steps that it takes six
    // seconds if this time is 3 ms.
    const steps = runs === 1 ? Math.round(6_000 / (roundTripMs + 3)) : 40;
    for (let run = 0; run < runs; run++) {
      const run = understudy.start({ task: 'mend the list parser' });
      for (let at = 0; at < steps; at++) run.step({ action: 'run_tests', observation: `ok ${at}` });
    }
    await understudy.flush({ timeoutMs: 60_000 });
    return (understudy.stats().steps.sent * 1e3) / (performance.now() - from);
  } finally {
    await understudy.close({ timeoutMs: 1 });
    way.close();
  }
}

function describe({ cases, paces, goal_us, goal_met }: ClientReport): string[] {
  const us = (value: number) => value.toFixed(1).padStart(9);
  const lines = cases.map(
    ({ name, added_us, cpu_us }) => `${name.padEnd(16)}${us(added_us.p50)}${us(added_us.p99)}${us(cpu_us)}`,
  );
  const { burst_us, grown_bytes, dropped, queuedBytes } = cases.at(-1)!;
  return [
    `${'step(), µs'.padEnd(16)}      p50      p99  cpu/step`,
    ...lines,
    `flood without an answer: ${burst_us.toFixed(1)} µs a step, ${dropped} dropped, ${(queuedBytes / 1e6).toFixed(1)} MB wait, heap +${(grown_bytes / 1e6).toFixed(1)} MB`,
    ...paces.map(
      ({ round_trip_ms, runs, steps_per_second }) =>
        `${String(runs).padStart(2)} runs, round trip ${String(round_trip_ms).padStart(3)} ms: ${steps_per_second.toFixed(0)} steps/s`,
    ),
    `goal p99 < ${goal_us} µs: ${goal_met ? 'met' : 'MISSED'}`,
  ];
}
