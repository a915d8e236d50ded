/**
 * The reported runs of one organization in memory, so that a query over all of them reads no database. Each call of
 * `follow` reads new runs, and rereads some of the running and ended ones, because runs change and can be deleted.
 * Server threads, capture reader.
 * Bound: `max` runs, or fewer if `follow` says so, the newest; about 400 bytes each. While `follow` reads, ROWS_AT_ONCE
 * more.
 */
import { type ReportedRun, toReportedRun } from './reported-run.ts';
import { placeOfKey, RUN_LISTS, type RunListRow, runListPrefix } from './run-list.ts';
import { RUN_STARTS, RUNS, type RunRow, type RunStartRow, runKey } from './run-rows.ts';

/** The methods for reading tables: a part of the storage's interface. */
interface RowReader {
  get<Value>(table: string, row: readonly (string | number)[]): Value | undefined;
  range<Value>(
    table: string,
    range: { prefix: readonly string[]; after?: readonly (string | number)[]; reverse?: boolean },
  ): Iterable<ReadRow<Value>>;
}

interface ReadRow<Value> {
  row: (string | number)[];
  value: Value;
}

/** Tables that can be read as of one moment. */
interface RowSnapshots {
  snapshot<Value>(tables: readonly string[], work: (reader: RowReader) => Value): Value;
}

/** Number of rows that are read between two checks of the time, about a millisecond. */
const ROWS_AT_ONCE = 200;
/** A run is found even if it is listed up to this much later than a run that began after it. */
const LATE_MS = 5_000;
/** Like LATE_MS, but for runs that several boxes list, whose clocks differ by at most a minute. */
export const LATE_AMONG_BOXES_MS = 65_000;
/** Maximum numbers of running runs and of ended runs that each call rereads. */
const LOOKED_AT = { going_on: 500, ended: 100 } as const;
/** Maximum number of names that runs share. */
const SHARED_NAMES = 10_000;

export class ReportedRuns {
  readonly #tables: RowSnapshots;
  readonly org_id: string;
  readonly #max: number;
  /** The bound of the last call of `follow`. */
  #bound: number;
  readonly #lateMs: number;
  readonly #runs = new Map<string, ReportedRun>();
  /** Ids of running runs. */
  readonly #goingOn = new Set<string>();
  /** Ids of the runs, in the order of rereading. */
  #again: IterableIterator<string> | null = null;
  /** Start of the newest run that was read; null: none was read. */
  #newestMs: number | null = null;
  /** The place at which reading newer runs stopped for lack of time; null: it did not stop. */
  #newerThan: (string | number)[] | null = null;
  /** The last key read on the way to the oldest run; null when all are read. */
  #olderThan: (string | number)[] | null = [];
  /** Whether there are older runs beyond the bound. */
  #hasLeftOut = false;
  readonly #names = new Map<string, string>();

  readonly #onChange: (runId: string) => void;

  /**
   * @param onChange called when a run is added, changes or is removed
   * @param lateMs a run may be listed up to this much later than another run that began later
   */
  constructor(
    tables: RowSnapshots,
    org_id: string,
    max: number,
    onChange: (runId: string) => void = () => {},
    lateMs: number = LATE_MS,
  ) {
    this.#lateMs = lateMs;
    this.#onChange = onChange;
    this.#tables = tables;
    this.org_id = org_id;
    this.#max = max;
    this.#bound = max;
  }

  get size(): number {
    return this.#runs.size;
  }

  /** Whether every run of the organization is in memory. */
  get is_whole(): boolean {
    return this.#olderThan === null && this.#newerThan === null && !this.#hasLeftOut;
  }

  /** Returns a run; undefined if it is not in memory. When the run changes, the returned object changes with it. */
  get(runId: string): ReportedRun | undefined {
    return this.#runs.get(runId);
  }

  /** Returns the runs in no particular order. */
  values(): IterableIterator<ReportedRun> {
    return this.#runs.values();
  }

  /**
   * Reads new runs, and older runs while there is time. It reads at least a few older runs, because on a slow machine
   * the other reads may take all the time.
   * @param most how many runs may now be in memory, if fewer than `max`
   * @returns whether there is more to read
   */
  follow(hasTime: () => boolean, most = this.#max): boolean {
    this.#bound = Math.max(0, Math.min(most, this.#max));
    this.#dropOldest();
    if (this.#bound === 0) return false;
    this.#lookAgain();
    this.#readNew(hasTime);
    do {
      if (this.#olderThan !== null) this.#readOlder();
    } while (this.#olderThan !== null && hasTime());
    this.#dropOldest();
    return this.#olderThan !== null || this.#newerThan !== null;
  }

  #snapshot<Value>(work: (reader: RowReader) => Value): Value {
    return this.#tables.snapshot([RUN_LISTS, RUNS, RUN_STARTS], work);
  }

  #readNew(hasTime: () => boolean): void {
    if (this.#newestMs === null) return;
    const prefix = runListPrefix(this.org_id, null);
    let place: (string | number)[] | null = this.#newerThan ?? [this.#newestMs - this.#lateMs];
    do {
      const after: (string | number)[] = [...prefix, ...place];
      place = this.#snapshot((reader) => {
        let left = ROWS_AT_ONCE;
        for (const row of reader.range<RunListRow>(RUN_LISTS, { prefix, after })) {
          const { run_id, started_at_ms } = placeOfKey(row.row);
          if (this.#runs.get(run_id)?.started_ms !== started_at_ms) this.#add(reader, row);
          if (--left === 0) return row.row.slice(prefix.length);
        }
        return null;
      });
    } while (place !== null && hasTime());
    this.#newerThan = place;
  }

  #readOlder(): void {
    const prefix = runListPrefix(this.org_id, null);
    const before = this.#olderThan!;
    this.#snapshot((reader) => {
      const place = before.length === 0 ? {} : { after: [...prefix, ...before] };
      let read = 0;
      for (const row of reader.range<RunListRow>(RUN_LISTS, { prefix, reverse: true, ...place })) {
        this.#olderThan = row.row.slice(prefix.length);
        this.#add(reader, row);
        if (++read === ROWS_AT_ONCE) return;
      }
      this.#olderThan = null;
    });
    // A list that was empty is read from its beginning.
    this.#newestMs ??= 0;
    if (this.#olderThan === null || this.#runs.size < this.#bound) return;
    this.#olderThan = null;
    this.#hasLeftOut = true;
  }

  #add(reader: RowReader, { row, value }: ReadRow<RunListRow>): void {
    const { run_id, started_at_ms } = placeOfKey(row);
    this.#newestMs = Math.max(this.#newestMs ?? 0, started_at_ms);
    this.#take(reader, run_id, value.project_id);
  }

  #take(reader: RowReader, run_id: string, project_id: string): void {
    const key = runKey({ org_id: this.org_id, project_id, run_id });
    const row = reader.get<RunRow>(RUNS, key);
    if (row === undefined) {
      this.#remove(run_id);
      return;
    }
    const start = reader.get<RunStartRow>(RUN_STARTS, [this.org_id, run_id]);
    const run = toReportedRun(row, start, (name) => this.#share(name));
    const known = this.#runs.get(run_id);
    if (known === undefined) this.#runs.set(run_id, run);
    if (known === undefined || !areSame(known, run)) this.#onChange(run_id);
    if (known !== undefined) Object.assign(known, run);
    if (row.status === 'running') this.#goingOn.add(run_id);
    else this.#goingOn.delete(run_id);
  }

  #renew(reader: RowReader, run_id: string): void {
    const known = this.#runs.get(run_id);
    if (known !== undefined) this.#take(reader, run_id, known.project_id);
  }

  #lookAgain(): void {
    if (this.#runs.size === 0) return;
    this.#snapshot((reader) => {
      let left = Math.min(LOOKED_AT.going_on, this.#goingOn.size);
      for (const run_id of this.#goingOn) {
        if (left-- === 0) break;
        // Moves the run to the end, so that each run gets its turn.
        this.#goingOn.delete(run_id);
        this.#renew(reader, run_id);
      }
      for (left = LOOKED_AT.ended; left > 0; left--) {
        this.#again ??= this.#runs.keys();
        const next = this.#again.next();
        if (next.done === true) {
          this.#again = null;
          return;
        }
        if (!this.#goingOn.has(next.value)) this.#renew(reader, next.value);
      }
    });
  }

  #dropOldest(): void {
    if (this.#runs.size <= this.#bound) return;
    this.#hasLeftOut = true;
    const oldest = [...this.#runs.values()].sort((a, b) => a.started_ms - b.started_ms);
    // Removes several runs at once, so that the cost per run is small.
    for (const { run_id } of oldest.slice(0, this.#runs.size - this.#bound + Math.ceil(this.#bound / 64))) {
      this.#remove(run_id);
    }
  }

  #remove(run_id: string): void {
    if (this.#runs.delete(run_id)) this.#onChange(run_id);
    this.#goingOn.delete(run_id);
  }

  #share(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    if (this.#names.size < SHARED_NAMES) this.#names.set(name, name);
    return name;
  }
}

function areSame(run: ReportedRun, other: ReportedRun): boolean {
  for (const name of Object.keys(other) as (keyof ReportedRun)[])
    if (name !== 'fired' && run[name] !== other[name]) return false;
  return run.fired.every((count, at) => count === other.fired[at]);
}
