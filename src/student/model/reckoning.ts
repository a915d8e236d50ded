/**
 * A day or a moment computed from another day or moment: the day after a day in the task, the end of a meeting that
 * always lasts an hour. Pure; teaching proposes rules, and the student's thread applies them.
 */

import { minutesBetween, shiftMoment } from './day-words.ts';
import type { Primitive } from './json-values.ts';

/** Moves a day or a moment by the same time in all golden steps. */
export interface Reckoning {
  op: 'shift';
  minutes: number;
}

/**
 * Computes a value.
 * @returns undefined for a value that is no day and no moment, and for a reckoning of an older model
 */
export function reckon(value: Primitive, { op, minutes }: Reckoning): string | undefined {
  return op === 'shift' && typeof value === 'string' ? shiftMoment(value, minutes) : undefined;
}

/** Longest time by which a value is moved. */
const SHIFT_MINUTES = 62 * 1_440;

/**
 * Finds the reckoning that computes the wanted value from another value; undefined if no reckoning does, if the values
 * are equal, or if they are more than SHIFT_MINUTES apart.
 */
export function proposeReckoning(from: string, wanted: string): Reckoning | undefined {
  const minutes = minutesBetween(from, wanted);
  if (minutes === undefined || minutes === 0 || Math.abs(minutes) > SHIFT_MINUTES) return undefined;
  const by: Reckoning = { op: 'shift', minutes };
  return reckon(from, by) === wanted ? by : undefined;
}
