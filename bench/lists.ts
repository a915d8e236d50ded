/**
 * Measures lists of a million runs: `npm run bench -- lists`. It measures every page from the newest to the oldest,
 * from the request to the last byte; pages of the usual size at several depths; and pages with filters that many runs,
 * few runs or no run match. The rows are written straight into the database in the run actor's form. The product runs
 * as a user starts it, and the pages are read over HTTP on one kept connection. Own process.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from '../src/contract/limits.ts';
import { databasePaths } from '../src/storage/lmdb/stores.ts';
import { KeptConnection } from './kept-connection.ts';
import { type Product, startProduct } from './product.ts';
import { type Quantiles, Samples } from './quantiles.ts';
import { saveResult, takeProvenance } from './results.ts';
import { APART_MS, NEWEST_MS, ORG, writeRuns } from './run-database.ts';

interface ListsBenchOptions {
  quick: boolean;
  /** Whether to store the figures in bench/results. */
  save: boolean;
  say: (what: string) => void;
}

/** The contract's limit for the time of a page, at any depth of the list. */
const PAGE_MS_MAX = 20;

/** Depths at which pages of the usual size are read, as shares of the list. */
const DEPTHS = [0, 0.25, 0.5, 0.75, 0.99];
const SOME_PAGES = 200;

/** Number and times of the pages that were read with one query. */
interface PageTimes {
  query: string;
  pages: number;
  runs: number;
  page_us: Quantiles;
  /** The median time of a page in each tenth of these pages. */
  tenths_p50_us: number[];
}

interface ListsReport {
  runs: number;
  database_bytes: number;
  lists: PageTimes[];
  goals: { pages: boolean };
}

/** Runs the bench. @returns false when a goal is missed */
export async function runListsBench({ quick, save, say }: ListsBenchOptions): Promise<boolean> {
  const runs = quick ? 50_000 : 1_000_000;
  const dir = mkdtempSync(join(tmpdir(), 'bench-lists-'));
  let product: Product | null = null;
  try {
    const paths = databasePaths(dir);
    await writeRuns(paths, runs, say);
    product = await startProduct(dir, {});
    const reader = new ListReader(product.port);
    // The first requests load and compile code, which is not a cost of a page.
    await reader.walk('limit=1', 200);
    const everything = Number.POSITIVE_INFINITY;
    const questions: [query: string, pages: number][] = [
      [`limit=${PAGE_LIMIT_MAX}`, everything],
      [`limit=${PAGE_LIMIT_MAX}&project_id=web`, everything],
      ...DEPTHS.map((share): [string, number] => {
        const to = new Date(NEWEST_MS - share * runs * APART_MS).toISOString();
        return [`limit=${PAGE_LIMIT_DEFAULT}&to=${to}`, SOME_PAGES];
      }),
      ['outcome=success', SOME_PAGES],
      ['agent_name=rare', SOME_PAGES],
      ['outcome=never+reported', SOME_PAGES],
    ];
    const lists: PageTimes[] = [];
    for (const [query, pages] of questions) {
      say(query);
      lists.push(await reader.walk(query, pages));
    }
    reader.close();
    // The goal applies to the median of each tenth of a query's pages, so half of the pages of each tenth meet the
    // goal. The p99 would also include other work of the machine.
    const goals = {
      pages: lists.every(({ tenths_p50_us }) => tenths_p50_us.every((us) => us <= PAGE_MS_MAX * 1_000)),
    };
    const report: ListsReport = { runs, database_bytes: statSync(paths.runs).size, lists, goals };
    say('');
    print(report);
    if (save) console.log(`\n${saveResult({ ...takeProvenance(), suite: 'lists', ...report })}`);
    return goals.pages;
  } finally {
    await product?.stop();
    rmSync(dir, { recursive: true, force: true });
    rmSync(`${dir}.log`, { force: true });
  }
}

/** Asks for pages, one after another. */
class ListReader {
  readonly #connection: KeptConnection;

  constructor(port: number) {
    this.#connection = new KeptConnection(port);
  }

  /** Requests pages from the newest run on, up to the last page or to this many. */
  async walk(query: string, pages: number): Promise<PageTimes> {
    const all = new Samples();
    const times: number[] = [];
    const seen = new Set<string>();
    let runs = 0;
    let cursor: string | null = '';
    while (cursor !== null && times.length < pages) {
      const startedMs = performance.now();
      const text = await this.#connection.read(
        `/v1/monitor/runs?org_id=${ORG}&${query}&cursor=${encodeURIComponent(cursor)}`,
      );
      const us = (performance.now() - startedMs) * 1_000;
      all.add(us);
      times.push(us);
      const page = JSON.parse(text) as { runs: { run_id: string }[]; next_cursor: string | null };
      for (const { run_id } of page.runs) seen.add(run_id);
      runs += page.runs.length;
      cursor = page.next_cursor;
    }
    if (seen.size !== runs) throw new Error(`${query}: ${runs - seen.size} runs were listed twice`);
    return { query, pages: times.length, runs, page_us: all.quantiles(), tenths_p50_us: takeTenths(times) };
  }

  close(): void {
    this.#connection.close();
  }
}

function takeTenths(times: readonly number[]): number[] {
  return Array.from({ length: 10 }, (_, tenth) => {
    const some = new Samples();
    const from = Math.floor((tenth * times.length) / 10);
    for (const us of times.slice(from, Math.max(from + 1, Math.floor(((tenth + 1) * times.length) / 10)))) {
      some.add(us);
    }
    return some.quantiles().p50;
  });
}

function print({ runs, database_bytes, lists, goals }: ListsReport): void {
  const ms = (us: number) => (us / 1_000).toFixed(2);
  console.log(`${runs} runs, ${(database_bytes / 1e6).toFixed(0)} MB`);
  for (const { query, pages, runs: passed, page_us, tenths_p50_us } of lists) {
    const [first, last] = [tenths_p50_us[0]!, tenths_p50_us.at(-1)!];
    console.log(
      `${query.padEnd(32)} ${String(pages).padStart(6)} pages, ${String(passed).padStart(7)} runs  p50 ${ms(page_us.p50)}, p99 ${ms(page_us.p99)}, max ${ms(page_us.max)} ms; first tenth ${ms(first)}, last tenth ${ms(last)} ms`,
    );
  }
  console.log(
    `under ${PAGE_MS_MAX} ms at any depth (median of each tenth): ${goals.pages ? 'met' : 'MISSED'}`,
  );
}
