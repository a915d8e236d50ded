/** The sequence numbers of each run: separate, without gaps, shared by threads, and limited in number. */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RunNumbers } from '../../src/label/run-numbers.ts';

const keyOf = (run: number) => BigInt.asIntN(64, BigInt(run + 1) * 0x9e37_79b9_7f4a_7c15n);

describe('run numbers', () => {
  it('begin at 1 and increase, each run by itself', () => {
    const numbers = new RunNumbers(RunNumbers.allocate());
    expect([1n, 1n, -7n, 1n, -7n].map((key) => numbers.take(key))).toEqual([1, 2, 1, 3, 2]);
  });

  it('have no gap and no repetition, whatever is returned', () => {
    const step = fc.record({ run: fc.integer({ min: 0, max: 40 }), gives_back: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const numbers = new RunNumbers(RunNumbers.allocate());
        const kept = new Map<number, number[]>();
        const lost = new Map<number, number[]>();
        for (const { run, gives_back } of steps) {
          const list = (gives_back ? lost : kept).get(run) ?? [];
          (gives_back ? lost : kept).set(run, [...list, numbers.take(keyOf(run))]);
        }
        for (const [run, taken] of lost) for (const number of taken) numbers.giveBack(keyOf(run), number);
        // The next numbers, as many as were returned, fill the gaps.
        for (const [run, taken] of lost)
          for (const _ of taken) kept.set(run, [...(kept.get(run) ?? []), numbers.take(keyOf(run))]);
        for (const taken of kept.values())
          expect(taken.sort((a, b) => a - b)).toEqual(taken.map((_, at) => at + 1));
      }),
      { numRuns: 60 },
    );
  });

  it('are kept for thousands of runs, the most recently used', { tags: 'long' }, () => {
    const numbers = new RunNumbers(RunNumbers.allocate());
    for (let round = 1; round <= 3; round++)
      for (let run = 0; run < 2_000; run++) expect(numbers.take(keyOf(run))).toBe(round);
    for (let run = 10_000; run < 110_000; run++) expect(numbers.take(keyOf(run))).toBe(1);
    expect(numbers.take(keyOf(109_999))).toBe(2);
    // The entry of the first run was removed long ago, so the run counts as new.
    expect(numbers.take(keyOf(0))).toBe(1);
  });

  it('keep a limited set of returned numbers', () => {
    const numbers = new RunNumbers(RunNumbers.allocate());
    for (let n = 0; n < 3_000; n++) numbers.giveBack(1n, n + 1);
    expect(new Set(Array.from({ length: 1_000 }, () => numbers.take(1n))).size).toBe(1_000);
    for (let run = 0; run < 3_000; run++) numbers.giveBack(keyOf(run), 77);
    expect(numbers.take(keyOf(2_999))).toBe(77);
    expect(numbers.take(keyOf(0))).toBe(1);
  });

  it('continue after a thread was terminated while it held the lock of a set', { tags: 'long' }, () => {
    const memory = RunNumbers.allocate();
    // Takes the lock of the set with key 5. The locks follow 16,384 entries of 16 bytes.
    new Int32Array(memory, 16_384 * 16)[5] = 1;
    const numbers = new RunNumbers(memory);
    expect([numbers.take(5n), numbers.take(5n)]).toEqual([1, 2]);
  });

  it('form one sequence over all threads', async () => {
    const memory = RunNumbers.allocate();
    const module = new URL('../../src/label/run-numbers.ts', import.meta.url).href;
    const code = `
      const { parentPort, workerData } = require('node:worker_threads');
      import(workerData.module).then(({ RunNumbers }) => {
        const numbers = new RunNumbers(workerData.memory);
        const start = new Int32Array(workerData.start);
        Atomics.add(start, 0, 1);
        Atomics.notify(start, 0);
        for (let seen; (seen = Atomics.load(start, 0)) < 4; ) Atomics.wait(start, 0, seen);
        const taken = [];
        for (let n = 0; n < 5000; n++) taken.push(numbers.take(BigInt(n % 50 + 1)));
        parentPort.postMessage(taken);
      });`;
    const start = new SharedArrayBuffer(4);
    const workers = Array.from(
      { length: 4 },
      () => new Worker(code, { eval: true, workerData: { memory, module, start } }),
    );
    const lists = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]));
    await Promise.all(workers.map((worker) => worker.terminate()));
    for (let run = 0; run < 50; run++) {
      const taken = (lists as number[][]).flatMap((list) => list.filter((_, at) => at % 50 === run));
      expect(taken.sort((a, b) => a - b)).toEqual(taken.map((_, at) => at + 1));
    }
  });
});
