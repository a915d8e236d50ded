/**
 * Reads the text of a run query. An error points at the faulty part of the text. For an unknown field or value, it
 * names the nearest known one, if any is near. Pure; any thread.
 */
import { findNearestName } from '../../std/nearest-name.ts';
import { MONITOR_NAMES } from '../monitors/names.ts';
import {
  type ChoiceField,
  type FieldDefinition,
  type NameField,
  type NumberField,
  QUERY_FIELDS,
  SORT_FIELDS,
  type SortField,
  type TimeField,
} from './fields.ts';
import {
  type Condition,
  type MonitorValue,
  type NameValue,
  type NumberRange,
  RUN_QUERY_BOUNDS,
  type RunQuery,
  RunQueryError,
  type SortOrder,
  type Term,
  type TimeRange,
} from './run-query.ts';
import { readNumberRange, readTimePoint, readTimeRange } from './values.ts';
import {
  FOREIGN_OPERATORS,
  type QueryOperator,
  type QueryValue,
  type QueryWord,
  splitWords,
} from './words.ts';

const SORT = 'sort';

/** Whether a name, in lower case, is a field of the language. */
export function isQueryField(name: string): boolean {
  return name === SORT || QUERY_FIELDS.has(name);
}

/**
 * Parses a query.
 * @throws RunQueryError
 */
export function parseRunQuery(text: string): RunQuery {
  if (text.length > RUN_QUERY_BOUNDS.characters)
    throw new RunQueryError(`a query has at most ${RUN_QUERY_BOUNDS.characters} characters`, {
      from: RUN_QUERY_BOUNDS.characters,
      to: text.length,
    });
  const query: RunQuery = { terms: [], sort: null };
  const words = splitWords(text, isQueryField);
  for (const word of words.slice(1, -1)) checkOperator(word);
  for (const word of words) {
    if (word.field === SORT) {
      if (query.sort !== null) throw new RunQueryError('a query has one sort', word);
      query.sort = readSort(word);
    } else query.terms.push(readTerm(word));
    if (query.terms.length > RUN_QUERY_BOUNDS.terms)
      throw new RunQueryError(`a query has at most ${RUN_QUERY_BOUNDS.terms} words`, word);
  }
  return query;
}

/**
 * Refuses an operator that the language does not have.
 * @throws RunQueryError for another language's operator between two words
 */
function checkOperator(word: QueryWord): void {
  const { is_not, field, values } = word;
  const [value] = values;
  const hint =
    field === null && !is_not && !value!.is_quoted ? FOREIGN_OPERATORS.get(value!.text) : undefined;
  if (hint !== undefined)
    throw new RunQueryError(`${value!.text} is no operator: ${hint}. To search for the word, quote it`, word);
}

function readTerm(word: QueryWord): Term {
  const { is_not, field, values } = word;
  if (values.length > RUN_QUERY_BOUNDS.values)
    throw new RunQueryError(`a word has at most ${RUN_QUERY_BOUNDS.values} values`, word);
  if (field === null) {
    const [value] = values;
    if (value!.text === '') throw new RunQueryError('there is nothing between the quotes', word);
    return { kind: 'name', field: 'text', values: [readName(value!)], is_not };
  }
  const definition = QUERY_FIELDS.get(field);
  if (definition === undefined) throw unknownField(word);
  for (const value of values) if (value.text === '') throw new RunQueryError(`${field}: needs a value`, word);
  return { ...readCondition(word, field, definition), is_not };
}

function unknownField({ field, field_at }: QueryWord): RunQueryError {
  const nearest = findNearestName(field!, [...QUERY_FIELDS.keys(), SORT]);
  const message = `there is no field "${field}"${tellMeant(nearest)} Text with a colon is searched for in quotes`;
  return new RunQueryError(message, field_at, nearest);
}

function tellMeant(nearest: string | null): string {
  return nearest === null ? '.' : `; did you mean "${nearest}"?`;
}

function readCondition(word: QueryWord, field: string, definition: FieldDefinition): Condition {
  const { values } = word;
  switch (definition.kind) {
    case 'name':
      for (const value of values) checkEquals(word, value);
      return { kind: 'name', field: field as NameField, values: values.map(readName) };
    case 'number':
    case 'duration': {
      const ranges = values.map((value) => readNumbers(word, value, definition.kind as 'number'));
      return { kind: 'number', field: field as NumberField, values: ranges };
    }
    case 'time':
      return {
        kind: 'time',
        field: field as TimeField,
        values: values.map((value) => readTimes(word, value)),
      };
    case 'choice': {
      for (const value of values) checkEquals(word, value);
      const chosen = values.map((value) => readChoice(field, value, definition.values));
      return { kind: 'choice', field: field as ChoiceField, values: chosen };
    }
    case 'monitor':
      return { kind: 'monitor', field: 'monitor', values: values.map((value) => readMonitor(word, value)) };
  }
}

/**
 * Allows only equality.
 * @throws RunQueryError for a comparison of values without an order
 */
function checkEquals({ field }: QueryWord, { operator, from }: QueryValue): void {
  if (operator === '' || operator === '=') return;
  throw new RunQueryError(`${field}: takes no ${operator}`, { from, to: from + operator.length });
}

function readName({ operator, text, is_quoted }: QueryValue): NameValue {
  return { text, is: operator === '=' ? 'whole' : 'part', is_phrase: is_quoted };
}

function readNumbers(word: QueryWord, value: QueryValue, kind: 'number' | 'duration'): NumberRange {
  const range = readNumberRange(value.text, value.operator, kind);
  if (range !== null) return range;
  const example = kind === 'number' ? '5, >0.5, 10k or 0.1..0.5' : '90s, >2m or 1m..1h30m';
  throw new RunQueryError(`${word.field}: takes ${example}, not ${JSON.stringify(value.text)}`, value);
}

function readTimes(word: QueryWord, value: QueryValue): TimeRange {
  const { field } = word;
  const { operator } = value;
  if (field === 'since' || field === 'until') {
    const point = operator === '' ? readTimePoint(value.text) : null;
    if (point !== null)
      return field === 'since'
        ? { low: { point, is_after: false }, high: null }
        : { low: null, high: { point, is_before: false } };
    throw new RunQueryError(
      `${field}: takes an age such as 90m, 12h or 7d, or a time such as 2026-05-01 or 2026-05-01T12:00Z, not ${JSON.stringify(value.text)}`,
      value,
    );
  }
  const range = readTimeRange(value.text, operator);
  if (range !== null) return range;
  throw new RunQueryError(
    `${field}: takes a day such as 2026-05-01, >2026-05-01T12:00Z, 2026-05-01..2026-05-03 or 7d..1d, not ${JSON.stringify(value.text)}; since:7d takes an age`,
    value,
  );
}

function readChoice(field: string, value: QueryValue, known: readonly string[]): string {
  const text = value.text.toLowerCase();
  if (known.includes(text)) return text;
  const nearest = findNearestName(text, known);
  const message = `${field}: has no value ${JSON.stringify(value.text)}${tellMeant(nearest)} It takes ${known.join(', ')}`;
  throw new RunQueryError(message, value, nearest);
}

/**
 * Reads `infinite_loop`, a part of names such as `loop`, or either with a number of steps: `infinite_loop>2`.
 * @throws RunQueryError for any other text
 */
function readMonitor(word: QueryWord, value: QueryValue): MonitorValue {
  checkEquals(word, value);
  const [, name = '', operator = '', number = ''] = /^([^<>=]*)(>=|<=|>|<|=)?(.*)$/.exec(value.text)!;
  const monitors = MONITOR_NAMES.filter((known) => known.includes(name.toLowerCase()));
  if (name === '' || monitors.length === 0)
    readChoice('monitor', { ...value, text: name, to: value.from + name.length }, MONITOR_NAMES);
  if (operator === '') return { text: name, monitors, steps: null };
  const steps = readNumberRange(number, operator as QueryOperator, 'number');
  if (steps === null)
    throw new RunQueryError('monitor: takes a name with a number of steps, such as infinite_loop>2', value);
  return { text: name, monitors, steps };
}

/**
 * Reads a sort. `cost` and `cost-desc`: largest first; `cost-asc`: smallest first.
 * @throws RunQueryError for any other text
 */
function readSort(word: QueryWord): SortOrder {
  const [value] = word.values;
  const [, name = '', direction] = /^(.*?)(-asc|-desc)?$/.exec(value!.text.toLowerCase())!;
  if (word.values.length > 1 || value!.operator !== '' || word.is_not || name === '')
    throw new RunQueryError('sort: takes one column, such as sort:cost or sort:cost-asc', word);
  const at = { ...value!, text: name, to: value!.from + name.length };
  const field = readChoice(SORT, at, SORT_FIELDS) as SortField;
  return { field, is_descending: direction !== '-asc' };
}
