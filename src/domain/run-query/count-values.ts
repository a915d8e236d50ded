/**
 * Counts the values that the runs of a list have in a field, to complete a query: each value with the number of its
 * runs, the most frequent first. Pure; any thread.
 *
 * Bound: COUNTED_VALUES different values; further values do not count, and the answer then says that it is incomplete.
 */
import { MONITOR_NAMES } from '../monitors/names.ts';
import { type ChoiceField, type NameField, QUERY_FIELDS } from './fields.ts';
import type { NameLists, RunReader } from './match.ts';

/** Maximum number of different values of one count. */
const COUNTED_VALUES = 10_000;
/** Longer values are left out, as they would not fit into a query. */
const VALUE_CHARACTERS = 500;
/** Fields with another value in each run: completing them is of no use. */
const NOT_COUNTED: ReadonlySet<string> = new Set(['text', 'task', 'run']);

/** Fields whose values can be counted. */
export const VALUE_FIELDS = [...QUERY_FIELDS]
  .filter(([name, { kind }]) => ['name', 'choice', 'monitor'].includes(kind) && !NOT_COUNTED.has(name))
  .map(([name]) => name) as readonly string[] as readonly [string, ...string[]];

export interface CountedValue {
  value: string;
  /** Runs that have this value. */
  runs: number;
}

export interface CountedValues {
  /** The most frequent first. */
  values: CountedValue[];
  /** false: there are more values, or runs that were not examined. */
  is_whole: boolean;
}

/**
 * Counts the values of a field.
 * @param contains only values that contain this text, whatever its case; '': all
 */
export class ValueCounter<Run> {
  readonly #read: (run: Run) => readonly string[];
  /** Lists of names that runs share, and how many runs have each; null: values are read from each run. */
  readonly #lists: NameLists<Run> | null;
  readonly #ofList: Uint32Array;
  readonly #contains: string;
  readonly #counts = new Map<string, number>();
  #isWhole = true;

  constructor(field: string, contains: string, reader: RunReader<Run>) {
    this.#read = readerOf(field, reader);
    this.#lists = reader.nameLists?.(field as NameField) ?? null;
    this.#ofList = new Uint32Array(this.#lists?.lists.length ?? 0);
    this.#contains = contains.toLowerCase();
  }

  add(run: Run): void {
    if (this.#lists === null) this.#count(this.#read(run), 1);
    else this.#ofList[this.#lists.idOf(run)]! += 1;
  }

  #count(values: readonly string[], runs: number): void {
    for (const value of values) {
      const count = this.#counts.get(value);
      if (count !== undefined) this.#counts.set(value, count + runs);
      else if (this.#fits(value)) {
        if (this.#counts.size < COUNTED_VALUES) this.#counts.set(value, runs);
        else this.#isWhole = false;
      }
    }
  }

  /** Returns the most frequent values. Call it once, after all runs were added. */
  most(limit: number): CountedValues {
    this.#ofList.forEach((runs, id) => {
      const names = this.#lists!.lists[id] ?? NOTHING;
      if (runs > 0) this.#count(withoutRepeats(names), runs);
    });
    const values = [...this.#counts].map(([value, runs]) => ({ value, runs }));
    values.sort((a, b) => b.runs - a.runs || (a.value < b.value ? -1 : 1));
    return { values: values.slice(0, limit), is_whole: this.#isWhole && values.length <= limit };
  }

  #fits(value: string): boolean {
    return (
      value !== '' &&
      value.length <= VALUE_CHARACTERS &&
      (this.#contains === '' || value.toLowerCase().includes(this.#contains))
    );
  }
}

const NOTHING: readonly string[] = [];

function withoutRepeats(names: readonly string[]): readonly string[] {
  return names.length < 2 ? names : [...new Set(names)];
}

/** Makes a function that reads a run's values of a field: none if the runs of the list lack the field. */
function readerOf<Run>(field: string, reader: RunReader<Run>): (run: Run) => readonly string[] {
  const { kind, values = NOTHING } = QUERY_FIELDS.get(field) ?? {};
  if (kind === 'name') {
    const read = reader.names[field as NameField];
    if (read === undefined) return () => NOTHING;
    return (run) => withoutRepeats(read(run) ?? NOTHING);
  }
  if (kind === 'choice' && reader.testChoices !== undefined) {
    const tests = values.map((value) => ({
      value,
      test: reader.testChoices!(field as ChoiceField, [value]),
    }));
    return (run) => tests.filter(({ test }) => test?.(run) === true).map(({ value }) => value);
  }
  if (kind === 'choice') {
    const test = reader.choices[field as ChoiceField];
    return test === undefined ? () => NOTHING : (run) => values.filter((value) => test(run, value) === true);
  }
  const { monitors } = reader;
  if (kind !== 'monitor' || monitors === undefined) return () => NOTHING;
  return (run) => MONITOR_NAMES.filter((name) => monitors(run, name) > 0);
}
