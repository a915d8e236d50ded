/** Days, times and durations in words. */
import { describe, expect, it } from 'vitest';
import {
  DAY_READINGS,
  type DayReading,
  dayOf,
  findDayPlaces,
  findTimes,
  minutesBetween,
  minutesOf,
  readDays,
  shiftMoment,
} from '../../../src/student/model/day-words.ts';

/** A Wednesday. */
const TODAY = dayOf('2026-03-04')!;
const USUAL = DAY_READINGS[0]!;
const findDays = (text: string, today: number | null, reading: DayReading) =>
  readDays(findDayPlaces(text, today), reading);
const over = (reading: Partial<DayReading>): DayReading => ({ ...USUAL, ...reading });

describe('the days that a text names', () => {
  it('are counted from today', () => {
    const days = (text: string, reading = USUAL) => findDays(text, TODAY, reading);
    expect(days('Today or tomorrow, not the day after tomorrow')).toEqual([
      '2026-03-04',
      '2026-03-05',
      '2026-03-06',
    ]);
    expect(days('in 3 days, in two weeks, a week ago')).toEqual(['2026-03-07', '2026-03-18', '2026-02-25']);
    expect(days('on Friday')).toEqual(['2026-03-06']);
    expect(days('on Wednesday, or last Monday')).toEqual(['2026-03-11', '2026-03-02']);
    expect(days('next Friday')).toEqual(['2026-03-06']);
    expect(days('next Friday', over({ is_next_week: true }))).toEqual(['2026-03-13']);
  });

  it('may lack their year; the reading says which year it is', () => {
    const days = (text: string, today: string) =>
      (['near', 'coming', 'past'] as const).map((year) =>
        findDays(text, dayOf(today)!, over({ year })).join(' '),
      );
    expect(findDays('On March 5th, and on 12 January', TODAY, USUAL)).toEqual(['2026-03-05', '2026-01-12']);
    expect(days('On 2 November', '2026-12-30')).toEqual(['2026-11-02', '2027-11-02', '2026-11-02']);
    expect(days('On 2 January', '2026-12-30')).toEqual(['2027-01-02', '2027-01-02', '2026-01-02']);
    expect(days('On 30 December', '2027-01-05')).toEqual(['2026-12-30', '2027-12-30', '2026-12-30']);
    expect(days('On 5 January', '2027-01-05')).toEqual(['2027-01-05', '2027-01-05', '2027-01-05']);
    expect(days('On 29 February and on 2 May', '2027-03-05')).toEqual([
      ' 2027-05-02',
      '2028-02-29 2027-05-02',
      ' 2026-05-02',
    ]);
  });

  it('include only full dates if today is unknown', () => {
    expect(findDays('tomorrow, March 5, 2026-04-01', null, USUAL)).toEqual(['2026-04-01']);
    expect(findDays('05/03/2026', null, USUAL)).toEqual(['2026-05-03']);
    expect(findDays('05/03/2026', null, over({ is_day_first: true }))).toEqual(['2026-03-05']);
  });

  it('count once if a weekday precedes a date', () => {
    expect(findDays('Friday, March 6, 2026', TODAY, USUAL)).toEqual(['2026-03-06']);
  });
});

describe('times', () => {
  it('are read in both ways of writing', () => {
    expect(findTimes('at 3 pm, 12:30 a.m., 15:45, noon, or at 9')).toEqual([
      '15:00',
      '00:30',
      '15:45',
      '12:00',
      '09:00',
    ]);
    expect(findTimes('2026-03-05T10:20:30, 25:00, version 1.12:30')).toEqual(['10:20']);
  });

  it('move a moment in its own way of writing', () => {
    expect(shiftMoment('23:30', 20)).toBe('23:50');
    expect(shiftMoment('23:30', 60)).toBeUndefined();
    expect(shiftMoment('2026-02-28', 1_440)).toBe('2026-03-01');
    expect(shiftMoment('2026-02-28', 60)).toBeUndefined();
    expect(shiftMoment('2026-02-28T23:30:00+01:00', 45)).toBe('2026-03-01T00:15:00+01:00');
    expect(shiftMoment('2026-02-30', 1_440)).toBeUndefined();
    expect(shiftMoment('', 60)).toBeUndefined();
    expect(minutesBetween('09:15', '10:00')).toBe(45);
    expect(minutesBetween('09:15', '2026-03-01')).toBeUndefined();
    expect(minutesOf('12 apples')).toBeUndefined();
  });
});
