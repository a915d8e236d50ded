/** Hours of the day in which an alert tells its destinations nothing, in a time zone. Pure; any thread. */

export interface QuietHours {
  /** `22:00` */
  from: string;
  /** `07:00`; before `from`: on the next day. The same as `from`: the whole day. */
  to: string;
  /** Of the IANA database: `Europe/Berlin`. */
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
