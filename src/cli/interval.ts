/** Reads times like 30s, 15m, 6h and 1d from a command's flags. Main thread of the command line. */
import { UsageError } from './io.ts';

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const MIN_MS = 1_000;

/**
 * Reads a time from 1 s to `maxDays`, in milliseconds.
 * @param text a number and a unit
 * @param maxDays at least one
 * @throws UsageError for any other text
 */
export function readInterval(flag: string, text: string, maxDays: number): number {
  const [, amount = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(amount) * (UNITS_MS[unit] ?? 0);
  if (!(ms >= MIN_MS && ms <= maxDays * UNITS_MS.d!))
    throw new UsageError(`${flag} takes a time from 1s to ${maxDays}d: 30s, 15m, 6h, 1d`);
  return ms;
}
