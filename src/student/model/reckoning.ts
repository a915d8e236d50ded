/**
 * A value computed from two others, or from one and a constant: the end of a meeting from its beginning and length, the
 * next page from the present one, the difference of two amounts. Pure; teaching proposes rules, and the student's
 * thread applies them.
 */

import { findDurations, minutesBetween, shiftMoment } from './day-words.ts';
import { amountOf, isObject, type Primitive } from './json-values.ts';

/** How a value is computed from a day, a time or a number. */
export type Reckoning =
  /** Moves a day or a time by the same minutes in every step. */
  | { op: 'shift'; minutes: number }
  /** Moves a day or a time by the duration that a text names. */
  | { op: 'lasting'; in: string; nth: number; sign: 1 | -1 }
  /** Moves a day or a time by the minutes at another place. */
  | { op: 'minutes'; from: string; path: string[] }
  /** Adds the same number in every step. */
  | { op: 'count'; by: number }
  /** Combines a number with the number at another place. */
  | { op: 'plus' | 'minus' | 'times'; from: string; path: string[] };

/** The parts of a step's context that the second value comes from. */
interface ReckoningContext {
  source(name: string): unknown;
  text(source: string): string;
  readonly step: { readonly sources: readonly { name: string; value: unknown }[] };
}

/**
 * Computes a value.
 * @returns undefined when the second value is missing, or the two values do not go together
 */
export function reckon(
  value: Primitive,
  reckoning: Reckoning,
  context: ReckoningContext,
): Primitive | undefined {
  switch (reckoning.op) {
    case 'shift':
      return typeof value === 'string' ? shiftMoment(value, reckoning.minutes) : undefined;
    case 'lasting': {
      const minutes = findDurations(context.text(reckoning.in))[reckoning.nth];
      if (minutes === undefined || typeof value !== 'string') return undefined;
      return shiftMoment(value, reckoning.sign * minutes);
    }
    case 'minutes': {
      const minutes = amountAt(context, reckoning);
      return minutes === undefined || typeof value !== 'string' ? undefined : shiftMoment(value, minutes);
    }
    case 'count': {
      const amount = amountOf(value);
      return amount === undefined ? undefined : amount + reckoning.by;
    }
    default: {
      const [a, b] = [amountOf(value), amountAt(context, reckoning)];
      return a === undefined || b === undefined ? undefined : combine(a, reckoning.op, b);
    }
  }
}

/**
 * Computes a result without rounding errors.
 * @returns undefined when a double cannot represent the result
 */
function combine(a: number, op: 'plus' | 'minus' | 'times', b: number): number | undefined {
  const result = op === 'plus' ? a + b : op === 'minus' ? a - b : a * b;
  if (!(Math.abs(result) <= Number.MAX_SAFE_INTEGER)) return undefined;
  if (Number.isInteger(result)) return result;
  // Removes the rounding error, which is smaller than the last written digit.
  return Math.abs(result) < 9e9 ? Math.round(result * 1e6) / 1e6 : undefined;
}

function amountAt(context: ReckoningContext, { from, path }: { from: string; path: string[] }) {
  let at = context.source(from);
  for (const key of path) at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  return amountOf(at);
}

/** Maximum number of numbers, and depth of a number. */
const AMOUNTS = 24;
const DEPTH = 3;

/** Numbers in the step's results and calls, outside lists, with their places. */
export function listAmounts({ step }: ReckoningContext): { from: string; path: string[]; amount: number }[] {
  const found: { from: string; path: string[]; amount: number }[] = [];
  const visit = (from: string, at: unknown, path: string[]): void => {
    if (found.length >= AMOUNTS) return;
    const amount = amountOf(at);
    if (amount !== undefined) found.push({ from, path, amount });
    else if (isObject(at) && path.length < DEPTH)
      for (const key of Object.keys(at)) visit(from, at[key], [...path, key]);
  };
  for (const { name, value } of step.sources)
    if (name.startsWith('result:') || name.startsWith('call:')) visit(name, value, []);
  return found;
}

/** Longest time by which a value is moved in the same way everywhere. */
const SHIFT_MINUTES = 62 * 1_440;
/** Maximum number of durations of a text that are tried. */
const DURATIONS = 3;
const TEXTS = ['task', 'said'] as const;

/** Ways to compute the wanted value from a number, a day or a time of the step. */
export function proposeReckonings(
  from: Primitive,
  wanted: Primitive,
  context: ReckoningContext,
): Reckoning[] {
  if (typeof from === 'string' && typeof wanted === 'string') return proposeShifts(from, wanted, context);
  const [a, result] = [amountOf(from), amountOf(wanted)];
  if (a === undefined || result === undefined) return [];
  const found: Reckoning[] = [];
  if (Math.abs(result - a) === 1) found.push({ op: 'count', by: result - a });
  // Nothing is learned from adding nothing.
  for (const { from: source, path, amount } of listAmounts(context))
    for (const op of ['plus', 'minus', 'times'] as const)
      if (result !== a && combine(a, op, amount) === result) found.push({ op, from: source, path });
  return found;
}

function proposeShifts(from: string, wanted: string, context: ReckoningContext): Reckoning[] {
  const minutes = minutesBetween(from, wanted);
  if (minutes === undefined || minutes === 0 || Math.abs(minutes) > SHIFT_MINUTES) return [];
  const found: Reckoning[] = [];
  for (const name of TEXTS)
    for (const [nth, lasting] of findDurations(context.text(name)).slice(0, DURATIONS).entries())
      for (const sign of [1, -1] as const)
        if (sign * lasting === minutes) found.push({ op: 'lasting', in: name, nth, sign });
  for (const { from: source, path, amount } of listAmounts(context))
    if (amount === minutes) found.push({ op: 'minutes', from: source, path });
  found.push({ op: 'shift', minutes });
  return found.filter((reckoning) => reckon(from, reckoning, context) === wanted);
}
