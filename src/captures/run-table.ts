/**
 * All runs of a list, each in a numbered slot: captured runs with the reported runs that belong to them, and reported
 * runs that were not captured. The table follows changes of single runs, so that a question does not join all runs
 * again. It keeps the runs' values in columns, and their order by start. Pure; capture reader.
 *
 * Memory: some hundred bytes for each run. The table is made for the first question that reads all runs, and again after a
 * change that it cannot follow.
 */
import type { ReportedRun } from '../domain/reported-run.ts';
import { type ColumnSource, RunColumns } from '../domain/run-query/columns.ts';
import type { ListedRun } from './listed-run.ts';
import { findReported, type RunEntry, type SaidOfRuns } from './run-entry.ts';
import { StartOrder } from './start-order.ts';

/** A reported run without a captured one. */
interface LoneRun {
  slot: number;
  reported: ReportedRun;
  /** Its start, as used in the order by start. */
  started_ms: number;
}

/** Ids by which a captured run may be joined with a reported one. */
type OtherIds = Pick<ListedRun['tally']['summary'], 'trace_id' | 'session_id'>;

const NO_RUNS: readonly ListedRun[] = [];

export class RunTable {
  readonly #said: SaidOfRuns;
  readonly #find: (runId: string) => ListedRun | undefined;
  readonly columns: RunColumns<RunEntry>;
  readonly starts = new StartOrder();
  #isMade = false;
  /** Position in the changes of `#said`. */
  #at = 0;
  #entries: (RunEntry | null)[] = [];
  /** Slots below `#entries.length` without a run. */
  #empty: number[] = [];
  /** Captured runs by the ids of their trace and their session. */
  readonly #byOtherId = new Map<string, ListedRun[]>();
  /** Number of captured runs that a reported run belongs to; absent: none. */
  readonly #joined = new Map<ReportedRun, number>();
  /** Reported runs that belong to no captured run, by their id. */
  readonly #lone = new Map<string, LoneRun[]>();

  /** @param find a captured run of the list by its id */
  constructor(
    said: SaidOfRuns,
    columns: ColumnSource<RunEntry>,
    find: (runId: string) => ListedRun | undefined,
  ) {
    this.#said = said;
    this.#find = find;
    this.columns = new RunColumns(columns, (slot) => this.#entries[slot] ?? null);
  }

  /** The number of slots, which is one more than the number of the last slot. */
  get end(): number {
    return this.#entries.length;
  }

  /** The run in a slot; null: the slot is empty. */
  entryAt(slot: number): RunEntry | null {
    return this.#entries[slot]!;
  }

  /** The entry of a captured run; null if the table is not made, or does not contain the run. */
  entryOf(run: ListedRun): RunEntry | null {
    const entry = this.#isMade ? this.#entries[run.slot] : null;
    return entry?.listed === run ? entry : null;
  }

  /** The newest captured run that a reported run belongs to by its trace or session. */
  findJoined(reportedId: string): ListedRun | undefined {
    const runs = this.#byOtherId.get(reportedId) ?? NO_RUNS;
    return runs
      .filter((run) => this.entryOf(run)?.reported?.run_id === reportedId)
      .sort((a, b) => b.tally.first_id - a.tally.first_id)[0];
  }

  /** Discards the table after a change of the list that it cannot follow. */
  forget(): void {
    this.#isMade = false;
    this.starts.forget();
    this.columns.clear();
  }

  /**
   * Makes the table if necessary, and otherwise follows the statements about runs that have changed since.
   * @param runs all captured runs of the list, ascending by their first exchange
   */
  follow(runs: readonly ListedRun[]): void {
    const { changes } = this.#said;
    const changed = this.#isMade ? changes.since(this.#at) : null;
    if (changed === null) this.#make(runs);
    this.#at = changes.end;
    for (const id of new Set(changed ?? [])) this.#review(id);
    this.columns.follow(this.#entries.length);
    if (!this.starts.isMade) this.starts.make(this.#entries.filter((entry) => entry !== null));
  }

  /** Adds a captured run, when its first exchange is known. */
  add(run: ListedRun): void {
    if (!this.#isMade) return;
    const entry: RunEntry = { listed: run, reported: null };
    run.slot = this.#put(entry);
    this.#list(run);
    this.#join(run);
    this.starts.add(entry);
  }

  /** Follows a change of a captured run. */
  touch(run: ListedRun): void {
    if (this.entryOf(run) !== null) this.columns.touch(run.slot);
  }

  /**
   * Follows a change of a captured run's start.
   * @param started_ms the start before the change, in milliseconds since the epoch
   */
  move(run: ListedRun, started_ms: number): void {
    const entry = this.entryOf(run);
    if (entry === null) return;
    this.starts.remove(entry, started_ms);
    this.starts.add(entry);
  }

  /**
   * Follows a change of a captured run's trace or session.
   * @param before the ids that it had
   */
  rejoin(run: ListedRun, before: OtherIds): void {
    if (this.entryOf(run) === null) return;
    this.#unlist(run, before);
    this.#list(run);
    this.#join(run);
  }

  /** Removes captured runs that left the list. */
  remove(runs: readonly ListedRun[]): void {
    const removed = new Set<RunEntry>();
    for (const run of runs) {
      const entry = this.entryOf(run);
      if (entry === null) continue;
      removed.add(entry);
      this.#unlist(run, run.tally.summary);
      this.#entries[run.slot] = null;
      this.#empty.push(run.slot);
      run.slot = -1;
      if (entry.reported !== null) this.#count(entry.reported, -1);
    }
    this.starts.removeAll(removed);
    for (const { reported } of removed) if (reported !== null) this.#reviewLone(reported.run_id);
  }

  #make(runs: readonly ListedRun[]): void {
    this.forget();
    this.#byOtherId.clear();
    this.#joined.clear();
    this.#lone.clear();
    this.#empty = [];
    this.#entries = runs.map((run, slot) => {
      run.slot = slot;
      const reported = findReported(run, this.#said);
      if (reported !== null) this.#count(reported, 1);
      this.#list(run);
      return { listed: run, reported };
    });
    this.#isMade = true;
    for (const reported of this.#said.reported()) if (!this.#joined.has(reported)) this.#addLone(reported);
  }

  #put(entry: RunEntry): number {
    const slot = this.#empty.pop() ?? this.#entries.length;
    this.#entries[slot] = entry;
    this.columns.touch(slot);
    return slot;
  }

  /**
   * Lists a captured run under its trace, and under its session if the run has no parent. A reported run with one of
   * these ids is joined to the captured run.
   */
  #list(run: ListedRun): void {
    const { trace_id, session_id, parent_run_id } = run.tally.summary;
    for (const id of new Set([trace_id, parent_run_id === null ? session_id : null])) {
      if (id === null) continue;
      const known = this.#byOtherId.get(id);
      if (known === undefined) this.#byOtherId.set(id, [run]);
      else known.push(run);
    }
  }

  #unlist(run: ListedRun, { trace_id, session_id }: OtherIds): void {
    for (const id of [trace_id, session_id]) {
      const known = id === null ? undefined : this.#byOtherId.get(id);
      if (known === undefined) continue;
      const left = known.filter((other) => other !== run);
      if (left.length === 0) this.#byOtherId.delete(id!);
      else this.#byOtherId.set(id!, left);
    }
  }

  #count(reported: ReportedRun, more: number): void {
    const count = (this.#joined.get(reported) ?? 0) + more;
    if (count > 0) this.#joined.set(reported, count);
    else this.#joined.delete(reported);
  }

  /** Joins a captured run with the reported run that belongs to it now. */
  #join(run: ListedRun): void {
    const entry = this.#entries[run.slot]!;
    const { reported: before } = entry;
    const reported = findReported(run, this.#said);
    if (reported === before) return;
    entry.reported = reported;
    this.columns.touch(run.slot);
    if (before !== null) this.#count(before, -1);
    if (reported !== null) this.#count(reported, 1);
    for (const changed of [before, reported]) if (changed !== null) this.#reviewLone(changed.run_id);
  }

  /** Follows changed statements about the runs with an id. */
  #review(id: string): void {
    const run = this.#find(id);
    const others = this.#byOtherId.get(id) ?? NO_RUNS;
    for (const listed of run === undefined ? others : [run, ...others]) {
      if (this.entryOf(listed) === null) continue;
      this.#join(listed);
      this.columns.touch(listed.slot);
    }
    this.#reviewLone(id);
  }

  #reviewLone(id: string): void {
    const present = this.#said.allReportedOf(id).filter((reported) => !this.#joined.has(reported));
    const known = this.#lone.get(id) ?? [];
    for (const lone of known) {
      if (present.includes(lone.reported) && lone.started_ms === lone.reported.started_ms)
        this.columns.touch(lone.slot);
      else this.#removeLone(id, lone);
    }
    const left = this.#lone.get(id) ?? [];
    for (const reported of present)
      if (!left.some((lone) => lone.reported === reported)) this.#addLone(reported);
  }

  #addLone(reported: ReportedRun): void {
    const entry: RunEntry = { listed: null, reported };
    const lone: LoneRun = { slot: this.#put(entry), reported, started_ms: reported.started_ms };
    this.#lone.set(reported.run_id, [...(this.#lone.get(reported.run_id) ?? []), lone]);
    this.starts.add(entry);
  }

  #removeLone(id: string, lone: LoneRun): void {
    const left = this.#lone.get(id)!.filter((other) => other !== lone);
    if (left.length === 0) this.#lone.delete(id);
    else this.#lone.set(id, left);
    this.starts.remove(this.#entries[lone.slot]!, lone.started_ms);
    this.#entries[lone.slot] = null;
    this.#empty.push(lone.slot);
  }
}
