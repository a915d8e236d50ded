/**
 * The second thread of the rate check with contention: takes from the same bucket until it is stopped. Bench
 * worker.
 */
import { workerData } from 'node:worker_threads';
import { RateTable } from '../actors/rate-bucket/table.ts';

const { memory, generation, counter } = workerData as {
  memory: SharedArrayBuffer;
  generation: number;
  /** Two BigInt64: the number of takes so far; any value except 0 stops the thread. */
  counter: SharedArrayBuffer;
};
const shared = new BigInt64Array(counter);
const table = new RateTable(memory);
const BATCH = 1_000;
while (Atomics.load(shared, 1) === 0n) {
  for (let at = 0; at < BATCH; at++) table.take(0, generation, { rate_per_s: 1e9, burst: 1e9 });
  Atomics.add(shared, 0, BigInt(BATCH));
}
