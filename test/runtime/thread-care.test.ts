/** The main thread computes for its actor threads, ends threads that hang, and restarts dead threads within limits. */
import { afterEach, describe, expect, it } from 'vitest';
import type { ActorClient } from '../../src/runtime/actor-client.ts';
import { ActorThreads, type ActorThreadsOptions } from '../../src/runtime/actor-threads.ts';
import type { RuntimeError } from '../../src/runtime/error.ts';
import { createDeferred } from '../../src/std/deferred.ts';

const open: { threads: ActorThreads; client: ActorClient | null }[] = [];
const FAR = { deadline_ms: 600_000 };
const CARE = { kind: 'care', key: 'a' };

afterEach(async () => {
  for (const { threads, client } of open.splice(0)) {
    client?.close();
    await threads.stop();
  }
});

function start(options: Partial<ActorThreadsOptions> = {}): ActorThreads {
  const threads = new ActorThreads({
    entry: new URL('../fixtures/care-host.ts', import.meta.url),
    placement: { hosts: 1, pins: {} },
    options: null,
    restart: { max_restarts: 5, window_ms: 60_000, backoff_first_ms: 1, backoff_max_ms: 1 },
    ...options,
  });
  open.push({ threads, client: null });
  return threads;
}

async function startWithClient(options: Partial<ActorThreadsOptions> = {}) {
  const threads = start(options);
  const client = await threads.openClient();
  open.at(-1)!.client = client;
  return { threads, client };
}

function codeOf(ask: Promise<unknown>): Promise<string> {
  return ask.then(
    () => 'ok',
    (error: RuntimeError) => error.code,
  );
}

describe('compute tasks', () => {
  it('run where the main thread says, and their failures are outcomes', async () => {
    const { client } = await startWithClient({
      compute: async (task, input) => {
        if (task !== 'double') throw new Error(`no task ${task}`);
        return 2 * (input as number);
      },
    });
    expect(await client.ask(CARE, 'compute', { task: 'double', input: 21 }, FAR)).toBe(42);
    const failing = client.ask(CARE, 'compute', { task: 'halve', input: 1 }, FAR);
    await expect(failing).rejects.toMatchObject({ code: 'io_failed', message: 'Error: no task halve' });
  });

  it('fail without a pool', async () => {
    const { client } = await startWithClient();
    expect(await codeOf(client.ask(CARE, 'compute', { task: 'double', input: 1 }, FAR))).toBe('io_failed');
  });
});

describe('a thread', () => {
  it('that hangs is ended and restarted', { tags: 'long' }, async () => {
    const down = createDeferred<string>();
    const { client, threads } = await startWithClient({
      // A slow machine may make a slow start look like a hanging thread, so it gets another try.
      restart: { max_restarts: 1_000, window_ms: 60_000, backoff_first_ms: 1, backoff_max_ms: 1 },
      watch: { ping_every_ms: 20, hung_after_ms: 1_500 },
      onThreadDown: (_index, reason) => down.resolve(reason),
    });
    expect(await codeOf(client.ask(CARE, 'hang', null, FAR))).toBe('host_down');
    await down.promise;
    await client.waitUp();
    expect(threads.restarts[0]).toBeGreaterThanOrEqual(1);
    // The timeout is so short that this thread may be down again.
    await expect.poll(async () => (await threads.stats())[0]).toMatchObject({ index: 0 });
  });

  it('that exits is restarted, as often as its policy allows', async () => {
    const waits: (number | null)[] = [];
    const last = createDeferred();
    const { client, threads } = await startWithClient({
      restart: { max_restarts: 2, window_ms: 600_000, backoff_first_ms: 1, backoff_max_ms: 1 },
      onThreadDown: (_index, _reason, restartInMs) => {
        waits.push(restartInMs);
        if (restartInMs === null) last.resolve();
      },
    });
    for (let i = 0; i < 3; i++) {
      await client.waitUp();
      expect(await codeOf(client.ask(CARE, 'leave', null, FAR))).toBe('host_down');
    }
    await last.promise;
    expect(waits).toEqual([1, 1, null]);
    expect(client.isUp(0)).toBe(false);
    expect(await threads.stats()).toEqual([null]);
  });

  it('whose module cannot be loaded is reported with the reason', async () => {
    const reasons: string[] = [];
    const last = createDeferred();
    start({
      entry: new URL('../fixtures/no-such-host.ts', import.meta.url),
      restart: { max_restarts: 1, window_ms: 600_000, backoff_first_ms: 1, backoff_max_ms: 1 },
      onThreadDown: (_index, reason, restartInMs) => {
        reasons.push(reason);
        if (restartInMs === null) last.resolve();
      },
    });
    await last.promise;
    expect(reasons).toHaveLength(2);
    for (const reason of reasons) expect(reason).toMatch(/no-such-host/);
  });

  it('is gone after stopping, which may be requested twice', async () => {
    const { client, threads } = await startWithClient();
    await Promise.all([threads.stop(), threads.stop()]);
    expect(await codeOf(client.ask(CARE, 'compute', { task: '', input: 0 }, FAR))).toBe('host_down');
    expect(await threads.stats()).toEqual([null]);
  });
});
