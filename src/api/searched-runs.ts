/**
 * Searches the reported runs of organizations with a query. The runs of the organizations that asked last stay in memory
 * (domain/reported-runs.ts), so that a search reads no database but for what is new. Server threads; other requests have their
 * turn between the parts of a search.
 *
 * Bound: RUNS_IN_MEMORY runs a thread, about 400 bytes each, plus the organization that asked last.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeReportedReader, type ReportedRun } from '../domain/reported-run.ts';
import { ReportedRuns, type RowSnapshots } from '../domain/reported-runs.ts';
import { NO_MARKS } from '../domain/run-mark.ts';
import { compileRunQuery, compileSort, listUnreadFields } from '../domain/run-query/match.ts';
import { PageCollector, type PagePlace } from '../domain/run-query/page.ts';
import type { RunQuery } from '../domain/run-query/run-query.ts';
import type { TableReader } from '../storage/tables.ts';
import { KnownMarks } from './known-marks.ts';

/** Runs of one organization that are searched, the newest. */
const SEARCHED_RUNS = 100_000;
/** Runs of all organizations that a thread keeps. */
const RUNS_IN_MEMORY = 150_000;
/** How long a search waits for runs that are not read yet; then its answer says that it is not whole. */
const SEARCH_READING_MS = 250;
/** Time that one part of a search takes, and runs that it tests at once. */
const PART = { ms: 5, runs: 4_096 } as const;

interface RunSearch {
  org_id: string;
  query: RunQuery;
  /** What the caller may see of the organization, and what else it asks for. */
  isAllowed: (run: ReportedRun) => boolean;
  after: PagePlace | null;
  limit: number;
  now_ms: number;
}

interface FoundRuns {
  runs: ReportedRun[];
  /** Where the next page begins; null: no next page. */
  next: PagePlace | null;
  matched: number;
  scanned: number;
  /** Every run of the organization was looked at. */
  is_whole: boolean;
}

export class SearchedRuns {
  readonly #tables: RowSnapshots;
  readonly #marks: KnownMarks;
  /** By organization; the one that asked last is the last. */
  readonly #organizations = new Map<string, ReportedRuns>();

  /** @param main where marks are */
  constructor(tables: RowSnapshots, main: TableReader) {
    this.#tables = tables;
    this.#marks = new KnownMarks(main);
  }

  async search({ org_id, query, isAllowed, after, limit, now_ms }: RunSearch): Promise<FoundRuns> {
    const runs = await this.#follow(org_id);
    const marks = this.#marks.of(org_id);
    const reader = makeReportedReader(now_ms, ({ run_id }) => marks.get(run_id) ?? NO_MARKS);
    const test = compileRunQuery(query, reader, now_ms);
    const { keyOf } = compileSort(query.sort, reader);
    const page = new PageCollector<ReportedRun>(limit + 1, after);
    let tested = 0;
    for (const run of runs.values()) {
      if (++tested % PART.runs === 0) await nextTurn();
      if (!isAllowed(run)) continue;
      page.add(
        test(run),
        { key: keyOf(run), started: run.started_ms, stored: 0, run_id: run.run_id },
        () => run,
      );
    }
    const { candidates, matched, scanned } = page;
    const next = candidates.length > limit ? candidates[limit - 1]!.place : null;
    const found = candidates.slice(0, limit).map(({ run }) => run);
    return { runs: found, next, matched, scanned, is_whole: runs.is_whole };
  }

  async #follow(orgId: string): Promise<ReportedRuns> {
    const runs = this.#organizations.get(orgId) ?? new ReportedRuns(this.#tables, orgId, SEARCHED_RUNS);
    this.#organizations.delete(orgId);
    this.#organizations.set(orgId, runs);
    const until = performance.now() + SEARCH_READING_MS;
    for (;;) {
      const partUntil = performance.now() + PART.ms;
      const isMore = runs.follow(() => performance.now() < partUntil);
      if (!isMore || performance.now() >= until) break;
      await nextTurn();
    }
    this.#dropOldest();
    return runs;
  }

  /** Those that have not asked for the longest time. */
  #dropOldest(): void {
    let size = 0;
    for (const runs of this.#organizations.values()) size += runs.size;
    for (const [orgId, runs] of this.#organizations) {
      if (size <= RUNS_IN_MEMORY || this.#organizations.size === 1) return;
      this.#organizations.delete(orgId);
      this.#marks.forget(orgId);
      size -= runs.size;
    }
  }
}

/** Fields of a query that reported runs do not have. */
export function listMissingFields(query: RunQuery): string[] {
  return listUnreadFields(query, makeReportedReader(0));
}
