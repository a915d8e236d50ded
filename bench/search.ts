/**
 * Full-text search over the captures of 100,000 runs: `npm run bench -- search`. Makes a database without an index,
 * builds the index as after an upgrade, and measures its size, its processor time, and searches for rare and frequent
 * words, phrases and beginnings of words. A search is measured until its page with the found places has arrived. Own
 * process.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readHitPage } from '../src/captures/text-hits.ts';
import { decodeExchange } from '../src/providers/decode.ts';
import { FollowedFiles } from '../src/storage/capture/followed-files.ts';
import { listSealed } from '../src/storage/capture/layout.ts';
import { CaptureLog } from '../src/storage/capture/log.ts';
import { parseTextQuery } from '../src/storage/text-index/text-query.ts';
import { TextSearch } from '../src/storage/text-index/text-search.ts';
import { makeCaptureDatabase } from './capture-database.ts';
import { type Quantiles, Samples } from './quantiles.ts';
import { saveResult, takeProvenance } from './results.ts';

interface SearchBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

interface SearchTimes {
  query: string;
  /** Number of runs that match the query. */
  runs: number;
  /** Time of the first search with this query, until its page has arrived. */
  first_us: number;
  /** Time until the exchanges and runs are found. */
  find_us: Quantiles;
  /** Time until the page with the places of the words has arrived. */
  page_us: Quantiles;
}

interface IndexFigures {
  exchanges: number;
  capture_bytes: number;
  index_bytes: number;
  segments: number;
  /** Processor time of reading exchanges again, splitting them into words, writing and merging. */
  cpu_us_per_exchange: number;
}

/** Maximum median time until the exchanges and runs of a query are found in 100,000 runs. */
const WORD_MS_MAX = 100;
/** Maximum size of the index, as a share of the capture files' bytes. */
const INDEX_SHARE_MAX = 0.1;
const PAGE = 20;
/** How long the capture reader reads exchanges for one page. */
const READING_MS = 60;
const TIMES = 40;
const TIDY_MS = 20;
/** A word that occurs in no run. */
const ABSENT = 'absentword';
const QUERIES = [
  'OR-{}',
  'Overloaded',
  'invoice',
  'order',
  'escalate order',
  '"the state of order"',
  'orde*',
  ABSENT,
];

/** Runs the bench. @returns false when a goal is missed */
export async function runSearchBench({ quick, save, say }: SearchBenchOptions): Promise<boolean> {
  const runs = quick ? 2_000 : 100_000;
  const dir = mkdtempSync(join(tmpdir(), 'bench-search-'));
  try {
    const tell = (made: number) => {
      if (made % 1_000 === 0) say(`${made} runs captured`);
    };
    const { path } = await makeCaptureDatabase({ dir, runs, run_bytes: 60_000, tell });
    const index = await makeIndex(path, say);
    say('searching');
    const searches = measureSearches(path, runs);
    const empty = searches.find(({ query, runs: found }) => found > 0 === (query === ABSENT));
    if (empty !== undefined)
      throw new Error(`"${empty.query}" found ${empty.runs} runs: the figures are void`);
    const goals = {
      words: searches.every(({ find_us }) => find_us.p50 <= WORD_MS_MAX * 1_000),
      size: index.index_bytes <= index.capture_bytes * INDEX_SHARE_MAX,
    };
    const report = { runs, index, searches, goals };
    say('');
    print(report);
    if (save) console.log(`\n${saveResult({ ...takeProvenance(), suite: 'search', ...report })}`);
    return goals.words && goals.size;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function makeIndex(path: string, say: (what: string) => void): Promise<IndexFigures> {
  const log = await CaptureLog.open({ path, redact: true, decode: decodeExchange, has_text_index: true });
  const before = process.cpuUsage();
  while ((await log.tidySome(decodeExchange, TIDY_MS)).done > 0)
    say(`${log.stats().text!.unsearched} exchanges are not in the index`);
  const { user, system } = process.cpuUsage(before);
  const { last_id: exchanges, text } = log.stats();
  await log.close();
  const capture_bytes = [...listSealed(path).map((file) => file.path), path].reduce(
    (sum, file) => sum + statSync(file).size,
    0,
  );
  const { bytes: index_bytes, segments } = text!;
  return {
    exchanges,
    capture_bytes,
    index_bytes,
    segments,
    cpu_us_per_exchange: (user + system) / exchanges,
  };
}

/**
 * Finds the number of an order in the middle of the database. The number is 100,000 plus the run's index. Three of five
 * runs have an order.
 */
function findOrder(path: string, runs: number): number {
  const search = new TextSearch(path, null);
  search.refresh();
  const from = 100_000 + Math.floor(runs / 2);
  const orders = Array.from({ length: 100 }, (_, at) => from + at);
  const found = orders.find((order) => search.find(parseTextQuery(`OR-${order}`)).runs > 0);
  search.close();
  if (found === undefined) throw new Error('the index has no order: the figures are void');
  return found;
}

function measureSearches(path: string, runs: number): SearchTimes[] {
  const files = new FollowedFiles(path, { data_key: null });
  files.refresh();
  const search = new TextSearch(path, null);
  const ask = (text: string): { runs: number; find_us: number; page_us: number } => {
    const start = performance.now();
    search.refresh();
    const matches = search.find(parseTextQuery(text));
    const found = performance.now();
    const until = found + READING_MS;
    readHitPage(files, matches, { limit: PAGE, before: null }, () => performance.now() < until);
    const end = performance.now();
    return { runs: matches.runs, find_us: (found - start) * 1_000, page_us: (end - start) * 1_000 };
  };
  const order = findOrder(path, runs);
  const times = QUERIES.map((text): SearchTimes => {
    const query = text.replace('{}', String(order));
    const first = ask(query);
    const find = new Samples();
    const page = new Samples();
    for (let time = 0; time < TIMES; time++) {
      const { find_us, page_us } = ask(query);
      find.add(find_us);
      page.add(page_us);
    }
    return {
      query,
      runs: first.runs,
      first_us: first.page_us,
      find_us: find.quantiles(),
      page_us: page.quantiles(),
    };
  });
  search.close();
  files.close();
  return times;
}

function print({
  index,
  searches,
  goals,
}: {
  index: IndexFigures;
  searches: SearchTimes[];
  goals: object;
}): void {
  const { index_bytes, capture_bytes, exchanges, segments, cpu_us_per_exchange } = index;
  const share = ((index_bytes / capture_bytes) * 100).toFixed(1);
  console.log(
    `${exchanges} exchanges: index ${Math.round(index_bytes / 1e6)} MB, ${share} % of the captures, ${segments} segments`,
  );
  console.log(
    `${Math.round(cpu_us_per_exchange)} µs of processor time for each exchange that is read again\n`,
  );
  const ms = (us: number): string => (us / 1_000).toFixed(1).padStart(9);
  console.log('query                        runs   first ms  find p50 ms  find p99  page p50');
  for (const { query, runs, first_us, find_us, page_us } of searches)
    console.log(
      `${query.padEnd(24)}${String(runs).padStart(9)}${ms(first_us)}${ms(find_us.p50).padStart(13)}${ms(find_us.p99)}${ms(page_us.p50)}`,
    );
  for (const [goal, isMet] of Object.entries(goals)) console.log(`${goal}: ${isMet ? 'met' : 'MISSED'}`);
}
