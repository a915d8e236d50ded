/** A line to a thread of the pool, with real threads: answers, failures, and threads that die or hang. */
import { afterEach, describe, expect, it } from 'vitest';
import { ComputeLine, LINE_TASK } from '../../src/runtime/compute-line.ts';
import { ComputePool, openCompute } from '../../src/runtime/compute-pool.ts';

const ENTRY = new URL('../fixtures/line-entry.ts', import.meta.url);

const closing: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

function createPool(deadlineMs = 20_000): ComputePool {
  const pool = new ComputePool({
    entry: ENTRY,
    threads: 1,
    options: null,
    queue_calls_max: 16,
    call_deadline_ms: deadlineMs,
  });
  closing.push(pool);
  return pool;
}

function createLine(pool: Pick<ComputePool, 'run'>, deadlineMs = 20_000, callsMax = 8): ComputeLine {
  const line = new ComputeLine(pool.run, { call_deadline_ms: deadlineMs, calls_max: callsMax });
  closing.push(line);
  return line;
}

describe('a line', () => {
  it('carries calls side by side, each with its own answer', async () => {
    const line = createLine(createPool());
    const answers = await Promise.all([1, 2, 3].map((input) => line.run('double', input)));
    expect(answers).toEqual([2, 4, 6]);
    expect(await line.run('bytes', 3)).toEqual(Float32Array.of(0, 1, 2));
  });

  it('goes past the pool’s queue, from other threads too', async () => {
    const pool = createPool();
    const asked: string[] = [];
    const line = createLine({
      run: (task, input) => {
        asked.push(task);
        return pool.run(task, input);
      },
    });
    const port = pool.offer();
    const far = createLine({ run: openCompute(port) });
    expect(await line.run('double', 4)).toBe(8);
    expect(await line.run('double', 5)).toBe(10);
    expect(await far.run('double', 6)).toBe(12);
    expect(asked).toEqual([LINE_TASK]);
    port.close();
  });

  it('says what a task threw, and goes on', async () => {
    const line = createLine(createPool());
    await expect(line.run('fail', null)).rejects.toThrow('the task is unwell');
    expect(await line.run('double', 1)).toBe(2);
  });

  it('fails what a dying thread had, and finds the next thread', async () => {
    const pool = createPool();
    const line = createLine(pool);
    for (let round = 0; round < 3; round++) {
      const other = line.run('wait', null);
      const dying = line.run('die', null);
      await expect(Promise.all([other, dying])).rejects.toThrow('the thread of the pool has ended');
      await expect(other).rejects.toThrow();
      await expect(dying).rejects.toThrow();
      expect(await line.run('double', round)).toBe(2 * round);
    }
  });

  it('gives a thread up that hangs, which the pool then replaces', async () => {
    const line = createLine(createPool(1_500), 300);
    // A slow machine may need several tries until the thread is there.
    while ((await line.run('double', 1).catch(() => null)) === null);
    await expect(line.run('hang', null)).rejects.toThrow('the call took too long');
    let found: unknown = null;
    while (found === null) found = await line.run('double', 21).catch(() => null);
    expect(found).toBe(42);
  });

  it('takes no more than it may, and none when it is closed', async () => {
    const line = createLine(createPool(), 20_000, 2);
    expect(await line.run('double', 1)).toBe(2);
    const waiting = [line.run('wait', null), line.run('wait', null)];
    await expect(line.run('double', 1)).rejects.toThrow('too many calls on the line');
    line.close();
    for (const each of waiting) await expect(each).rejects.toThrow('the line is closed');
    await expect(line.run('double', 1)).rejects.toThrow('the line is closed');
  });
});
