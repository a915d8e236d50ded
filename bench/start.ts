/**
 * Measures what threads cost before the first request: `npm run bench -- start`. The figures are the processor time of
 * the start, the private memory and the idle processor time of the service with everything embedded and 1, 4 and 16
 * server threads. With --before it alternates with another checkout. Own process.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readAnonBytes, readCpuUs } from './process-meter.ts';
import { startProduct } from './product.ts';
import { takeMedian } from './quantiles.ts';
import { type Provenance, saveResult, takeProvenance } from './results.ts';

export interface StartFigures {
  threads: number;
  /** Time until the service listens. */
  start_ms: number;
  /** Processor time of the whole process tree, with the work that follows the start (at most half of `idleMs`). */
  start_cpu_ms: number;
  anon_bytes: number;
  /** Share of one core when idle. */
  cpu_share: number;
}

interface StartResult extends Provenance {
  suite: 'start';
  /** Medians of the rounds. */
  starts: StartFigures[];
  /** The other checkout's figures; null: only this checkout was measured. */
  before: StartFigures[] | null;
}

const THREADS = [1, 4, 16];
const ROUNDS = { full: 3, quick: 1 };
const IDLE_MS = { full: 10_000, quick: 3_000 };
const ENGINES = { AUTH_DB_URL: 'embedded:', AUTH_DB_CONN_URL: 'embedded:', VECTOR_STORE_URL: 'embedded:' };

/** Runs the bench. @param before another checkout; null: none */
export async function runStartBench({
  quick,
  save,
  before,
  say,
}: {
  quick: boolean;
  save: boolean;
  before: string | null;
  say: (what: string) => void;
}): Promise<void> {
  const size = quick ? 'quick' : 'full';
  const dir = mkdtempSync(join(tmpdir(), 'bench-start-'));
  const checkouts = [null, ...(before === null ? [] : [resolve(before)])];
  const found: { checkout: string | null; figures: StartFigures }[] = [];
  try {
    // The first start after a change compiles the code, and stores the result.
    for (const checkout of checkouts) await measureStart(join(dir, 'warm'), 1, 0, checkout);
    for (let round = 0; round < ROUNDS[size]; round++) {
      for (const threads of THREADS) {
        for (const checkout of checkouts) {
          say(`${threads} threads, round ${round + 1}${checkout === null ? '' : `, ${checkout}`}`);
          const place = join(dir, `${found.length}`);
          found.push({ checkout, figures: await measureStart(place, threads, IDLE_MS[size], checkout) });
        }
      }
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  say('');
  const medians = (of: string | null) =>
    THREADS.map((threads): StartFigures => {
      const own = found.filter(({ checkout, figures }) => checkout === of && figures.threads === threads);
      const median = (pick: (start: StartFigures) => number) =>
        takeMedian(own.map(({ figures }) => pick(figures)));
      return {
        threads,
        start_ms: median((start) => start.start_ms),
        start_cpu_ms: median((start) => start.start_cpu_ms),
        anon_bytes: median((start) => start.anon_bytes),
        cpu_share: median((start) => start.cpu_share),
      };
    });
  const former = checkouts[1];
  const result: StartResult = {
    ...takeProvenance(),
    suite: 'start',
    starts: medians(null),
    before: former === undefined ? null : medians(former),
  };
  for (const start of result.starts) console.log(describeStart(start));
  for (const start of result.before ?? []) console.log(`before: ${describeStart(start)}`);
  if (save) console.log(`\n${saveResult(result)}`);
}

/**
 * Starts the service, measures the idle service, and stops it.
 * @param checkout another checkout; null: this one
 */
export async function measureStart(
  dir: string,
  threads: number,
  idleMs: number,
  checkout: string | null = null,
): Promise<StartFigures> {
  const startedMs = performance.now();
  const env = { ...ENGINES, SERVER_THREADS: String(threads) };
  const product = await startProduct(dir, env, undefined, checkout);
  const start_ms = performance.now() - startedMs;
  try {
    // The work that the start began gets time to end, so that it is not counted as idle time.
    await delay(idleMs / 2);
    const start_cpu_us = readCpuUs(product.pid);
    await delay(idleMs);
    const cpu_share = (readCpuUs(product.pid) - start_cpu_us) / (idleMs * 1_000);
    const anon_bytes = readAnonBytes(product.pid);
    return { threads, start_ms, start_cpu_ms: start_cpu_us / 1_000, anon_bytes, cpu_share };
  } finally {
    await product.stop();
  }
}

export function describeStart({
  threads,
  start_ms,
  start_cpu_ms,
  anon_bytes,
  cpu_share,
}: StartFigures): string {
  return (
    `${String(threads).padStart(2)} server threads: up after ${start_ms.toFixed(0)} ms, ${(start_cpu_ms / 1_000).toFixed(2)} s of ` +
    `processor time, ${(anon_bytes / 1e6).toFixed(0)} MB, idle ${(100 * cpu_share).toFixed(1)} % of a core`
  );
}
