/** Reads the value of `--since`. Pure; main thread. */

import { UsageError } from './io.ts';
import { formatJson } from './terminal-text.ts';

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Reads a time, in milliseconds since the epoch.
 * @param text `90m` before now, or a time
 * @throws UsageError
 */
export function readSince(text: string, nowMs: number): number {
  const ago = /^(\d{1,9})([smhd])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * UNIT_MS[ago[2]!]!;
  const time = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(time))
    throw new UsageError(
      `--since takes 90m, 12h, 7d or a time such as 2026-05-01T12:00Z, not ${formatJson(text, 0)}`,
    );
  return time;
}
