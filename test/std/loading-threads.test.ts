/**
 * Code that ends threads first waits for threads that are still loading. The tests hold a thread in the middle of
 * loading.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ActorThreads } from '../../src/runtime/actor-threads.ts';
import { ComputePool } from '../../src/runtime/compute-pool.ts';
import { endThread, waitForLoading } from '../../src/std/loading-threads.ts';
import { StudentThread } from '../../src/threads/student-thread.ts';
import { HeldEntry } from '../fixtures/held-entry.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

/** Far longer than any of these tests takes. */
const FAR_MS = 600_000;

let folder: string;
let held: HeldEntry;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'loading-'));
  held = new HeldEntry(folder);
  // Without a manifest, no thread would be started for the student.
  writeFileSync(join(folder, 'manifest.json'), '{}');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function startActors(): ActorThreads {
  return new ActorThreads({
    entry: held.url,
    placement: { hosts: 1, pins: {} },
    options: null,
    loading_ms: FAR_MS,
    restart: { max_restarts: 0, window_ms: FAR_MS, backoff_first_ms: FAR_MS, backoff_max_ms: FAR_MS },
  });
}

function startCompute(): ComputePool {
  const pool = new ComputePool({
    entry: held.url,
    threads: 1,
    options: null,
    queue_calls_max: 4,
    call_deadline_ms: FAR_MS,
  });
  pool.run('any', null).catch(() => {});
  return pool;
}

function startStudent(): StudentThread {
  const log = { info: () => {}, error: () => {} };
  return new StudentThread({
    entry: held.url,
    directory: folder,
    mode: 'on',
    key: '',
    prices: null,
    audit_share: 0,
    sticky: false,
    watch_path: null,
    ledger_path: null,
    timeout_ms: null,
    log_level: 'silent',
    log,
  });
}

/** Starts a thread of the given kind; the returned function ends it. */
const STARTS: Record<string, () => () => Promise<unknown>> = {
  'a thread': () => {
    const thread = new Worker(held.url);
    return () => endThread(thread, FAR_MS);
  },
  'a pool': () => {
    const pool = startCompute();
    return () => pool.close();
  },
  'the student’s thread': () => {
    const student = startStudent();
    return () => student.close();
  },
  'the actor threads': () => {
    const actors = startActors();
    return () => actors.stop();
  },
  'one actor thread': () => {
    const actors = startActors();
    return async () => {
      await actors.terminate(0);
      await actors.stop();
    };
  },
};

describe('ending a thread that still loads its modules', () => {
  it.each(Object.keys(STARTS))('of %s waits until the loading is over', async (what) => {
    const end = STARTS[what]!();
    const letGo = await held.reached();
    const ended = end();
    // In this time, an end that does not wait would begin.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    await letGo();
    await ended;
    expect(held.hasPassed).toBe(true);
    expect(await waitForLoading(undefined, FAR_MS)).toBe(true);
  });

  it('of the process waits until the loading is over', async () => {
    const script = join(folder, 'process.mjs');
    writeFileSync(
      script,
      `import { Worker } from 'node:worker_threads';
      import { exitProcess } from ${JSON.stringify(new URL('../../src/std/loading-threads.ts', import.meta.url).href)};
      new Worker(new URL(${JSON.stringify(held.url.href)}));
      process.stdin.once('data', () => {
        process.stdout.write('asked');
        exitProcess(7);
      });\n`,
    );
    const child = spawn(process.execPath, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = once(child, 'close');
    const letGo = await held.reached();
    const asked = once(child.stdout, 'data');
    child.stdin.write('now');
    await asked;
    await letGo();
    expect(await ended).toEqual([7, null]);
    expect(held.hasPassed).toBe(true);
  });

  it('waits no longer than the timeout', async () => {
    const thread = new Worker(held.url);
    const letGo = await held.reached();
    expect(await waitForLoading([thread], 1)).toBe(false);
    const asked = vi.spyOn(thread, 'terminate');
    const ended = endThread(thread, 1);
    await vi.waitUntil(() => asked.mock.calls.length > 0, { timeout: PATIENCE_MS });
    await letGo();
    await ended;
    expect(held.hasPassed).toBe(false);
  });
});

it('an end does not wait for a thread that is loaded', async () => {
  const thread = new Worker(
    "require('node:worker_threads').parentPort.on('message', () => {}).postMessage('up')",
    {
      eval: true,
    },
  );
  await once(thread, 'message');
  const exited = once(thread, 'exit');
  await endThread(thread, FAR_MS);
  await exited;
});

it('closing a pool lets the task of its thread end, and fails waiting tasks', async () => {
  const inside = join(folder, 'task');
  mkdirSync(inside);
  held = new HeldEntry(inside, 'task');
  const pool = startCompute();
  const letGo = await held.reached();
  const waiting = pool.run('any', null);
  const closed = pool.close();
  await expect(waiting).rejects.toThrow();
  await letGo();
  // The test waits for the end of the task before it releases the ping. A task that still reads would receive the ping
  // instead.
  await expect.poll(() => held.hasPassed, { timeout: PATIENCE_MS }).toBe(true);
  await held.reached().then((letPingGo) => letPingGo());
  await closed;
});

it('closing a pool fails waiting and later tasks', async () => {
  const pool = startCompute();
  const waiting = pool.run('any', null);
  const letGo = await held.reached();
  const closed = pool.close();
  await expect(waiting).rejects.toThrow();
  await expect(pool.run('any', null)).rejects.toThrow('the pool is closed');
  await letGo();
  await closed;
  expect(pool.threads).toBe(0);
});
