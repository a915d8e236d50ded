/**
 * Measures findings and the live stream: `npm run bench -- findings`. The figures are the cost of storing and recalling
 * findings as their number grows, including embedding and disk access; the cost of 10,000 idle readers of the stream;
 * and how many events a second a hub and a server thread deliver. The product is started as a user starts it. Own
 * process.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readAnonBytes, readCpuUs, readRssBytes } from './process-meter.ts';
import { PRODUCT_KEY, type Product, startProduct } from './product.ts';
import { type Quantiles, Samples } from './quantiles.ts';
import { saveResult, takeProvenance } from './results.ts';
import type { ReadersJob, ReadersReport } from './stream-readers.ts';
import { startBenchProcess } from './targets.ts';

interface FindingsBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

interface Plan {
  /** Numbers of stored findings at which recalls are measured. */
  sizes: number[];
  recalls: number;
  readers: number;
  /** Numbers of readers and of events for the measurement of the fan-out. */
  fanout: [readers: number, events: number][];
}

const FULL: Plan = {
  sizes: [100, 1_000, 9_900],
  recalls: 1_500,
  readers: 10_000,
  fanout: [
    [1, 2_000],
    [100, 2_000],
    [1_000, 400],
    [10_000, 40],
  ],
};
const QUICK: Plan = {
  ...FULL,
  sizes: [100, 1_000],
  recalls: 200,
  fanout: [
    [1, 1_000],
    [1_000, 100],
  ],
};

/**
 * The contract's limit for the additional memory that 10,000 idle readers cost the process.
 */
const READERS_BYTES_MAX = 300e6;
const CONNECTIONS = 8;

interface FindingsReport {
  findings: { size: number; store_us: Quantiles; recall_us: Quantiles; stores_per_s: number }[];
  idle: {
    readers: number;
    opened_per_s: number;
    before_bytes: number;
    /** Memory of the whole process. */
    rss_bytes: number;
    bytes_a_reader: number;
    heartbeat_cpu_us: number;
    left_bytes: number;
  };
  fanout: { readers: number; events: number; deliveries_per_s: number; events_per_s: number }[];
  goals: { idle_memory: boolean };
}

/** Runs the bench. @returns false when a goal is missed */
export async function runFindingsBench({ quick, save, say }: FindingsBenchOptions): Promise<boolean> {
  const plan = quick ? QUICK : FULL;
  const dir = mkdtempSync(join(tmpdir(), 'bench-findings-'));
  const env = { AUTH_DB_CONN_URL: 'embedded:', VECTOR_STORE_URL: 'embedded:' };
  let product = await startProduct(join(dir, 'findings'), env);
  try {
    const findings = await measureFindings(product, plan, say);
    await product.stop();
    product = await startProduct(join(dir, 'stream'), env);
    const idle = await measureIdle(product, plan.readers, say);
    const fanout: FindingsReport['fanout'] = [];
    for (const [readers, events] of plan.fanout) {
      say(`${readers} readers, ${events} events`);
      fanout.push(await measureFanout(product, readers, events));
    }
    const goals = { idle_memory: idle.rss_bytes - idle.before_bytes <= READERS_BYTES_MAX };
    const report: FindingsReport = { findings, idle, fanout, goals };
    say('');
    print(report);
    if (save) console.log(`\n${saveResult({ ...takeProvenance(), suite: 'findings', ...report })}`);
    return goals.idle_memory;
  } finally {
    await product.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measureFindings(
  product: Product,
  { sizes, recalls }: Plan,
  say: (what: string) => void,
): Promise<FindingsReport['findings']> {
  const client = new Client(product.port);
  const report: FindingsReport['findings'] = [];
  let stored = 0;
  // The first requests load and compile code, which is not a cost of a finding.
  for (let i = 0; i < 50; i++) await client.post('/v1/findings/warm', { content: describe(i) });
  for (let i = 0; i < 50; i++) await client.post('/v1/findings/warm/recall', { query: describe(i) });
  for (const size of sizes) {
    say(`${size} findings`);
    const store = new Samples();
    const startedMs = performance.now();
    const before = stored;
    await client.repeat(size - stored, CONNECTIONS, store, () => {
      const n = stored++;
      return ['/v1/findings/bench', { content: describe(n), file_path: `src/part-${n % 97}/file-${n}.ts` }];
    });
    const stores_per_s = ((stored - before) * 1_000) / (performance.now() - startedMs);
    const recall = new Samples();
    await client.repeat(recalls, 1, recall, (n) => [
      '/v1/findings/bench/recall',
      { query: describe(7 * n + 1) },
    ]);
    report.push({ size, store_us: store.quantiles(), recall_us: recall.quantiles(), stores_per_s });
  }
  client.close();
  return report;
}

const WORDS =
  'parser retry token cache socket header index journal thread reader timeout bound cursor page branch lock queue test build merge'.split(
    ' ',
  );

/** Makes a finding of about forty words; each finding is different. */
function describe(n: number): string {
  let seed = Math.imul(n + 1, 0x9e3779b1) >>> 0;
  const words = Array.from({ length: 40 }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return WORDS[(seed >>> 16) % WORDS.length];
  });
  return `finding ${n}: ${words.join(' ')}`;
}

async function measureIdle(
  product: Product,
  count: number,
  say: (what: string) => void,
): Promise<FindingsReport['idle']> {
  say('idle readers');
  const warm = await Readers.start();
  await warm.open(product.port, 200, 'warm');
  await warm.close();
  const before_bytes = readRssBytes(product.pid);
  const readers = await Readers.start();
  const startedMs = performance.now();
  await readers.open(product.port, count, 'idle');
  const opened_per_s = (count * 1_000) / (performance.now() - startedMs);
  // The processor time of the second round of heartbeats is measured, because the first round may have begun.
  await readers.beats(count);
  const cpuBefore = readCpuUs(product.pid);
  await readers.beats(count);
  const heartbeat_cpu_us = readCpuUs(product.pid) - cpuBefore;
  const rss_bytes = readRssBytes(product.pid);
  await readers.close();
  const again = await Readers.start();
  await again.open(product.port, 1, 'idle');
  await again.close();
  return {
    readers: count,
    opened_per_s,
    before_bytes,
    rss_bytes,
    bytes_a_reader: (rss_bytes - before_bytes) / count,
    heartbeat_cpu_us,
    left_bytes: readAnonBytes(product.pid),
  };
}

/** Starts runs through the API. Every reader of the organization receives an event for each run. */
async function measureFanout(
  product: Product,
  count: number,
  events: number,
): Promise<FindingsReport['fanout'][number]> {
  const org_id = `fan-${count}`;
  const readers = await Readers.start();
  await readers.open(product.port, count, org_id);
  const client = new Client(product.port);
  const post = (prefix: string) => (n: number) =>
    ['/v1/monitor/runs', { org_id, run_id: `${prefix}-${n}` }] as [string, object];
  const warm = Math.min(events, 100);
  const warmed = await readers.hear(warm);
  await client.repeat(warm, CONNECTIONS, new Samples(), post('warm'));
  await warmed.report;
  const heard = await readers.hear(events);
  const startedNs = process.hrtime.bigint();
  await client.repeat(events, CONNECTIONS, new Samples(), post('run'));
  const { done_ns } = await heard.report;
  const seconds = Number(BigInt(done_ns) - startedNs) / 1e9;
  client.close();
  await readers.close();
  return {
    readers: count,
    events,
    events_per_s: events / seconds,
    deliveries_per_s: (count * events) / seconds,
  };
}

/** A process with many readers of the live stream. */
class Readers {
  readonly #child: ChildProcess;

  static async start(): Promise<Readers> {
    return new Readers((await startBenchProcess('stream-readers.ts')).child);
  }

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  open(port: number, readers: number, org_id: string): Promise<ReadersReport> {
    return this.#ask({ do: 'open', port, key: PRODUCT_KEY, readers, org_id });
  }

  /** Resolves when the readers are ready. `report` resolves when each reader has received this many events. */
  async hear(events: number): Promise<{ report: Promise<ReadersReport> }> {
    await this.#ask({ do: 'hear', events });
    return { report: this.#next<ReadersReport>() };
  }

  async beats(comments: number): Promise<ReadersReport> {
    await this.#ask({ do: 'beats', comments });
    return this.#next<ReadersReport>();
  }

  async close(): Promise<void> {
    await this.#ask({ do: 'close' });
    this.#child.disconnect();
  }

  #ask(job: ReadersJob): Promise<ReadersReport> {
    const answer = this.#next<ReadersReport>();
    this.#child.send(job);
    return answer;
  }

  #next<Message>(): Promise<Message> {
    return new Promise((resolve, reject) => {
      const onExit = (): void => reject(new Error('the readers ended'));
      this.#child.once('exit', onExit);
      this.#child.once('message', (message: Message | { error: string }) => {
        this.#child.off('exit', onExit);
        if (typeof message === 'object' && message !== null && 'error' in message)
          reject(new Error(message.error));
        else resolve(message as Message);
      });
    });
  }
}

/** Sends JSON over kept connections. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  post(path: string, body: object): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const text = JSON.stringify(body);
    const sent = request(
      {
        host: '127.0.0.1',
        port: this.#port,
        method: 'POST',
        path,
        agent: this.#agent,
        headers: {
          authorization: `Bearer ${PRODUCT_KEY}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
        },
      },
      (answer) => {
        let said = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          said += chunk;
        });
        answer.on('end', () => {
          if (answer.statusCode === 200) resolve();
          else reject(new Error(`${path}: ${answer.statusCode} ${said.slice(0, 200)}`));
        });
      },
    );
    sent.on('error', reject);
    sent.end(text);
    return promise;
  }

  /** Sends this many requests over this many connections, and measures each in microseconds. */
  async repeat(
    count: number,
    connections: number,
    samples: Samples,
    make: (n: number) => [path: string, body: object],
  ): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < count) {
        const [path, body] = make(next++);
        const startedMs = performance.now();
        await this.post(path, body);
        samples.add((performance.now() - startedMs) * 1_000);
      }
    };
    await Promise.all(Array.from({ length: connections }, work));
  }

  close(): void {
    this.#agent.destroy();
  }
}

function print({ findings, idle, fanout, goals }: FindingsReport): void {
  const ms = (us: number) => `${(us / 1_000).toFixed(2)} ms`;
  const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  for (const { size, store_us, recall_us, stores_per_s } of findings) {
    console.log(
      `${String(size).padStart(6)} findings  store p50 ${ms(store_us.p50)}, p99 ${ms(store_us.p99)} at ${CONNECTIONS} connections (${stores_per_s.toFixed(0)}/s); recall p50 ${ms(recall_us.p50)}, p99 ${ms(recall_us.p99)} at one`,
    );
  }
  console.log(
    `${String(idle.readers).padStart(6)} idle readers  ${mb(idle.rss_bytes)} resident in all (model and databases included), ${mb(idle.before_bytes)} before them; opened ${idle.opened_per_s.toFixed(0)}/s; a round of heartbeats ${ms(idle.heartbeat_cpu_us)} of CPU   (under ${mb(READERS_BYTES_MAX)} more: ${goals.idle_memory ? 'met' : 'MISSED'})`,
  );
  for (const { readers, events, deliveries_per_s, events_per_s } of fanout) {
    console.log(
      `${String(readers).padStart(6)} readers       ${events} events: ${events_per_s.toFixed(0)} events/s, ${deliveries_per_s.toFixed(0)} deliveries/s`,
    );
  }
}

if (import.meta.main) {
  const quick = process.argv.includes('--quick');
  const met = await runFindingsBench({
    quick,
    save: process.argv.includes('--save'),
    say: (what) => what && console.error(what),
  });
  process.exit(met ? 0 : 1);
}
