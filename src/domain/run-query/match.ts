/**
 * Tests runs with a query, and orders the runs. A list provides access to the values of its runs (`RunReader`);
 * the language decides what matches. Pure; any thread.
 *
 * A test has three results: true, false, and null if a needed value, such as a run's first words, is not read
 * yet.
 */
import type { MonitorName } from '../monitors/names.ts';
import type { ChoiceField, NameField, NumberField, QueryField, SortField, TimeField } from './fields.ts';
import {
  type NameValue,
  NEWEST_FIRST,
  type NumberRange,
  type RunQuery,
  type SortOrder,
  type Term,
} from './run-query.ts';
import { placeRange } from './values.ts';

/** Whether a run matches; null: unknown yet. */
export type Verdict = boolean | null;

/** Reads the runs of a list. A condition on a missing field matches no run, and its negation matches every run. */
export interface RunReader<Run> {
  /**
   * The run's values of each name field; null: not read yet. The field `text` has all values in which a query's plain
   * words are looked up.
   */
  names: Partial<Record<NameField, (run: Run) => readonly string[] | null>>;
  /** null: the run has no such number. */
  numbers: Partial<Record<NumberField, (run: Run) => number | null>>;
  /** When the run began, in milliseconds since the epoch. */
  started: (run: Run) => number;
  /**
   * When the run ended, in milliseconds since the epoch. A captured run has the time of its last answer, even if it
   * goes on. null: the end is not known.
   */
  finished: (run: Run) => number | null;
  /** When the last failed call of the run began, in milliseconds since the epoch; null: no call failed. */
  failed?: (run: Run) => number | null;
  choices: Partial<Record<ChoiceField, (run: Run, value: string) => Verdict>>;
  /** A faster test whether a run has one of some values; null: `choices` has the field, or the list lacks it. */
  testChoices?: (field: ChoiceField, values: readonly string[]) => ((run: Run) => Verdict) | null;
  /** A faster way to read names, if runs share their lists of names; null: `names` has the field. */
  nameLists?: (field: NameField) => NameLists<Run> | null;
  /** A faster way to read names, if each run has its own; null: `names` has the field. */
  lowerNames?: (field: NameField) => ((run: Run) => LowerNames) | null;
  /** Number of steps at which a monitor fired. */
  monitors?: (run: Run, monitor: MonitorName) => number;
  /**
   * Makes a test of runs for a text with a full-text index; null: there is no index. The names in `names.text` are
   * searched in any case.
   */
  findText?: (text: NameValue) => ((run: Run) => Verdict) | null;
  /**
   * Whether some text of `names.text` passes a test; faster, because it makes no list.
   * @param matchesShared the same test for names that many runs share; it remembers its results
   */
  someText?: (
    run: Run,
    matches: (text: string) => boolean,
    matchesShared: (name: string) => boolean,
  ) => boolean;
  /** All texts of `names.text` in lower case, separated by {@link BETWEEN_TEXTS}, for a faster test. */
  textOf?: (run: Run) => string;
  /** Whether all words of the run are read. If not, `text` may still match. */
  isTextRead?: (run: Run) => boolean;
}

/** Separates texts that are searched together. */
export const BETWEEN_TEXTS = '\n';

/** The different lists of names in a field, and the list that a run has. */
export interface NameLists<Run> {
  idOf: (run: Run) => number;
  /** By id; null: not read yet. */
  lists: readonly (readonly string[] | null)[];
}

/** A run's names in lower case, a text if it has one name; null: not read yet. */
export type LowerNames = string | readonly string[] | null;

/** Maximum number of names whose result one test caches. */
const REMEMBERED_NAMES = 20_000;

/**
 * Compiles a query into a test of runs.
 * @param nowMs the time from which ages are counted, in milliseconds since the epoch
 */
export function compileRunQuery<Run>(
  { terms }: RunQuery,
  reader: RunReader<Run>,
  nowMs: number,
): (run: Run) => Verdict {
  const tests = terms.map((term) => compileTerm(term, reader, nowMs));
  // Most terms are cheap to test, except for those that search texts.
  const ordered = tests.map((test, at) => ({ test, cost: costOf(terms[at]!) }));
  ordered.sort((a, b) => a.cost - b.cost);
  const inOrder = ordered.map(({ test }) => test);
  return (run) => {
    let all: Verdict = true;
    for (const test of inOrder) {
      const verdict = test(run);
      if (verdict === false) return false;
      if (verdict === null) all = null;
    }
    return all;
  };
}

function costOf({ field }: Term): number {
  return field === 'text' || field === 'task' ? 1 : 0;
}

function compileTerm<Run>(term: Term, reader: RunReader<Run>, nowMs: number): (run: Run) => Verdict {
  const test = compileCondition(term, reader, nowMs);
  if (!term.is_not) return test;
  return (run) => {
    const verdict = test(run);
    return verdict === null ? null : !verdict;
  };
}

const NEVER = (): Verdict => false;

function compileCondition<Run>(term: Term, reader: RunReader<Run>, nowMs: number): (run: Run) => Verdict {
  switch (term.kind) {
    case 'name': {
      const read = reader.names[term.field];
      return read === undefined ? NEVER : compileNames(term.field, term.values, read, reader);
    }
    case 'number': {
      const read = reader.numbers[term.field];
      if (read === undefined) return NEVER;
      const tests = term.values.map(compileRange);
      return (run) => {
        const value = read(run);
        return value !== null && tests.some((test) => test(value));
      };
    }
    case 'time': {
      const ranges = term.values.map((range) => placeRange(range, nowMs));
      const read = readTime(term.field, reader);
      return (run) => {
        const at = read(run);
        return at !== null && ranges.some(({ from_ms, to_ms }) => at >= from_ms && at < to_ms);
      };
    }
    case 'choice': {
      const quick = reader.testChoices?.(term.field, term.values) ?? null;
      if (quick !== null) return quick;
      const test = reader.choices[term.field];
      if (test === undefined) return NEVER;
      return (run) => someOf(term.values, (value) => test(run, value));
    }
    case 'monitor': {
      const { monitors } = reader;
      if (monitors === undefined) return NEVER;
      const values = term.values.map(({ monitors: names, steps }) => ({
        names,
        test: steps === null ? (count: number) => count > 0 : compileRange(steps),
      }));
      return (run) => values.some(({ names, test }) => names.some((name) => test(monitors(run, name))));
    }
  }
}

function someOf<Value>(values: readonly Value[], test: (value: Value) => Verdict): Verdict {
  let any: Verdict = false;
  for (const value of values) {
    const verdict = test(value);
    if (verdict === true) return true;
    if (verdict === null) any = null;
  }
  return any;
}

function compileRange({ low, high }: NumberRange): (value: number) => boolean {
  const from = low?.value ?? Number.NEGATIVE_INFINITY;
  const to = high?.value ?? Number.POSITIVE_INFINITY;
  const [isAfter, isBefore] = [low?.is_open ?? false, high?.is_open ?? false];
  return (value) => (isAfter ? value > from : value >= from) && (isBefore ? value < to : value <= to);
}

function compileNames<Run>(
  field: NameField,
  values: readonly NameValue[],
  read: (run: Run) => readonly string[] | null,
  { findText, isTextRead, someText, textOf, nameLists, lowerNames }: RunReader<Run>,
): (run: Run) => Verdict {
  const tests = values.map(compileName);
  const [first] = tests;
  const matchesLower = tests.length === 1 ? first! : (name: string) => tests.some((test) => test(name));
  const matches = (name: string): boolean => matchesLower(name.toLowerCase());
  const remember = rememberNames(matches);
  if (field === 'text') {
    const some =
      compileTexts(values, textOf) ??
      (someText === undefined
        ? (run: Run) => read(run)?.some(matches) ?? false
        : (run: Run) => someText(run, matches, remember));
    const found = values.map((value) => findText?.(value) ?? null).filter((test) => test !== null);
    return (run) => {
      const verdict = someOf(found, (test) => test(run));
      if (verdict === true || some(run)) return true;
      return (isTextRead?.(run) ?? true) ? verdict : null;
    };
  }
  const own = lowerNames?.(field) ?? null;
  if (own !== null)
    return (run) => {
      const names = own(run);
      if (typeof names === 'string') return matchesLower(names);
      return names === null ? null : names.some(matchesLower);
    };
  if (field === 'task')
    return (run) => {
      const words = read(run);
      return words === null ? null : words.some(matches);
    };
  const shared = nameLists?.(field) ?? null;
  if (shared !== null) {
    const verdicts = shared.lists.map((names) => (names === null ? null : names.some(remember)));
    const { idOf } = shared;
    return (run) => verdicts[idOf(run)]!;
  }
  return (run) => {
    const names = read(run);
    return names === null ? null : names.some(remember);
  };
}

/**
 * Compiles a test of all texts of a run together.
 * @returns null if the texts must be tested one by one
 */
function compileTexts<Run>(
  values: readonly NameValue[],
  textOf: ((run: Run) => string) | undefined,
): ((run: Run) => boolean) | null {
  const isPart = ({ text, is }: NameValue) =>
    is === 'part' && !text.includes('*') && !text.includes(BETWEEN_TEXTS);
  if (textOf === undefined || !values.every(isPart)) return null;
  const wanted = values.map(({ text }) => text.toLowerCase());
  const [first] = wanted;
  if (wanted.length === 1) return (run) => textOf(run).includes(first!);
  return (run) => {
    const text = textOf(run);
    return wanted.some((part) => text.includes(part));
  };
}

/**
 * Wraps a test of a name, and remembers the results for the first REMEMBERED_NAMES different names: many runs share
 * their models, tools and agents.
 */
function rememberNames(matches: (name: string) => boolean): (name: string) => boolean {
  const known = new Map<string, boolean>();
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const verdict = matches(name);
    if (known.size < REMEMBERED_NAMES) known.set(name, verdict);
    return verdict;
  };
}

/**
 * Compiles a name of a query into a test for names of runs.
 * @returns a function that expects a name in lower case. It returns whether the name equals the query's text (`is` is
 * `whole`) or contains it. `*` in the text stands for any number of any characters.
 */
function compileName({ text, is }: NameValue): (lower: string) => boolean {
  const wanted = text.toLowerCase();
  if (wanted.includes('*')) {
    const pattern = wanted.split(/\*+/).map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
    const test = new RegExp(is === 'whole' ? `^${pattern.join('.*')}$` : pattern.join('.*'), 's');
    return (lower) => test.test(lower);
  }
  if (is === 'whole') return (lower) => lower === wanted;
  return (lower) => lower.includes(wanted);
}

/** Lists the fields of a query that a list of runs cannot read, because its runs have no such values. */
export function listUnreadFields<Run>({ terms }: RunQuery, reader: RunReader<Run>): QueryField[] {
  const isRead = ({ kind, field }: Term): boolean => {
    if (kind === 'name') return reader.names[field] !== undefined;
    if (kind === 'number') return reader.numbers[field] !== undefined;
    if (kind === 'choice') return reader.choices[field] !== undefined;
    return kind === 'time' || reader.monitors !== undefined;
  };
  return [...new Set(terms.filter((term) => !isRead(term)).map(({ field }) => field))];
}

/**
 * Compiles an order into sort values: runs with larger values come first.
 * @param sort null: newest first
 * @returns `keyOf` makes a run's sort value. A run that lacks the field gets the smallest value, and comes last in both
 *   directions. `order` is the order used.
 */
export function compileSort<Run>(
  sort: SortOrder | null,
  reader: RunReader<Run>,
): { keyOf: (run: Run) => number; order: SortOrder } {
  const order = sort ?? NEWEST_FIRST;
  const read = readColumn(order.field, reader);
  const sign = order.is_descending ? 1 : -1;
  return {
    order,
    keyOf: (run) => {
      const value = read(run);
      return value === null ? -Number.MAX_VALUE : value * sign;
    },
  };
}

function readTime<Run>(field: TimeField, reader: RunReader<Run>): (run: Run) => number | null {
  if (field === 'finished') return reader.finished;
  return field === 'failed' ? (reader.failed ?? (() => null)) : reader.started;
}

function readColumn<Run>(field: SortField, reader: RunReader<Run>): (run: Run) => number | null {
  if (field === 'started') return reader.started;
  if (field === 'finished') return reader.finished;
  return reader.numbers[field] ?? (() => null);
}
