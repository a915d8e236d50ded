/**
 * Days and times that a text names in words: `tomorrow`, `next Friday`, `March 5`, `3 pm`. Days are computed from the
 * day that the request names as the current one. Pure; teaching and the student's thread.
 */

import { findDates } from './prompt-dates.ts';

const DAY_MS = 86_400_000;

/**
 * Which year a date without its year has. `near`: the date is the earliest one that is at most 60 days past. `coming`:
 * the date is never past. `past`: the date is never ahead.
 */
type YearReading = 'near' | 'coming' | 'past';

/**
 * How ambiguous words are read. Golden runs show it: whether `05/03/2026` begins with the day, whether `next Friday` is
 * the coming Friday or the Friday of the next calendar week, and which year `30 December` has.
 */
export interface DayReading {
  is_day_first: boolean;
  is_next_week: boolean;
  year: YearReading;
}

const read = (is_day_first: boolean, is_next_week: boolean, year: YearReading): DayReading => ({
  is_day_first,
  is_next_week,
  year,
});

/**
 * All readings, the usual one first. A slot keeps only the first readings that no golden run contradicts, and refuses
 * a step in which these disagree. So readings that differ from the usual one in one respect come before the others.
 */
export const DAY_READINGS: readonly DayReading[] = [
  read(false, false, 'near'),
  read(false, false, 'coming'),
  read(false, false, 'past'),
  read(true, false, 'near'),
  read(false, true, 'near'),
  read(true, false, 'coming'),
  read(true, false, 'past'),
  read(true, true, 'near'),
  read(false, true, 'coming'),
  read(false, true, 'past'),
  read(true, true, 'coming'),
  read(true, true, 'past'),
];

/**
 * Returns the constant that equals a reading stored with a rule. Readings that earlier versions stored have no `year`;
 * those versions read a date without a year almost as `near` does.
 */
export function knownReading({ is_day_first, is_next_week, year = 'near' }: Partial<DayReading>): DayReading {
  return DAY_READINGS.find(
    (known) =>
      known.is_day_first === is_day_first && known.is_next_week === is_next_week && known.year === year,
  )!;
}

/** Maximum number of characters of a text that are searched, and of days that are found. */
const TEXT_CHARACTERS = 3_000;
const DAYS = 8;

const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
const RELATIVE = new RegExp(
  [
    '\\b(?<after>day after tomorrow)\\b',
    '\\b(?<word>today|tonight|tomorrow|yesterday)\\b',
    '\\bin (?<count>\\d{1,3}|a|one|two|three) (?<unit>days?|weeks?)\\b',
    '\\b(?<ago>\\d{1,3}|a|one|two|three) (?<agounit>days?|weeks?) ago\\b',
    `\\b(?:(?<which>next|this|last|coming) )?(?<weekday>${WEEKDAYS.join('|')})\\b`,
  ].join('|'),
  'giu',
);
const COUNTS: Readonly<Record<string, number>> = { a: 1, one: 1, two: 2, three: 3 };
/** The day and month of a date without its year, as `findDates` codes them. */
const YEARLESS = { from: -100, to: -600 } as const;
/** How far back a date without its year may lie in the reading `near`. */
const BACK_DAYS = 60;

/**
 * Reads a date such as `2026-03-05`.
 * @returns the number of days since 1970 that a date has; undefined for another text
 */
export function dayOf(text: string): number | undefined {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (parts === null) return undefined;
  const at = Date.UTC(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3])) / DAY_MS;
  return spellDay(at) === text ? at : undefined;
}

/** A number of days since 1970 as a date: `2026-03-05`. */
function spellDay(day: number): string {
  const date = new Date(day * DAY_MS);
  return Number.isNaN(date.getTime()) ? '' : date.toISOString().slice(0, 10);
}

/** The first full date of a text, as a number of days since 1970. */
export function firstDay(text: string): number | undefined {
  return findDates(text.slice(0, TEXT_CHARACTERS))
    .sort((a, b) => a.start - b.start)
    .flatMap(({ codes }) => codes.filter((code) => code > 0))[0];
}

/** A place of a text that names a day. A reading decides which day: a number of days since 1970, or NaN for none. */
export interface DayPlace {
  start: number;
  read(reading: DayReading): number;
}

/**
 * Finds the places of a text that name days, in their order. They are the same for all readings.
 * @param today null: unknown, and then only full dates are found
 */
export function findDayPlaces(whole: string, today: number | null): DayPlace[] {
  const text = whole.slice(0, TEXT_CHARACTERS);
  const found: (DayPlace & { end: number })[] = [];
  for (const { start, end, codes } of findDates(text)) {
    const read = readerOf(codes, today);
    if (read !== undefined) found.push({ start, end, read });
  }
  if (today !== null)
    for (const { 0: words, index: start, groups = {} } of text.matchAll(RELATIVE)) {
      const end = start + words.length;
      // The weekday before a date is part of the date.
      if (found.some((date) => start < date.end + 2 && date.start < end + 2)) continue;
      found.push({ start, end, read: (reading) => today + countDays(groups, today, reading) });
    }
  return found.sort((a, b) => a.start - b.start).slice(0, DAYS);
}

/**
 * Spells the days that the places name; '' for a date that does not exist in the year chosen for it, such as 29
 * February.
 */
export function readDays(places: readonly DayPlace[], reading: DayReading): string[] {
  return places.map(({ read }) => spellDay(read(reading)));
}

/** How the codes of a date are read; undefined if they name no day. */
function readerOf(codes: readonly number[], today: number | null): DayPlace['read'] | undefined {
  const days = codes.filter((code) => code > 0);
  // For a date of two numbers, the first code takes the first number as the month.
  if (days.length > 0) return ({ is_day_first }) => days[days.length > 1 && is_day_first ? 1 : 0]!;
  const [code] = codes;
  if (today === null || code === undefined || code > YEARLESS.from || code < YEARLESS.to) return undefined;
  const packed = YEARLESS.from - code;
  return ({ year }) => chooseYear(Math.floor(packed / 32), packed % 32, today, year);
}

/** The day of a date without its year. @returns NaN if the date does not exist in that year, such as 29 February */
function chooseYear(month: number, day: number, today: number, reading: YearReading): number {
  const present = new Date(today * DAY_MS).getUTCFullYear();
  const [last, now, next] = [-1, 0, 1].map((by) => Date.UTC(present + by, month - 1, day) / DAY_MS);
  const days = [last!, now!, next!];
  const earliest = today - (reading === 'near' ? BACK_DAYS : 0);
  const chosen =
    reading === 'past' ? days.findLast((at) => at <= today)! : days.find((at) => at >= earliest)!;
  return new Date(chosen * DAY_MS).getUTCDate() === day ? chosen : Number.NaN;
}

function countDays(
  groups: Readonly<Record<string, string | undefined>>,
  today: number,
  { is_next_week }: DayReading,
): number {
  const { after, word, count, unit, ago, agounit, which, weekday } = groups;
  if (after !== undefined) return 2;
  if (word !== undefined) {
    const plain = word.toLowerCase();
    return plain === 'tomorrow' ? 1 : plain === 'yesterday' ? -1 : 0;
  }
  const daysOf = (number: string, of: string | undefined): number =>
    (COUNTS[number.toLowerCase()] ?? Number(number)) *
    (of?.toLowerCase().startsWith('week') === true ? 7 : 1);
  if (count !== undefined) return daysOf(count, unit);
  if (ago !== undefined) return -daysOf(ago, agounit);
  const present = new Date(today * DAY_MS).getUTCDay();
  const wanted = WEEKDAYS.indexOf(weekday!.toLowerCase());
  const ahead = (wanted - present + 7) % 7 || 7;
  const word_before = which?.toLowerCase();
  if (word_before === 'last') return ahead - 7 === 0 ? -7 : ahead - 7;
  if (word_before !== 'next' || !is_next_week) return ahead;
  // Weeks begin on Monday.
  const sinceMonday = (present + 6) % 7;
  return 7 - sinceMonday + ((wanted + 6) % 7);
}

const TIMES =
  /(?<![\d:.])(?:(?<hour>[01]?\d|2[0-4])(?:[:.](?<minute>[0-5]\d))?\s*(?<half>[ap])\.?m\b\.?|(?<full>[01]?\d|2[0-3]):(?<of>[0-5]\d)(?::[0-5]\d)?(?![\d:])|\b(?<name>noon|midday|midnight)\b|\bat (?<bare>\d{1,2})(?! ?(?:[\d:.%]|[ap]\.?m)))/giu;

/** The times of a day that a text names, in their order: `15:00`. */
export function findTimes(whole: string): string[] {
  const times: string[] = [];
  for (const { groups = {} } of whole.slice(0, TEXT_CHARACTERS).matchAll(TIMES)) {
    const minutes = readTime(groups);
    if (minutes !== undefined && times.length < DAYS) times.push(spellTime(minutes));
  }
  return times;
}

function readTime(groups: Readonly<Record<string, string | undefined>>): number | undefined {
  const { hour, minute, half, full, of, name, bare } = groups;
  if (name !== undefined) return name.toLowerCase() === 'midnight' ? 0 : 12 * 60;
  if (full !== undefined) return 60 * Number(full) + Number(of);
  if (bare !== undefined) return Number(bare) < 24 ? 60 * Number(bare) : undefined;
  if (Number(hour) > 12) return undefined;
  return 60 * ((Number(hour) % 12) + (half!.toLowerCase() === 'p' ? 12 : 0)) + Number(minute ?? 0);
}

function spellTime(minutes: number): string {
  const inDay = ((minutes % 1_440) + 1_440) % 1_440;
  return `${String(Math.floor(inDay / 60)).padStart(2, '0')}:${String(inDay % 60).padStart(2, '0')}`;
}

const MOMENT =
  /^(?:(\d{4}-\d{2}-\d{2})(?:([T ])(?=\d{2}:))?)?(?:(\d{2}):(\d{2})(:\d{2})?(Z|[+-]\d{2}:\d{2})?)?$/;

/** A day or a moment moved by minutes, in its own way of writing; undefined for another text. */
export function shiftMoment(text: string, minutes: number): string | undefined {
  const parts = text.length <= 30 ? MOMENT.exec(text) : null;
  if (parts === null || text === '') return undefined;
  const [, date, joint = '', hour, minute, seconds = '', zone = ''] = parts;
  const day = date === undefined ? 0 : dayOf(date);
  if (day === undefined || (hour === undefined && minutes % 1_440 !== 0)) return undefined;
  const before = hour === undefined ? 0 : 60 * Number(hour) + Number(minute);
  const after = before + minutes;
  // A time alone stays within its day.
  if (date === undefined && (after < 0 || after >= 1_440)) return undefined;
  const moved = date === undefined ? '' : spellDay(day + Math.floor(after / 1_440));
  return hour === undefined ? moved : `${moved}${joint}${spellTime(after)}${seconds}${zone}`;
}

/** Minutes from one moment to another in the same way of writing; undefined for other texts. */
export function minutesBetween(from: string, to: string): number | undefined {
  const [a, b] = [minutesOf(from), minutesOf(to)];
  return a === undefined || b === undefined || a.form !== b.form ? undefined : b.at - a.at;
}

/**
 * Reads a day, a moment or a time of day as a number of minutes, since 1970 or since midnight.
 * @returns the number and the form of the text; only numbers of the same form can be compared. undefined for another
 *   text
 */
export function minutesOf(text: string): { at: number; form: string } | undefined {
  const parts = text.length <= 30 ? MOMENT.exec(text) : null;
  if (parts === null || text === '') return undefined;
  const [, date, joint = '', hour, minute, seconds = '', zone = ''] = parts;
  const day = date === undefined ? 0 : dayOf(date);
  if (day === undefined) return undefined;
  const at = 1_440 * day + (hour === undefined ? 0 : 60 * Number(hour) + Number(minute));
  const form = `${date === undefined ? '' : 'day'}${joint}${hour === undefined ? '' : 'time'}${seconds.length}${zone}`;
  return { at, form };
}
