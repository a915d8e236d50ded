/** Formats numbers, durations and times in the reader's language and time zone. Pure; browser. */

const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

export const formatNumber = (value: number): string => whole.format(value);

/** A whole number below 10,000, otherwise a short form such as `12.3K`; null as a dash. */
export const formatShort = (value: number | null): string =>
  value === null ? '–' : value < 10_000 ? whole.format(value) : short.format(value);

/** Formats a share as a percentage. @param share 0 to 1; null as a dash */
export function formatShare(share: number | null, digits = 0): string {
  return share === null ? '–' : `${(share * 100).toFixed(digits)} %`;
}

export function formatSpan(ms: number | null): string {
  if (ms === null) return '–';
  if (ms < 1) return '< 1 ms';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(ms < 9_950 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600)
    return `${Math.floor(seconds / 60)} min${seconds % 60 === 0 ? '' : ` ${seconds % 60} s`}`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 2_880)
    return `${Math.floor(minutes / 60)} h${minutes % 60 === 0 ? '' : ` ${minutes % 60} min`}`;
  return `${Math.round(minutes / 1_440)} days`;
}

export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = bytes / 1_000;
  let at = 0;
  while (value >= 1_000 && at < units.length - 1) {
    value /= 1_000;
    at++;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[at]}`;
}

const STEPS_S: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** How long ago, or how long until then; `just now` for less than a minute. */
export function formatAgo(time: string, now_ms: number): string {
  const seconds = (Date.parse(time) - now_ms) / 1_000;
  const [unit, length] = STEPS_S.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
  return unit === 'second' ? 'just now' : relative.format(Math.trunc(seconds / length), unit);
}

/** The exact time with its zone. */
export function formatTime(time: string): string {
  return new Date(time).toLocaleString(undefined, {
    dateStyle: 'medium',
    timeStyle: 'long',
  });
}

export function formatClock(time: string): string {
  return new Date(time).toLocaleTimeString();
}

/** A calendar day of the API, which is in UTC. */
export function formatDay(date: string): string {
  return new Date(`${date}T00:00:00Z`).toLocaleDateString(undefined, {
    day: 'numeric',
    month: 'short',
    timeZone: 'UTC',
  });
}

/**
 * Says what a count of captured traffic lacks. The text follows the count.
 * @param count stored exchanges that are not indexed yet
 * @returns `; 5 more exchanges are being indexed`, or an empty text
 */
export function sayNotIndexed(count: number): string {
  if (count === 0) return '';
  return `; ${countOf(count, 'more exchange')} ${count === 1 ? 'is' : 'are'} being indexed`;
}

/** `1 run`, `2 runs`. */
export function countOf(count: number, singular: string, plural = `${singular}s`): string {
  return `${whole.format(count)} ${count === 1 ? singular : plural}`;
}
