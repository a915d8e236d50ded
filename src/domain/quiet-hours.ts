/** Hours of the day, in a time zone, in which an alert sends no messages. Pure; any thread. */

export interface QuietHours {
  /** `22:00` */
  from: string;
  /** `07:00`. A time before `from` is on the next day; a time equal to `from` means the whole day. */
  to: string;
  /** IANA time zone, such as `Europe/Berlin`. */
  time_zone: string;
}

export const DAY_TIME = /^([01]\d|2[0-3]):[0-5]\d$/;

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

export function isQuiet({ from, to, time_zone }: QuietHours, nowMs: number): boolean {
  const format = { timeZone: time_zone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
  const time = new Intl.DateTimeFormat('en-GB', format).format(nowMs);
  return from < to ? time >= from && time < to : time >= from || time < to;
}
