/**
 * The dates that a sentence names, as codes that can be compared with the day of a request. A prompt that states the
 * current date changes daily, but counts as the same prompt. Pure; teaching and the student's thread.
 */

const DAY_MS = 86_400_000;

/**
 * Readings of a date, as numbers: a full date, a date without its year, … There are two when day and month could be
 * exchanged.
 */
export type DateCodes = readonly number[];

/** A part of a text that names a date. */
interface NamedDate {
  start: number;
  end: number;
  codes: DateCodes;
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const MONTH = `(?<month>${MONTHS.join('|')})[a-z]*\\.?`;
const WEEKDAY = `(?<weekday>${WEEKDAYS.join('|')})(?:[a-z]*day|s|rs?)?\\.?`;
const DAY = '(?<day>[0-3]?\\d)(?:st|nd|rd|th)?';
const YEAR = '(?<year>(?:19|20)\\d\\d)';
/** Words that may precede a day and its month: `Monday, `. */
const BEFORE = `(?:(?:${WEEKDAYS.join('|')})[a-z]*\\.?,? (?:the )?)?`;

const FORMS: readonly RegExp[] = [
  // 2026-11-23, with or without a time after it.
  /(?<year>(?:19|20)\d\d)[-/.](?<month>[01]?\d)[-/.](?<day>[0-3]?\d)(?!\d)(?:T[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?/giu,
  // 23.11.2026, 11/23/2026
  /(?<!\d)(?<a>[0-3]?\d)[-/.](?<b>[0-3]?\d)[-/.](?<year>(?:19|20)\d\d)(?!\d)/giu,
  new RegExp(`\\b${BEFORE}${MONTH} ${DAY}(?:,? ${YEAR})?\\b`, 'giu'),
  new RegExp(`\\b${BEFORE}${DAY}(?: of)? ${MONTH}(?:,? ${YEAR})?\\b`, 'giu'),
  // Seconds or milliseconds since 1970.
  /(?<![\p{L}\d.])(?<seconds>1\d{9})(?:\d{3})?(?![\p{L}\d])/giu,
];
/** These forms count as a date only in a sentence about the current day. */
const LOOSE_FORMS: readonly RegExp[] = [
  new RegExp(`\\b${WEEKDAY}(?![\\p{L}\\d])`, 'giu'),
  new RegExp(`\\b${MONTH} ${YEAR}\\b`, 'giu'),
  new RegExp(`\\b${YEAR}(?![\\d-])`, 'giu'),
];
/** Rules out most sentences quickly, because most sentences with a number name no date. */
const MAY_NAME_ONE = new RegExp(`(?:19|20)\\d\\d|1\\d{9}|\\b(?:${[...MONTHS, ...WEEKDAYS].join('|')})`, 'iu');
const SPEAKS_OF_NOW = /\b(?:today|now|current|currently|date)\b/iu;

/**
 * Finds the dates that a text names.
 * @returns dates, except dates inside another date
 */
export function findDates(text: string): NamedDate[] {
  const found: NamedDate[] = [];
  if (!MAY_NAME_ONE.test(text)) return found;
  const forms = SPEAKS_OF_NOW.test(text) ? [...FORMS, ...LOOSE_FORMS] : FORMS;
  for (const form of forms)
    for (const { 0: words, index: start, groups = {} } of text.matchAll(form)) {
      const end = start + words.length;
      const codes = readCodes(groups);
      const isInside = found.some((earlier) => start < earlier.end && earlier.start < end);
      if (codes.length > 0 && !isInside) found.push({ start, end, codes });
    }
  return found;
}

function readCodes(groups: Readonly<Record<string, string | undefined>>): DateCodes {
  const { a, b, seconds, weekday } = groups;
  if (seconds !== undefined) return [Math.floor((Number(seconds) * 1_000) / DAY_MS)];
  if (weekday !== undefined) return [codeOfWeekday(WEEKDAYS.indexOf(weekday.toLowerCase()))];
  const year = groups.year === undefined ? null : Number(groups.year);
  if (a !== undefined && b !== undefined)
    return [...codesOf(year, Number(a), Number(b)), ...codesOf(year, Number(b), Number(a))];
  const word = groups.month?.toLowerCase();
  const month = word === undefined ? null : MONTHS.includes(word) ? MONTHS.indexOf(word) + 1 : Number(word);
  const day = groups.day === undefined ? null : Number(groups.day);
  return codesOf(year, month, day);
}

function codesOf(year: number | null, month: number | null, day: number | null): number[] {
  if (month === null) return year === null ? [] : [codeOfYear(year)];
  if (month < 1 || month > 12) return [];
  if (day === null) return year === null ? [] : [codeOfMonth(year, month)];
  if (day < 1 || day > 31) return [];
  return [year === null ? codeOfYearless(month, day) : Math.floor(Date.UTC(year, month - 1, day) / DAY_MS)];
}

const codeOfWeekday = (weekday: number): number => -1 - weekday;
const codeOfYearless = (month: number, day: number): number => -100 - 32 * month - day;
const codeOfYear = (year: number): number => -10_000 - year;
const codeOfMonth = (year: number, month: number): number => -100_000 - 12 * year - month;

let nearDay = Number.NaN;
let nearCodes: ReadonlySet<number> = new Set();

/** Codes of a time's day and of the adjacent days, because the client's time zone and delay are unknown. */
export function codesNear(at_ms: number): ReadonlySet<number> {
  const today = Math.floor(at_ms / DAY_MS);
  if (today === nearDay) return nearCodes;
  const codes = new Set<number>();
  for (const day of [today - 1, today, today + 1]) {
    const date = new Date(day * DAY_MS);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + 1];
    codes.add(day).add(codeOfWeekday(date.getUTCDay())).add(codeOfYearless(month, date.getUTCDate()));
    codes.add(codeOfYear(year)).add(codeOfMonth(year, month));
  }
  nearDay = today;
  nearCodes = codes;
  return codes;
}
