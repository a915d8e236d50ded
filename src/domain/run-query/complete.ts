/** Completes a run query while it is typed: fields, and values of the field at the caret. Pure; any thread, browser. */
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
 * @param caret offset in the text
 * @param valuesOf values in the list for a field without fixed values, such as the models that answered
 */
export function completeRunQuery(
  text: string,
  caret: number,
  valuesOf: (field: string) => readonly string[] = () => [],
): Completions {
  const typed = text.slice(0, caret);
  const word = splitWords(typed, isQueryField, true).at(-1);
  if (word === undefined || word.to < typed.length) return completeField('', caret, caret);
  const start = word.from + (word.is_not ? 1 : 0);
  if (word.field === null) {
    const [value] = word.values;
    if (value!.is_quoted) return { from: caret, to: caret, items: [] };
    return completeField(value!.text.toLowerCase(), start, caret);
  }
  const value = word.values.at(-1)!;
  const items = listValues(word.field, value.text.toLowerCase(), valuesOf);
  const place = { from: value.from + value.operator.length, to: caret };
  return { ...place, items: items.slice(0, MOST_ITEMS) };
}

function completeField(prefix: string, from: number, to: number): Completions {
  const fields = [...QUERY_FIELDS].map(([name, { describes }]) => ({ name, describes }));
  const items = [...fields, { name: 'sort', describes: SORT_DESCRIBES }]
    .filter(({ name }) => name.startsWith(prefix))
    .map(({ name, describes }) => ({ text: `${name}:`, describes }));
  return { from, to, items: prefix === '' ? items : items.slice(0, MOST_ITEMS) };
}

function listValues(
  field: string,
  prefix: string,
  valuesOf: (field: string) => readonly string[],
): Completion[] {
  if (field === 'sort')
    return SORT_FIELDS.flatMap((name) => [
      { text: name, describes: 'Largest first' },
      { text: `${name}-asc`, describes: 'Smallest first' },
    ]).filter((item) => item.text.startsWith(prefix));
  const definition = QUERY_FIELDS.get(field);
  if (definition === undefined) return [];
  const { kind, values, describes } = definition;
  const known = values.length > 0 ? values : kind === 'name' ? valuesOf(field) : [];
  const items = known
    .filter((value) => value.toLowerCase().includes(prefix))
    // Values that begin with the typed text come first.
    .sort((a, b) => Number(b.toLowerCase().startsWith(prefix)) - Number(a.toLowerCase().startsWith(prefix)))
    .map((value) => ({ text: quoteValue(value, false), describes }));
  if (items.length > 0 || prefix !== '') return items;
  const examples = field === 'since' || field === 'until' || kind !== 'time' ? (EXAMPLES[kind] ?? []) : [];
  return examples.map(([text, what]) => ({ text, describes: what }));
}
