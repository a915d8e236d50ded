/**
 * Measures what a rate check costs: the processor time of one take from the shared table, on one thread and on two
 * threads at once. Part of `npm run bench`. Own process.
 */
import { Worker } from 'node:worker_threads';
import { SharedRateLimiter } from '../actors/rate-bucket/client.ts';
import { allocateRateTable, RATE_SLOTS, RateTable } from '../actors/rate-bucket/table.ts';
import type { Asker } from '../src/runtime/actor-client.ts';

/** Maximum processor time for a check of the limit. */
const LIMIT_CHECK_GOAL_US = 1;

const LIMIT = { rate_per_s: 200, burst: 400 };
/** The number of keys that a busy thread sees, which is more than the processor's nearest cache holds. */
const KEYS = 10_000;

interface LimitsOptions {
  /** Takes measured in each round. */
  takes: number;
  rounds: number;
}

export const LIMITS_FULL: LimitsOptions = { takes: 2_000_000, rounds: 5 };
export const LIMITS_QUICK: LimitsOptions = { takes: 300_000, rounds: 3 };

interface LimitsReport {
  /** Each figure is that of the best round, because interruptions make rounds slower. */
  allowed_us: number;
  denied_us: number;
  /** One key, while a second thread takes from the same bucket. */
  contended_us: number;
  goal_us: number;
  goal_met: boolean;
}

/** Runs the bench. @param say receives messages about the progress */
export async function runLimitsBench(
  options: LimitsOptions,
  say: (what: string) => void = () => {},
): Promise<LimitsReport> {
  say('rate checks');
  const allowed_us = await measure(options, { rate_per_s: 1e9, burst: 1e9 }, KEYS);
  const denied_us = await measure(options, { rate_per_s: 1e-6, burst: 1 }, KEYS);
  say('rate checks, two threads on one bucket');
  const contended_us = await measureContended(options);
  const goal_us = LIMIT_CHECK_GOAL_US;
  return {
    allowed_us,
    denied_us,
    contended_us,
    goal_us,
    goal_met: Math.max(allowed_us, denied_us, contended_us) <= goal_us,
  };
}

/** Writes the report as lines for a terminal. */
export function describeLimits(report: LimitsReport): string[] {
  const us = (value: number) => `${value.toFixed(3)} µs`;
  return [
    `rate check, allowed     ${us(report.allowed_us)}`,
    `rate check, refused     ${us(report.denied_us)}`,
    `rate check, contended   ${us(report.contended_us)}`,
    `goal ≤ ${report.goal_us} µs of processor time: ${report.goal_met ? 'met' : 'MISSED'}`,
  ];
}

async function measure({ takes, rounds }: LimitsOptions, limit: typeof LIMIT, keys: number): Promise<number> {
  const memory = allocateRateTable(RATE_SLOTS);
  const limiter = new SharedRateLimiter(slotsInOrder(new RateTable(memory)), memory, () => limit);
  const names = Array.from({ length: keys }, (_, at) => `key_${at.toString(36).padStart(26, '0')}`);
  for (const name of names) await limiter.take(name);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage();
    for (let at = 0; at < takes; at++) limiter.take(names[at % keys]!);
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / takes);
  }
  return best;
}

/**
 * Measures a take while a second thread takes from the same bucket. The processor time of the process includes both
 * threads, so it is divided by the takes of both.
 */
async function measureContended({ takes, rounds }: LimitsOptions): Promise<number> {
  const memory = allocateRateTable(2);
  const generation = new RateTable(memory).open(0);
  const counter = new BigInt64Array(new SharedArrayBuffer(16));
  const worker = new Worker(new URL('./limits-taker.ts', import.meta.url), {
    workerData: { memory, generation, counter: counter.buffer },
  });
  const table = new RateTable(memory);
  while (Atomics.load(counter, 0) === 0n) await new Promise((resolve) => setImmediate(resolve));
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const othersBefore = Number(Atomics.load(counter, 0));
    const before = process.cpuUsage();
    for (let at = 0; at < takes; at++) table.take(0, generation, { rate_per_s: 1e9, burst: 1e9 });
    const { user, system } = process.cpuUsage(before);
    const others = Number(Atomics.load(counter, 0)) - othersBefore;
    best = Math.min(best, (user + system) / (takes + others));
  }
  Atomics.store(counter, 1, 1n);
  await new Promise((resolve) => worker.once('exit', resolve));
  return best;
}

/** Stands in for the actor that assigns slots, and assigns them in the order of requests. */
function slotsInOrder(table: RateTable): Asker {
  let next = 0;
  return {
    tell: () => false,
    ask: async () => {
      const slot = next++;
      return { slot: { slot, generation: table.open(slot) } };
    },
  };
}
