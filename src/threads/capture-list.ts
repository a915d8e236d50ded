/**
 * The capture reader's list of captured runs, and figures of the newest exchanges. Both are updated as exchanges are
 * captured, and saved beside the captures (`storage/capture/run-index.ts`), so that the next reader process continues
 * where this process ended. While many exchanges are still to be read, the list contains only the newest runs, and
 * answers say so. Capture reader.
 */

import { CacheLedger } from '../captures/cache-ledger.ts';
import { RecentExchanges } from '../captures/captured-activity.ts';
import {
  type CapturedRunPage,
  CapturedRuns,
  type HasTime,
  type KeptState,
  type RunPageQuestion,
  type ValuesQuestion,
  type WindowQuestion,
} from '../captures/captured-runs.ts';
import { FigureCube } from '../captures/figure-cube.ts';
import { indexVersion, nameOfPrices } from '../captures/listed-run.ts';
import { type SaidOfRuns, saidBy } from '../captures/run-entry.ts';
import type { RunTexts } from '../captures/run-texts.ts';
import type { CachePeriod, CacheQuestion } from '../domain/cache-miss.ts';
import type { CapturedActivity, WindowSums } from '../domain/captured-run.ts';
import type { Prices } from '../domain/price.ts';
import type { CountedValues } from '../domain/run-query/count-values.ts';
import type { FigureQuestion, FigureReport } from '../domain/traffic-figures.ts';
import { systemClock } from '../std/clock.ts';
import { speaksOfCaptures } from '../storage/accounts/capture-owner.ts';
import type { FollowedCaptures } from '../storage/capture/followed-files.ts';
import { CaptureFileError } from '../storage/capture/layout.ts';
import { RunIndex, removeRunIndex } from '../storage/capture/run-index.ts';
import { RunWordsError, StoredRunWords } from '../storage/run-words.ts';
import type { CaptureReaderStart } from './capture-reader-protocol.ts';

/** How far a request reads new exchanges. Its answer covers only the exchanges that were read, and says so. */
interface CatchUp {
  /** The request waits for so long. */
  ms: number;
  /**
   * If at most this many exchanges are left then, they are read, too. Otherwise the newest exchanges would be read
   * separately, which takes as long.
   */
  exchanges: number;
}
const CAPTURE_CATCH_UP: CatchUp = { ms: 60, exchanges: 8_192 };
/** How the list of runs is read and saved. */
const CAPTURE_LIST = {
  /** Maximum number of exchanges that are added in one step. The time is checked between two steps. */
  exchanges_added: 512,
  /** While many exchanges are still to be read, this many of the newest are listed first. */
  newest_exchanges: 8_192,
  /** The list is saved after this many new exchanges or changed runs. */
  exchanges_unsaved: 1_024,
  runs_unsaved: 500,
  /**
   * Background work reads first words, verdicts and figures for this long, and then pauses for `pause_ms`.
   */
  reading_ms: 5,
  /**
   * Before a question is answered, older reported runs are read for at most this time. Further ones are read
   * between questions.
   */
  reported_ms: 50,
  pause_ms: 15,
  /** A run whose last exchange is younger is not read yet, because more exchanges are likely. */
  settled_ms: 60_000,
} as const;

/** The state that the index stores about itself. */
interface IndexState extends KeptState {
  /** Identifies the prices with which the saved costs were computed. */
  prices: string;
  first_id: number;
  /** An exchange in the list that identifies the captures. */
  mark: { id: number; started_at: string };
}

/** Only the newest runs. */
interface NewestRuns {
  runs: CapturedRuns;
  /**
   * Id of an exchange. Answers leave out a run whose first exchange in `runs` is earlier, because the run may
   * have begun before the exchanges that were read. 0: no run is left out.
   */
  not_before: number;
}

/** The reader's start options; `prices` is never null. */
type PricedStart = CaptureReaderStart & { prices: Prices };

export class CaptureList {
  readonly #files: FollowedCaptures;
  readonly #options: PricedStart;
  readonly #pricesName: string;
  readonly #catchUp: CatchUp;
  #index: RunIndex | null = null;
  /** false after a failed write: the index is then only read. */
  #isWritten = true;
  #isOpened = false;
  #runs!: CapturedRuns;
  #recent!: RecentExchanges;
  #cache!: CacheLedger;
  #figures!: FigureCube;
  #newest: NewestRuns | null = null;
  /**
   * Number of runs in which this process found a differing echo: a request repeats the previous
   * answer differently.
   */
  differing_runs = 0;
  readonly #onDiffering = (): void => {
    this.differing_runs += 1;
  };
  /** Whether older reported runs remain to be read. */
  #isReportedMore = false;
  #firstId = 1;
  #erasures = 0;
  #lastId = 0;
  #unsaved = 0;

  /** The reported outcomes and marks of runs. */
  readonly #words: StoredRunWords;
  readonly #said: SaidOfRuns;
  readonly #texts: RunTexts | null;

  /**
   * @param texts searches the texts of runs; null: queries search only the list
   * @param catchUp tests set it
   */
  constructor(
    files: FollowedCaptures,
    options: PricedStart,
    texts: RunTexts | null = null,
    catchUp: CatchUp = CAPTURE_CATCH_UP,
  ) {
    this.#files = files;
    this.#texts = texts;
    this.#catchUp = catchUp;
    this.#options = options;
    this.#words = new StoredRunWords([options.databases], (accounts, org_id) =>
      speaksOfCaptures(accounts, options.owner, org_id),
    );
    this.#said = saidBy(this.#words, texts);
    const { db, prices, is_suspect } = options;
    this.#pricesName = nameOfPrices(prices);
    if (is_suspect) removeRunIndex(db);
    this.#begin(null);
  }

  /** Id of the last captured exchange. */
  get last_id(): number {
    return this.#lastId;
  }

  get size(): number {
    return this.#current.runs.size;
  }

  get left_out(): number {
    return this.#current.runs.left_out;
  }

  get without_run(): number {
    return this.#current.runs.without_run;
  }

  /**
   * Id of the last exchange in the full list, and id of the last captured exchange; null while answers come from the
   * full list.
   */
  get being_read(): { exchanges: number; of: number } | null {
    return this.#newest === null ? null : { exchanges: this.#runs.last_id, of: this.#lastId };
  }

  /**
   * Checks for new captures.
   * @returns false if earlier answers no longer hold, because other captures have replaced the known ones, or
   * exchanges were erased
   */
  look(): boolean {
    this.#lastId = this.#files.refresh();
    const firstId = this.#files.first_id;
    let isSame = true;
    if (!this.#isOpened && this.#lastId > 0) this.#open();
    else if (this.#lastId < this.#runs.last_id || firstId < this.#firstId) {
      // Another database has replaced the captures.
      this.#dropIndex();
      isSame = false;
    } else if (this.#files.erasures !== this.#erasures) {
      this.#erasures = this.#files.erasures;
      this.#dropIndex();
      isSame = false;
    } else if (firstId > this.#firstId || this.#index?.isThere() === false)
      this.#guard(() => this.#keepAnew(firstId));
    this.#firstId = firstId;
    return isSame;
  }

  /**
   * Reads new exchanges and reported runs within the time limit. If that is too short for all exchanges, also reads the
   * newest ones, from which questions are then answered.
   */
  catchUp(): void {
    const reportedUntil = performance.now() + CAPTURE_LIST.reported_ms;
    this.#isReportedMore = this.#words.followReported(() => performance.now() < reportedUntil);
    // Once answers come from only the newest exchanges, the older ones are read between questions.
    const until = performance.now() + (this.#newest === null ? this.#catchUp.ms : 0);
    while (this.#runs.last_id < this.#lastId && (performance.now() < until || this.#isNearEnd))
      this.#guard(() => this.#addSome());
    this.#followNewest();
  }

  page(question: RunPageQuestion, hasTime: HasTime): CapturedRunPage {
    return this.#guard(() => {
      const { runs, not_before } = this.#current;
      this.#texts?.begin();
      return runs.page(this.#files, { ...question, not_before }, hasTime);
    });
  }

  countValues(question: ValuesQuestion): CountedValues {
    return this.#guard(() => {
      const { runs, not_before } = this.#current;
      this.#texts?.begin();
      return runs.countValues({ ...question, not_before });
    });
  }

  sumWindow(question: WindowQuestion, hasTime: HasTime): WindowSums {
    return this.#guard(() => {
      const { runs, not_before } = this.#current;
      this.#texts?.begin();
      return runs.sumWindow(this.#files, { ...question, not_before }, hasTime);
    });
  }

  activity(from_ms: number, to_ms: number): CapturedActivity {
    return this.#guard(() => {
      const until = performance.now() + this.#catchUp.ms;
      const hasTime = () => performance.now() < until;
      this.#recent.follow(this.#files, this.#range, from_ms, hasTime);
      return {
        ...this.#recent.sum(from_ms, to_ms),
        failed_without_run: this.#recent.listFailedWithoutRun(this.#files, from_ms, to_ms, hasTime),
        golden: this.#current.runs.countGolden(this.#files, systemClock.wallMs()),
      };
    });
  }

  /** Sums what turns of a period lost because they missed the provider's prompt cache. */
  sumCache(question: CacheQuestion, hasTime: HasTime): CachePeriod {
    return this.#guard(() =>
      this.#cache.sum(question, this.#cache.follow(this.#files, this.#range, question.from_day, hasTime)),
    );
  }

  /** Sums figures of a period by model, agent and so on. */
  sumFigures(question: FigureQuestion, hasTime: HasTime): FigureReport {
    return this.#guard(() => this.#figures.ask(this.#files, this.#range, question, hasTime));
  }

  /** Whether the run has any captured exchange. */
  has(runId: string): boolean {
    return this.listOf(runId).rangeOf(runId) !== undefined;
  }

  /** Whether the list has the run now. Unlike `has`, it reads no exchanges. */
  shows(runId: string): boolean {
    return this.#guard(() => this.#current.runs.rangeOf(runId) !== undefined);
  }

  /**
   * Returns the id of the captured run that belongs to the reported run with this id. Returns the given id if
   * a captured run has it, or if no captured run belongs to it.
   */
  capturedIdOf(runId: string): string {
    if (this.has(runId)) return runId;
    return this.#current.runs.findJoined(runId) ?? runId;
  }

  /**
   * Returns the list that contains a run. If the full list has dropped the run or has not read it yet, this
   * is a list of the run alone.
   */
  listOf(runId: string): CapturedRuns {
    return this.#guard(() => {
      if (this.#newest === null && (this.#runs.left_out === 0 || this.#runs.rangeOf(runId) !== undefined))
        return this.#runs;
      const range = this.#newest?.runs.rangeOf(runId);
      if (range !== undefined && range.first_id >= this.#newest!.not_before) return this.#newest!.runs;
      const alone = new CapturedRuns({ max: 1, prices: this.#options.prices, said: this.#said });
      for (const record of this.#files.summaries({ run_id: runId })) alone.add(record);
      return alone;
    });
  }

  /**
   * Does a part of the background work.
   * @returns the delay until the next part; null: no work is left
   */
  goOn(): number | null {
    return this.#guard(() => {
      if (this.#runs.last_id < this.#lastId) {
        this.#addSome();
        if (this.#unsaved >= CAPTURE_LIST.exchanges_unsaved) this.#save();
        return 0;
      }
      this.#newest = null;
      const now_ms = systemClock.wallMs();
      if (this.#runs.readWanted(this.#files, now_ms) || this.#runs.loadSome() || this.#readReported())
        return 0;
      const until = performance.now() + CAPTURE_LIST.reading_ms;
      if (this.#runs.prepare(() => performance.now() < until)) return 0;
      let isMore = this.#options.reads_ahead;
      while (isMore && performance.now() < until)
        isMore = this.#runs.readUnread(this.#files, now_ms - CAPTURE_LIST.settled_ms);
      if (!isMore && this.#options.reads_ahead)
        isMore = !this.#cache.follow(this.#files, this.#range, '', () => performance.now() < until);
      if (!isMore && this.#options.reads_ahead)
        isMore = !this.#figures.follow(this.#files, this.#range, '', () => performance.now() < until);
      if (!isMore || this.#runs.changed >= CAPTURE_LIST.runs_unsaved) this.#save();
      return isMore ? CAPTURE_LIST.pause_ms : null;
    });
  }

  /** Reads some older reported runs. @returns whether more are left */
  #readReported(): boolean {
    if (!this.#isReportedMore) return false;
    const until = performance.now() + CAPTURE_LIST.reading_ms;
    this.#isReportedMore = this.#words.followReported(() => performance.now() < until);
    return this.#isReportedMore;
  }

  /** Saves what is new, and closes the index. */
  close(): void {
    this.#save();
    void this.#index?.close();
    void this.#words.close();
  }

  get #range(): { first_id: number; last_id: number } {
    return { first_id: this.#firstId, last_id: this.#lastId };
  }

  get #current(): NewestRuns {
    return this.#newest ?? { runs: this.#runs, not_before: 0 };
  }

  #begin(state: IndexState | null): void {
    const { prices } = this.#options;
    const index = this.#index;
    this.#runs = new CapturedRuns({
      prices,
      fetches_later: this.#options.read_from !== null,
      said: this.#said,
      onDiffering: this.#onDiffering,
      kept: index === null || state === null ? null : { rows: index, state },
    });
    this.#recent = new RecentExchanges({ prices, kept: state === null ? null : index });
    this.#cache = new CacheLedger(prices, state === null ? null : index);
    this.#figures = new FigureCube(prices, state === null ? null : index);
    this.#newest = null;
    this.#unsaved = 0;
  }

  /** Loads what an earlier reader saved, if it belongs to these captures. */
  #open(): void {
    this.#isOpened = true;
    const { db } = this.#options;
    this.#index = this.#openIndex();
    const state = this.#readState();
    if (state === null && this.#index?.state != null) {
      void this.#index.close();
      removeRunIndex(db);
      this.#index = this.#openIndex();
    }
    this.#begin(state);
    const firstId = this.#files.first_id;
    if (state !== null && firstId > state.first_id) this.#guard(() => this.#keepAnew(firstId));
  }

  /**
   * Opens the index, or makes a new one.
   * @returns null if that fails; the list then works without an index until the captures are replaced or removed
   */
  #openIndex(): RunIndex | null {
    const { db, data_key, version } = this.#options;
    try {
      this.#isWritten = true;
      return RunIndex.open(db, { data_key, version: indexVersion(version), mode: 'write' });
    } catch {
      return null;
    }
  }

  #readState(): IndexState | null {
    try {
      const text = this.#index?.state ?? null;
      const state = text === null ? null : (JSON.parse(text) as IndexState);
      if (state === null || state.prices !== this.#pricesName) return null;
      if (state.last_id > this.#lastId || state.first_id > this.#files.first_id) return null;
      const [marked] = this.#files.summaries({ from_id: state.mark.id });
      return marked?.id === state.mark.id && marked.started_at === state.mark.started_at ? state : null;
    } catch {
      return null;
    }
  }

  /**
   * Removes the index, because it is damaged, belongs to other captures, or contains erased exchanges. Everything is
   * then read again.
   */
  #dropIndex(): void {
    void this.#index?.close();
    removeRunIndex(this.#options.db);
    this.#index = null;
    this.#isOpened = this.#lastId > 0;
    if (this.#isOpened) this.#index = this.#openIndex();
    this.#begin(null);
  }

  /**
   * Writes the remaining runs to a new index, because retention removed exchanges or the index was
   * removed.
   */
  #keepAnew(firstId: number): void {
    this.#runs.forgetBefore(this.#files, firstId);
    this.#newest = null;
    this.#recent = new RecentExchanges({ prices: this.#options.prices });
    this.#cache.storeAgain();
    this.#figures.storeAgain();
    void this.#index?.close();
    removeRunIndex(this.#options.db);
    this.#index = this.#openIndex();
    this.#firstId = firstId;
    this.#save();
  }

  #addSome(): void {
    const { last_id } = this.#runs;
    this.#addRecords();
    this.#follow(this.#runs, last_id);
  }

  /**
   * Updates the runs in the list that changed because a turn was stored late. If the changes since `after`
   * are no longer known, removes the index, so that everything is read again.
   */
  #follow(runs: CapturedRuns, after: number): void {
    const { moves, forgotten_to } = this.#files.movesAfter(after);
    if (after > 0 && forgotten_to > after) this.#dropIndex();
    else
      runs.move(
        this.#files,
        moves.filter(({ at }) => at <= runs.last_id),
      );
  }

  #addRecords(): void {
    let added = 0;
    for (const record of this.#files.summaries({ from_id: this.#runs.last_id + 1 })) {
      this.#runs.add(record);
      this.#unsaved++;
      if (++added === CAPTURE_LIST.exchanges_added) return;
    }
    // All readable exchanges were added. If the last ones are damaged, reading continues after them.
    this.#runs.last_id = this.#lastId;
  }

  get #isNearEnd(): boolean {
    return this.#newest === null && this.#lastId - this.#runs.last_id <= this.#catchUp.exchanges;
  }

  /** While the list is behind, finds the newest runs in the newest exchanges. */
  #followNewest(): void {
    if (this.#runs.last_id >= this.#lastId) {
      this.#newest = null;
      return;
    }
    if (this.#newest === null) {
      const from_id = Math.max(this.#firstId, this.#lastId - CAPTURE_LIST.newest_exchanges + 1);
      const isAll = from_id === this.#firstId;
      const runs = new CapturedRuns({ prices: this.#options.prices, said: this.#said });
      runs.last_id = from_id - 1;
      this.#newest = { runs, not_before: isAll ? 0 : from_id + CAPTURE_LIST.newest_exchanges / 4 };
    }
    const { runs } = this.#newest;
    const { last_id } = runs;
    for (const record of this.#files.summaries({ from_id: last_id + 1 })) runs.add(record);
    this.#follow(runs, last_id);
  }

  #save(): void {
    const index = this.#index;
    if (index === null || !this.#isWritten || !index.isThere()) return;
    const { last_id } = this.#runs;
    if (
      this.#unsaved === 0 &&
      this.#runs.changed === 0 &&
      !this.#recent.hasChanges &&
      !this.#cache.hasChanges &&
      !this.#figures.hasChanges
    )
      return;
    this.#unsaved = 0;
    try {
      const [marked] = this.#files.summaries({ from_id: Math.max(this.#firstId, last_id - MARK_BACK) });
      if (marked === undefined) return;
      const { state, runs, gone } = this.#runs.takeChanges();
      const mark = { id: marked.id, started_at: marked.started_at };
      const whole: IndexState = { ...state, prices: this.#pricesName, first_id: this.#firstId, mark };
      const sums = {
        ...this.#recent.takeChanges(),
        ...this.#cache.takeChanges(),
        ...this.#figures.takeChanges(),
      };
      index.write({ state: JSON.stringify(whole), runs, gone, ...sums });
    } catch {
      // The cause may be a full disk. The list continues in memory, and the next process continues from what was
      // saved.
      this.#isWritten = false;
    }
  }

  /** Does the work. If the index cannot be read, removes the index, reads new exchanges, and repeats the work once. */
  #guard<Value>(work: () => Value): Value {
    try {
      return work();
    } catch (thrown) {
      if (this.#index === null || thrown instanceof CaptureFileError || thrown instanceof RunWordsError)
        throw thrown;
      this.#dropIndex();
      this.catchUp();
      return work();
    }
  }
}

/** The mark is this many exchanges before the last one, because the last exchanges of a file may be damaged. */
const MARK_BACK = 64;
