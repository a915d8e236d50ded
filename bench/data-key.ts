/**
 * Measures what encryption with a data key costs: `node bench/data-key.ts`, about two minutes. It measures the same
 * service and the same capture log alternately with and without a key, and prints medians of the figures and of their
 * ratios. Own process, which starts two services and an upstream.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import autocannon from 'autocannon';
import { decodeExchange } from '../src/providers/decode.ts';
import { CaptureLog } from '../src/storage/capture/log.ts';
import { CaptureReader } from '../src/storage/capture/reader.ts';
import { takeMedian } from './quantiles.ts';
import { makeRuns } from './storage-runs.ts';

const ROUNDS = 5;
const LOAD_S = 3;
const KEY = 'a-static-key-of-the-bench';
const BODY_BYTES = 4_096;

const folder = mkdtempSync(join(tmpdir(), 'understudy-bench-'));
const keyFile = join(folder, 'key');
writeFileSync(keyFile, randomBytes(32), { mode: 0o600 });

interface Service {
  child: ChildProcess;
  api: string;
  gateway: string;
}

async function startService(name: string, upstream: string, env: Record<string, string>): Promise<Service> {
  const entry = join(import.meta.dirname, '../src/cli/understudy.mjs');
  const child = spawn(process.execPath, [entry, 'up', '--port', '0'], {
    env: {
      PATH: process.env.PATH,
      DATA_DIR: join(folder, name),
      PORT: '0',
      SVC_KEYS: KEY,
      RATE_LIMIT_PER_SEC: '10000000',
      RATE_LIMIT_BURST: '10000000',
      GW_UPSTREAM_BASE: upstream,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  while (!/inspect --db/.test(said)) await once(child.stdout!, 'data');
  return {
    child,
    api: /^ {2}API +(http:\/\/\S+)/m.exec(said)![1]!,
    gateway: /^ {2}Gateway +(http:\/\/\S+)/m.exec(said)![1]!,
  };
}

/** Sends requests over some connections. @returns answered requests a second */
async function load(url: string, connections: number, makeRequest: () => Buffer): Promise<number> {
  const run = new Promise<number>((resolve, reject) => {
    let answered = 0;
    const start = performance.now();
    const events = autocannon(
      {
        url,
        connections,
        duration: LOAD_S,
        sampleInt: 100,
        setupClient: (client) => {
          client.getRequestBuffer = makeRequest;
        },
      },
      (error, { errors, non2xx }) => {
        if (error !== null || errors + non2xx > 0)
          reject(error ?? new Error(`${errors} errors, ${non2xx} refused`));
        else resolve((answered / (performance.now() - start)) * 1_000);
      },
    );
    events.on('response', () => {
      answered++;
    });
  });
  return run;
}

function makePost(path: string, headers: string, body: string): Buffer {
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

let turn = 0;
const captureLoad = ({ gateway }: Service) =>
  load(gateway, 32, () => {
    const text = randomBytes(BODY_BYTES / 4).toString('hex');
    const body = JSON.stringify({
      model: 'm',
      messages: [{ role: 'user', content: `${turn++} ${text} ${text}` }],
    });
    return makePost(`/v1/messages?reply=${BODY_BYTES}`, 'x-api-key: k\r\n', body);
  });

let steps = 0;
const stepLoad = async ({ api }: Service): Promise<number> => {
  const authorization = `authorization: Bearer ${KEY}\r\n`;
  const run_id = `run-${steps}`;
  const response = await fetch(`${api}/v1/monitor/runs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ run_id }),
  });
  if (response.status !== 200) throw new Error(await response.text());
  return load(api, 8, () => {
    const body = JSON.stringify({
      step_index: steps++,
      action: 'run_tests',
      action_input: `npm test ${steps}`,
      observation: `ran ${steps} tests in ${steps % 60} s`,
    });
    return makePost(`/v1/monitor/runs/${run_id}/steps`, authorization, body);
  });
};

interface StorageFigures {
  append_us: number;
  bytes: number;
  read_us: number;
}

const PLAN = {
  runs: 12,
  turns: 20,
  first_bytes: 60_000,
  last_bytes: 110_000,
  shared_bytes: 35_000,
  markers: false,
  labelled: true,
  seed: 7,
};
const exchanges = [...makeRuns(PLAN)];

async function measureStorage(dataKey: Uint8Array | null, batch: number): Promise<StorageFigures> {
  const path = join(mkdtempSync(join(folder, 'log-')), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange, data_key: dataKey });
  const before = process.cpuUsage();
  for (let at = 0; at < exchanges.length; at += batch) await log.append(exchanges.slice(at, at + batch));
  const { user, system } = process.cpuUsage(before);
  await log.flush();
  const bytes = statSync(path).size;
  const reader = CaptureReader.open(path, { data_key: dataKey });
  const start = performance.now();
  for (let id = 1; id <= exchanges.length; id++) reader.body(id, 'request');
  const read_us = ((performance.now() - start) * 1_000) / exchanges.length;
  await reader.close();
  await log.close();
  return { append_us: (user + system) / exchanges.length, bytes, read_us };
}

/** Measures both variants in each round, in alternating order. The first round only warms up. */
async function compare(
  what: string,
  unit: string,
  measure: (isSealed: boolean) => Promise<number>,
): Promise<void> {
  const figures: [plain: number, sealed: number][] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const order = round % 2 === 0 ? [false, true] : [true, false];
    const both: Record<string, number> = {};
    for (const isSealed of order) both[String(isSealed)] = await measure(isSealed);
    if (round > 0) figures.push([both.false!, both.true!]);
  }
  const [plain, sealed] = [0, 1].map((at) => takeMedian(figures.map((pair) => pair[at]!)));
  const ratios = figures.map(([plain, encrypted]) => encrypted / plain).sort((a, b) => a - b);
  console.log(
    `${what.padEnd(44)} ${plain!.toFixed(0).padStart(9)} ${sealed!.toFixed(0).padStart(9)} ${unit.padEnd(6)} x ${takeMedian(ratios).toFixed(3)} (${ratios[0]!.toFixed(3)} to ${ratios.at(-1)!.toFixed(3)})`,
  );
}

const upstream = fork(join(import.meta.dirname, 'upstream.ts'));
const children: ChildProcess[] = [upstream];
try {
  const [{ port }] = (await once(upstream, 'message')) as [{ port: number }];
  console.log(`${''.padEnd(44)} ${'plain'.padStart(9)} ${'sealed'.padStart(9)}`);
  const key = randomBytes(32);
  for (const [name, batch] of [
    ['one at a time', 1],
    ['in batches of 64', 64],
  ] as const) {
    let last: StorageFigures | null = null;
    const of = (pick: (figures: StorageFigures) => number) => async (isSealed: boolean) => {
      last = await measureStorage(isSealed ? key : null, batch);
      return pick(last);
    };
    await compare(
      `capture log, ${name}: processor time`,
      'us',
      of(({ append_us }) => append_us),
    );
    await compare(
      `capture log, ${name}: bytes on disk`,
      'bytes',
      of(({ bytes }) => bytes),
    );
    await compare(
      `capture log, ${name}: reading in order`,
      'us',
      of(({ read_us }) => read_us),
    );
  }
  const plain = await startService('plain', `http://127.0.0.1:${port}`, {});
  children.push(plain.child);
  const sealed = await startService('sealed', `http://127.0.0.1:${port}`, { DATA_KEY_FILE: keyFile });
  children.push(sealed.child);
  await compare('gateway with capture, 4 KB, 32 connections', 'req/s', (isSealed) =>
    captureLoad(isSealed ? sealed : plain),
  );
  await compare('steps scored, 8 connections', 'req/s', (isSealed) => stepLoad(isSealed ? sealed : plain));
  for (const { child } of [plain, sealed]) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
} finally {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}
