/**
 * Locks that threads share: one holder at a time across all threads, and a lock is free again after its thread has
 * ended.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { SharedLocks } from '../../src/std/shared-locks.ts';

describe('shared locks', () => {
  it('admit one holder at a time, and each holder once, in any order', async () => {
    const locks = new SharedLocks(SharedLocks.allocate());
    let inside = 0;
    const done = await Promise.all(
      Array.from({ length: 50 }, (_, at) =>
        locks.hold('name', 60_000, async () => {
          expect(++inside).toBe(1);
          await new Promise((resolve) => setImmediate(resolve));
          inside--;
          return { at };
        }),
      ),
    );
    expect(done.map((value) => value?.at)).toEqual(Array.from({ length: 50 }, (_, at) => at));
  });

  it('give up if others hold the name for too long, and free it when the work fails', async () => {
    const locks = new SharedLocks(SharedLocks.allocate());
    const { promise: held, resolve: release } = Promise.withResolvers<object>();
    const holder = locks.hold('name', 0, () => held);
    expect(await locks.hold('name', 20, async () => ({}))).toBeNull();
    release({});
    await holder;
    await expect(locks.hold('name', 0, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(await locks.hold('name', 0, async () => ({ taken: true }))).toEqual({ taken: true });
  });

  it('wake a thread that waits for another thread', async () => {
    const memory = SharedLocks.allocate();
    const locks = new SharedLocks(memory);
    const { promise: held, resolve: release } = Promise.withResolvers<object>();
    const holder = locks.hold('name', 0, () => held);
    const module = JSON.stringify(new URL('../../src/std/shared-locks.ts', import.meta.url).href);
    const worker = new Worker(
      `import { parentPort, workerData } from 'node:worker_threads';
       const { SharedLocks } = await import(${module});
       // As a server does: a wait alone does not keep a thread from ending.
       parentPort.on('message', () => {});
       parentPort.postMessage('waits');
       await new SharedLocks(workerData).hold('name', 600_000, async () => ({}));
       parentPort.postMessage('held');`,
      { eval: true, workerData: memory },
    );
    expect((await once(worker, 'message'))[0]).toBe('waits');
    const next = once(worker, 'message');
    release({});
    await holder;
    expect((await next)[0]).toBe('held');
    await worker.terminate();
  });

  it('count as free a minute after they were taken, because their thread may have ended', async () => {
    const memory = SharedLocks.allocate();
    let now_ms = Date.UTC(2026, 0, 1);
    const locks = new SharedLocks(memory, () => now_ms);
    void locks.hold('name', 0, () => new Promise<object>(() => {}));
    expect(await locks.hold('name', 0, async () => ({}))).toBeNull();
    now_ms += 62_000;
    expect(await locks.hold('name', 0, async () => ({ taken: true }))).toEqual({ taken: true });
  });
});
