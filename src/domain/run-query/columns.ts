/**
 * The values of a list's runs in columns, so that a query over 100,000 runs reads arrays of numbers instead of as many
 * objects. A column is filled when a query first needs it. After that, only the runs that changed are read again. Runs
 * are identified by slots, small numbers that the list assigns. Pure; capture reader, command line.
 *
 * Memory: at most 8 bytes for each run and column, and a copy of the texts that `text` searches. Of names, a column stores each list of names once. A column with
 * more than LISTS_OF_NAMES different lists is dropped, and then that field is read from the runs themselves.
 */
import type { MonitorName } from '../monitors/names.ts';
import { RUN_STATUSES, type RunStatus } from '../run-status-name.ts';
import { type ChoiceField, type NameField, type NumberField, QUERY_FIELDS } from './fields.ts';
import { BETWEEN_TEXTS, type NameLists, type RunReader, type Verdict } from './match.ts';

/** Maximum number of different lists of names in a column. */
const LISTS_OF_NAMES = 8_192;
/** Name fields without a column, because each run has its own value. */
const NOT_IN_COLUMNS: ReadonlySet<NameField> = new Set(['text', 'task', 'run']);

/** How the status of a run depends on the time. */
export interface TimedStatus {
  status: RunStatus;
  /** The status from `later_ms` on. */
  later: RunStatus;
  later_ms: number;
}

/** Reads runs for the columns. */
export interface ColumnSource<Run> {
  /** Its `choices` are read for all fields except `status`. */
  reader: RunReader<Run>;
  statusOf: (run: Run) => TimedStatus;
}

/** Values of one field. */
interface Column<Run> {
  grow(size: number): void;
  read(slot: number, run: Run): void;
}

export class RunColumns<Run> {
  readonly #source: ColumnSource<Run>;
  readonly #runAt: (slot: number) => Run | null;
  readonly #numbers = new Map<string, NumberColumn<Run>>();
  /** null: the column was dropped. */
  readonly #names = new Map<NameField, NameColumn<Run> | null>();
  readonly #choices = new Map<ChoiceField, ChoiceColumn<Run>>();
  #status: StatusColumn<Run> | null = null;
  #texts: TextColumn<Run> | null = null;
  /** Slots whose runs changed since their values were read. */
  readonly #changed = new Set<number>();
  #size = 0;

  /** @param runAt the run in a slot; null for an empty slot */
  constructor(source: ColumnSource<Run>, runAt: (slot: number) => Run | null) {
    this.#source = source;
    this.#runAt = runAt;
  }

  /** The slots have other runs now. */
  clear(): void {
    for (const columns of [this.#numbers, this.#names, this.#choices]) columns.clear();
    this.#status = null;
    this.#texts = null;
    this.#changed.clear();
  }

  /** The run in a slot is new or has changed. */
  touch(slot: number): void {
    this.#changed.add(slot);
  }

  /**
   * Reads the runs that changed.
   * @param size all slots are below it
   */
  follow(size: number): void {
    this.#size = size;
    if (this.#changed.size === 0) return;
    for (const column of this.#columns()) column.grow(size);
    for (const slot of this.#changed) {
      const run = this.#runAt(slot);
      if (run !== null) for (const column of this.#columns()) column.read(slot, run);
    }
    this.#changed.clear();
    for (const [field, column] of this.#names) if (column?.isTooLong) this.#names.set(field, null);
  }

  /**
   * Reads the runs in slots, without `findText`. It is valid until {@link touch} or {@link clear}.
   * @param direct reads the fields without a column
   */
  reader(direct: RunReader<Run>, nowMs: number): RunReader<number> {
    const at = (slot: number): Run => this.#runAt(slot)!;
    const { someText, isTextRead } = direct;
    return {
      names: this.#readNames(direct),
      numbers: this.#readNumbers(direct),
      started: this.number('started', direct.started, (value) => value),
      finished: this.number('finished', direct.finished, toNull),
      choices: {},
      testChoices: (field, values) => this.#testChoices(field, values, nowMs),
      nameLists: (field) => this.#nameLists(field),
      monitors: this.#readMonitors(),
      textOf: (slot) => this.#textColumn().texts[slot]!,
      ...(someText === undefined
        ? {}
        : { someText: (slot, matches, matchesShared) => someText(at(slot), matches, matchesShared) }),
      ...(isTextRead === undefined
        ? {}
        : {
            isTextRead: this.number(
              'is text read',
              (run) => (isTextRead(run) ? 1 : 0),
              (value) => value === 1,
            ),
          }),
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
    for (const [field, read] of Object.entries(direct.numbers))
      numbers[field as NumberField] = this.number(field, read, toNull);
    return numbers;
  }

  /** A number of each run. The column is made when its first number is read. */
  number<Value>(
    name: string,
    read: (run: Run) => number | null,
    convert: (value: number) => Value,
  ): (slot: number) => Value {
    let values: Float64Array | null = null;
    return (slot) => {
      values ??= this.#number(name, read).values;
      return convert(values[slot]!);
    };
  }

  #number(name: string, read: (run: Run) => number | null): NumberColumn<Run> {
    return this.#columnOf(this.#numbers, name, () => new NumberColumn(read));
  }

  #readMonitors(): (slot: number, monitor: MonitorName) => number {
    const count = this.#source.reader.monitors;
    const columns = new Map<MonitorName, Float64Array>();
    return (slot, monitor) => {
      let values = columns.get(monitor);
      if (values === undefined) {
        values = this.#number(`monitor ${monitor}`, (run) => count?.(run, monitor) ?? 0).values;
        columns.set(monitor, values);
      }
      return values[slot]!;
    };
  }

  #textColumn(): TextColumn<Run> {
    const read = this.#source.reader.names.text;
    this.#texts ??= this.#fill(new TextColumn((run) => read?.(run) ?? []));
    return this.#texts;
  }

  #nameLists(field: NameField): NameLists<number> | null {
    const read = this.#source.reader.names[field];
    if (read === undefined || NOT_IN_COLUMNS.has(field)) return null;
    if (this.#names.get(field) === null) return null;
    const columns = this.#names as Map<NameField, NameColumn<Run>>;
    const column = this.#columnOf(columns, field, () => new NameColumn(read));
    if (column.isTooLong) {
      this.#names.set(field, null);
      return null;
    }
    const { ids, lists } = column;
    return { idOf: (slot) => ids[slot]!, lists };
  }

  #testChoices(
    field: ChoiceField,
    values: readonly string[],
    nowMs: number,
  ): ((slot: number) => Verdict) | null {
    if (field === 'status') {
      this.#status ??= this.#fill(new StatusColumn(this.#source.statusOf));
      return this.#status.test(values, nowMs);
    }
    const test = this.#source.reader.choices[field];
    if (test === undefined) return null;
    const known = QUERY_FIELDS.get(field)!.values;
    return this.#columnOf(this.#choices, field, () => new ChoiceColumn(known, test)).test(values);
  }

  #columnOf<Name, Made extends Column<Run>>(columns: Map<Name, Made>, name: Name, make: () => Made): Made {
    let column = columns.get(name);
    if (column === undefined) {
      column = this.#fill(make());
      columns.set(name, column);
    }
    return column;
  }

  #fill<Made extends Column<Run>>(column: Made): Made {
    column.grow(this.#size);
    for (let slot = 0; slot < this.#size; slot++) {
      const run = this.#runAt(slot);
      if (run !== null) column.read(slot, run);
    }
    return column;
  }

  *#columns(): Generator<Column<Run>> {
    yield* this.#numbers.values();
    for (const column of this.#names.values()) if (column !== null) yield column;
    yield* this.#choices.values();
    if (this.#status !== null) yield this.#status;
    if (this.#texts !== null) yield this.#texts;
  }
}

/** NaN stands for a missing number. */
function toNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}

type Numbers = Float64Array | Uint32Array;

/** An array of at least `size` numbers with the same content. */
function grown<Values extends Numbers>(values: Values, size: number): Values {
  if (values.length >= size) return values;
  const make = values.constructor as new (length: number) => Values;
  const longer = new make(Math.max(size, values.length * 2, 1_024));
  longer.set(values);
  return longer;
}

class NumberColumn<Run> implements Column<Run> {
  readonly #read: (run: Run) => number | null;
  values: Float64Array = new Float64Array(0);

  constructor(read: (run: Run) => number | null) {
    this.#read = read;
  }

  grow(size: number): void {
    this.values = grown(this.values, size);
  }

  read(slot: number, run: Run): void {
    this.values[slot] = this.#read(run) ?? Number.NaN;
  }
}

class NameColumn<Run> implements Column<Run> {
  readonly #read: (run: Run) => readonly string[] | null;
  readonly #known = new Map<string, number>();
  readonly lists: (readonly string[] | null)[] = [null];
  ids: Uint32Array = new Uint32Array(0);

  constructor(read: (run: Run) => readonly string[] | null) {
    this.#read = read;
  }

  get isTooLong(): boolean {
    return this.lists.length > LISTS_OF_NAMES;
  }

  grow(size: number): void {
    this.ids = grown(this.ids, size);
  }

  read(slot: number, run: Run): void {
    if (this.isTooLong) return;
    const names = this.#read(run);
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

/** All texts of a run that a query searches, in lower case, one after another. */
class TextColumn<Run> implements Column<Run> {
  readonly #read: (run: Run) => readonly string[];
  readonly texts: string[] = [];

  constructor(read: (run: Run) => readonly string[]) {
    this.#read = read;
  }

  grow(): void {}

  read(slot: number, run: Run): void {
    this.texts[slot] = this.#read(run).join(BETWEEN_TEXTS).toLowerCase();
  }
}

/** A bit for each value that a run has, and one for each of which that is unknown. */
class ChoiceColumn<Run> implements Column<Run> {
  readonly #values: readonly string[];
  readonly #test: (run: Run, value: string) => Verdict;
  #has: Uint32Array = new Uint32Array(0);
  #mayHave: Uint32Array = new Uint32Array(0);

  constructor(values: readonly string[], test: (run: Run, value: string) => Verdict) {
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
class StatusColumn<Run> implements Column<Run> {
  readonly #read: (run: Run) => TimedStatus;
  #now: Uint32Array = new Uint32Array(0);
  #later: Uint32Array = new Uint32Array(0);
  #laterMs: Float64Array = new Float64Array(0);

  constructor(read: (run: Run) => TimedStatus) {
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
