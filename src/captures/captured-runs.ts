/**
 * The list of captured runs: follows the exchanges as they are written, and returns pages of the list, newest
 * first. Rows that an earlier reader stored (storage/capture/run-index.ts) are loaded from the newest run on,
 * as far as needed. Pure except for its sources; capture reader.
 *
 * Memory: about two kilobytes per run, at most CAPTURE_LISTED_RUNS runs. Beyond that, the oldest runs leave the list, but
 * can still be read by id.
 *
 * A row needs only records, except for two values from bodies: the run's first words and, if the records show no fault,
 * whether the run is golden. Both values are kept with the row. The verdict is made again when the run has continued,
 * which reads all its bodies again. So a list waits until a long run pauses ({@link hasPaused}). A page reads bodies for
 * about CAPTURE_LIST_READING_MS. Values that the page had no time to read are null. While no request waits, these values
 * are read first, and then the values of all other runs, newest first.
 */
import type { CapturedActivity, CapturedRunRow, ChildRunName, WindowSums } from '../domain/captured-run.ts';
import type { GoldenReason } from '../domain/golden.ts';
import type { Prices } from '../domain/price.ts';
import type { ReportedRun } from '../domain/reported-run.ts';
import {
  isGoldenWith,
  isUnmarked,
  NO_MARKS,
  NO_WORDS,
  type RunMarks,
  type RunWords,
  weighWords,
} from '../domain/run-mark.ts';
import { inRunOrder, standsBehind } from '../domain/run-order.ts';
import { type CountedValues, ValueCounter } from '../domain/run-query/count-values.ts';
import { compileRunQuery, compileSort, type RunReader, type Verdict } from '../domain/run-query/match.ts';
import {
  isBehind,
  type PageCandidate,
  PageCollector,
  type PagePlace,
  type PlaceReader,
  readPlace,
} from '../domain/run-query/page.ts';
import { type NameValue, NEWEST_FIRST, type RunQuery } from '../domain/run-query/run-query.ts';
import { CAPTURE_ACTIVITY, NAMED_CHILD_RUNS } from '../limits.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { ChangedIds } from '../std/changed-ids.ts';
import { CaptureFileError } from '../storage/capture/layout.ts';
import { runKey } from '../storage/text-index/run-key.ts';
import { priceExchange } from './exchange-cost.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { addRecord, type RunTally, summarizeRun } from './inspect.ts';
import { type ListedRun, readListedRun, startRun, writeListedRun } from './listed-run.ts';
import {
  findReported,
  idOf,
  makeEntryReader,
  quickOutcomeOf,
  quickWordsOf,
  type RunEntry,
  type SaidOfRuns,
  showEntry,
  startOf,
  timeStatus,
  type WeighedFields,
} from './run-entry.ts';
import { judgeByRecords } from './run-judge.ts';
import { RunTable } from './run-table.ts';
import type { RunsWithText } from './run-texts.ts';
import { SourcePart } from './source-part.ts';
import { readTask } from './trace.ts';

/** Maximum number of runs in the list, about two kilobytes each. Beyond it, the oldest runs leave the list. */
const CAPTURE_LISTED_RUNS = 100_000;
/**
 * A run whose first and last exchange are further apart is put in order only while there is time: all index blocks between
 * them are searched, which takes about 0.5 µs for each exchange.
 */
const SHORT_RUN_EXCHANGES = 4_096;
/** Maximum number of exchanges of a run that is judged by its bodies. */
const CAPTURE_JUDGED_EXCHANGES = 2_000;
/**
 * A run with more exchanges than `exchanges` is judged for a list only after a pause of `ms_per_exchange` for each of
 * its exchanges, at most `max_ms`. Otherwise every list would read all bodies of each run that grows.
 */
const PAUSE_BEFORE_VERDICT = { exchanges: 16, ms_per_exchange: 20, max_ms: 60_000 } as const;
/**
 * Maximum number of runs that were shown with unknown values and are read next. Also the maximum number of parents that
 * are not in the list yet, and whose child runs are remembered. Beyond this number, the oldest are forgotten.
 */
const CAPTURE_WANTED_RUNS = 1_000;
/** Maximum number of runs that a count of golden runs has read next. */
const COUNTED_AND_READ = 128;
/** Maximum characters of a run's first words in a list. */
const CAPTURE_TASK_CHARACTERS = 200;

/** Where a page begins and what it shows. */
export interface RunPageQuestion {
  /** Maximum number of rows. */
  limit: number;
  /** Only runs after this place in the list; null: begin with the first run. */
  after: PagePlace | null;
  query: RunQuery;
  /** The time for which ages and statuses are computed, in milliseconds since the epoch. */
  now_ms: number;
  /** Runs that began with an earlier exchange are not shown; absent: all are shown. */
  not_before?: number;
  /**
   * false: the page's counts may be wrong. Then a page of the newest runs tests no runs beyond its end, so that all
   * pages together test each run once.
   */
  is_counted?: boolean;
  /** true: first words and verdicts of all rows are read. If the time ends before that, the page is short. */
  is_read?: boolean;
}

/** All matching runs, in the order of the query. */
interface MatchingRuns {
  /** Matching runs, including runs that may match but are not read yet. */
  count: number;
  /** Each run is read when it is taken. Nothing may be added to the list meanwhile. */
  rows: Generator<CapturedRunRow>;
}

export interface CapturedRunPage {
  runs: CapturedRunRow[];
  /** null: no more rows. */
  next: PagePlace | null;
  /** Number of searched runs that match. */
  matched: number;
  /** Number of runs that may match but are not read yet. */
  unread: number;
  /** Number of searched runs. If it is smaller than the number of all runs, older runs are still being loaded. */
  scanned: number;
}

/** Selects the runs that are summed. */
export interface WindowQuestion {
  /**
   * Only runs whose last answer is at or after this time, in milliseconds since the epoch. For runs that were only
   * reported, the reported end counts, or the start before the end is reported.
   */
  from_ms: number;
  now_ms: number;
  query: RunQuery;
  /** Only runs that also match this query; null: all. */
  of_query: RunQuery | null;
  /** Runs that began with an earlier exchange do not count; absent: all count. */
  not_before?: number;
}

/** Selects the values that are counted, and their runs. */
export interface ValuesQuestion {
  field: string;
  /** Counts only values that contain this text; '': all values. */
  contains: string;
  limit: number;
  query: RunQuery;
  now_ms: number;
  /** Runs that began with an earlier exchange do not count; absent: all count. */
  not_before?: number;
}

/**
 * Whether there is time to read more bodies.
 * @param found number of rows of the page so far; an empty page gets more time
 */
export type HasTime = (found?: number) => boolean;

/** How the unknown values of a run are read. */
interface ReadingChoices {
  /**
   * A run that has not paused by then is not judged; milliseconds since the epoch. Absent: the run is judged in any
   * case.
   */
  now_ms?: number;
  /** Whether a run whose bodies are in a bucket and cannot be read now is queued, too. */
  may_wait?: boolean;
}

/** Rows that an earlier reader stored. */
interface KeptRuns {
  /** Rows of runs that began before this exchange, newest first. */
  newest(before: number, limit: number): { first_id: number; value: Buffer }[];
  find(runId: string): Buffer | undefined;
}

/** Finds a stored row with the same exchanges; null if none is stored. */
export type FindStoredRun = (tally: RunTally) => Pick<ListedRun, 'task' | 'verdict' | 'judged_id'> | null;

/** State stored beside the rows. */
export interface KeptState {
  /** The rows include all exchanges up to this one. */
  last_id: number;
  /** Number of runs in the list. */
  runs: number;
  /** Number of runs that left the list because it was full. */
  left_out: number;
  /** Number of exchanges without a run. */
  without_run: number;
}

interface RunChanges {
  runs: { first_id: number; run_id: string; value: Buffer }[];
  gone: { first_id: number; run_id: string }[];
  state: KeptState;
}

interface CapturedRunsOptions {
  /** Maximum number of runs in the list. */
  max?: number;
  prices?: Prices;
  /** External statements about runs; absent: no statements. */
  said?: SaidOfRuns;
  /** Called once for each run in which a request repeats an answer differently. */
  onDiffering?: () => void;
  kept?: { rows: KeptRuns; state: KeptState } | null;
  /** Called before a run's bodies are read. */
  findStored?: FindStoredRun;
  /** true: bodies that cannot be read for a page are read by {@link CapturedRuns.readWanted}, which may fetch them. */
  fetches_later?: boolean;
}

/** Maximum number of rows loaded in one batch. */
const LOADED_AT_ONCE = 2_048;
/** A page loads stored rows for this long. Then it searches the loaded ones. */
const LOADING_MS = 200;
/** Minimum number of candidate runs for a page, because some may not match after their bodies are read. */
const CANDIDATES_AT_ONCE = 64;
/** Maximum number of runs that the search for unread runs examines between two requests. */
const LOOKED_AT_ONCE = 8_192;

/** Limits of a window: the number of newest runs examined, and how long before the window a run may have begun. */
const WINDOW_LOOKED = { runs: 20_000, began_ms: 24 * 3_600_000 } as const;

export class CapturedRuns {
  readonly #max: number;
  readonly #prices: Prices;
  readonly #said: SaidOfRuns;
  readonly #presentMark: MarkReader = (runId) => this.#said.wordsOf(runId);
  readonly #quickMark: MarkReader = (runId) => this.#said.marksOf(runId);
  readonly #onDiffering: () => void;
  readonly #kept: KeptRuns | null;
  readonly #findStored: FindStoredRun;
  readonly #fetchesLater: boolean;
  /** Runs in memory: all runs that began at `#loadedTo` or later, and older runs that were looked up. */
  readonly #runs = new Map<string, ListedRun>();
  /** Child runs whose parent is not in the list yet, by the parent. */
  readonly #orphans = new Map<string, ChildRunName[]>();
  /** Loaded runs, ascending by their first exchange, from `#loadedTo` on. */
  #order: ListedRun[] = [];
  /** If all runs are loaded: the runs of `#order`, and the reported runs. */
  readonly #table: RunTable;
  /** Runs that began before this exchange are not loaded yet; 0 when all runs are loaded. */
  #loadedTo: number;
  /** Number of all runs, loaded or not. */
  #count: number;
  /** Runs shown with unknown values, in the order shown. */
  readonly #wanted = new Set<ListedRun>();
  /** The search for unread runs continues among runs that began before this exchange. */
  #unreadBefore = Number.POSITIVE_INFINITY;
  /** Whether the search skipped runs that changed recently. */
  #hasUnsettled = false;
  readonly #verdicts = {
    weigh: (run: RunEntry) => this.#weigh(run, quickWordsOf(run, this.#said), this.#quickMark),
    isGolden: (run: RunEntry) => this.#isGolden(run),
  };
  /** Runs changed since they were last stored. */
  readonly #changed = new Set<ListedRun>();
  #gone: RunChanges['gone'] = [];
  /** The last exchange that was added. */
  last_id: number;
  /** Number of runs that left the list. */
  left_out: number;
  /** Number of exchanges without a run. */
  without_run: number;

  constructor({
    max = CAPTURE_LISTED_RUNS,
    prices = {},
    said = NOTHING_SAID,
    onDiffering = () => {},
    kept = null,
    findStored = () => null,
    fetches_later = false,
  }: CapturedRunsOptions = {}) {
    this.#fetchesLater = fetches_later;
    this.#findStored = findStored;
    this.#onDiffering = onDiffering;
    this.#said = said;
    this.#table = this.#makeTable();
    this.#max = max;
    this.#prices = prices;
    this.#kept = kept?.rows ?? null;
    // New exchanges have larger ids than those that the stored rows include.
    this.#loadedTo = kept === null ? 0 : kept.state.last_id + 1;
    this.#count = kept?.state.runs ?? 0;
    this.last_id = kept?.state.last_id ?? 0;
    this.left_out = kept?.state.left_out ?? 0;
    this.without_run = kept?.state.without_run ?? 0;
  }

  get size(): number {
    return this.#count;
  }

  /** Adds the next exchange, in the order of ids. */
  add(record: ListedExchange): void {
    this.last_id = record.id;
    if (record.run_id === null) {
      this.without_run += 1;
      return;
    }
    let run = this.#find(record.run_id);
    if (run === undefined) {
      if (this.#count >= this.#max) this.#dropOldest();
      run = startRun(record.run_id, this.#orphans.get(record.run_id));
      this.#orphans.delete(record.run_id);
      this.#runs.set(record.run_id, run);
      this.#order.push(run);
      this.#count += 1;
    }
    const isFirst = run.tally.last_id === 0;
    const before = readStart(run);
    this.#addTo(run, record);
    this.#unreadBefore = Number.POSITIVE_INFINITY;
    if (isFirst) {
      this.#table.add(run);
      this.#noteChild(run.tally);
    } else this.#followStart(run, before);
  }

  /** Notes that a run must be stored again, and that its values may have changed. */
  #note(run: ListedRun): void {
    this.#changed.add(run);
    this.#table.touch(run);
  }

  #addTo(run: ListedRun, record: ListedExchange): void {
    if (record.kind === 'turn' && run.first_turn_id === 0) {
      run.first_turn_id = record.id;
      run.task = null;
    }
    if (run.last !== null && !standsBehind(record, run.last)) run.is_in_order = false;
    const { id, seq, started_at, arrival } = record;
    run.last = { id, seq, started_at, ...(arrival === undefined ? {} : { arrival }) };
    // Tokens have the same meaning in the whole list, whatever the wire format.
    addRecord(run.tally, { ...record, usage: readFreshUsage(record.shape, record.usage) });
    const { usd, basis, is_unknown } = priceExchange(record, this.#prices);
    if (is_unknown) run.unpriced_turns += 1;
    if (usd !== null) run.cost_usd = (run.cost_usd ?? 0) + usd;
    if (basis !== null && basis !== 'told') run.estimated_turns += 1;
    this.#note(run);
  }

  /** Adds up runs again after turns moved between them, because some turns were stored late. */
  move(source: ExchangeSource, moves: readonly { from: string; to: string }[]): void {
    for (const { from, to } of moves) {
      const left = this.#find(from);
      if (left === undefined) continue;
      const joined = this.#find(to);
      const runs = joined === undefined ? [left] : [left, joined];
      const first_id = Math.min(...runs.map(({ tally }) => tally.first_id));
      const last_id = Math.max(...runs.map(({ tally }) => tally.last_id));
      while (this.#loadedTo > first_id && this.loadSome());
      for (const run of runs) this.#takeOut(run);
      for (const [name, children] of [[from, left.children] as const, [to, joined?.children] as const]) {
        const run = this.#addUp(source, startRun(name, children), first_id, last_id);
        if (run.tally.last_id > 0) this.#putIn(run);
        else this.#changed.delete(run);
      }
    }
  }

  #takeOut(run: ListedRun): void {
    const { summary, first_id } = run.tally;
    const at = this.#placeBefore(first_id);
    if (this.#order[at] === run) this.#order.splice(at, 1);
    this.#count -= 1;
    this.#runs.delete(summary.run_id!);
    this.#wanted.delete(run);
    this.#changed.delete(run);
    this.#gone.push({ first_id, run_id: summary.run_id! });
    this.#table.remove([run]);
  }

  #putIn(run: ListedRun): void {
    this.#order.splice(this.#placeBefore(run.tally.first_id), 0, run);
    this.#count += 1;
    this.#runs.set(run.tally.summary.run_id!, run);
    this.#table.add(run);
    this.#unreadBefore = Number.POSITIVE_INFINITY;
  }

  /** Adds a run's records between two exchanges, in the order of the run. */
  #addUp(source: ExchangeSource, run: ListedRun, firstId: number, lastId: number): ListedRun {
    const run_id = run.tally.summary.run_id!;
    const within = new RunWithin(source, firstId, lastId);
    for (const record of inRunOrder(within.summaries({ run_id }))) this.#addTo(run, record);
    run.is_in_order = true;
    return run;
  }

  /** Adds up a run's records again, in the order of the run, because some records were stored after later records. */
  #putInOrder(source: ExchangeSource, run: ListedRun): void {
    const { summary, first_id, last_id } = run.tally;
    const fresh = this.#addUp(source, startRun(summary.run_id!, run.children), first_id, last_id);
    this.#changed.delete(fresh);
    const { task, first_turn_id, slot } = run;
    const before = readStart(run);
    Object.assign(run, fresh, { slot });
    this.#note(run);
    this.#followStart(run, before);
    if (fresh.first_turn_id === first_turn_id) run.task = task;
  }

  /**
   * Moves a run in the table if its start has changed, and joins the run with a reported run again if its trace or
   * session has changed.
   * @param before the run's values before exchanges were added
   */
  #followStart(run: ListedRun, before: RunStart): void {
    const { first_ms, trace_id, session_id } = readStart(run);
    if (first_ms !== before.first_ms) this.#table.move(run, before.first_ms);
    if (trace_id !== before.trace_id || session_id !== before.session_id) this.#table.rejoin(run, before);
  }

  #noteChild({ summary: { run_id, parent_run_id, kind } }: RunTally): void {
    if (parent_run_id === null) return;
    const parent = this.#find(parent_run_id);
    const known = parent?.children ?? this.#orphans.get(parent_run_id) ?? [];
    if (known.length >= NAMED_CHILD_RUNS) return;
    const children = [...known, { run_id: run_id!, kind }];
    if (parent === undefined) {
      this.#orphans.set(parent_run_id, children);
      if (this.#orphans.size > CAPTURE_WANTED_RUNS) this.#orphans.delete(this.#orphans.keys().next().value!);
      return;
    }
    parent.children = children;
    this.#note(parent);
  }

  /** Finds a run of the list, and reads its stored row if the run is not loaded; undefined if it is not in the list. */
  #find(runId: string): ListedRun | undefined {
    const run = this.#runs.get(runId);
    if (run !== undefined || this.#loadedTo === 0) return run;
    const bytes = this.#kept!.find(runId);
    if (bytes === undefined) return undefined;
    const found = readListedRun(bytes);
    this.#runs.set(runId, found);
    return found;
  }

  /**
   * Loads some stored rows, the newest of those that are not loaded yet.
   * @returns false when all are loaded
   * @throws Error when the kept state is incomplete
   */
  loadSome(): boolean {
    if (this.#loadedTo === 0) return false;
    const rows = this.#kept!.newest(this.#loadedTo, LOADED_AT_ONCE);
    const older: ListedRun[] = [];
    for (const { value } of rows) {
      const read = readListedRun(value);
      const name = read.tally.summary.run_id!;
      // A run that was looked up may have continued since.
      const run = this.#runs.get(name) ?? read;
      this.#runs.set(name, run);
      older.push(run);
    }
    // Runs that began later follow these.
    this.#order = [...older.reverse(), ...this.#order];
    this.#table.forget();
    this.#loadedTo = rows.length < LOADED_AT_ONCE ? 0 : rows.at(-1)!.first_id;
    if (this.#loadedTo === 0 && this.#order.length !== this.#count)
      throw new RangeError(`loaded ${this.#order.length} of ${this.#count} stored rows`);
    return this.#loadedTo !== 0;
  }

  #loadAll(): void {
    while (this.loadSome());
  }

  /** Changes since the last call, to be stored. */
  takeChanges(): RunChanges {
    const runs = [...this.#changed].map((run) => ({
      first_id: run.tally.first_id,
      run_id: run.tally.summary.run_id!,
      value: writeListedRun(run),
    }));
    this.#changed.clear();
    const gone = this.#gone;
    this.#gone = [];
    const { last_id, left_out, without_run } = this;
    return { runs, gone, state: { last_id, runs: this.#count, left_out, without_run } };
  }

  /** Number of runs that {@link takeChanges} would return. */
  get changed(): number {
    return this.#changed.size + this.#gone.length;
  }

  /**
   * Follows a deletion of all exchanges before `firstId`. Runs without a later exchange leave the list; other runs keep
   * only their later exchanges. Then all rows must be stored again.
   */
  forgetBefore(source: ExchangeSource, firstId: number): void {
    this.#loadAll();
    for (const run of this.#order) {
      const { summary, first_id, last_id } = run.tally;
      if (first_id >= firstId) continue;
      this.#wanted.delete(run);
      this.#runs.delete(summary.run_id!);
      if (last_id < firstId) continue;
      const left = startRun(summary.run_id!, run.children);
      for (const record of source.summaries({ run_id: summary.run_id!, from_id: firstId })) {
        if (record.id > last_id) break;
        this.#addTo(left, record);
        if (record.id === last_id) break;
      }
      if (left.tally.last_id > 0) this.#runs.set(summary.run_id!, left);
    }
    this.#order = [...this.#runs.values()].sort((a, b) => a.tally.first_id - b.tally.first_id);
    this.#table.forget();
    this.#count = this.#order.length;
    for (const run of this.#order) run.children = run.children.filter(({ run_id }) => this.#runs.has(run_id));
    this.#gone = [];
    this.#changed.clear();
    for (const run of this.#order) this.#changed.add(run);
  }

  /** The first and last id of a run's exchanges; undefined when it is not in the list. */
  rangeOf(runId: string): { first_id: number; last_id: number } | undefined {
    const tally = this.#find(runId)?.tally;
    return tally === undefined ? undefined : { first_id: tally.first_id, last_id: tally.last_id };
  }

  /**
   * Finds the captured run that a reported run belongs to by its trace or session. Until all runs are loaded, only the
   * loaded ones are searched.
   * @returns the id of the newest such run; undefined without such a run
   */
  findJoined(reportedId: string): string | undefined {
    const run = this.#isWhole(0)
      ? this.#followed().findJoined(reportedId)
      : this.#order.findLast((listed) => findReported(listed, this.#said)?.run_id === reportedId);
    return run?.tally.summary.run_id ?? undefined;
  }

  /** Makes one run's row; undefined when the run is neither in the list nor reported. */
  row(source: ExchangeSource, runId: string, hasTime: HasTime, nowMs: number): CapturedRunRow | undefined {
    const run = this.#find(runId);
    if (run === undefined) {
      const reported = this.#said.reportedOf(runId);
      return reported === undefined ? undefined : this.#show({ listed: null, reported }, nowMs);
    }
    this.#read(source, run, hasTime);
    return this.#show(this.#entryOf(run), nowMs);
  }

  /**
   * Counts the golden runs among the newest runs. A run whose bodies must be read first counts as not judged. The newest
   * COUNTED_AND_READ of these are read next, because background work reads the others later.
   * @param nowMs milliseconds since the epoch
   */
  countGolden(source: ExchangeSource, nowMs: number): CapturedActivity['golden'] {
    const counts = { golden: 0, not_golden: 0, not_judged: 0 };
    while (this.#order.length < CAPTURE_ACTIVITY.runs && this.loadSome());
    let left = COUNTED_AND_READ;
    for (const run of this.#order.slice(-CAPTURE_ACTIVITY.runs).reverse()) {
      if (!this.#isJudged(run, this.#quickMark) && left-- > 0)
        this.#read(source, run, () => false, { now_ms: nowMs });
      const golden = this.#isGolden(this.#entryOf(run));
      if (golden === null) counts.not_judged += 1;
      else counts[golden ? 'golden' : 'not_golden'] += 1;
    }
    return counts;
  }

  /**
   * Returns a page. If a query needs to read more bodies than time allows, the page is short and says where it ended.
   * Each call advances by at least one run.
   */
  page(source: ExchangeSource, question: RunPageQuestion, hasTime: HasTime): CapturedRunPage {
    const { limit, query, now_ms, is_read = false } = question;
    const search = this.#startSearch(query, now_ms);
    const found: CapturedRunRow[] = [];
    let { after } = question;
    this.#loadFor(LOADING_MS);
    let isFirstRead = true;
    for (let counts: Omit<CapturedRunPage, 'runs' | 'next'> | null = null; ; ) {
      const wanted = Math.max(limit - found.length + 1, CANDIDATES_AT_ONCE);
      const pass = this.#findCandidates(search, wanted, { ...question, after });
      const { matched, unread, scanned, candidates } = pass;
      counts ??= { matched, unread, scanned };
      for (const candidate of candidates) {
        if (found.length === limit) return { runs: found, next: after, ...counts };
        const { run } = candidate;
        if (candidate.verdict === null) {
          if (!isFirstRead && !hasTime(found.length)) return { runs: found, next: after, ...counts };
          this.#read(source, run.listed!, () => true, is_read ? {} : { now_ms });
          for (const text of search.texts) if (text.test(idOf(run)) === null) text.read(idOf(run));
          isFirstRead = false;
        }
        after = candidate.place;
        if (candidate.verdict === null) {
          const verdict = search.test(run);
          if (verdict !== null) counts.unread -= 1;
          if (verdict !== true) continue;
          counts.matched += 1;
        }
        if (run.listed !== null)
          this.#read(source, run.listed, is_read ? () => true : hasTime, is_read ? {} : { now_ms });
        found.push(this.#show(run, now_ms));
        if (is_read && !hasTime(found.length)) return { runs: found, next: after, ...counts };
      }
      if (candidates.length < wanted && !this.loadSome()) return { runs: found, next: null, ...counts };
    }
  }

  /**
   * Finds all matching runs, without a maximum, in one pass over the list.
   * @param reads false: bodies are read only if the query needs them
   */
  all(
    source: ExchangeSource,
    { query, now_ms }: Pick<RunPageQuestion, 'query' | 'now_ms'>,
    reads = true,
  ): MatchingRuns {
    const search = this.#startSearch(query, now_ms);
    this.#loadAll();
    const places = { ...PLACES, key: search.keyOf };
    const found: PageCandidate<RunEntry>[] = [];
    const { test } = this.#searchSlots(search, query, now_ms);
    this.#visitSlots((slot, run) => {
      const verdict = test(slot);
      if (verdict !== false) found.push({ run, place: readPlace(run, places), verdict });
    });
    found.sort((a, b) => (isBehind(a.place, b.place) ? 1 : -1));
    const readRows = function* (this: CapturedRuns): Generator<CapturedRunRow> {
      for (const { run, verdict } of found) {
        if (verdict === null && this.#decide(source, run, search, () => true) !== true) continue;
        if (reads && run.listed !== null) this.#read(source, run.listed, () => true);
        yield this.#show(run, now_ms);
      }
    };
    return { count: found.length, rows: readRows.call(this) };
  }

  /**
   * Counts the values of a field over the matching runs. No bodies are read: a run does not count if only its bodies
   * could tell whether it matches.
   */
  countValues({ field, contains, limit, query, now_ms, not_before = 0 }: ValuesQuestion): CountedValues {
    const search = this.#startSearch(query, now_ms);
    this.#loadFor(LOADING_MS);
    if (this.#isWhole(not_before)) {
      const { test, reader } = this.#searchSlots(search, query, now_ms);
      const slots = new ValueCounter(field, contains, reader);
      this.#visitSlots((slot) => {
        if (test(slot) === true) slots.add(slot);
      });
      return slots.most(limit);
    }
    const counter = new ValueCounter(field, contains, search.reader);
    this.#visit(not_before, (entry) => {
      if (search.test(entry) === true) counter.add(entry);
    });
    return { ...counter.most(limit), is_whole: false };
  }

  /**
   * Sums the runs of a window, from the newest on. Runs that began more than WINDOW_LOOKED.began_ms before the window do
   * not count. `is_whole` is false if WINDOW_LOOKED.runs or `not_before` ended the search early.
   */
  sumWindow(source: ExchangeSource, question: WindowQuestion, hasTime: HasTime): WindowSums {
    const { from_ms, now_ms, query, of_query, not_before = 0 } = question;
    const search = this.#startSearch(query, now_ms);
    const of = of_query === null ? null : this.#startSearch(of_query, now_ms);
    const sums: WindowSums = { runs: 0, of_runs: 0, cost_usd: 0, unread: 0, is_whole: true };
    const count = (run: RunEntry): void => {
      const isOf = of === null ? true : this.#decide(source, run, of, hasTime, { now_ms });
      const isCounted = isOf === false ? false : this.#decide(source, run, search, hasTime, { now_ms });
      if (isOf === null || isCounted === null) sums.unread += 1;
      if (isOf === true && (of !== null || isCounted === true)) sums.of_runs += 1;
      if (isOf !== true || isCounted !== true) return;
      sums.runs += 1;
      sums.cost_usd += run.listed?.cost_usd ?? 0;
    };
    const began_ms = from_ms - WINDOW_LOOKED.began_ms;
    const joined = new Set<ReportedRun>();
    if (this.#isWhole(not_before)) this.#followed();
    let at = this.#order.length;
    for (let looked = 0; ; looked++) {
      if (at === 0) {
        const known = this.#order.length;
        this.loadSome();
        at = this.#order.length - known;
        if (at === 0) break;
      }
      const run = this.#order[--at]!;
      const { first_id, first_ms } = run.tally;
      const isOld = first_ms < began_ms;
      if (isOld && (source.endedBefore?.(first_id) ?? Number.NEGATIVE_INFINITY) < began_ms) break;
      if (looked === WINDOW_LOOKED.runs || (!isOld && first_id < not_before)) {
        sums.is_whole = false;
        break;
      }
      if (isOld) continue;
      const entry = this.#entryOf(run);
      if (entry.reported !== null) joined.add(entry.reported);
      if (run.tally.last_ms >= from_ms) count(entry);
    }
    for (const reported of this.#said.reported()) {
      const last_ms = reported.finished_ms ?? reported.started_ms;
      if (joined.has(reported) || last_ms < from_ms || reported.started_ms < began_ms) continue;
      if (this.#find(reported.run_id) === undefined) count({ listed: null, reported });
    }
    return sums;
  }

  /** Whether a run matches. If necessary, its bodies are read while there is time. */
  #decide(
    source: ExchangeSource,
    run: RunEntry,
    { test, texts }: RunSearch,
    hasTime: HasTime,
    choices: ReadingChoices = {},
  ): Verdict {
    const verdict = test(run);
    if (verdict !== null || run.listed === null || !hasTime()) return verdict;
    this.#read(source, run.listed, () => true, choices);
    for (const text of texts) if (text.test(idOf(run)) === null) text.read(idOf(run));
    return test(run);
  }

  #startSearch(query: RunQuery, nowMs: number): RunSearch {
    const texts: RunsWithText[] = [];
    let isIndexed = true;
    const known = new Map<NameValue, RunsWithText | null>();
    const findText: SaidOfRuns['findText'] = (text) => {
      let found = known.get(text);
      if (found !== undefined) return found;
      found = this.#said.findText(text);
      known.set(text, found);
      if (found !== null) texts.push(found);
      else isIndexed = false;
      return found;
    };
    const list = makeEntryReader({ ...this.#said, findText }, this.#verdicts, nowMs);
    // The words of a run's first turn are in the index, so they need not be read.
    const isCovered = ({ listed }: RunEntry): boolean => {
      const id = listed?.first_turn_id ?? 0;
      return isIndexed && (id === 0 || texts.every((text) => text.covers(id)));
    };
    const reader = { ...list, isTextRead: (run: RunEntry) => list.isTextRead!(run) || isCovered(run) };
    const { keyOf } = compileSort(query.sort, reader);
    return { test: compileRunQuery(query, reader, nowMs), keyOf, texts, findText, reader, isCovered };
  }

  /** Makes a test of runs by their values in columns, valid until a run changes. */
  #searchSlots(search: RunSearch, query: RunQuery, nowMs: number): SlotSearch {
    const { columns } = this.#followed();
    const keyOfText = columns.number('run key', (key) => key);
    const findText = (text: NameValue) => {
      const runs = search.findText(text);
      return runs === null ? null : (slot: number) => runs.testKey(keyOfText(slot));
    };
    const list = columns.reader(search.reader, nowMs);
    // A query of several words asks for each word.
    const isTextRead = rememberSlots(
      this.#table.end,
      (slot) => list.isTextRead!(slot) || search.isCovered(this.#table.entryAt(slot)!),
    );
    const reader = { ...list, findText, isTextRead };
    const { keyOf } = compileSort(query.sort, reader);
    return { test: compileRunQuery(query, reader, nowMs), keyOf, reader };
  }

  /** Whether a question is about all runs (`not_before` is 0), and all runs are loaded. */
  #isWhole(not_before: number): boolean {
    return this.#loadedTo === 0 && not_before === 0;
  }

  #followed(): RunTable {
    this.#table.follow(this.#order);
    return this.#table;
  }

  #makeTable(): RunTable {
    const reader = makeEntryReader({ ...this.#said, findText: () => null }, this.#verdicts, 0);
    const statusOf = (run: RunEntry) => timeStatus(run, this.#said);
    return new RunTable(this.#said, { reader, statusOf, keyOf: keyInTexts }, (runId) =>
      this.#runs.get(runId),
    );
  }

  /** Finds the first runs of a page that match or may match, and counts the runs that were searched. */
  #findCandidates(search: RunSearch, wanted: number, question: RunPageQuestion): FoundCandidates {
    const { query, after, not_before = 0, is_counted = true, now_ms } = question;
    if (!this.#isWhole(not_before)) return this.#scan(search, wanted, question);
    const { field, is_descending } = query.sort ?? NEWEST_FIRST;
    const isByStart = field === 'started' && is_descending;
    if (isByStart && (!is_counted || query.terms.length === 0))
      return this.#readByStart(search, wanted, after);
    const { test, keyOf, reader } = this.#searchSlots(search, query, now_ms);
    const entryAt = (slot: number) => this.#table.entryAt(slot)!;
    const places: PlaceReader<number> = {
      key: keyOf,
      started: reader.started,
      stored: (slot) => PLACES.stored(entryAt(slot)),
      run_id: (slot) => idOf(entryAt(slot)),
    };
    const page = new PageCollector<number>(wanted, after, places, (slot) => slot);
    this.#visitSlots((slot) => page.add(test(slot), slot));
    const { matched, unread, scanned } = page;
    const candidates = page.candidates.map(({ run, ...found }) => ({ ...found, run: entryAt(run) }));
    return { candidates, matched, unread, scanned };
  }

  #readByStart({ test }: RunSearch, wanted: number, after: PagePlace | null): FoundCandidates {
    const { starts } = this.#followed();
    const { size } = starts;
    const candidates: PageCandidate<RunEntry>[] = [];
    for (const { run, place } of starts.newest(after)) {
      const verdict = test(run);
      if (verdict !== false) candidates.push({ run, place, verdict });
      if (candidates.length === wanted) break;
    }
    return { candidates, matched: size, unread: 0, scanned: size };
  }

  /** Searches all loaded runs, and reported runs that were not captured. */
  #scan(
    { test, keyOf }: RunSearch,
    wanted: number,
    { after, not_before = 0 }: RunPageQuestion,
  ): FoundCandidates {
    const places = { ...PLACES, key: keyOf };
    const page = new PageCollector<RunEntry>(wanted, after, places, (entry) => ({ ...entry }));
    this.#visit(not_before, (entry) => page.add(test(entry), entry));
    return page;
  }

  /** Visits all runs, if all are loaded, the newest slot first, because most pages show new runs. */
  #visitSlots(take: (slot: number, run: RunEntry) => void): void {
    const table = this.#table;
    for (let slot = table.end - 1; slot >= 0; slot--) {
      const run = table.entryAt(slot);
      if (run !== null) take(slot, run);
    }
  }

  /**
   * Visits the loaded runs, newest first, and then reported runs that were not captured. Used when not all runs are
   * loaded, or when older runs are not shown.
   * @param take receives the same object for each run
   */
  #visit(not_before: number, take: (entry: RunEntry) => void): void {
    const entry: RunEntry = { listed: null, reported: null };
    const joined = new Set<ReportedRun>();
    for (let at = this.#order.length - 1; at >= 0; at--) {
      const run = this.#order[at]!;
      if (run.tally.first_id < not_before) break;
      entry.listed = run;
      entry.reported = findReported(run, this.#said);
      if (entry.reported !== null) joined.add(entry.reported);
      take(entry);
    }
    entry.listed = null;
    // Whether a reported run was captured is unknown if it is older than the loaded runs.
    const from = this.#order[0]?.tally.first_ms ?? Number.POSITIVE_INFINITY;
    for (const reported of this.#said.reported()) {
      if (reported.started_ms < from || joined.has(reported)) continue;
      if (this.#find(reported.run_id) !== undefined) continue;
      entry.reported = reported;
      take(entry);
    }
  }

  #loadFor(ms: number): void {
    const until = performance.now() + ms;
    while (this.loadSome() && performance.now() < until);
  }

  #entryOf(listed: ListedRun): RunEntry {
    return this.#table.entryOf(listed) ?? { listed, reported: findReported(listed, this.#said) };
  }

  /**
   * Reads one of the runs that were shown with unknown values. A run that continues is not judged.
   * @param nowMs milliseconds since the epoch
   * @returns false if there is no such run
   */
  readWanted(source: ExchangeSource, nowMs: number): boolean {
    const [run] = this.#wanted;
    if (run === undefined) return false;
    this.#wanted.delete(run);
    this.#read(source, run, () => true, { now_ms: nowMs, may_wait: false });
    return true;
  }

  /**
   * Searches for the newest run with unknown values, and reads it. Each call continues where the last one ended, and
   * examines at most LOOKED_AT_ONCE runs. Runs that changed recently are skipped, because they may change again soon.
   * @param settled_ms runs whose last answer is later are skipped; milliseconds since the epoch
   * @returns true if another call may find more; false at the end of the list
   */
  readUnread(source: ExchangeSource, settled_ms: number): boolean {
    let left = LOOKED_AT_ONCE;
    for (let at = this.#placeBefore(this.#unreadBefore) - 1; at >= 0; at--) {
      const run = this.#order[at]!;
      this.#unreadBefore = run.tally.first_id;
      if (left-- === 0) return true;
      if (run.task !== null && this.#isJudged(run)) continue;
      if (run.tally.last_ms > settled_ms) {
        this.#hasUnsettled = true;
        continue;
      }
      this.#read(source, run, () => true);
      return true;
    }
    // Skipped runs are examined again next time.
    if (this.#hasUnsettled) this.#unreadBefore = Number.POSITIVE_INFINITY;
    this.#hasUnsettled = false;
    return false;
  }

  /**
   * Fills the table's columns with values that a query may need, for all runs. Does nothing until all runs are loaded.
   * @returns true if there is more to fill; false if not, or if not all runs are loaded
   */
  prepare(hasTime: HasTime): boolean {
    return this.#loadedTo === 0 && this.#followed().columns.prepare(hasTime);
  }

  /**
   * Counts the loaded runs that began before an exchange: the place of that exchange in `#order`. Before it counts,
   * loads older runs until at least one loaded run began before the exchange.
   */
  #placeBefore(before: number): number {
    while (before <= (this.#order[0]?.tally.first_id ?? 0) && this.loadSome());
    let low = 0;
    let high = this.#order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#order[middle]!.tally.first_id < before) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Removes the oldest runs: a 64th of the maximum at once, so that the cost per run is small. */
  #dropOldest(): void {
    this.#loadAll();
    const count = Math.ceil(this.#max / 64);
    const gone = this.#order.slice(0, count);
    for (const run of gone) {
      const { run_id, parent_run_id } = run.tally.summary;
      this.#runs.delete(run_id!);
      // The other runs of a session must not refer to a run that has left the list.
      const parent = parent_run_id === null ? undefined : this.#runs.get(parent_run_id);
      if (parent !== undefined) {
        parent.children = parent.children.filter((child) => child.run_id !== run_id);
        this.#note(parent);
      }
      this.#wanted.delete(run);
      this.#changed.delete(run);
      this.#gone.push({ first_id: run.tally.first_id, run_id: run_id! });
    }
    this.#order = this.#order.slice(count);
    this.#table.remove(gone);
    this.#count -= count;
    this.left_out += count;
  }

  /**
   * Whether the run's verdict is valid: it includes all exchanges of the run. A verdict from records alone is no longer
   * valid after a person has marked the run good, if this mark overrules all its reasons.
   * @param markOf reads the mark
   */
  #isJudged({ verdict, judged_id, tally }: ListedRun, markOf: MarkReader = this.#presentMark): boolean {
    if (verdict === null || judged_id !== tally.last_id) return false;
    if (verdict.is_whole || !isGoldenWith(verdict.reasons, MARKED_GOOD)) return true;
    return markOf(tally.summary.run_id!).mark !== 'good';
  }

  /** Judges a run by its records if they suffice, otherwise by its bodies if there is time. */
  #judge(source: ExchangeSource, run: ListedRun, hasTime: HasTime): void {
    const { mark } = this.#said.wordsOf(run.tally.summary.run_id!);
    const found = judgeByRecords(run.tally.golden, { outcome: null, mark });
    if (found === null && !hasTime()) return;
    const hadDifference = hasDifference(run);
    run.verdict =
      found === null ? judgeWhole(source, run) : { golden: false, reasons: found, is_whole: false };
    run.judged_id = run.tally.last_id;
    this.#note(run);
    if (!hadDifference && hasDifference(run)) this.#onDiffering();
  }

  /**
   * Reads a run's unknown values while there is time; otherwise the run is queued. Values whose bodies are in a bucket
   * and cannot be read now stay unknown.
   */
  #read(
    source: ExchangeSource,
    run: ListedRun,
    hasTime: HasTime,
    { now_ms = Number.POSITIVE_INFINITY, may_wait = this.#fetchesLater }: ReadingChoices = {},
  ): void {
    try {
      this.#readValues(source, run, hasTime, hasPaused(run, now_ms));
    } catch (thrown) {
      if (!(thrown instanceof CaptureFileError && thrown.code === 'remote')) throw thrown;
      this.#wanted.delete(run);
      if (may_wait) this.#want(run);
    }
  }

  #readValues(source: ExchangeSource, run: ListedRun, hasTime: HasTime, mayJudge: boolean): void {
    if (!run.is_in_order && (isShort(run) || hasTime())) this.#putInOrder(source, run);
    if (run.task === null || !this.#isJudged(run)) this.#takeStored(run);
    if (run.task === null && (run.first_turn_id === 0 || hasTime())) {
      run.task = run.first_turn_id === 0 ? '' : readFirstWords(source, run.first_turn_id);
      this.#note(run);
    }
    if (!this.#isJudged(run)) this.#judge(source, run, () => mayJudge && hasTime());
    if (run.task !== null && run.is_in_order && (this.#isJudged(run) || !mayJudge)) return;
    this.#want(run);
  }

  #want(run: ListedRun): void {
    this.#wanted.delete(run);
    this.#wanted.add(run);
    if (this.#wanted.size > CAPTURE_WANTED_RUNS) this.#wanted.delete(this.#wanted.values().next().value!);
  }

  /** Takes over the values that another reader has stored for the same exchanges. */
  #takeStored(run: ListedRun): void {
    const stored = this.#findStored(run.tally);
    if (stored === null) return;
    run.task ??= stored.task;
    this.#table.touch(run);
    if (stored.verdict === null || this.#isJudged(run)) return;
    run.verdict = stored.verdict;
    run.judged_id = stored.judged_id;
  }

  /**
   * The current statements about a run. The run's outcome may have been reported under the id of its trace or session.
   */
  #wordsOf({ listed, reported }: RunEntry): RunWords {
    const id = idOf({ listed, reported });
    const words = { ...this.#said.wordsOf(id) };
    if (reported === null || reported.run_id === id) return words;
    if (words.outcome === null && reported.is_finished) words.outcome = reported.outcome;
    if (!isUnmarked(words)) return words;
    return { ...this.#said.wordsOf(reported.run_id), outcome: words.outcome };
  }

  /** The verdict on the copy, combined with external statements. */
  #weigh({ listed }: RunEntry, words: RunWords, markOf: MarkReader = this.#presentMark): WeighedFields {
    if (listed === null) return { ...words, golden: false, reasons: NOT_CAPTURED, overruled: [] };
    const isJudged = this.#isJudged(listed, markOf) && listed.verdict!.golden !== null;
    const weighed = weighWords(isJudged ? listed.verdict!.reasons : [], words);
    // Bodies cannot remove a reason that the records gave.
    const golden = isJudged || !weighed.golden ? weighed.golden : null;
    return { ...words, ...weighed, golden };
  }

  /** The verdict of {@link #weigh} for a test over all runs: fast, but a mark may be some seconds old. */
  #isGolden(run: RunEntry): boolean | null {
    const { listed } = run;
    if (listed === null) return false;
    const isJudged = this.#isJudged(listed, this.#quickMark) && listed.verdict!.golden !== null;
    const isGolden = isGoldenWith(isJudged ? listed.verdict!.reasons : [], quickOutcomeOf(run, this.#said));
    return isJudged || !isGolden ? isGolden : null;
  }

  #show(run: RunEntry, nowMs: number): CapturedRunRow {
    return showEntry(run, this.#weigh(run, this.#wordsOf(run)), nowMs);
  }
}

/** The fields that decide a run's place in the list by start, and which reported run belongs to it. */
interface RunStart {
  first_ms: number;
  trace_id: string | null;
  session_id: string | null;
}

function readStart({ tally: { first_ms, summary } }: ListedRun): RunStart {
  return { first_ms, trace_id: summary.trace_id, session_id: summary.session_id };
}

const PLACES: Omit<PlaceReader<RunEntry>, 'key'> = {
  started: startOf,
  stored: ({ listed }) => listed?.tally.first_id ?? 0,
  run_id: idOf,
};

type FoundCandidates = Pick<PageCollector<RunEntry>, 'candidates' | 'matched' | 'unread' | 'scanned'>;

/** Reads a person's mark on a run. */
type MarkReader = (runId: string) => Pick<RunMarks, 'mark'>;

/** How runs are filtered and ordered. */
interface RunSearch {
  test: (run: RunEntry) => Verdict;
  keyOf: (run: RunEntry) => number;
  /** Matches of the full-text index for the texts of the query. */
  texts: readonly RunsWithText[];
  findText: SaidOfRuns['findText'];
  reader: RunReader<RunEntry>;
  /** Whether the full-text index has the run's first words. */
  isCovered: (run: RunEntry) => boolean;
}

/** A search over runs in slots. */
interface SlotSearch {
  test: (slot: number) => Verdict;
  keyOf: (slot: number) => number;
  reader: RunReader<number>;
}

const NOTHING_SAID: SaidOfRuns = {
  wordsOf: () => NO_WORDS,
  marksOf: () => NO_MARKS,
  reportedOf: () => undefined,
  allReportedOf: () => [],
  reported: () => [],
  changes: new ChangedIds(),
  findText: () => null,
};

/** The run's key in the full-text index; 0, which is no run's key, if it was not captured. */
function keyInTexts({ listed }: RunEntry): number {
  return runKey(listed?.tally.summary.run_id ?? null);
}

const NOT_CAPTURED: GoldenReason[] = [{ code: 'no_turn', words: 'nothing of the run was captured' }];

function hasDifference({ verdict }: ListedRun): boolean {
  return verdict?.reasons.some(({ code }) => code === 'reading_differs') ?? false;
}

const MARKED_GOOD: RunWords = { ...NO_WORDS, mark: 'good' };

/** Judges a run by its records and bodies. `golden` is null if the run is too long or cannot be read now. */
function judgeWhole(source: ExchangeSource, { tally }: ListedRun): NonNullable<ListedRun['verdict']> {
  const { run_id, exchanges } = tally.summary;
  const isTooLong = exchanges > CAPTURE_JUDGED_EXCHANGES;
  const within = new RunWithin(source, tally.first_id, tally.last_id);
  const summary = isTooLong ? null : summarizeRun(within, run_id!);
  // The run has too many exchanges, or they existed but cannot be read now.
  if (summary === null) return { golden: null, reasons: [], is_whole: true };
  return { golden: summary.golden, reasons: summary.reasons, is_whole: true };
}

function readFirstWords(source: ExchangeSource, id: number): string {
  const copy = source.copy(id);
  const turn = copy === undefined ? null : normalizeTurn(copy);
  if (turn === null) return '';
  return readTask(turn).replace(/\s+/g, ' ').slice(0, CAPTURE_TASK_CHARACTERS).toWellFormed();
}

/** Whether a run is short, or has paused for so long that a list judges it (PAUSE_BEFORE_VERDICT). */
function hasPaused({ tally: { summary, last_ms } }: ListedRun, nowMs: number): boolean {
  const { exchanges, ms_per_exchange, max_ms } = PAUSE_BEFORE_VERDICT;
  if (summary.exchanges <= exchanges) return true;
  return nowMs - last_ms >= Math.min(max_ms, summary.exchanges * ms_per_exchange);
}

/** Whether few exchanges lie between a run's first and last exchange, so that the run's records can be read at once. */
function isShort({ tally: { first_id, last_id } }: ListedRun): boolean {
  return last_id - first_id < SHORT_RUN_EXCHANGES;
}

/** A source limited to the exchanges between two ids, both included. It is used to read one run. */
export class RunWithin extends SourcePart {
  readonly #firstId: number;
  readonly #lastId: number;

  constructor(whole: ExchangeSource, firstId: number, lastId: number) {
    super(whole);
    this.#firstId = firstId;
    this.#lastId = lastId;
  }

  *summaries(filter: { run_id?: string; from_id?: number } = {}): Generator<ListedExchange> {
    const from_id = Math.max(this.#firstId, filter.from_id ?? 1);
    for (const summary of this.whole.summaries({ ...filter, from_id })) {
      if (summary.id > this.#lastId) return;
      yield summary;
      // Stop here: to yield one more record, the generator would scan everything captured since.
      if (summary.id === this.#lastId) return;
    }
  }
}

/** Makes a test that computes each slot's result once. */
function rememberSlots(end: number, test: (slot: number) => boolean): (slot: number) => boolean {
  const results = new Uint8Array(end);
  return (slot) => {
    results[slot] ||= test(slot) ? 1 : 2;
    return results[slot] === 1;
  };
}
