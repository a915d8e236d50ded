/** Splits the text of a run query into its words, with quotes and places. Pure; any thread. */
import { RunQueryError } from './run-query.ts';

/** A value within a word, between commas. */
export interface QueryValue {
  /** Operator before the value; '' without one. */
  operator: QueryOperator;
  /** Without quotes and escapes. */
  text: string;
  is_quoted: boolean;
  from: number;
  to: number;
}

export type QueryOperator = '' | '=' | '>' | '>=' | '<' | '<=';

/** A word: `-field:value,value`, `field>value`, or text alone. */
export interface QueryWord {
  is_not: boolean;
  /** In lower case; null for text alone. */
  field: string | null;
  /** Position of the field's name. */
  field_at: { from: number; to: number };
  values: QueryValue[];
  from: number;
  to: number;
}

const SPACE = /\s/;
/** A name before a colon or an operator. `a://b` is an address, and `12:30` a time. */
const FIELD = /^([a-z][a-z_-]*)(?::(?!\/\/)|(?=[<>]))/i;
const OPERATOR = /^(?:[<>]=?|=)/;

/**
 * Operators of other query languages, with what to write instead. Between two other words, they would be searched for
 * as text, and so would silently exclude runs.
 */
export const FOREIGN_OPERATORS: ReadonlyMap<string, string> = new Map([
  ['AND', 'leave it out: every word must match'],
  ['OR', 'separate values with a comma, as in status:failed,ok'],
]);

/**
 * Splits a query into words.
 * @param isField whether a name without a colon is a field; otherwise `a>b` is text
 * @param isUnfinished true: the text is still being written, and a quote that is not closed ends with the text
 * @throws RunQueryError for a quote that is not closed, unless `isUnfinished`
 */
export function splitWords(
  text: string,
  isField: (name: string) => boolean,
  isUnfinished = false,
): QueryWord[] {
  const words: QueryWord[] = [];
  let at = 0;
  for (;;) {
    while (at < text.length && SPACE.test(text[at]!)) at += 1;
    if (at >= text.length) return words;
    const word = readWord(text, at, isField, isUnfinished);
    words.push(word);
    at = word.to;
  }
}

function readWord(
  text: string,
  from: number,
  isField: (name: string) => boolean,
  isUnfinished: boolean,
): QueryWord {
  let at = from;
  const is_not = text[at] === '-' && at + 1 < text.length && !SPACE.test(text[at + 1]!);
  if (is_not) at += 1;
  const found = FIELD.exec(text.slice(at));
  const name = found?.[1]?.toLowerCase() ?? null;
  const hasColon = found !== null && text[at + found[1]!.length] === ':';
  const field = name !== null && (hasColon || isField(name)) ? name : null;
  const field_at = { from: at, to: at + (field?.length ?? 0) };
  if (field !== null) at += found![0].length;
  const values: QueryValue[] = [];
  for (;;) {
    const value = readValue(text, at, field !== null, isUnfinished);
    values.push(value);
    at = value.to;
    if (field === null || text[at] !== ',') break;
    at += 1;
  }
  return { is_not, field, field_at, values, from, to: at };
}

function readValue(text: string, from: number, isOfField: boolean, isUnfinished: boolean): QueryValue {
  const operator = (isOfField ? (OPERATOR.exec(text.slice(from, from + 2))?.[0] ?? '') : '') as QueryOperator;
  const begin = from + operator.length;
  if (text[begin] === '"') return { operator, ...readQuoted(text, begin, isUnfinished), from };
  let at = begin;
  while (at < text.length && !SPACE.test(text[at]!) && !(isOfField && text[at] === ',')) at += 1;
  return { operator, text: text.slice(begin, at), is_quoted: false, from, to: at };
}

function readQuoted(
  text: string,
  from: number,
  isUnfinished: boolean,
): Omit<QueryValue, 'operator' | 'from'> {
  let value = '';
  let at = from + 1;
  for (; at < text.length && text[at] !== '"'; at += 1) {
    if (text[at] === '\\' && at + 1 < text.length) at += 1;
    value += text[at];
  }
  if (at >= text.length && !isUnfinished)
    throw new RunQueryError('the quote is not closed', { from, to: text.length });
  return { text: value, is_quoted: true, to: Math.min(at + 1, text.length) };
}

/** Writes a value of a field, in quotes if it needs them. */
export function quoteValue(text: string, isQuoted: boolean): string {
  return isQuoted || /^"|[\s,]/.test(text) || OPERATOR.test(text) ? quote(text) : text;
}

/** Writes a text without a field, in quotes if it would be read as something else. */
export function quoteText(text: string, isQuoted: boolean, isField: (name: string) => boolean): string {
  const found = FIELD.exec(text);
  const isOfField = found !== null && (found[0].endsWith(':') || isField(found[1]!.toLowerCase()));
  const isOther = isOfField || FOREIGN_OPERATORS.has(text) || /^"|^-.|\s/.test(text);
  return isQuoted || isOther ? quote(text) : text;
}

function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}
