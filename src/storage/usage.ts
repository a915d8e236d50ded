/** Reads the counters of usage (src/domain/usage.ts). Any thread. */
import { USAGE, type UsageCounts } from '../domain/usage.ts';
import type { TableReader } from './tables.ts';

export interface DayUsage {
  /** `2026-11-21`, UTC. */
  date: string;
  counts: UsageCounts;
}

const ZERO: Readonly<UsageCounts> = Object.freeze({
  runs: 0,
  steps: 0,
  tokens: 0,
  traces: 0,
  retrievals: 0,
  evaluations: 0,
  injections_retrieve: 0,
  injections_evaluate: 0,
});

/**
 * An organization's counters, a day each, over all databases that count.
 * @param sources usually `runs.mdb`, where every counter is today, and `main.mdb`
 * @param from first day, `YYYY-MM-DD`
 * @param to last day, the same or later
 * @param projectId one project's alone; null: all of them together
 * @returns the days on which something was counted, in order
 */
export function readUsage(
  sources: readonly TableReader[],
  orgId: string,
  from: string,
  to: string,
  projectId: string | null = null,
): DayUsage[] {
  const days = new Map<string, UsageCounts>();
  for (const source of sources) {
    // A key of two parts stands before all keys of three that begin with it.
    for (const { row, value } of source.range<Partial<UsageCounts>>(USAGE, {
      prefix: [orgId],
      after: [orgId, from],
    })) {
      const [, date, project] = row as [string, string, string];
      if (date > to) break;
      if (projectId !== null && project !== projectId) continue;
      let counts = days.get(date);
      if (counts === undefined) {
        counts = { ...ZERO };
        days.set(date, counts);
      }
      for (const name of Object.keys(ZERO) as (keyof UsageCounts)[]) counts[name] += value[name] ?? 0;
    }
  }
  return [...days].sort(([a], [b]) => (a < b ? -1 : 1)).map(([date, counts]) => ({ date, counts }));
}

/** The counters of some days together. */
export function sumUsage(days: readonly DayUsage[]): UsageCounts {
  const sum = { ...ZERO };
  for (const { counts } of days)
    for (const name of Object.keys(ZERO) as (keyof UsageCounts)[]) sum[name] += counts[name];
  return sum;
}
