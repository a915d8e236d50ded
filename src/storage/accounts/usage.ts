/**
 * What was counted, day by day (src/domain/usage.ts): rows of every database that counts, added up. A report of 365
 * days reads those days and no others. Any thread.
 */
import { USAGE, type UsageCounts } from '../../domain/usage.ts';
import type { Stores } from '../stores.ts';

const DAY_MS = 86_400_000;

export type DayCounts = UsageCounts & { date: string };

const ZERO: UsageCounts = {
  runs: 0,
  steps: 0,
  tokens: 0,
  traces: 0,
  retrievals: 0,
  evaluations: 0,
  injections_retrieve: 0,
  injections_evaluate: 0,
};

/**
 * One entry a day, the last one being the day of `nowMs`, days without anything too.
 * @param project_id null: all projects
 * @param days ≥ 1
 */
export function readUsage(
  stores: Stores,
  {
    org_id,
    project_id,
    days,
    nowMs,
  }: { org_id: string; project_id: string | null; days: number; nowMs: number },
): DayCounts[] {
  const first = startOfDay(nowMs) - (days - 1) * DAY_MS;
  const series = Array.from({ length: days }, (_, index) => ({
    date: dayOf(first + index * DAY_MS),
    ...ZERO,
  }));
  const byDate = new Map(series.map((entry) => [entry.date, entry]));
  for (const { row, value } of rowsSince(stores, org_id, series[0]!.date)) {
    const entry = byDate.get(String(row[1]));
    if (entry === undefined || (project_id !== null && row[2] !== project_id)) continue;
    add(entry, value);
  }
  return series;
}

/** All that was ever counted. */
export function readUsageTotals(stores: Stores, org_id: string, project_id: string | null): UsageCounts {
  const totals = { ...ZERO };
  for (const { row, value } of rowsSince(stores, org_id, '')) {
    if (project_id === null || row[2] === project_id) add(totals, value);
  }
  return totals;
}

/** Interventions from one moment to another, both at the start of a day. */
export function readInterventions(stores: Stores, org_id: string, fromMs: number, toMs: number): number {
  const [from, to] = [dayOf(fromMs), dayOf(toMs)];
  let count = 0;
  for (const { row, value } of rowsSince(stores, org_id, from)) {
    if (String(row[1]) < to) count += interventionsOf(value);
  }
  return count;
}

/** One entry a day, the last one being the day of `nowMs`. */
export function readInterventionSeries(
  stores: Stores,
  org_id: string,
  days: number,
  nowMs: number,
): { date: string; injections: number }[] {
  return readUsage(stores, { org_id, project_id: null, days, nowMs }).map((entry) => ({
    date: entry.date,
    injections: interventionsOf(entry),
  }));
}

export function interventionsOf(counts: Partial<UsageCounts>): number {
  return (counts.injections_retrieve ?? 0) + (counts.injections_evaluate ?? 0);
}

function* rowsSince({ main, runs }: Stores, org_id: string, day: string) {
  for (const tables of [main, runs]) {
    // Keys of a day are longer than this one, and so come after it.
    yield* tables.range<Partial<UsageCounts>>(USAGE, { prefix: [org_id], after: [org_id, day] });
  }
}

function add(to: UsageCounts, counts: Partial<UsageCounts>): void {
  for (const name of Object.keys(ZERO) as (keyof UsageCounts)[]) to[name] += counts[name] ?? 0;
}

function startOfDay(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
