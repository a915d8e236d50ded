/**
 * The kept list of captured runs: follows the exchanges as they are written and answers pages of the list, newest first.
 * Pure but for the source it reads from; capture reader.
 *
 * Memory: about a kilobyte a run, at most CAPTURE_LISTED_RUNS runs; beyond, the oldest leave the list (they can still be
 * read by their ids). Records alone make a row but for two things, which bodies tell: a run's first words, and for a run
 * without `x-svc-seq` or with failed calls whether it is golden. A page reads bodies for CAPTURE_LIST_READING_MS; what it
 * shows as null then is read next, while nothing is asked.
 */
import type {
  CapturedActivity,
  CapturedRunFilter,
  CapturedRunRow,
  ChildRunName,
} from '../domain/captured-run.ts';
import type { GoldenReason } from '../domain/golden.ts';
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
import {
  addRecord,
  type ExchangeSource,
  finishTally,
  type ListedExchange,
  type RunTally,
  startTally,
  summarizeRun,
} from './inspect.ts';
import { readTask } from './trace.ts';

/** A run in the list. */
interface ListedRun {
  tally: RunTally;
  /** 0: it has none yet. */
  first_turn_id: number;
  /** null: not read yet. */
  task: string | null;
  /** As of the run's exchange `judged_id`; null: not judged yet. */
  verdict: { golden: boolean | null; reasons: GoldenReason[] } | null;
  judged_id: number;
  /** Dollars; null: no turn's price is known. */
  cost_usd: number | null;
  /** Turns whose price or tokens are not known. */
  unpriced_turns: number;
}

/** Where a page begins and what it shows. */
export interface RunPageQuestion {
  limit: number;
  /** Runs that began with an earlier exchange than this; null: from the newest on. */
  before: number | null;
  filter: CapturedRunFilter;
}

export interface CapturedRunPage {
  runs: CapturedRunRow[];
  /** null: there are no more. */
  next: number | null;
}

/** Says whether there is time to read more bodies. */
export type HasTime = () => boolean;

export class CapturedRuns {
  readonly #max: number;
  readonly #prices: Prices;
  readonly #runs = new Map<string, ListedRun>();
  /** By the run that they are part of. */
  readonly #children = new Map<string, ChildRunName[]>();
  /** By their first exchange, ascending. */
  #order: ListedRun[] = [];
  /** Shown with something that is not known yet, in the order in which they were shown. */
  readonly #wanted = new Set<ListedRun>();
  /** The last exchange that was added. */
  last_id = 0;
  /** Runs that had to leave. */
  left_out = 0;
  /** Exchanges of no run. */
  without_run = 0;

  /** @param max runs in the list */
  constructor({ max = CAPTURE_LISTED_RUNS, prices = {} }: { max?: number; prices?: Prices } = {}) {
    this.#max = max;
    this.#prices = prices;
  }

  get size(): number {
    return this.#runs.size;
  }

  /** Adds the next exchange, in the order of ids. */
  add(record: ListedExchange): void {
    this.last_id = record.id;
    if (record.run_id === null) {
      this.without_run += 1;
      return;
    }
    let run = this.#runs.get(record.run_id);
    if (run === undefined) {
      if (this.#runs.size >= this.#max) this.#dropOldest();
      run = {
        tally: startTally(record.run_id),
        first_turn_id: 0,
        task: null,
        verdict: null,
        judged_id: 0,
        cost_usd: null,
        unpriced_turns: 0,
      };
      this.#runs.set(record.run_id, run);
      this.#order.push(run);
    }
    if (record.kind === 'turn' && run.first_turn_id === 0) run.first_turn_id = record.id;
    const isFirst = run.tally.last_id === 0;
    // Tokens mean the same in the whole list, whichever wire they came by.
    addRecord(run.tally, { ...record, usage: readFreshUsage(record.shape, record.usage) }, null, null);
    const cost = costOfExchange(record, this.#prices);
    if (cost === 'unknown') run.unpriced_turns += 1;
    else if (cost !== null) run.cost_usd = (run.cost_usd ?? 0) + cost;
    if (isFirst) this.#noteChild(run.tally);
  }

  #noteChild({ summary: { run_id, parent_run_id, kind } }: RunTally): void {
    if (parent_run_id === null) return;
    const known = this.#children.get(parent_run_id) ?? [];
    if (known.length < NAMED_CHILD_RUNS)
      this.#children.set(parent_run_id, [...known, { run_id: run_id!, kind }]);
  }

  /** The ids that a run's exchanges lie between, both included; undefined when it is not in the list. */
  rangeOf(runId: string): { first_id: number; last_id: number } | undefined {
    const tally = this.#runs.get(runId)?.tally;
    return tally === undefined ? undefined : { first_id: tally.first_id, last_id: tally.last_id };
  }

  /** One run's row; undefined when it is not in the list. */
  row(source: ExchangeSource, runId: string, hasTime: HasTime): CapturedRunRow | undefined {
    const run = this.#runs.get(runId);
    if (run === undefined) return undefined;
    this.#read(source, run, hasTime);
    return this.#show(run);
  }

  /** How many of the newest runs are golden. What takes bodies to find out is found out next, and counts as not judged. */
  countGolden(source: ExchangeSource): CapturedActivity['golden'] {
    const counts = { golden: 0, not_golden: 0, not_judged: 0 };
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
    { limit, before, filter }: RunPageQuestion,
    hasTime: HasTime,
  ): CapturedRunPage {
    const found: CapturedRunRow[] = [];
    const needle = filter.q?.toLowerCase();
    let last: number | null = null;
    let isFirstRead = true;
    for (let at = this.#placeBefore(before) - 1; at >= 0; at--) {
      const run = this.#order[at]!;
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

  /** How many runs in the list began before an exchange. */
  #placeBefore(before: number | null): number {
    if (before === null) return this.#order.length;
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
    const count = Math.ceil(this.#max / 64);
    for (const run of this.#order.slice(0, count)) {
      const { run_id, parent_run_id } = run.tally.summary;
      this.#runs.delete(run_id!);
      this.#children.delete(run_id!);
      // What is left of a session names nothing that is gone.
      const siblings = parent_run_id === null ? undefined : this.#children.get(parent_run_id);
      if (siblings !== undefined)
        this.#children.set(
          parent_run_id!,
          siblings.filter((child) => child.run_id !== run_id),
        );
      this.#wanted.delete(run);
    }
    this.#order = this.#order.slice(count);
    this.left_out += count;
  }

  #isJudged(run: ListedRun): boolean {
    return run.verdict !== null && run.judged_id === run.tally.last_id;
  }

  /** Finds out what is not known, as long as there is time; else the run is wanted. */
  #read(source: ExchangeSource, run: ListedRun, hasTime: HasTime): void {
    if (run.task === null && run.first_turn_id === 0) run.task = '';
    if (run.task === null && hasTime()) run.task = readFirstWords(source, run.first_turn_id);
    if (!this.#isJudged(run) && (needOf(run) === 'records' || hasTime())) judge(source, run);
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
      child_runs: this.#children.get(summary.run_id!) ?? [],
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
export class RunWithin implements ExchangeSource {
  readonly #source: ExchangeSource;
  readonly #firstId: number;
  readonly #lastId: number;

  constructor(source: ExchangeSource, firstId: number, lastId: number) {
    this.#source = source;
    this.#firstId = firstId;
    this.#lastId = lastId;
  }

  *summaries(filter: { run_id?: string; from_id?: number } = {}): Generator<ListedExchange> {
    const from_id = Math.max(this.#firstId, filter.from_id ?? 1);
    for (const summary of this.#source.summaries({ ...filter, from_id })) {
      if (summary.id > this.#lastId) return;
      yield summary;
      // Looking for one more would go through all that was captured since.
      if (summary.id === this.#lastId) return;
    }
  }

  *exchanges(filter: { run_id?: string } = {}): ReturnType<ExchangeSource['exchanges']> {
    for (const { id } of this.summaries(filter)) {
      const record = this.#source.exchange(id);
      if (record !== undefined) yield record;
    }
  }

  exchange(id: number): ReturnType<ExchangeSource['exchange']> {
    return this.#source.exchange(id);
  }

  body(...parameters: Parameters<ExchangeSource['body']>): ReturnType<ExchangeSource['body']> {
    return this.#source.body(...parameters);
  }

  copy(id: number): ReturnType<ExchangeSource['copy']> {
    return this.#source.copy(id);
  }
}
