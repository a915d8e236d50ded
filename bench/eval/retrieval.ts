/**
 * Measures the quality of an embedder: rank correlation on sentence pairs (STSb), and nDCG@10, MAP and MRR on code
 * search (CoSQA) and abstracts (Cranfield), compared with the baselines in ../shared/retrieval/README.md. Also measures
 * the latency of one embedding. It reports missing data sets. Bench process; the model runs in the compute pool, as in
 * the product.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { silenceModelRuntime } from '../../src/config.ts';
import { PATTERN_IMPORT_CHARACTERS } from '../../src/domain/pattern.ts';
import { ComputePool } from '../../src/runtime/compute-pool.ts';
import { COMPUTE_DEADLINE_MS, COMPUTE_QUEUE_CALLS } from '../../src/runtime/direct-channel.ts';
import type { Embedder } from '../../src/search/embedder.ts';
import { OnnxEmbedder } from '../../src/search/onnx-embedder.ts';
import { findModelDir } from '../../src/search/open-embedder.ts';
import { resolveModuleUrl } from '../../src/std/module-url.ts';
import { JsonLine } from '../json-line.ts';
import { startProduct } from '../product.ts';
import { type Provenance, saveResult, takeProvenance } from '../results.ts';
import { averagePrecision, ndcgAt10, rankAll, reciprocalRank, spearman } from './measures.ts';

/** Values from ../shared/retrieval/README.md, for the available parts. */
const BASELINES: Record<string, Record<string, Partial<Scores>>> = {
  'STSb dev': { 'word Jaccard': { spearman: 0.654 }, 'character n-grams': { spearman: 0.78 } },
  'CoSQA test': {
    BM25: { ndcg_at_10: 0.339, map: 0.302, mrr: 0.302 },
    'character n-grams': { ndcg_at_10: 0.384, map: 0.342, mrr: 0.342 },
  },
  'CoSQA dev': {
    BM25: { ndcg_at_10: 0.37, map: 0.335, mrr: 0.335 },
    'character n-grams': { ndcg_at_10: 0.377, map: 0.325, mrr: 0.325 },
  },
  Cranfield: {
    BM25: { ndcg_at_10: 0.48, map: 0.381, mrr: 0.774 },
    'character n-grams': { ndcg_at_10: 0.488, map: 0.398, mrr: 0.763 },
  },
};

/** An embedder's measures on one set; null: not measured. */
interface Scores {
  spearman: number | null;
  ndcg_at_10: number | null;
  map: number | null;
  mrr: number | null;
  /** nDCG@10 if the documents are patterns, retrieved with `POST /v1/traces/retrieve`; null: this was not measured. */
  patterns_ndcg_at_10: number | null;
}

interface RankedSet {
  docs: { id: string; text: string }[];
  queries: { text: string; relevant: ReadonlySet<number>; split: string }[];
}

const PRODUCT_ENV = { VECTOR_STORE_URL: 'embedded:', PLAN_CAPS: '{"free": null}' };
const SETS_DIR = new URL('../../../shared/retrieval/', import.meta.url);
const CHUNK_TEXTS = 256;
const BUSY_ATTEMPTS = 20;
const BUSY_PAUSE_MS = 1_000;
/** Documents imported as patterns in one request. */
const IMPORTED_AT_ONCE = 200;
/** Length of each text in the latency measurement, and number of texts. */
const LATENCY_TEXT_CHARACTERS = 200;
const LATENCY_RUNS = 1_000;

/**
 * Prints and stores the evaluation.
 * @param args `--model <folder>` instead of the default model, `--sets <folder>` with the data sets, `--no-save`
 */
export async function evaluateRetrieval(...args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { model: { type: 'string' }, sets: { type: 'string' }, 'no-save': { type: 'boolean' } },
  });
  const setsDir = values.sets === undefined ? SETS_DIR : new URL(`file://${resolve(values.sets)}/`);
  const threads = Math.max(1, availableParallelism() - 1);
  silenceModelRuntime();
  const pool = new ComputePool({
    entry: resolveModuleUrl('../../src/threads/compute-thread-entry.ts', import.meta.url),
    threads,
    options: {
      model_dir: findModelDir({ model_dir: values.model === undefined ? null : resolve(values.model) }),
    },
    queue_calls_max: COMPUTE_QUEUE_CALLS,
    call_deadline_ms: COMPUTE_DEADLINE_MS,
  });
  try {
    const provenance = takeProvenance();
    const embedder = await OnnxEmbedder.open(pool.run, threads);
    console.log(`${embedder.id}, ${embedder.dimensions} dimensions`);
    const sets: Record<string, Scores> = {};
    const skipped: string[] = [];
    const read = <T>(name: string, parse: (bytes: Buffer) => T): T | null => {
      const file = new URL(name, setsDir);
      if (existsSync(file)) return parse(readFileSync(file));
      skipped.push(name);
      console.log(`skipped: ${name} does not exist`);
      return null;
    };
    const pairs = read('stsb-dev.csv', parsePairs);
    if (pairs !== null) sets['STSb dev'] = await scorePairs(embedder, pairs);
    const cosqa = read('cosqa-tune.jsonl.gz', parseRanked);
    if (cosqa !== null) {
      for (const [split, scores] of await scoreRanked(embedder, cosqa)) sets[`CoSQA ${split}`] = scores;
    }
    const cranfield = read('cranfield-tune.jsonl.gz', parseRanked);
    if (cranfield !== null) {
      for (const scores of (await scoreRanked(embedder, cranfield)).values()) sets.Cranfield = scores;
    }
    if (values.model === undefined) await scoreAsPatterns(sets, { CoSQA: cosqa, Cranfield: cranfield });
    const latency_ms = await measureLatency(embedder);
    print(sets, latency_ms);
    const result: Provenance & Record<'suite', string> & Record<string, unknown> = {
      ...provenance,
      suite: 'retrieval',
      model: { id: embedder.id, dimensions: embedder.dimensions },
      sets,
      skipped,
      baselines: BASELINES,
      latency_ms,
    };
    if (values['no-save'] !== true) console.log(`\n${saveResult(result)}`);
  } finally {
    await pool.close();
  }
}

async function embedAll(embedder: Embedder, texts: readonly string[]): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (let at = 0; at < texts.length; at += CHUNK_TEXTS) {
    vectors.push(...(await embedder.embed(texts.slice(at, at + CHUNK_TEXTS))));
  }
  return vectors;
}

async function scorePairs(
  embedder: Embedder,
  pairs: readonly { texts: [string, string]; score: number }[],
): Promise<Scores> {
  const vectors = await embedAll(
    embedder,
    pairs.flatMap(({ texts }) => texts),
  );
  const similarities = pairs.map((_, i) => dot(vectors[2 * i]!, vectors[2 * i + 1]!));
  const correlation = spearman(
    similarities,
    pairs.map(({ score }) => score),
  );
  return { spearman: correlation, ndcg_at_10: null, map: null, mrr: null, patterns_ndcg_at_10: null };
}

/** Scores the embedder's rankings. @returns scores by split */
async function scoreRanked(embedder: Embedder, set: RankedSet): Promise<Map<string, Scores>> {
  const docs = await embedAll(
    embedder,
    set.docs.map(({ text }) => text),
  );
  const queries = await embedAll(
    embedder,
    set.queries.map(({ text }) => text),
  );
  const sums = new Map<string, { count: number; ndcg: number; ap: number; rr: number }>();
  for (const [i, { relevant, split }] of set.queries.entries()) {
    const ranking = rankAll(docs.map((doc) => dot(queries[i]!, doc)));
    const sum = sums.get(split) ?? { count: 0, ndcg: 0, ap: 0, rr: 0 };
    sum.count++;
    sum.ndcg += ndcgAt10(ranking, relevant);
    sum.ap += averagePrecision(ranking, relevant);
    sum.rr += reciprocalRank(ranking, relevant);
    sums.set(split, sum);
  }
  const mean = ({
    count,
    ndcg,
    ap,
    rr,
  }: {
    count: number;
    ndcg: number;
    ap: number;
    rr: number;
  }): Scores => ({
    spearman: null,
    ndcg_at_10: ndcg / count,
    map: ap / count,
    mrr: rr / count,
    patterns_ndcg_at_10: null,
  });
  return new Map([...sums].map(([split, sum]) => [split, mean(sum)]));
}

/** Stores each set's documents as patterns and retrieves them over the API. */
async function scoreAsPatterns(
  sets: Record<string, Scores>,
  ranked: Record<string, RankedSet | null>,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'eval-patterns-'));
  const product = await startProduct(join(dir, 'data'), PRODUCT_ENV);
  try {
    const line = await JsonLine.open(product.port);
    for (const [name, set] of Object.entries(ranked)) {
      if (set === null) continue;
      for (const [split, ndcg] of await scoreStored(line, name.toLowerCase(), set))
        (sets[`${name} ${split}`] ?? sets[name])!.patterns_ndcg_at_10 = ndcg;
    }
    line.close();
  } finally {
    await product.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Scores the retrievals of a service that has stored the documents. @returns nDCG@10 by split */
async function scoreStored(line: JsonLine, org_id: string, set: RankedSet): Promise<Map<string, number>> {
  /** The documents of each pattern. Near-duplicates share a pattern. */
  const places = new Map<string, number[]>();
  const filled = [...set.docs.entries()].filter(([, { text }]) => text.trim() !== '');
  for (let at = 0; at < filled.length; at += IMPORTED_AT_ONCE) {
    const batch = filled.slice(at, at + IMPORTED_AT_ONCE);
    const patterns = batch.map(([, { text }]) => ({
      situation: text.slice(0, PATTERN_IMPORT_CHARACTERS.situation),
      dead_ends: '',
      unlock: 'none',
    }));
    const { patterns: stored } = (await ask(line, '/v1/patterns', { org_id, tier: 'e2', patterns })) as {
      patterns: { pattern_id: string }[];
    };
    for (const [i, { pattern_id: id }] of stored.entries())
      places.set(id, [...(places.get(id) ?? []), batch[i]![0]]);
  }
  const sums = new Map<string, { count: number; ndcg: number }>();
  for (const { text, relevant, split } of set.queries) {
    const asked = { org_id, tier: 'e2', context: text, top_k: 10, min_similarity: 0 };
    const { traces } = (await ask(line, '/v1/traces/retrieve', asked)) as {
      traces: { pattern_id: string }[];
    };
    const ranking = traces.map(({ pattern_id }) => {
      const docs = places.get(pattern_id) ?? [];
      return docs.find((doc) => relevant.has(doc)) ?? docs[0] ?? -1;
    });
    const sum = sums.get(split) ?? { count: 0, ndcg: 0 };
    sums.set(split, sum);
    sum.count++;
    sum.ndcg += ndcgAt10(ranking, relevant);
  }
  return new Map([...sums].map(([split, { count, ndcg }]) => [split, ndcg / count]));
}

/** Asks the product up to `BUSY_ATTEMPTS` times if it answers 503. On a busy machine, the product sometimes does so. */
async function ask(line: JsonLine, path: string, body: object): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await line.post(path, body);
    } catch (thrown) {
      if (attempt === BUSY_ATTEMPTS || !String(thrown).includes(' 503 ')) throw thrown;
      await delay(BUSY_PAUSE_MS);
    }
  }
}

/** Embeds one text at a time, and measures the latency for the caller, including the queue and the thread. */
async function measureLatency(embedder: Embedder): Promise<{ p50: number; p99: number }> {
  const text = 'The parser test loops over the retry counter and never stops; '.repeat(4);
  const times: number[] = [];
  for (let run = 0; run < LATENCY_RUNS; run++) {
    const unlike = `${run} ${text}`.slice(0, LATENCY_TEXT_CHARACTERS);
    const start = performance.now();
    await embedder.embed([unlike]);
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return { p50: times[Math.floor(times.length * 0.5)]!, p99: times[Math.floor(times.length * 0.99)]! };
}

function print(sets: Record<string, Scores>, latency_ms: { p50: number; p99: number }): void {
  const cell = (x: number | null | undefined) => (x == null ? '-' : x.toFixed(3)).padStart(9);
  const row = (set: string, system: string, s: Partial<Scores>) =>
    console.log(
      `${set.padEnd(12)}${system.padEnd(20)}${cell(s.spearman)}${cell(s.ndcg_at_10)}${cell(s.map)}${cell(s.mrr)}${cell(s.patterns_ndcg_at_10)}`,
    );
  console.log(`\n${''.padEnd(32)} Spearman  nDCG@10      MAP      MRR patterns`);
  for (const [set, scores] of Object.entries(sets)) {
    row(set, 'this model', scores);
    for (const [system, baseline] of Object.entries(BASELINES[set] ?? {})) row('', system, baseline);
  }
  const { p50, p99 } = latency_ms;
  console.log(
    `\none text of ${LATENCY_TEXT_CHARACTERS} characters: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`,
  );
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** Reads lines `sentence1,sentence2,score` after a line of names, with fields as in RFC 4180. */
function parsePairs(bytes: Buffer): { texts: [string, string]; score: number }[] {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of bytes
    .toString('utf8')
    .matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1)!.push(quoted === undefined ? plain! : quoted.replaceAll('""', '"'));
    if (end !== ',') rows.push([]);
  }
  return rows
    .slice(1)
    .filter((row) => row.length === 3)
    .map(([a, b, score]) => ({ texts: [a!, b!], score: Number(score) }));
}

/** Lines `{"doc", "text"}` and `{"query", "text", "relevant", "split"}`. */
function parseRanked(bytes: Buffer): RankedSet {
  const lines = gunzipSync(bytes).toString('utf8').trim().split('\n');
  const records = lines.map(
    (line) =>
      JSON.parse(line) as { doc?: string; query?: string; text: string; relevant?: string[]; split?: string },
  );
  const docs = records.flatMap(({ doc, text }) => (doc === undefined ? [] : [{ id: doc, text }]));
  const placeOf = new Map(docs.map(({ id }, place) => [id, place]));
  const queries = records
    .filter(({ query }) => query !== undefined)
    .map(({ text, relevant, split }) => ({
      text,
      relevant: new Set(relevant!.map((id) => placeOf.get(id)!)),
      split: split ?? '',
    }));
  return { docs, queries };
}
