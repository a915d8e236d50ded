/** Completes a run query while it is typed: fields, and values of the field at the caret. Pure; any thread, browser. */
import { type CountedValue, VALUE_FIELDS } from './count-values.ts';
import { QUERY_FIELDS, SORT_FIELDS } from './fields.ts';
import { isQueryField } from './parse.ts';
import { quoteValue, splitWords } from './words.ts';

interface Completion {
  /** A completion replaces the text between `from` and `to`. */
  text: string;
  describes: string;
}

interface Completions {
  from: number;
  to: number;
  items: Completion[];
  /** The question for the values to complete, with the rest of the query; null if a field is completed. */
  asked: AskedValues | null;
}

/** A question for values that complete the query. */
export interface AskedValues {
  field: string;
  /** The part of the value that is typed. */
  contains: string;
  /** The query without the word that is being typed. */
  rest: string;
}

const MOST_ITEMS = 20;
const SORT_DESCRIBES = 'Orders the list by a column, largest first; with `-asc` smallest first';

const EXAMPLES: Readonly<Record<string, readonly [text: string, describes: string][]>> = {
  number: [
    ['>', 'More than'],
    ['<', 'Less than'],
  ],
  duration: [
    ['>1m', 'Longer than a minute'],
    ['<10s', 'Shorter than ten seconds'],
  ],
  time: [
    ['1h', 'The last hour'],
    ['24h', 'The last day'],
    ['7d', 'The last week'],
  ],
};

/**
 * Lists completions at the caret.
 * @param caret offset in the text
 * @param valuesOf values of a field in the list, such as the models that answered; null: not known
 */
export function completeRunQuery(
  text: string,
  caret: number,
  valuesOf: (field: string) => readonly CountedValue[] | null = () => null,
): Completions {
  const typed = text.slice(0, caret);
  const word = splitWords(typed, isQueryField, true).at(-1);
  if (word === undefined || word.to < typed.length) return completeField('', caret, caret);
  const start = word.from + (word.is_not ? 1 : 0);
  if (word.field === null) {
    const [value] = word.values;
    if (value!.is_quoted) return { from: caret, to: caret, items: [], asked: null };
    return completeField(value!.text.toLowerCase(), start, caret);
  }
  const value = word.values.at(-1)!;
  const { field } = word;
  const items = listValues(field, value.text.toLowerCase(), valuesOf);
  const rest = `${text.slice(0, word.from)} ${text.slice(caret)}`.trim();
  const isAsked = VALUE_FIELDS.includes(field);
  return {
    from: value.from + value.operator.length,
    to: caret,
    items: items.slice(0, MOST_ITEMS),
    asked: isAsked ? { field, contains: value.text, rest } : null,
  };
}

function completeField(prefix: string, from: number, to: number): Completions {
  const fields = [...QUERY_FIELDS].map(([name, { describes }]) => ({ name, describes }));
  const items = [...fields, { name: 'sort', describes: SORT_DESCRIBES }]
    .filter(({ name }) => name.startsWith(prefix))
    .map(({ name, describes }) => ({ text: `${name}:`, describes }));
  return { from, to, items: prefix === '' ? items : items.slice(0, MOST_ITEMS), asked: null };
}

function listValues(
  field: string,
  prefix: string,
  valuesOf: (field: string) => readonly CountedValue[] | null,
): Completion[] {
  if (field === 'sort')
    return SORT_FIELDS.flatMap((name) => [
      { text: name, describes: 'Largest first' },
      { text: `${name}-asc`, describes: 'Smallest first' },
    ]).filter((item) => item.text.startsWith(prefix));
  const definition = QUERY_FIELDS.get(field);
  if (definition === undefined) return [];
  const { kind, values, describes } = definition;
  const counted = valuesOf(field);
  const counts = new Map(counted?.map(({ value, runs }) => [value, runs]));
  const known = values.length > 0 ? values : [...counts.keys()];
  const describe = (value: string): string => {
    if (counted === null) return describes;
    const runs = counts.get(value) ?? 0;
    return `${runs.toLocaleString('en')} ${runs === 1 ? 'run' : 'runs'}`;
  };
  const items = known
    .filter((value) => value.toLowerCase().includes(prefix))
    // Values that begin with the typed text come first.
    .sort((a, b) => Number(b.toLowerCase().startsWith(prefix)) - Number(a.toLowerCase().startsWith(prefix)))
    .map((value) => ({ text: quoteValue(value, false), describes: describe(value) }));
  if (items.length > 0 || prefix !== '') return items;
  const examples = field === 'since' || field === 'until' || kind !== 'time' ? (EXAMPLES[kind] ?? []) : [];
  return examples.map(([text, what]) => ({ text, describes: what }));
}
