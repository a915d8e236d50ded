/** A direct channel to a pool thread, with real threads: answers, failures, and threads that die or hang. */
import { afterEach, describe, expect, it } from 'vitest';
import { ComputePool, openCompute } from '../../src/runtime/compute-pool.ts';
import { CHANNEL_TASK, DirectChannel } from '../../src/runtime/direct-channel.ts';

const ENTRY = new URL('../fixtures/channel-entry.ts', import.meta.url);

const closing: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

function createPool(deadlineMs = 20_000, threads = 1): ComputePool {
  const pool = new ComputePool({
    entry: ENTRY,
    threads,
    options: null,
    queue_calls_max: 16,
    call_deadline_ms: deadlineMs,
  });
  closing.push(pool);
  return pool;
}

function openChannel(pool: Pick<ComputePool, 'run'>, deadlineMs = 20_000, callsMax = 8): DirectChannel {
  const channel = new DirectChannel(pool.run, { call_deadline_ms: deadlineMs, calls_max: callsMax });
  closing.push(channel);
  return channel;
}

describe('a direct channel', () => {
  it('transmits parallel calls, each with its answer', async () => {
    const channel = openChannel(createPool());
    const answers = await Promise.all([1, 2, 3].map((input) => channel.run('double', input)));
    expect(answers).toEqual([2, 4, 6]);
    expect(await channel.run('bytes', 3)).toEqual(Float32Array.of(0, 1, 2));
  });

  it('bypasses the pool’s queue, also when opened through a port that the pool offers', async () => {
    const pool = createPool();
    const asked: string[] = [];
    const channel = openChannel({
      run: (task, input) => {
        asked.push(task);
        return pool.run(task, input);
      },
    });
    const port = pool.offer();
    const far = openChannel({ run: openCompute(port) });
    expect(await channel.run('double', 4)).toBe(8);
    expect(await channel.run('double', 5)).toBe(10);
    expect(await far.run('double', 6)).toBe(12);
    expect(asked).toEqual([CHANNEL_TASK]);
    port.close();
  });

  it('reports what a task threw, and continues', async () => {
    const channel = openChannel(createPool());
    await expect(channel.run('fail', null)).rejects.toThrow('the task is unwell');
    expect(await channel.run('double', 1)).toBe(2);
  });

  it('fails the calls of a dying thread, and finds the next thread', async () => {
    const pool = createPool();
    const channel = openChannel(pool);
    for (let round = 0; round < 3; round++) {
      const other = channel.run('wait', null);
      const dying = channel.run('die', null);
      await expect(Promise.all([other, dying])).rejects.toThrow('the pool thread has ended');
      await expect(other).rejects.toThrow();
      await expect(dying).rejects.toThrow();
      expect(await channel.run('double', round)).toBe(2 * round);
    }
  });

  it('gives up a thread that hangs, which the pool then replaces', { tags: 'long' }, async () => {
    const channel = openChannel(createPool(1_500), 300);
    // On a slow machine, several calls may fail before the thread is up.
    while ((await channel.run('double', 1).catch(() => null)) === null);
    await expect(channel.run('hang', null)).rejects.toThrow('the call took too long');
    let found: unknown = null;
    while (found === null) found = await channel.run('double', 21).catch(() => null);
    expect(found).toBe(42);
  });

  it('gives up its thread, although the pool would give a call to another one', {
    tags: 'long',
  }, async () => {
    const pool = createPool(8_000, 2);
    const channel = openChannel(pool, 1_000);
    const [met, open, shut] = [0, 1, 2].map(() => new Int32Array(new SharedArrayBuffer(4))) as [
      Int32Array,
      Int32Array,
      Int32Array,
    ];
    // Both threads are loaded when both calls have begun.
    await Promise.all([pool.run('meet', met), pool.run('meet', met)]);
    // The pool prefers one of two idle threads. While this thread is busy, the channel gets the other one.
    const busy = pool.run('gate', open);
    await channel.run('double', 1);
    Atomics.store(open, 0, 1);
    Atomics.notify(open, 0);
    await busy;
    await expect(channel.run('gate', shut)).rejects.toThrow('the call took too long');
    let found: unknown = null;
    while (found === null) found = await channel.run('double', 21).catch(() => null);
    expect(found).toBe(42);
  });

  it('accepts calls up to its limit, and none when it is closed', async () => {
    const channel = openChannel(createPool(), 20_000, 2);
    expect(await channel.run('double', 1)).toBe(2);
    const waiting = [channel.run('wait', null), channel.run('wait', null)];
    await expect(channel.run('double', 1)).rejects.toThrow('too many calls on the channel');
    channel.close();
    for (const each of waiting) await expect(each).rejects.toThrow('the channel is closed');
    await expect(channel.run('double', 1)).rejects.toThrow('the channel is closed');
  });
});
