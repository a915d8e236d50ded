/**
 * `npm run bench -- packing`: measures the bytes on the disk under a load that never pauses, and at rest. The load is
 * growing conversations, at a fixed pace and at full speed, through a new gateway for each round. With `--before DIR`
 * (another installed checkout) it measures both versions alternately. Own process; upstream and gateway are separate
 * processes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'undici';
import { readCpuUs, readDiskBytes } from './process-meter.ts';
import { saveResult, takeProvenance } from './results.ts';
import { TextSource } from './storage-runs.ts';
import { startGateway, startServer } from './targets.ts';

const TURNS = 9;
const AGENTS = 32;
const PROMPT_BYTES = 2_500;
const TURN_BYTES = 900;
const REPLY_BYTES = 1_024;
/** Exchanges a second; null: as many as possible. */
const PACES = [380, null];
/**
 * A gateway is at rest if, for this long, its files change by at most 1 % and it reports no waiting work. Some versions
 * never report waiting work.
 */
const REST_MS = 4_000;
const REST_MAX_MS = 30_000;

interface PackingRound {
  version: 'this' | 'before';
  pace: number | null;
  requests_per_s: number;
  /** Processor time of all the gateway's threads, until the load ended. */
  cpu_us_per_exchange: number;
  dropped: number;
  loaded_bytes: number;
  rest_bytes: number;
  /** `loaded_bytes` divided by `rest_bytes`. */
  times_rest: number;
  /** From the stats at the end of the load; null for a version without this figure. */
  packing: Record<string, number> | null;
}

interface GatewayStats {
  exchanges: { captured: number; dropped: number };
  writer: { queue_depth: number; packing?: Record<string, number> };
}

const texts = new TextSource(1, 1);
const prompt = texts.text(PROMPT_BYTES);
const pool = Array.from({ length: 4_096 }, () => texts.text(TURN_BYTES));
let nextRun = 0;
let nextText = 0;

/** Agents that use one connection, one agent after the other. Each call of `ask` sends one turn. */
function makeAgent(port: number): { ask(): Promise<void>; close(): Promise<void> } {
  const client = new Client(`http://127.0.0.1:${port}`);
  let run = '';
  let turn = TURNS;
  let messages: { role: string; content: string }[] = [];
  return {
    ask: async () => {
      if (turn === TURNS) {
        run = `run-${nextRun++}`;
        turn = 0;
        messages = [];
      } else messages.push({ role: 'assistant', content: `turn ${turn} of ${run}` });
      messages.push({
        role: 'user',
        content: `${run} ${pool[(nextText * 1_237) % pool.length]}`,
      });
      nextText++;
      turn++;
      const answer = await client.request({
        path: `/v1/messages?reply=${REPLY_BYTES}`,
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-svc-run': run, 'x-svc-seq': String(turn) },
        body: JSON.stringify({ model: 'claude-sonnet-4-5', max_tokens: 512, system: prompt, messages }),
      });
      await answer.body.arrayBuffer();
    },
    close: () => client.close(),
  };
}

async function readStats(port: number): Promise<GatewayStats> {
  return (await (await fetch(`http://127.0.0.1:${port}/__gw/stats`)).json()) as GatewayStats;
}

async function measureRound(
  root: string,
  version: 'this' | 'before',
  pace: number | null,
  seconds: number,
): Promise<PackingRound> {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-bench-'));
  const upstream = await startServer('upstream.ts');
  const gateway = await startGateway('gateway', upstream.port, folder, [], root);
  try {
    const agents = Array.from({ length: AGENTS }, () => makeAgent(gateway.port));
    const startMs = performance.now();
    const endMs = startMs + seconds * 1_000;
    const cpuUs = readCpuUs(gateway.pid!);
    let asked = 0;
    await Promise.all(
      agents.map(async (agent) => {
        while (performance.now() < endMs) {
          const number = asked++;
          const dueMs = pace === null ? 0 : startMs + (number * 1_000) / pace;
          if (dueMs > performance.now()) await delay(dueMs - performance.now());
          await agent.ask();
        }
      }),
    );
    const tookMs = performance.now() - startMs;
    const { exchanges, writer } = await readStats(gateway.port);
    const usedUs = readCpuUs(gateway.pid!) - cpuUs;
    const loadedBytes = readDiskBytes(gateway.dataDir!);
    for (const agent of agents) await agent.close();
    const restBytes = await awaitRest(gateway.port, gateway.dataDir!);
    return {
      version,
      pace,
      requests_per_s: asked / (tookMs / 1_000),
      cpu_us_per_exchange: usedUs / asked,
      dropped: exchanges.dropped,
      loaded_bytes: loadedBytes,
      rest_bytes: restBytes,
      times_rest: loadedBytes / restBytes,
      packing: writer.packing ?? null,
    };
  } finally {
    await gateway.stop();
    await upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function awaitRest(port: number, dataDir: string): Promise<number> {
  const untilMs = performance.now() + REST_MAX_MS;
  let bytes = readDiskBytes(dataDir);
  for (let sinceMs = performance.now(); performance.now() < untilMs; ) {
    await delay(250);
    const { packing, queue_depth } = (await readStats(port)).writer;
    const now = readDiskBytes(dataDir);
    if (Math.abs(now - bytes) > bytes / 100 || queue_depth > 0 || (packing?.waiting_blocks ?? 0) > 0) {
      bytes = now;
      sinceMs = performance.now();
    }
    if (performance.now() - sinceMs >= REST_MS) break;
  }
  return readDiskBytes(dataDir);
}

function describe(round: PackingRound): string {
  const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  const { waiting_bytes, unindexed, share } = round.packing ?? {};
  const waits =
    round.packing === null
      ? ''
      : `; ${mb(waiting_bytes!)} waiting, ${unindexed} unindexed, share ${share!.toFixed(2)}`;
  return (
    `${round.version.padEnd(7)}${(round.pace === null ? 'all' : `${round.pace}/s`).padEnd(7)}` +
    `${round.requests_per_s.toFixed(0)}/s, ${round.cpu_us_per_exchange.toFixed(0)} us each, dropped ${round.dropped}, ` +
    `${mb(round.loaded_bytes)} under load, ${mb(round.rest_bytes)} at rest: ${round.times_rest.toFixed(1)} times${waits}`
  );
}

interface PackingBenchOptions {
  /** Another checkout; the bench measures the two alternately. */
  before: string | null;
  seconds: number;
  rounds: number;
  save: boolean;
}

/** Runs the rounds and prints each. */
export async function runPackingBench({ before, seconds, rounds, save }: PackingBenchOptions): Promise<void> {
  const versions: ['this' | 'before', string][] = [['this', resolve(import.meta.dirname, '..')]];
  if (before !== null) versions.unshift(['before', resolve(before)]);
  const done: PackingRound[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const pace of PACES) {
      for (const [version, root] of versions) {
        const measured = await measureRound(root, version, pace, seconds);
        done.push(measured);
        console.log(describe(measured));
      }
    }
  }
  if (save) saveResult({ suite: 'packing', ...takeProvenance(), ...{ seconds, rounds: done } });
}
