/**
 * Measures retrieval: `npm run bench -- retrieve`. It measures the time of an answer, including embedding and the
 * meter, with 1,000 to 100,000 patterns and with one and eight connections. It also measures the time of a restart and
 * the memory of the index. Last, it compares the graph with the exact index on the vectors that the product stored:
 * which share of the exact results the graph finds. Own process.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { decodeVector, PATTERN_VECTORS } from '../src/domain/pattern-rows.ts';
import { ExactIndex } from '../src/search/exact-index.ts';
import { HnswIndex, loadHnswlib } from '../src/search/hnsw-index.ts';
import { OnnxModel } from '../src/search/onnx-model.ts';
import { findModelDir } from '../src/search/open-embedder.ts';
import { databasePaths } from '../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../src/storage/lmdb/tables.ts';
import { readCpuUs, readRssBytes, readThreadCpuUs } from './process-meter.ts';
import { type Product, startProduct } from './product.ts';
import { type Quantiles, Samples } from './quantiles.ts';
import { saveResult, takeProvenance } from './results.ts';
import { RetrieveClient, Situations } from './retrieve-client.ts';

interface RetrieveBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

interface SizeReport {
  patterns: number;
  imports_per_s: number;
  /** Seconds until the graph contained the last import. */
  linked_after_s: number;
  one: Quantiles;
  eight: Quantiles;
  requests_per_s: number;
  /** Processor time per retrieval of all threads of the product, at one connection and at eight. */
  cpu_us: { one: number; eight: number };
  /** Processor time per retrieval of the threads that use most, at eight connections. */
  thread_cpu_us: number[];
  /** Times of the same texts when they are sent again at one connection: their vectors are then cached. */
  again: Quantiles;
  found_share: number;
  rss_bytes: number;
}

interface RetrieveReport {
  sizes: SizeReport[];
  restart: { first_answer_s: number; loaded_ms: number; linked_s: number };
  recall: {
    at_5: number;
    above_floor_at_5: number;
    queries: number;
    build_s: number;
    search_us: Quantiles;
    index_bytes: number;
  };
  goals: { p99: boolean; recall: boolean; restart: boolean };
}

const SIZES = { full: [1_000, 10_000, 100_000], quick: [1_000, 10_000] };
const REQUESTS = { full: 4_000, quick: 1_000 };
const QUERIES = 300;
/** Number of texts that are sent again. The product caches more texts than this. */
const REMEMBERED = 500;
const BATCH = 1_000;
const CONNECTIONS = 8;
const P99_MAX_US = 15_000;
const RECALL_MIN = 0.98;
const RESTART_MAX_S = 20;
const FLOOR = 0.35;
const QUIET_LIMIT_MS = 300_000;
const QUIET_MS = 400;
const QUIET_SHARE = 0.1;
const ENV = { VECTOR_STORE_URL: 'embedded:', LOG_LEVEL: 'info', PLAN_CAPS: '{"free": null}' };

/** Runs the bench. @returns false when a goal is missed */
export async function runRetrieveBench({ quick, save, say }: RetrieveBenchOptions): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'bench-retrieve-'));
  const dataDir = join(dir, 'data');
  let product = await startProduct(dataDir, ENV);
  try {
    const sizes: SizeReport[] = [];
    const texts = new Situations(1);
    let imported = 0;
    for (const size of quick ? SIZES.quick : SIZES.full) {
      sizes.push(await measureSize(product, texts, imported, size, REQUESTS[quick ? 'quick' : 'full'], say));
      imported = size;
    }
    await importAll(
      product,
      'queries',
      QUERIES,
      (n) => texts.task(n),
      () => {},
    );
    await product.stop();
    say('restart');
    const startedMs = performance.now();
    product = await startProduct(dataDir, ENV);
    const restart = await measureRestart(product, texts, startedMs);
    await product.stop();
    say('recall');
    const recall = await measureRecall(dataDir, say);
    const goals = {
      p99: sizes.at(-1)!.eight.p99 <= P99_MAX_US,
      recall: recall.above_floor_at_5 >= RECALL_MIN,
      restart: restart.linked_s <= RESTART_MAX_S,
    };
    const report: RetrieveReport = { sizes, restart, recall, goals };
    say('');
    print(report);
    if (save) console.log(`\n${saveResult({ ...takeProvenance(), suite: 'retrieve', ...report })}`);
    return Object.values(goals).every(Boolean);
  } finally {
    await product.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measureSize(
  product: Product,
  texts: Situations,
  before: number,
  size: number,
  requests: number,
  say: (what: string) => void,
): Promise<SizeReport> {
  const startedMs = performance.now();
  await importAll(
    product,
    'bench',
    size - before,
    (n) => texts.situation(before + n),
    (done) => say(`${size} patterns: ${before + done} imported`),
  );
  const importedMs = performance.now();
  say(`${size} patterns: the graph`);
  await waitQuiet(product);
  const linkedMs = performance.now();
  say(`${size} patterns: retrieval`);
  const client = new RetrieveClient(product.port);
  // Before `again`, no text is sent twice, not even one from an earlier size, because the product caches the vectors of
  // recent texts.
  let asked = 10 * size;
  const task = () => texts.task(asked++);
  await client.repeat(200, CONNECTIONS, new Samples(), task);
  const single = new Samples();
  const oneCpuUs = readCpuUs(product.pid);
  await client.repeat(requests / 4, 1, single, task);
  const eight = new Samples();
  client.found = 0;
  const before8 = readThreadCpuUs(product.pid);
  const eightCpuUs = readCpuUs(product.pid);
  const eightMs = performance.now();
  await client.repeat(requests, CONNECTIONS, eight, task);
  const requests_per_s = (requests * 1_000) / (performance.now() - eightMs);
  const cpu_us = {
    one: (eightCpuUs - oneCpuUs) / (requests / 4),
    eight: (readCpuUs(product.pid) - eightCpuUs) / requests,
  };
  const thread_cpu_us = Object.entries(readThreadCpuUs(product.pid))
    .map(([thread, us]) => Math.round((us - (before8[thread] ?? 0)) / requests))
    .sort((a, b) => b - a)
    .slice(0, 3);
  const { found } = client;
  const again = new Samples();
  const first = asked - REMEMBERED;
  await client.repeat(REMEMBERED, 1, again, (n) => texts.task(first + n));
  return {
    patterns: size,
    imports_per_s: ((size - before) * 1_000) / (importedMs - startedMs),
    linked_after_s: (linkedMs - importedMs) / 1_000,
    one: single.quantiles(),
    eight: eight.quantiles(),
    requests_per_s,
    cpu_us,
    thread_cpu_us,
    again: again.quantiles(),
    found_share: found / requests,
    rss_bytes: readRssBytes(product.pid),
  };
}

async function importAll(
  product: Product,
  org_id: string,
  count: number,
  make: (n: number) => string,
  progress: (done: number) => void,
): Promise<void> {
  const client = new RetrieveClient(product.port);
  for (let at = 0; at < count; at += BATCH) {
    const patterns = Array.from({ length: Math.min(BATCH, count - at) }, (_, n) => ({
      situation: make(at + n),
      dead_ends: 'Raised the timeout; ran it again; changed the order of the steps.',
      unlock: 'Read the first error of the log instead of the last, and fixed what it named.',
    }));
    await client.import(patterns, org_id);
    progress(at + patterns.length);
  }
}

/** Waits until the graph is complete. It is built between requests, and after that the process is almost idle. */
async function waitQuiet(product: Product): Promise<void> {
  const until = performance.now() + QUIET_LIMIT_MS;
  while (performance.now() < until) {
    const before = readCpuUs(product.pid);
    await delay(QUIET_MS);
    if (readCpuUs(product.pid) - before < QUIET_MS * 1_000 * QUIET_SHARE) return;
  }
  throw new Error('the product does not become idle');
}

async function measureRestart(
  product: Product,
  texts: Situations,
  startedMs: number,
): Promise<RetrieveReport['restart']> {
  const client = new RetrieveClient(product.port);
  do await client.repeat(1, 1, new Samples(), () => texts.situation(7));
  while (client.found === 0);
  const first_answer_s = (performance.now() - startedMs) / 1_000;
  await waitQuiet(product);
  const linked_s = (performance.now() - startedMs) / 1_000;
  const line = readFileSync(`${product.dir}.log`, 'utf8')
    .split('\n')
    .findLast((text) => text.includes('patterns are loaded'));
  const { duration_ms } = JSON.parse(line!) as { duration_ms: number };
  return { first_answer_s, loaded_ms: duration_ms, linked_s };
}

/** Compares the graph's results with those of the exact index, on what the product stored. */
async function measureRecall(
  dataDir: string,
  say: (what: string) => void,
): Promise<RetrieveReport['recall']> {
  const tables = new LmdbTables(databasePaths(dataDir).main, 'disk');
  const vectors: Float32Array[] = [];
  const queries: Float32Array[] = [];
  const { dimensions } = (await OnnxModel.open(findModelDir({ model_dir: null }))).facts;
  for (const { row, value } of tables.range<Uint8Array>(PATTERN_VECTORS, { prefix: [] })) {
    const vector = decodeVector(value, dimensions)!;
    if (row[2] === 'bench') vectors.push(vector);
    else if (row[2] === 'queries') queries.push(vector);
  }
  await tables.close();
  const exact = new ExactIndex(dimensions);
  // With the settings of the product's shared index.
  const graph = new HnswIndex(loadHnswlib(), dimensions, null, true);
  for (const [id, vector] of vectors.entries()) {
    exact.add(id, vector);
    graph.add(id, vector);
  }
  const startedMs = performance.now();
  while (graph.tend(1_000)) say(`recall: ${graph.unlinked} left`);
  const build_s = (performance.now() - startedMs) / 1_000;
  const samples = new Samples();
  const counts = { wanted: 0, found: 0, wantedAbove: 0, foundAbove: 0 };
  for (const query of queries) {
    const truth = exact.search(query, 5);
    const searchedMs = performance.now();
    const found = new Set(graph.search(query, 5).map(({ id }) => id));
    samples.add((performance.now() - searchedMs) * 1_000);
    for (const { id, similarity } of truth) {
      const hit = found.has(id) ? 1 : 0;
      counts.wanted++;
      counts.found += hit;
      if (similarity < FLOOR) continue;
      counts.wantedAbove++;
      counts.foundAbove += hit;
    }
  }
  return {
    at_5: counts.found / counts.wanted,
    above_floor_at_5: counts.foundAbove / Math.max(1, counts.wantedAbove),
    queries: queries.length,
    build_s,
    search_us: samples.quantiles(),
    index_bytes: graph.bytes,
  };
}

function print({ sizes, restart, recall, goals }: RetrieveReport): void {
  const ms = (us: number) => `${(us / 1_000).toFixed(2)} ms`;
  const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  for (const size of sizes) {
    console.log(
      `${String(size.patterns).padStart(7)} patterns  p50 ${ms(size.one.p50)}, p99 ${ms(size.one.p99)} at one connection; p50 ${ms(size.eight.p50)}, p99 ${ms(size.eight.p99)} at ${CONNECTIONS} (${size.requests_per_s.toFixed(0)}/s, ${(100 * size.found_share).toFixed(0)} % found something); ${ms(size.again.p50)} for a text whose vector is cached; processor time ${(size.cpu_us.one / 1_000).toFixed(2)} and ${(size.cpu_us.eight / 1_000).toFixed(2)} ms (threads ${size.thread_cpu_us.join(', ')} µs); imported ${size.imports_per_s.toFixed(0)}/s, graph ready ${size.linked_after_s.toFixed(1)} s later; ${mb(size.rss_bytes)} resident`,
    );
  }
  console.log(
    `Restart: first answer after ${restart.first_answer_s.toFixed(1)} s (patterns read in ${ms(1_000 * restart.loaded_ms)}), graph after ${restart.linked_s.toFixed(1)} s`,
  );
  console.log(
    `Recall@5 against the exact index: ${recall.above_floor_at_5.toFixed(4)} of the results above the similarity floor, ${recall.at_5.toFixed(4)} of all results; a search p50 ${ms(recall.search_us.p50)}; built in ${recall.build_s.toFixed(1)} s; index ${mb(recall.index_bytes)}`,
  );
  const verdict = (met: boolean) => (met ? 'met' : 'MISSED');
  console.log(
    `Goals: p99 at most ${ms(P99_MAX_US)}: ${verdict(goals.p99)}; recall at least ${RECALL_MIN}: ${verdict(goals.recall)}; restart under ${RESTART_MAX_S} s: ${verdict(goals.restart)}`,
  );
}

if (import.meta.main) {
  const quick = process.argv.includes('--quick');
  const met = await runRetrieveBench({
    quick,
    save: process.argv.includes('--save'),
    say: (what) => what && console.error(what),
  });
  process.exit(met ? 0 : 1);
}
