/**
 * Measures constant traffic while the dashboard's lists are requested: `npm run bench -- soak --minutes 20`. The whole
 * service runs over an upstream. First, two loads show how fast it is: requests of 4 KB, and growing conversations of
 * agents. Then both continue at half that rate, and every 8 s the bench requests all lists as the dashboard does. At
 * each of these moments it records answers that are not 200, times of the lists, exchanges that wait to be written,
 * exchanges that were dropped or are not indexed, and memory. The second half must be like the first. Own process.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CAPTURE_LISTS } from './capture-lists.ts';
import { KeptConnection } from './kept-connection.ts';
import type { LoadJobs } from './load.ts';
import { readAnonBytes } from './process-meter.ts';
import { startProduct } from './product.ts';
import { takeMedian, takeQuantiles } from './quantiles.ts';
import { type Provenance, saveResult, takeProvenance } from './results.ts';
import { askServer, end, findFreePort, startBenchProcess, startServer } from './targets.ts';
import type { Workload } from './workload.ts';

interface SoakOptions {
  minutes: number;
  save: boolean;
  say: (what: string) => void;
}

const LOOK_EVERY_MS = 8_000;
const WARM_UP_S = 6;
const FULL_SPEED_S = 8;
const CONNECTIONS = 16;
const LOADS: readonly Workload[] = [{ kind: 'plain', bytes: 4_096 }, { kind: 'conversation' }];
/** Share of the full speed. */
const SHARE = 0.5;

/**
 * A figure has grown if its value in the second half is more than FLAT_TIMES times the value in the first half, and
 * also larger by more than FLAT_LIST_MS or FLAT_BACKLOG. For memory, more than FLAT_MEMORY_TIMES times is enough.
 */
const FLAT_TIMES = 1.5;
const FLAT_LIST_MS = 50;
const FLAT_BACKLOG = 2_000;
const FLAT_MEMORY_TIMES = 1.15;

/** The result of one check of the service. */
export interface SoakLook {
  at_s: number;
  /** Answers of lists with another status than 200. */
  refused: number;
  /** The slowest list. */
  list_ms: number;
  /** Exchanges that wait to be written, those that were dropped so far, and those that are written and not indexed. */
  queued: number;
  dropped: number;
  unindexed: number;
  anon_bytes: number;
}

/** The figures of a half of the run: the p99 of the checks' slowest lists, and medians of the other figures. */
interface HalfFigures {
  list_p99_ms: number;
  queued: number;
  unindexed: number;
  anon_bytes: number;
}

interface SoakReport {
  halves: [HalfFigures, HalfFigures];
  /** Number of checks in which a list was refused. */
  refused: number;
  /** Failed requests, refused lists, dropped exchanges and figures that grew; empty if the service passed. */
  faults: string[];
}

/** The stored result. */
interface SoakResult extends Provenance, SoakReport {
  suite: 'soak';
  minutes: number;
  loads: object[];
  looks: SoakLook[];
}

/** Runs the bench. @returns false if a request failed, a list was refused, an exchange was dropped, or a figure grew */
export async function runSoakBench({ minutes, save, say }: SoakOptions): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'bench-soak-'));
  const stops: (() => Promise<void> | void)[] = [];
  try {
    const upstream = await startServer('upstream.ts');
    stops.push(upstream.stop);
    const [gatewayPort, apiPort] = [await findFreePort(), await findFreePort()];
    const env = {
      AUTH_DB_URL: 'embedded:',
      GW_UPSTREAM_BASE: `http://127.0.0.1:${upstream.port}`,
      PORT: String(apiPort),
    };
    const product = await startProduct(dir, env, undefined, null, ['up', '--port', String(gatewayPort)]);
    stops.push(() => product.stop());
    const children: ChildProcess[] = [];
    for (const _ of LOADS) children.push((await startBenchProcess<{ ready: true }>('load.ts')).child);
    stops.push(...children.map((child) => () => end(child)));
    const load = (seconds: number, rates: readonly number[] | null) =>
      Promise.all(
        LOADS.map((workload, at) =>
          askLoad(children[at]!, {
            port: gatewayPort,
            connections: CONNECTIONS,
            seconds,
            workload,
            ...(rates === null ? {} : { rate: rates[at]! }),
          }),
        ),
      );
    say('warm-up');
    await load(WARM_UP_S, null);
    say('full speed');
    const full = await load(FULL_SPEED_S, null);
    const rates = full.map(({ requestsPerS }) => Math.max(1, Math.round(requestsPerS * SHARE)));
    const under = load(minutes * 60, rates);
    const looks = await watch({ gatewayPort, apiPort, pid: product.pid, minutes, say });
    const loads = (await under).map(({ answered, failed, latencyUs }, at) => ({
      workload: LOADS[at]!.kind,
      rate_per_s: rates[at]!,
      answered,
      failed,
      p99_ms: latencyUs.p99 / 1_000,
    }));
    const failed = loads.reduce((sum, each) => sum + each.failed, 0);
    const report = judgeSoak(looks, failed);
    say('');
    for (const each of loads)
      console.log(
        `${each.workload}: ${each.rate_per_s} a second, half of the full speed; ${each.answered} answered, ${each.failed} failed, p99 ${each.p99_ms.toFixed(1)} ms`,
      );
    console.log(describeSoak(report, looks.length).join('\n'));
    const result: SoakResult = { ...takeProvenance(), suite: 'soak', minutes, loads, ...report, looks };
    if (save) console.log(`\n${saveResult(result)}`);
    return report.faults.length === 0;
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(dir, { recursive: true, force: true });
    rmSync(`${dir}.log`, { force: true });
  }
}

function askLoad(child: ChildProcess, job: LoadJobs['throughput'][0]): Promise<LoadJobs['throughput'][1]> {
  return new Promise((resolve, reject) => {
    child.once('message', (answer: { result?: LoadJobs['throughput'][1]; error?: string }) =>
      answer.result === undefined ? reject(new Error(answer.error)) : resolve(answer.result),
    );
    child.send({ kind: 'throughput', job });
  });
}

interface Watching {
  gatewayPort: number;
  apiPort: number;
  pid: number;
  minutes: number;
  say: (what: string) => void;
}

/** Checks the service at intervals until the time has passed. */
async function watch({ gatewayPort, apiPort, pid, minutes, say }: Watching): Promise<SoakLook[]> {
  const connection = new KeptConnection(apiPort);
  const startedMs = performance.now();
  const looks: SoakLook[] = [];
  try {
    const sinceMs = (): number => performance.now() - startedMs;
    // If a check takes longer than the interval, the next one follows at once, like the next request of a page.
    for (let dueMs = LOOK_EVERY_MS; ; dueMs = Math.max(dueMs + LOOK_EVERY_MS, sinceMs())) {
      await delay(Math.max(0, dueMs - sinceMs()));
      if (sinceMs() >= minutes * 60_000) return looks;
      let [refused, list_ms] = [0, 0];
      for (const path of CAPTURE_LISTS) {
        const fromMs = performance.now();
        const { status } = await connection.ask(path);
        list_ms = Math.max(list_ms, performance.now() - fromMs);
        if (status !== 200) refused += 1;
      }
      const stats = JSON.parse(
        (await askServer({ port: gatewayPort, isSecure: false }, '/__gw/stats')).body,
      ) as {
        writer: { queue_depth: number; dropped: number; indexing_behind: { exchanges: number } };
      };
      const { dropped, queue_depth: queued, indexing_behind } = stats.writer;
      const at_s = Math.round(sinceMs() / 1_000);
      const look = { at_s, refused, list_ms, queued, dropped, unindexed: indexing_behind.exchanges };
      looks.push({ ...look, anon_bytes: readAnonBytes(pid) });
      say(
        `${at_s} s: slowest list ${list_ms.toFixed(0)} ms, ${queued} queued, ${dropped} dropped, ${look.unindexed} not indexed`,
      );
    }
  } finally {
    connection.close();
  }
}

/** Compares the second half with the first. @param failed requests of the loads without a 200 */
export function judgeSoak(looks: readonly SoakLook[], failed: number): SoakReport {
  const middle = Math.floor(looks.length / 2);
  const [first, second] = [summarize(looks.slice(0, middle)), summarize(looks.slice(middle))];
  const refused = looks.filter((look) => look.refused > 0).length;
  const faults: string[] = [];
  if (failed > 0) faults.push(`${failed} requests failed`);
  if (refused > 0) faults.push(`lists were refused in ${refused} checks`);
  const dropped = looks.at(-1)?.dropped ?? 0;
  if (dropped > 0) faults.push(`${dropped} exchanges were dropped`);
  const check = (name: string, before: number, after: number, times: number, more: number): void => {
    if (after > times * before && after - before > more)
      faults.push(`${name} grows from ${Math.round(before)} to ${Math.round(after)}`);
  };
  check('p99 of the slowest list, in ms,', first.list_p99_ms, second.list_p99_ms, FLAT_TIMES, FLAT_LIST_MS);
  check('the number of queued exchanges', first.queued, second.queued, FLAT_TIMES, FLAT_BACKLOG);
  check(
    'the number of exchanges that are not indexed',
    first.unindexed,
    second.unindexed,
    FLAT_TIMES,
    FLAT_BACKLOG,
  );
  check('memory, in MB,', first.anon_bytes / 1e6, second.anon_bytes / 1e6, FLAT_MEMORY_TIMES, 0);
  return { halves: [first, second], refused, faults };
}

function summarize(looks: readonly SoakLook[]): HalfFigures {
  const median = (pick: (look: SoakLook) => number) => takeMedian(looks.map(pick));
  return {
    list_p99_ms: takeQuantiles(Float64Array.from(looks, ({ list_ms }) => list_ms)).p99,
    queued: median(({ queued }) => queued),
    unindexed: median(({ unindexed }) => unindexed),
    anon_bytes: median(({ anon_bytes }) => anon_bytes),
  };
}

export function describeSoak({ halves, faults }: SoakReport, looks: number): string[] {
  const line = (name: string, half: HalfFigures): string =>
    `${name} half: p99 of the slowest list ${half.list_p99_ms.toFixed(0)} ms, ${half.queued} exchanges queued, ${half.unindexed} not indexed, ${(half.anon_bytes / 1e6).toFixed(0)} MB`;
  return [
    `${looks} checks of ${CAPTURE_LISTS.length} lists`,
    line('first', halves[0]),
    line('second', halves[1]),
    faults.length === 0 ? 'nothing refused, all flat: met' : `MISSED: ${faults.join('; ')}`,
  ];
}
