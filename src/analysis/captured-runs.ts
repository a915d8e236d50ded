/**
 * The list of captured runs: follows the exchanges as they are written and answers pages of the list, newest first. What an
 * earlier reader has kept (storage/capture/run-index.ts) is loaded from the newest run on, as far as it is needed. Pure but for
 * what it reads from; capture reader.
 *
 * Memory: about a kilobyte a run, at most CAPTURE_LISTED_RUNS runs; beyond, the oldest leave the list (they can still be
 * read by their ids). Records alone make a row but for two things, which bodies tell: a run's first words, and for a run
 * without `x-svc-seq` or with failed calls whether it is golden. A page reads bodies for CAPTURE_LIST_READING_MS; what it
 * shows as null then is read next, while nothing is asked, and then what is missing of all others, the newest first.
 */
import type {
  CapturedActivity,
  CapturedRunFilter,
  CapturedRunRow,
  ChildRunName,
} from '../domain/captured-run.ts';
import type { Prices } from '../domain/price.ts';
import {
  CAPTURE_ACTIVITY,
  CAPTURE_JUDGED_EXCHANGES,
  CAPTURE_LISTED_RUNS,
  CAPTURE_TASK_CHARACTERS,
  CAPTURE_WANTED_RUNS,
  NAMED_CHILD_RUNS,
} from '../limits.ts';
import { readFreshUsage } from '../providers/fresh-usage.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { costOfExchange } from './exchange-cost.ts';
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';
import { addRecord, finishTally, type RunTally, summarizeRun } from './inspect.ts';
import { type ListedRun, readListedRun, startRun, writeListedRun } from './listed-run.ts';
import { SourcePart } from './source-part.ts';
import { readTask } from './trace.ts';

/** Where a page begins and what it shows. */
export interface RunPageQuestion {
  limit: number;
  /** Runs that began with an earlier exchange than this; null: from the newest on. */
  before: number | null;
  filter: CapturedRunFilter;
  /** Runs that began with an earlier one are not shown; left out: all are. */
  not_before?: number;
}

export interface CapturedRunPage {
  runs: CapturedRunRow[];
  /** null: there are no more. */
  next: number | null;
}

/** Says whether there is time to read more bodies. */
export type HasTime = () => boolean;

/** Rows that an earlier reader has kept. */
export interface KeptRuns {
  /** Those of runs that began before that exchange, the newest first. */
  newest(before: number, limit: number): { first_id: number; value: Buffer }[];
  find(runId: string): Buffer | undefined;
}

/** What was kept besides rows. */
export interface KeptState {
  /** Up to this exchange all is in the rows. */
  last_id: number;
  runs: number;
  left_out: number;
  without_run: number;
}

export interface RunChanges {
  runs: { first_id: number; run_id: string; value: Buffer }[];
  gone: { first_id: number; run_id: string }[];
  state: KeptState;
}

export interface CapturedRunsOptions {
  /** Runs in the list. */
  max?: number;
  prices?: Prices;
  kept?: { rows: KeptRuns; state: KeptState } | null;
}

/** Rows that are loaded at a time. */
const LOADED_AT_ONCE = 2_048;
/** Runs that are looked at for something unread before a question may be answered. */
const LOOKED_AT_ONCE = 8_192;

export class CapturedRuns {
  readonly #max: number;
  readonly #prices: Prices;
  readonly #kept: KeptRuns | null;
  /** Those in memory: all from `#loadedTo` on, and older ones that were looked for. */
  readonly #runs = new Map<string, ListedRun>();
  /** Child runs of runs that are not there yet, by the run that they are part of. */
  readonly #orphans = new Map<string, ChildRunName[]>();
  /** By their first exchange, ascending; those from `#loadedTo` on. */
  #order: ListedRun[] = [];
  /** Older runs are still to be loaded; 0: none are. */
  #loadedTo: number;
  /** All of them, loaded or not. */
  #count: number;
  /** Shown with something that is not known yet, in the order in which they were shown. */
  readonly #wanted = new Set<ListedRun>();
  /** Where the search for something unread goes on: among runs that began before that exchange. */
  #unreadBefore = Number.POSITIVE_INFINITY;
  /** Since they were kept last. */
  readonly #changed = new Set<ListedRun>();
  #gone: RunChanges['gone'] = [];
  /** The last exchange that was added. */
  last_id: number;
  /** Runs that had to leave. */
  left_out: number;
  /** Exchanges of no run. */
  without_run: number;

  constructor({ max = CAPTURE_LISTED_RUNS, prices = {}, kept = null }: CapturedRunsOptions = {}) {
    this.#max = max;
    this.#prices = prices;
    this.#kept = kept?.rows ?? null;
    // What comes from now on is kept above that.
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
    this.#addTo(run, record);
    this.#unreadBefore = Number.POSITIVE_INFINITY;
    if (isFirst) this.#noteChild(run.tally);
  }

  #addTo(run: ListedRun, record: ListedExchange): void {
    if (record.kind === 'turn' && run.first_turn_id === 0) {
      run.first_turn_id = record.id;
      run.task = null;
    }
    // Tokens mean the same in the whole list, whichever wire they came by.
    addRecord(run.tally, { ...record, usage: readFreshUsage(record.shape, record.usage) }, null, null);
    const cost = costOfExchange(record, this.#prices);
    if (cost === 'unknown') run.unpriced_turns += 1;
    else if (cost !== null) run.cost_usd = (run.cost_usd ?? 0) + cost;
    this.#changed.add(run);
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
    this.#changed.add(parent);
  }

  /** A run of the list, loaded or not. */
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
   * Loads some of the rows that were kept, the newest of those that are left.
   * @returns false when there is none left
   * @throws Error when what was kept is not whole
   */
  loadSome(): boolean {
    if (this.#loadedTo === 0) return false;
    const rows = this.#kept!.newest(this.#loadedTo, LOADED_AT_ONCE);
    const older: ListedRun[] = [];
    for (const { value } of rows) {
      const read = readListedRun(value);
      const name = read.tally.summary.run_id!;
      // One that was looked for may have gone on since.
      const run = this.#runs.get(name) ?? read;
      this.#runs.set(name, run);
      older.push(run);
    }
    // Runs that began since stand behind those.
    this.#order = [...older.reverse(), ...this.#order];
    this.#loadedTo = rows.length < LOADED_AT_ONCE ? 0 : rows.at(-1)!.first_id;
    if (this.#loadedTo === 0 && this.#order.length !== this.#count)
      throw new RangeError(`${this.#order.length} of ${this.#count} kept rows`);
    return this.#loadedTo !== 0;
  }

  #loadAll(): void {
    while (this.loadSome());
  }

  /** What is to be kept since the last call. */
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

  /** How many runs {@link takeChanges} would give. */
  get changed(): number {
    return this.#changed.size + this.#gone.length;
  }

  /**
   * Exchanges before that one are gone, by age: runs that had no later one leave, and the others are what is left of them. All
   * is to be kept anew then.
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
    this.#order = [...this.#runs.values()].sort((one, other) => one.tally.first_id - other.tally.first_id);
    this.#count = this.#order.length;
    for (const run of this.#order) run.children = run.children.filter(({ run_id }) => this.#runs.has(run_id));
    this.#gone = [];
    this.#changed.clear();
    for (const run of this.#order) this.#changed.add(run);
  }

  /** The ids that a run's exchanges lie between, both included; undefined when it is not in the list. */
  rangeOf(runId: string): { first_id: number; last_id: number } | undefined {
    const tally = this.#find(runId)?.tally;
    return tally === undefined ? undefined : { first_id: tally.first_id, last_id: tally.last_id };
  }

  /** One run's row; undefined when it is not in the list. */
  row(source: ExchangeSource, runId: string, hasTime: HasTime): CapturedRunRow | undefined {
    const run = this.#find(runId);
    if (run === undefined) return undefined;
    this.#read(source, run, hasTime);
    return this.#show(run);
  }

  /** How many of the newest runs are golden. What takes bodies to find out is found out next, and counts as not judged. */
  countGolden(source: ExchangeSource): CapturedActivity['golden'] {
    const counts = { golden: 0, not_golden: 0, not_judged: 0 };
    while (this.#order.length < CAPTURE_ACTIVITY.runs && this.loadSome());
    for (const run of this.#order.slice(-CAPTURE_ACTIVITY.runs)) {
      if (!this.#isJudged(run)) this.#read(source, run, () => false);
      const golden = this.#isJudged(run) ? run.verdict!.golden : null;
      if (golden === null) counts.not_judged += 1;
      else counts[golden ? 'golden' : 'not_golden'] += 1;
    }
    return counts;
  }

  /**
   * A page. Where a filter has to read bodies and there is no time for more, the page is short and has its end all the
   * same; it always gets further by one run.
   */
  page(
    source: ExchangeSource,
    { limit, before, filter, not_before = 0 }: RunPageQuestion,
    hasTime: HasTime,
  ): CapturedRunPage {
    const found: CapturedRunRow[] = [];
    const needle = filter.q?.toLowerCase();
    let last: number | null = null;
    let isFirstRead = true;
    for (let at = this.#placeBefore(before) - 1; ; at--) {
      if (at < 0) {
        const loaded = this.#order.length;
        this.loadSome();
        at += this.#order.length - loaded;
      }
      const run = this.#order[at];
      if (run === undefined || run.tally.first_id < not_before) break;
      if (found.length === limit) return { runs: found, next: last };
      const { first_id } = run.tally;
      if (passesRecords(run, filter)) {
        const needsBodies =
          (filter.golden !== undefined && !this.#isJudged(run)) ||
          (needle !== undefined && run.task === null && !matchesRecords(run, needle));
        if (needsBodies) {
          if (!isFirstRead && !hasTime()) return { runs: found, next: last };
          this.#read(source, run, () => true);
          isFirstRead = false;
        }
        const isWanted =
          (filter.golden === undefined || run.verdict?.golden === filter.golden) &&
          (needle === undefined || matchesRecords(run, needle) || matches(run.task ?? '', needle));
        if (isWanted) {
          this.#read(source, run, hasTime);
          found.push(this.#show(run));
        }
      }
      last = first_id;
    }
    return { runs: found, next: null };
  }

  /**
   * Reads one of the runs that were shown with something unknown.
   * @returns false when there is none
   */
  readWanted(source: ExchangeSource): boolean {
    const [run] = this.#wanted;
    if (run === undefined) return false;
    this.#wanted.delete(run);
    this.#read(source, run, () => true);
    return true;
  }

  /**
   * Reads the newest run of which something is not known; those that went on since are left alone, since they are about to
   * change again.
   * @returns false when there is none
   */
  readUnread(source: ExchangeSource, settled_ms: number): boolean {
    let left = LOOKED_AT_ONCE;
    for (let at = this.#placeBefore(this.#unreadBefore) - 1; at >= 0; at--) {
      const run = this.#order[at]!;
      this.#unreadBefore = run.tally.first_id;
      if (left-- === 0) return true;
      if ((run.task !== null && this.#isJudged(run)) || run.tally.last_ms > settled_ms) continue;
      this.#read(source, run, () => true);
      return true;
    }
    return false;
  }

  /** How many runs in the list, as far as it is loaded, began before an exchange. */
  #placeBefore(before: number | null): number {
    if (before === null) return this.#order.length;
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

  /** Some at once, so that it costs little for each. */
  #dropOldest(): void {
    this.#loadAll();
    const count = Math.ceil(this.#max / 64);
    for (const run of this.#order.slice(0, count)) {
      const { run_id, parent_run_id } = run.tally.summary;
      this.#runs.delete(run_id!);
      // What is left of a session names nothing that is gone.
      const parent = parent_run_id === null ? undefined : this.#runs.get(parent_run_id);
      if (parent !== undefined) {
        parent.children = parent.children.filter((child) => child.run_id !== run_id);
        this.#changed.add(parent);
      }
      this.#wanted.delete(run);
      this.#changed.delete(run);
      this.#gone.push({ first_id: run.tally.first_id, run_id: run_id! });
    }
    this.#order = this.#order.slice(count);
    this.#count -= count;
    this.left_out += count;
  }

  #isJudged(run: ListedRun): boolean {
    return run.verdict !== null && run.judged_id === run.tally.last_id;
  }

  /** Finds out what is not known, as long as there is time; else the run is wanted. */
  #read(source: ExchangeSource, run: ListedRun, hasTime: HasTime): void {
    if (run.task === null && (run.first_turn_id === 0 || hasTime())) {
      run.task = run.first_turn_id === 0 ? '' : readFirstWords(source, run.first_turn_id);
      this.#changed.add(run);
    }
    if (!this.#isJudged(run) && (needOf(run) === 'records' || hasTime())) {
      judge(source, run);
      this.#changed.add(run);
    }
    if (run.task !== null && this.#isJudged(run)) return;
    this.#wanted.delete(run);
    this.#wanted.add(run);
    if (this.#wanted.size > CAPTURE_WANTED_RUNS) this.#wanted.delete(this.#wanted.values().next().value!);
  }

  #show(run: ListedRun): CapturedRunRow {
    const { tally, verdict, task } = run;
    const { summary, first_ms, last_ms } = tally;
    const isJudged = this.#isJudged(run);
    return {
      run_id: summary.run_id!,
      session_id: summary.session_id,
      parent_run_id: summary.parent_run_id,
      kind: summary.kind,
      child_runs: [...run.children],
      task,
      notes: summary.notes,
      providers: summary.providers,
      models: summary.models,
      exchanges: summary.exchanges,
      turns: summary.turns,
      student_turns: summary.student_turns,
      started_at: new Date(first_ms).toISOString(),
      finished_at: new Date(last_ms).toISOString(),
      duration_ms: Math.max(0, last_ms - first_ms),
      input_tokens: summary.input_tokens,
      output_tokens: summary.output_tokens,
      cache_read_tokens: summary.cache_read_tokens,
      cache_write_tokens: summary.cache_write_tokens,
      cost_usd: run.cost_usd,
      unpriced_turns: run.unpriced_turns,
      errors: summary.errors,
      aborted: summary.aborted,
      gaps: tally.golden.gaps(),
      golden: isJudged ? verdict!.golden : null,
      reasons: isJudged ? verdict!.reasons : [],
    };
  }
}

/** What its verdict takes: its records, its last turn's body too, or those of all its turns. */
function needOf({ tally: { golden, has_seq } }: ListedRun): 'records' | 'last_turn' | 'bodies' {
  const onlyUnread = golden.judge().reasons.every(({ code }) => code === 'unlinked');
  if (onlyUnread && (!has_seq || golden.hadFailures)) return 'bodies';
  return golden.lastTurn === null || golden.lastTurn.shape === 'messages' ? 'records' : 'last_turn';
}

function judge(source: ExchangeSource, run: ListedRun): void {
  const { tally } = run;
  const { run_id, exchanges } = tally.summary;
  run.judged_id = tally.last_id;
  if (needOf(run) !== 'bodies') {
    const { golden, reasons } = finishTally(
      source,
      { ...tally, summary: { ...tally.summary, reasons: [] } },
      null,
    );
    run.verdict = { golden, reasons };
  } else if (exchanges > CAPTURE_JUDGED_EXCHANGES) run.verdict = { golden: null, reasons: [] };
  else {
    const summary = summarizeRun(new RunWithin(source, tally.first_id, tally.last_id), run_id!);
    // Its exchanges were there and cannot be read now.
    run.verdict = summary === null ? { golden: null, reasons: [] } : summary;
  }
}

function readFirstWords(source: ExchangeSource, id: number): string {
  const copy = source.copy(id);
  const turn = copy === undefined ? null : normalizeTurn(copy);
  if (turn === null) return '';
  return readTask(turn).replace(/\s+/g, ' ').slice(0, CAPTURE_TASK_CHARACTERS).toWellFormed();
}

/** What the records say of a filter. */
function passesRecords({ tally: { summary, first_ms } }: ListedRun, filter: CapturedRunFilter): boolean {
  const { from_ms = Number.NEGATIVE_INFINITY, to_ms = Number.POSITIVE_INFINITY, model, served_by } = filter;
  if (first_ms < from_ms || first_ms >= to_ms) return false;
  if (model !== undefined && !summary.models.includes(model)) return false;
  if (filter.session_id !== undefined && summary.session_id !== filter.session_id) return false;
  if (filter.is_own !== undefined && (summary.parent_run_id === null) !== filter.is_own) return false;
  if (served_by === 'student') return summary.student_turns > 0;
  return served_by === undefined || summary.student_turns < summary.turns;
}

/** @param needle in lower case */
function matchesRecords({ tally: { summary } }: ListedRun, needle: string): boolean {
  return [summary.run_id!, ...summary.notes, ...summary.models].some((text) => matches(text, needle));
}

function matches(text: string, needle: string): boolean {
  return text.toLowerCase().includes(needle);
}

/** One run of a source whose exchanges lie between two ids, both included. */
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
      // Looking for one more would go through all that was captured since.
      if (summary.id === this.#lastId) return;
    }
  }
}
