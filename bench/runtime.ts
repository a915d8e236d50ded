/**
 * Measures what a message to an actor thread costs: `node bench/runtime.ts [--threads N]`. The figures are the round
 * trip of one request at a time, the throughput of many at once, one-way messages without and with bodies, and requests
 * whose answers wait for the disk. Each line has the median and the figures of all rounds. Own process.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ActorClient } from '../src/runtime/actor-client.ts';
import { ActorThreads } from '../src/runtime/actor-threads.ts';
import { resolveModuleUrl } from '../src/std/module-url.ts';
import type { BenchHostOptions } from './runtime-host.ts';

const ROUNDS = 5;
const LONG = { deadline_ms: 60_000 };
const SMALL = {
  run_id: 'run_01ARYZ6S41TSV4RRFFQ69G5FAV',
  step: 7,
  text: 'a message of some hundred bytes, more or less',
};

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { threads: { type: 'string', default: '1' } } });
  const folder = mkdtempSync(join(tmpdir(), 'bench-runtime-'));
  const options: BenchHostOptions = { journal_path: join(folder, 'main.mdb') };
  const threads = new ActorThreads({
    entry: resolveModuleUrl('./runtime-host.ts', import.meta.url),
    placement: { hosts: Number(values.threads), pins: {} },
    options,
  });
  const client = await threads.openClient();
  try {
    await measure('round trip, 1 under way', 'µs', 3_000, async (count) => {
      for (let i = 0; i < count; i++) await client.ask({ kind: 'echo', key: 'a' }, 'echo', SMALL, LONG);
    });
    for (const underWay of [16, 256]) {
      await measure(`asks, ${underWay} under way`, '/s', 60_000, (count) =>
        runParallel(underWay, count, (i) =>
          client.ask({ kind: 'echo', key: `k${i % 64}` }, 'echo', SMALL, LONG),
        ),
      );
    }
    await measure('tells, no body', '/s', 200_000, (count) => swallow(client, count, []));
    await measure('tells, 4 KB body', '/s', 50_000, (count) =>
      swallow(client, count, [Buffer.alloc(4_096, 1)]),
    );
    const large = [Buffer.alloc(300 * 1024, 1)];
    await measure('tells, 300 KB body', 'MB/s', 2_000, (count) => swallow(client, count, large), 0.3072);
    await measure('durable answers, 1 under way', 'µs', 200, async (count) => {
      for (let i = 0; i < count; i++) await client.ask({ kind: 'counter', key: 'a' }, 'add', 1, LONG);
    });
    await measure('durable answers, 256 under way', '/s', 20_000, (count) =>
      runParallel(256, count, (i) => client.ask({ kind: 'counter', key: `k${i % 64}` }, 'add', 1, LONG)),
    );
  } finally {
    client.close();
    await threads.stop();
    rmSync(folder, { recursive: true });
  }
}

/** Measures `run(count)` in rounds after a warm-up round, and prints the result. */
async function measure(
  name: string,
  unit: 'µs' | '/s' | 'MB/s',
  count: number,
  run: (count: number) => Promise<unknown>,
  megabytesEach = 0,
): Promise<void> {
  await run(Math.ceil(count / 4));
  const figures: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startedMs = performance.now();
    await run(count);
    const seconds = (performance.now() - startedMs) / 1000;
    if (unit === 'µs') figures.push((seconds * 1e6) / count);
    else figures.push(unit === '/s' ? count / seconds : (count * megabytesEach) / seconds);
  }
  const text = figures.toSorted((a, b) => a - b).map((figure) => figure.toFixed(unit === 'µs' ? 1 : 0));
  console.log(
    `${name.padEnd(32)} ${text[Math.floor(ROUNDS / 2)]!.padStart(9)} ${unit}   (${text.join(' ')})`,
  );
}

async function runParallel(
  underWay: number,
  count: number,
  once: (i: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: underWay }, async () => {
      while (next < count) await once(next++);
    }),
  );
}

/** Sends this many messages, waits while the link is full, and ends when the other side has counted all. */
async function swallow(client: ActorClient, count: number, bodies: Uint8Array[]): Promise<void> {
  const to = { kind: 'echo', key: 'sink' };
  for (let i = 0; i < count; i++) {
    while (!client.tell(to, 'swallow', SMALL, bodies)) await new Promise((resolve) => setImmediate(resolve));
    if (i % 256 === 255) await new Promise((resolve) => setImmediate(resolve));
  }
  const { messages } = (await client.ask(to, 'swallowed', null, LONG)) as { messages: number };
  if (messages !== count) throw new Error(`${messages} of ${count} arrived`);
}

await main();
