/**
 * Searches the reported runs of organizations. The runs of the organizations that searched last stay in
 * memory (domain/reported-runs.ts), so that a search reads only new rows from the database. Server threads;
 * other requests get a turn between the parts of a search.
 *
 * Bound: RUNS_IN_MEMORY runs per thread, about 400 bytes each. The runs of the organization that
 * searched last may exceed this number.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeReportedReader, type ReportedRun } from '../domain/reported-run.ts';
import type { ReportedRuns } from '../domain/reported-runs.ts';
import { NO_MARKS } from '../domain/run-mark.ts';
import { type CountedValues, ValueCounter } from '../domain/run-query/count-values.ts';
import { compileRunQuery, compileSort, listUnreadFields, type RunReader } from '../domain/run-query/match.ts';
import { PageCollector, type PagePlace, type PlaceReader } from '../domain/run-query/page.ts';
import type { RunQuery } from '../domain/run-query/run-query.ts';
import type { AccountReads } from '../storage/ports/accounts.ts';
import type { RunRecords } from '../storage/ports/run-records.ts';
import { KnownMarks } from './known-marks.ts';

/** Maximum number of searched runs of one organization, the newest ones. */
const SEARCHED_RUNS = 100_000;
/** Maximum number of runs of all organizations that a thread keeps in memory. */
const RUNS_IN_MEMORY = 150_000;
/**
 * Maximum time that a search waits for runs that are not read yet. After this time, the answer says
 * that it is incomplete.
 */
const SEARCH_READING_MS = 250;
/** Parts of a search, after which other requests get a turn: reading rows for `ms`, or testing `runs` runs. */
const PART = { ms: 5, runs: 4_096 } as const;

const PLACES: Omit<PlaceReader<ReportedRun>, 'key'> = {
  started: ({ started_ms }) => started_ms,
  stored: () => 0,
  run_id: ({ run_id }) => run_id,
};

interface RunSearch {
  org_id: string;
  query: RunQuery;
  /** The projects that the caller may see, and the other filters. */
  isAllowed: (run: ReportedRun) => boolean;
  after: PagePlace | null;
  limit: number;
  now_ms: number;
}

interface ValuesQuestion extends Pick<RunSearch, 'org_id' | 'query' | 'isAllowed' | 'limit' | 'now_ms'> {
  field: string;
  /** Counts only values that contain this text; '': all values. */
  contains: string;
}

interface FoundRuns {
  runs: ReportedRun[];
  /** Where the next page begins; null: no next page. */
  next: PagePlace | null;
  matched: number;
  scanned: number;
  /** Whether every run of the organization was searched. */
  is_whole: boolean;
}

export class SearchedRuns {
  readonly #stored: Pick<RunRecords, 'followReported'>;
  readonly #marks: KnownMarks;
  /** The runs in memory by organization, in the order of the organizations' last search. */
  readonly #organizations = new Map<string, ReportedRuns>();

  /** @param accounts contain the marks of runs */
  constructor(stored: Pick<RunRecords, 'followReported'>, accounts: AccountReads) {
    this.#stored = stored;
    this.#marks = new KnownMarks(accounts);
  }

  async search({ org_id, query, isAllowed, after, limit, now_ms }: RunSearch): Promise<FoundRuns> {
    const runs = await this.#follow(org_id);
    const reader = this.#readerOf(org_id, now_ms);
    const test = compileRunQuery(query, reader, now_ms);
    const { keyOf } = compileSort(query.sort, reader);
    const read: PlaceReader<ReportedRun> = { ...PLACES, key: keyOf };
    const page = new PageCollector<ReportedRun>(limit + 1, after, read, (run) => run);
    let tested = 0;
    for (const run of runs.values()) {
      if (++tested % PART.runs === 0) await nextTurn();
      if (!isAllowed(run)) continue;
      page.add(test(run), run);
    }
    const { candidates, matched, scanned } = page;
    const next = candidates.length > limit ? candidates[limit - 1]!.place : null;
    const found = candidates.slice(0, limit).map(({ run }) => run);
    return { runs: found, next, matched, scanned, is_whole: runs.is_whole };
  }

  /** Counts the values of a field over the runs that match. */
  async countValues(question: ValuesQuestion): Promise<CountedValues> {
    const { org_id, query, isAllowed, field, contains, limit, now_ms } = question;
    const runs = await this.#follow(org_id);
    const reader = this.#readerOf(org_id, now_ms);
    const test = compileRunQuery(query, reader, now_ms);
    const counter = new ValueCounter(field, contains, reader);
    let tested = 0;
    for (const run of runs.values()) {
      if (++tested % PART.runs === 0) await nextTurn();
      if (isAllowed(run) && test(run) === true) counter.add(run);
    }
    const { values, is_whole } = counter.most(limit);
    return { values, is_whole: is_whole && runs.is_whole };
  }

  #readerOf(orgId: string, nowMs: number): RunReader<ReportedRun> {
    const marks = this.#marks.of(orgId);
    return makeReportedReader(nowMs, ({ run_id }) => marks.get(run_id) ?? NO_MARKS);
  }

  async #follow(orgId: string): Promise<ReportedRuns> {
    const runs = this.#organizations.get(orgId) ?? this.#stored.followReported(orgId, SEARCHED_RUNS);
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

  /** Drops the organizations that have not searched for the longest time. */
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

/** Lists the fields of a query that reported runs lack. */
export function listMissingFields(query: RunQuery): string[] {
  return listUnreadFields(query, makeReportedReader(0));
}
