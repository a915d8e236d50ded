/** Reads the values of a run query: numbers, durations, points in time and ranges of them. Pure; any thread. */
import type { NumberBound, NumberRange, TimePoint, TimeRange } from './run-query.ts';
import type { QueryOperator } from './words.ts';

const DAY_MS = 86_400_000;
const MULTIPLES: Readonly<Record<string, number>> = { '': 1, k: 1e3, m: 1e6, g: 1e9, b: 1e9 };
const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: DAY_MS,
  w: 7 * DAY_MS,
};
const SPAN = /(\d+(?:\.\d+)?)(ms|[smhdw])/gy;
const MAX_AGE_MS = 100 * 366 * DAY_MS;

/** Reads a number such as `10k`, `1.5M`, `$0.5` or `1_000`; null for another text. */
function readNumber(text: string): number | null {
  const found = /^\$?(\d[\d_]*(?:\.\d+)?|\.\d+)([kmgb]?)$/i.exec(text);
  if (found === null) return null;
  return Number(found[1]!.replaceAll('_', '')) * MULTIPLES[found[2]!.toLowerCase()]!;
}

/** Reads a duration such as `90s`, `2m`, `1h30m` or `500ms`, in milliseconds; null for another text. */
function readDuration(text: string): number | null {
  let sum = 0;
  SPAN.lastIndex = 0;
  while (SPAN.lastIndex < text.length) {
    const found = SPAN.exec(text.toLowerCase());
    if (found === null) return null;
    sum += Number(found[1]) * UNITS_MS[found[2]!]!;
  }
  return text === '' ? null : sum;
}

/**
 * Reads a point in time. A time without a zone is in UTC.
 * @returns an age; or a day, minute, second or millisecond, depending on how exact the text is; null for another text,
 *   and for an age above MAX_AGE_MS
 */
export function readTimePoint(text: string): TimePoint | null {
  const age_ms = readDuration(text);
  if (age_ms !== null) return age_ms <= MAX_AGE_MS ? { age_ms, text } : null;
  const found = /^(\d{4})-(\d\d)-(\d\d)(?:[T_](\d\d):(\d\d)(:\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/i.exec(
    text,
  );
  if (found === null) return null;
  const iso = text.replace('_', 'T').toUpperCase();
  const isDay = found[4] === undefined;
  const from_ms = Date.parse(isDay || found[7] !== undefined ? iso : `${iso}Z`);
  if (Number.isNaN(from_ms)) return null;
  // `2026-02-31` is not a day, although it can be parsed.
  if (new Date(Date.UTC(+found[1]!, +found[2]! - 1, +found[3]!)).getUTCDate() !== +found[3]!) return null;
  const length = isDay ? DAY_MS : found[6] === undefined ? 60_000 : found[6].includes('.') ? 1 : 1_000;
  return { from_ms, to_ms: from_ms + length, text };
}

/**
 * Reads a range of numbers, or of durations in milliseconds. A single number without an operator is a range of one.
 * @returns null for a value that is not such a range
 */
export function readNumberRange(
  text: string,
  operator: QueryOperator,
  kind: 'number' | 'duration',
): NumberRange | null {
  const readBound = (part: string, is_open: boolean): NumberBound | null => {
    const value = kind === 'number' ? readNumber(part) : (readDuration(part) ?? readSeconds(part));
    return value === null || !Number.isFinite(value) ? null : { value, text: part, is_open };
  };
  const isOpen = operator === '>' || operator === '<';
  const ends = operator === '' ? text.split('..') : [text];
  if (ends.length > 2 || (ends.length === 2 && ends[0] === '' && ends[1] === '')) return null;
  const bounds = ends.map((part) => (part === '' && ends.length === 2 ? null : readBound(part, isOpen)));
  if (bounds.some((bound, at) => bound === null && (ends.length === 1 || ends[at] !== ''))) return null;
  if (bounds.length === 2) return { low: bounds[0]!, high: bounds[1]! };
  const [bound] = bounds;
  if (operator.startsWith('>')) return { low: bound!, high: null };
  if (operator.startsWith('<')) return { low: null, high: bound! };
  return { low: bound!, high: bound! };
}

/** Reads a duration without a unit, which is in seconds. @returns milliseconds; null for another text */
function readSeconds(text: string): number | null {
  return /^\d+(?:\.\d+)?$/.test(text) ? Number(text) * 1_000 : null;
}

/**
 * Reads a range of times.
 * @returns null for a value that is not a range of times, such as an age without an operator
 */
export function readTimeRange(text: string, operator: QueryOperator): TimeRange | null {
  const ends = operator === '' ? text.split('..') : [text];
  if (ends.length > 2 || ends.every((end) => end === '')) return null;
  const points = ends.map((end) => (end === '' ? null : readTimePoint(end)));
  if (points.some((point, at) => point === null && ends[at] !== '')) return null;
  if (points.length === 2) {
    const [low, high] = points;
    return {
      low: low ? { point: low, is_after: false } : null,
      high: high ? { point: high, is_before: false } : null,
    };
  }
  const point = points[0]!;
  if (operator.startsWith('>')) return { low: { point, is_after: operator === '>' }, high: null };
  if (operator.startsWith('<')) return { low: null, high: { point, is_before: operator === '<' } };
  if ('age_ms' in point) return null;
  return { low: { point, is_after: false }, high: { point, is_before: false } };
}

/** Computes where a range begins and ends, in milliseconds since the epoch. The end is not part of the range. */
export function placeRange({ low, high }: TimeRange, nowMs: number): { from_ms: number; to_ms: number } {
  const place = (point: TimePoint, isEnd: boolean): number =>
    'age_ms' in point ? nowMs - point.age_ms : isEnd ? point.to_ms : point.from_ms;
  return {
    from_ms: low === null ? Number.NEGATIVE_INFINITY : place(low.point, low.is_after),
    to_ms: high === null ? Number.POSITIVE_INFINITY : place(high.point, !high.is_before),
  };
}
