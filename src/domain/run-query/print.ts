/** Writes a run query as text. Parsing the text gives the same query, so the text is a query's address. Pure; any thread. */
import { isQueryField } from './parse.ts';
import type {
  MonitorValue,
  NameValue,
  NumberRange,
  RunQuery,
  SortOrder,
  Term,
  TimeRange,
} from './run-query.ts';
import { quoteText, quoteValue } from './words.ts';

export function printRunQuery({ terms, sort }: RunQuery): string {
  const words = terms.map(printTerm);
  if (sort !== null) words.push(printSort(sort));
  return words.join(' ');
}

function printSort({ field, is_descending }: SortOrder): string {
  return `sort:${field}${is_descending ? '' : '-asc'}`;
}

function printTerm(term: Term): string {
  const not = term.is_not ? '-' : '';
  const [first] = term.values ?? [];
  if (term.field === 'text' && term.values.length === 1 && isPart(first))
    return `${not}${quoteText(first.text, first.is_phrase, isQueryField)}`;
  return `${not}${term.field}:${printValues(term).join(',')}`;
}

function isPart(value: unknown): value is NameValue {
  return (value as NameValue).is === 'part';
}

function printValues(term: Term): string[] {
  switch (term.kind) {
    case 'name':
      return term.values.map(
        ({ text, is, is_phrase }) => `${is === 'whole' ? '=' : ''}${quoteValue(text, is_phrase)}`,
      );
    case 'number':
      return term.values.map((range) => printNumbers(range, ''));
    case 'time':
      return term.values.map((range) => printTimes(term.field, range));
    case 'choice':
      return term.values;
    case 'monitor':
      return term.values.map(printMonitor);
  }
}

function printMonitor({ text, steps }: MonitorValue): string {
  return `${text}${steps === null ? '' : printNumbers(steps, '=')}`;
}

/**
 * Writes a range of numbers.
 * @param equals prefix of a single number
 */
function printNumbers({ low, high }: NumberRange, equals: string): string {
  if (high === null) return `>${low!.is_open ? '' : '='}${low!.text}`;
  if (low === null) return `<${high.is_open ? '' : '='}${high.text}`;
  return low.text === high.text ? `${equals}${low.text}` : `${low.text}..${high.text}`;
}

function printTimes(field: string, { low, high }: TimeRange): string {
  if (field === 'since') return low!.point.text;
  if (field === 'until') return high!.point.text;
  if (high === null) return `>${low!.is_after ? '' : '='}${low!.point.text}`;
  if (low === null) return `<${high.is_before ? '' : '='}${high.point.text}`;
  const isPoint = low.point.text === high.point.text && !('age_ms' in low.point);
  return isPoint ? low.point.text : `${low.point.text}..${high.point.text}`;
}
