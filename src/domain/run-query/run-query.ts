/**
 * A run query as data: terms that a run must all match, and an order. `parseRunQuery` makes it from text,
 * `printRunQuery` converts it to text, and `compileRunQuery` tests runs with it. Plain data; any thread.
 */
import type { MonitorName } from '../monitors/names.ts';
import type { ChoiceField, NameField, NumberField, SortField, TimeField } from './fields.ts';

/** Bounds of a query: characters, terms, and values of one term. */
export const RUN_QUERY_BOUNDS = { characters: 2_000, terms: 64, values: 64 } as const;

/** A text that a name must contain or equal, in any case of letters. */
export interface NameValue {
  text: string;
  /** `part`: the name contains the text; `whole`: the name is the text. `*` stands for any characters in both. */
  is: 'part' | 'whole';
  /** Whether the text was in quotes. For the field `text`, the words must then be in this order. */
  is_phrase: boolean;
}

/** An end of a range of numbers. */
export interface NumberBound {
  /** In milliseconds for a duration. */
  value: number;
  /** The number as it was written, so that it is printed unchanged. */
  text: string;
  /** true: the range does not contain the value itself. */
  is_open: boolean;
}

/**
 * A point in time: an age, or a span from a day down to a millisecond, in milliseconds since the epoch. `text` is the
 * point as it was written; `to_ms` is not part of the span.
 */
export type TimePoint = { age_ms: number; text: string } | { from_ms: number; to_ms: number; text: string };

/** A range of numbers; null: no bound at this end. */
export interface NumberRange {
  low: NumberBound | null;
  high: NumberBound | null;
}

/** A range of times; null: no bound at this end. */
export interface TimeRange {
  /** From this point on; `is_after`: from the end of the point's span on. */
  low: { point: TimePoint; is_after: boolean } | null;
  /** Up to the end of this point's span; `is_before`: up to the beginning of the span. */
  high: { point: TimePoint; is_before: boolean } | null;
}

/**
 * The monitors that a word names completely or in part, and the number of steps at which one of these monitors must
 * have fired; null: any number from one on.
 */
export interface MonitorValue {
  text: string;
  monitors: MonitorName[];
  steps: NumberRange | null;
}

/** The condition of a term. Of several values or ranges, one must match. */
export type Condition =
  | { kind: 'name'; field: NameField; values: NameValue[] }
  | { kind: 'number'; field: NumberField; values: NumberRange[] }
  | { kind: 'time'; field: TimeField; values: TimeRange[] }
  | { kind: 'choice'; field: ChoiceField; values: string[] }
  | { kind: 'monitor'; field: 'monitor'; values: MonitorValue[] };

export type Term = Condition & {
  /** Whether the term selects the runs that do not match. */
  is_not: boolean;
};

export interface SortOrder {
  field: SortField;
  /** Whether the order is descending: largest first, newest first. */
  is_descending: boolean;
}

export interface RunQuery {
  terms: Term[];
  /** null: newest first. */
  sort: SortOrder | null;
}

export const NEWEST_FIRST: SortOrder = { field: 'started', is_descending: true };

/** An error in a query, with its position in the text. */
export class RunQueryError extends Error {
  override readonly name = 'RunQueryError';
  /** Offsets of the word in the query. */
  readonly from: number;
  readonly to: number;
  /** The known name that was probably meant; null without one. */
  readonly nearest: string | null;

  constructor(message: string, at: { from: number; to: number }, nearest: string | null = null) {
    super(message);
    this.from = at.from;
    this.to = at.to;
    this.nearest = nearest;
  }
}
