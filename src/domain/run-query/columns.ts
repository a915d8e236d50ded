/**
 * The values of a list's runs in columns, so that a query over 100,000 runs reads arrays of numbers instead of as many
 * objects. Columns are filled ahead, or when a query needs them. After that, only the runs that changed are read again,
 * for each column when it is needed. Runs are identified by slots, small numbers that the list assigns. Pure; capture
 * reader, command line.
 *
 * Memory: about 330 bytes for each run, and copies of the texts that `text`, `task` and `run` search. Of other names, a
 * column stores each list of names once. A field with more than LISTS_OF_NAMES different lists has a copy of each run's
 * names instead.
 */
import { MONITOR_NAMES, type MonitorName } from '../monitors/names.ts';
import { RUN_STATUSES, type RunStatus } from '../run-status-name.ts';
import { type ChoiceField, type NameField, type NumberField, QUERY_FIELDS } from './fields.ts';
import { BETWEEN_TEXTS, type LowerNames, type NameLists, type RunReader, type Verdict } from './match.ts';

/** Maximum number of different lists of names in a column. */
const LISTS_OF_NAMES = 8_192;
/** Fields in which each run has its own names. */
const OWN_NAMES: ReadonlySet<string> = new Set(['task', 'run']);
/** Maximum number of slots that are read ahead in one piece, which takes about a millisecond. */
const SLOTS_AT_ONCE = 1_024;

/** How the status of a run depends on the time. */
export interface TimedStatus {
  status: RunStatus;
  /** The status from `later_ms` on. */
  later: RunStatus;
  later_ms: number;
}

/** Reads runs for the columns. */
export interface ColumnSource<Run> {
  /** Reads the values of a run, except for the field `status`, which `statusOf` reads. */
  reader: RunReader<Run>;
  statusOf: (run: Run) => TimedStatus;
  /** The run's key in the full-text index. */
  keyOf: (run: Run) => number;
}

/** Values of one field. */
abstract class Column<Run> {
  /** The slots below this number are read, apart from changes that follow `at`. */
  filled = 0;
  /** Number of the last change that is read. */
  at = 0;
  abstract grow(size: number): void;
  abstract read(slot: number, run: Run): void;

  /** Discards the values, because the slots have other runs now. */
  clear(): void {
    this.filled = 0;
  }
}

export class RunColumns<Run> {
  readonly #runAt: (slot: number) => Run | null;
  readonly #numbers = new Map<string, NumberColumn<Run>>();
  readonly #names = new Map<string, NameColumn<Run> | OwnNameColumn<Run>>();
  readonly #choices = new Map<string, ChoiceColumn<Run>>();
  readonly #status: StatusColumn<Run>;
  readonly #texts: TextColumn<Run>;
  /** Number of changes so far, and for each slot the number of its last change. */
  #changes = 0;
  #changedAt = new Float64Array(0);
  #size = 0;

  /** @param runAt the run in a slot; null for an empty slot */
  constructor({ reader, statusOf, keyOf }: ColumnSource<Run>, runAt: (slot: number) => Run | null) {
    this.#runAt = runAt;
    const { text = () => [], ...names } = reader.names;
    this.#texts = new TextColumn((run) => text(run) ?? []);
    this.#status = new StatusColumn(statusOf);
    for (const [field, read] of Object.entries(names))
      this.#names.set(field, OWN_NAMES.has(field) ? new OwnNameColumn(read) : new NameColumn(read));
    const { started, finished, failed = () => null, numbers, isTextRead, monitors } = reader;
    const all: Record<string, (run: Run) => number | null> = {
      ...numbers,
      started,
      finished,
      failed,
      'run key': keyOf,
    };
    if (isTextRead !== undefined) all['is text read'] = (run) => (isTextRead(run) ? 1 : 0);
    if (monitors !== undefined)
      for (const name of MONITOR_NAMES) all[`monitor ${name}`] = (run) => monitors(run, name);
    for (const [name, read] of Object.entries(all)) this.#numbers.set(name, new NumberColumn(read));
    for (const [field, test] of Object.entries(reader.choices))
      if (field !== 'status')
        this.#choices.set(field, new ChoiceColumn(QUERY_FIELDS.get(field)!.values, test));
  }

  /** Discards the values, because the slots have other runs now. */
  clear(): void {
    for (const column of this.#columns()) column.clear();
  }

  /** Notes that the run in a slot is new or has changed. */
  touch(slot: number): void {
    this.#changedAt = grown(this.#changedAt, slot + 1);
    this.#changedAt[slot] = ++this.#changes;
  }

  /**
   * Sets the number of slots.
   * @param size one more than the last slot
   */
  follow(size: number): void {
    this.#size = size;
  }

  /**
   * Reads ahead what a query may need, up to the last slot, while there is time.
   * @returns true: another call may have more to read; false: nothing is left to read
   */
  prepare(hasTime: () => boolean): boolean {
    for (const column of this.#columns())
      while (column.filled < this.#size || column.at !== this.#changes) {
        if (!hasTime()) return true;
        this.#update(column, SLOTS_AT_ONCE);
        if (column instanceof NameColumn && column.isTooLong) break;
      }
    for (const field of this.#names.keys()) if (this.#limitNames(field)) return true;
    return false;
  }

  /**
   * Makes a reader of the runs in slots, without `findText`. The reader is valid until {@link touch} or {@link clear}.
   * @param direct reads what the columns do not provide: single names, and `someText`
   * @param nowMs the time for which statuses are computed, in milliseconds since the epoch
   */
  reader(direct: RunReader<Run>, nowMs: number): RunReader<number> {
    const at = (slot: number): Run => this.#runAt(slot)!;
    const { someText, isTextRead } = direct;
    let texts: readonly string[] | null = null;
    return {
      names: this.#readNames(direct),
      numbers: this.#readNumbers(direct),
      started: this.number('started', (value) => value),
      finished: this.number('finished', toNull),
      failed: this.number('failed', toNull),
      choices: {},
      testChoices: (field, values) => this.#testChoices(field, values, nowMs),
      nameLists: (field) => this.#nameLists(field),
      lowerNames: (field) => this.#lowerNames(field),
      monitors: this.#readMonitors(),
      textOf: (slot) => {
        texts ??= this.#update(this.#texts).texts;
        return texts[slot]!;
      },
      ...(someText === undefined
        ? {}
        : { someText: (slot, matches, matchesShared) => someText(at(slot), matches, matchesShared) }),
      ...(isTextRead === undefined
        ? {}
        : { isTextRead: this.number('is text read', (value) => value === 1) }),
    };
  }

  #readNames(direct: RunReader<Run>): RunReader<number>['names'] {
    const names: RunReader<number>['names'] = {};
    for (const [field, read] of Object.entries(direct.names))
      names[field as NameField] = (slot) => read(this.#runAt(slot)!);
    return names;
  }

  #readNumbers(direct: RunReader<Run>): RunReader<number>['numbers'] {
    const numbers: RunReader<number>['numbers'] = {};
    for (const field of Object.keys(direct.numbers))
      numbers[field as NumberField] = this.number(field, toNull);
    return numbers;
  }

  /**
   * Makes a function that reads one number of a run.
   * @param name the column: a number field, `started`, `finished`, `failed`, `run key`, `is text read`, or `monitor` and its name
   * @param convert receives NaN for a missing number
   */
  number<Value>(name: string, convert: (value: number) => Value): (slot: number) => Value {
    let values: Float64Array | null = null;
    return (slot) => {
      values ??= this.#update(this.#numbers.get(name)!).values;
      return convert(values[slot]!);
    };
  }

  #readMonitors(): (slot: number, monitor: MonitorName) => number {
    const readers = new Map<MonitorName, (slot: number) => number>();
    return (slot, monitor) => {
      let read = readers.get(monitor);
      if (read === undefined) {
        read = this.number(`monitor ${monitor}`, (value) => value);
        readers.set(monitor, read);
      }
      return read(slot);
    };
  }

  #nameLists(field: NameField): NameLists<number> | null {
    const column = this.#namesOf(field);
    if (!(column instanceof NameColumn)) return null;
    const { ids, lists } = column;
    return { idOf: (slot) => ids[slot]!, lists };
  }

  #lowerNames(field: NameField): ((slot: number) => LowerNames) | null {
    const column = this.#namesOf(field);
    if (!(column instanceof OwnNameColumn)) return null;
    const { names } = column;
    return (slot) => names[slot]!;
  }

  #namesOf(field: NameField): NameColumn<Run> | OwnNameColumn<Run> | null {
    const column = this.#names.get(field);
    if (column === undefined) return null;
    this.#update(column);
    return this.#limitNames(field) ? this.#namesOf(field) : column;
  }

  /**
   * Clears a column with too many lists if most of them are former lists of runs that have changed; otherwise replaces
   * the column.
   * @returns whether the column must be filled again
   */
  #limitNames(field: string): boolean {
    const column = this.#names.get(field)!;
    if (!(column instanceof NameColumn) || !column.isTooLong) return false;
    if (column.countUsed() < LISTS_OF_NAMES / 2) column.clear();
    else this.#names.set(field, new OwnNameColumn(column.readNames));
    return true;
  }

  #testChoices(
    field: ChoiceField,
    values: readonly string[],
    nowMs: number,
  ): ((slot: number) => Verdict) | null {
    if (field === 'status') return this.#update(this.#status).test(values, nowMs);
    const column = this.#choices.get(field);
    return column === undefined ? null : this.#update(column).test(values);
  }

  /**
   * Reads the runs of a column that changed, and those that were not read yet.
   * @param limit maximum number of runs that are read for the first time
   */
  #update<Made extends Column<Run>>(column: Made, limit: number = Number.POSITIVE_INFINITY): Made {
    if (column.at !== this.#changes) {
      const changed = Math.min(column.filled, this.#changedAt.length);
      for (let slot = 0; slot < changed; slot++)
        if (this.#changedAt[slot]! > column.at) this.#read(column, slot);
    }
    column.at = this.#changes;
    column.grow(this.#size);
    const end = Math.min(this.#size, column.filled + limit);
    for (; column.filled < end; column.filled++) this.#read(column, column.filled);
    return column;
  }

  #read(column: Column<Run>, slot: number): void {
    const run = this.#runAt(slot);
    if (run !== null) column.read(slot, run);
  }

  *#columns(): Generator<Column<Run>> {
    yield* this.#numbers.values();
    yield* this.#names.values();
    yield* this.#choices.values();
    yield this.#status;
    yield this.#texts;
  }
}

/** Converts NaN, which stands for a missing number, to null. */
function toNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}

type Numbers = Float64Array | Uint32Array;

/** Returns an array of at least `size` numbers with the same content: the array itself, or a longer copy. */
function grown<Values extends Numbers>(values: Values, size: number): Values {
  if (values.length >= size) return values;
  const make = values.constructor as new (length: number) => Values;
  const longer = new make(Math.max(size, values.length * 2, 1_024));
  longer.set(values);
  return longer;
}

class NumberColumn<Run> extends Column<Run> {
  readonly #read: (run: Run) => number | null;
  values: Float64Array = new Float64Array(0);

  constructor(read: (run: Run) => number | null) {
    super();
    this.#read = read;
  }

  grow(size: number): void {
    this.values = grown(this.values, size);
  }

  read(slot: number, run: Run): void {
    this.values[slot] = this.#read(run) ?? Number.NaN;
  }
}

/** Names that runs share. */
class NameColumn<Run> extends Column<Run> {
  readonly readNames: (run: Run) => readonly string[] | null;
  readonly #known = new Map<string, number>();
  lists: (readonly string[] | null)[] = [null];
  ids: Uint32Array = new Uint32Array(0);

  constructor(read: (run: Run) => readonly string[] | null) {
    super();
    this.readNames = read;
  }

  get isTooLong(): boolean {
    return this.lists.length > LISTS_OF_NAMES;
  }

  /** Counts the lists that at least one run has now. */
  countUsed(): number {
    return new Set(this.ids).size;
  }

  override clear(): void {
    super.clear();
    this.#known.clear();
    this.lists = [null];
  }

  grow(size: number): void {
    this.ids = grown(this.ids, size);
  }

  read(slot: number, run: Run): void {
    if (this.isTooLong) return;
    const names = this.readNames(run);
    this.ids[slot] = names === null ? 0 : this.#idOf(names);
  }

  #idOf(names: readonly string[]): number {
    const key = names.length === 1 ? `1${names[0]}` : `2${JSON.stringify(names)}`;
    let id = this.#known.get(key);
    if (id === undefined) {
      id = this.lists.push(names) - 1;
      this.#known.set(key, id);
    }
    return id;
  }
}

/** Names that differ from run to run, in lower case. */
class OwnNameColumn<Run> extends Column<Run> {
  readonly #read: (run: Run) => readonly string[] | null;
  readonly names: LowerNames[] = [];

  constructor(read: (run: Run) => readonly string[] | null) {
    super();
    this.#read = read;
  }

  grow(): void {}

  read(slot: number, run: Run): void {
    const names = this.#read(run);
    if (names === null) this.names[slot] = null;
    else if (names.length === 1) this.names[slot] = names[0]!.toLowerCase();
    else this.names[slot] = names.length === 0 ? NO_NAMES : names.map((name) => name.toLowerCase());
  }
}

const NO_NAMES: readonly string[] = [];

/** All texts of a run that a query searches, in lower case, one after another. */
class TextColumn<Run> extends Column<Run> {
  readonly #read: (run: Run) => readonly string[];
  readonly texts: string[] = [];

  constructor(read: (run: Run) => readonly string[]) {
    super();
    this.#read = read;
  }

  grow(): void {}

  read(slot: number, run: Run): void {
    this.texts[slot] = this.#read(run).join(BETWEEN_TEXTS).toLowerCase();
  }
}

/** For each run: a bit for each value that it has, and a bit for each value that it may have. */
class ChoiceColumn<Run> extends Column<Run> {
  readonly #values: readonly string[];
  readonly #test: (run: Run, value: string) => Verdict;
  #has: Uint32Array = new Uint32Array(0);
  #mayHave: Uint32Array = new Uint32Array(0);

  constructor(values: readonly string[], test: (run: Run, value: string) => Verdict) {
    super();
    this.#values = values;
    this.#test = test;
  }

  grow(size: number): void {
    this.#has = grown(this.#has, size);
    this.#mayHave = grown(this.#mayHave, size);
  }

  read(slot: number, run: Run): void {
    let has = 0;
    let mayHave = 0;
    for (let at = 0; at < this.#values.length; at++) {
      const verdict = this.#test(run, this.#values[at]!);
      if (verdict === true) has |= 1 << at;
      else if (verdict === null) mayHave |= 1 << at;
    }
    this.#has[slot] = has;
    this.#mayHave[slot] = mayHave;
  }

  test(values: readonly string[]): (slot: number) => Verdict {
    const mask = maskOf(values, this.#values);
    const [has, mayHave] = [this.#has, this.#mayHave];
    return (slot) => {
      if ((has[slot]! & mask) !== 0) return true;
      return (mayHave[slot]! & mask) === 0 ? false : null;
    };
  }
}

/** The status now and later as bits, and the time of the change. */
class StatusColumn<Run> extends Column<Run> {
  readonly #read: (run: Run) => TimedStatus;
  #now: Uint32Array = new Uint32Array(0);
  #later: Uint32Array = new Uint32Array(0);
  #laterMs: Float64Array = new Float64Array(0);

  constructor(read: (run: Run) => TimedStatus) {
    super();
    this.#read = read;
  }

  grow(size: number): void {
    this.#now = grown(this.#now, size);
    this.#later = grown(this.#later, size);
    this.#laterMs = grown(this.#laterMs, size);
  }

  read(slot: number, run: Run): void {
    const { status, later, later_ms } = this.#read(run);
    this.#now[slot] = 1 << RUN_STATUSES.indexOf(status);
    this.#later[slot] = 1 << RUN_STATUSES.indexOf(later);
    this.#laterMs[slot] = later_ms;
  }

  test(values: readonly string[], nowMs: number): (slot: number) => Verdict {
    const mask = maskOf(values, RUN_STATUSES);
    const [now, later, laterMs] = [this.#now, this.#later, this.#laterMs];
    return (slot) => ((nowMs < laterMs[slot]! ? now[slot]! : later[slot]!) & mask) !== 0;
  }
}

function maskOf(values: readonly string[], known: readonly string[]): number {
  let mask = 0;
  for (const value of values) {
    const at = known.indexOf(value);
    if (at >= 0) mask |= 1 << at;
  }
  return mask;
}
