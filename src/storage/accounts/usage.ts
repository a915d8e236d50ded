/**
 * Usage by day (src/domain/usage.ts): sums of the counters in all databases. The sums of closed days over all projects
 * are cached. Any thread.
 */
import { type CountedDay, USAGE_DAYS_MAX, type UsageCounts } from '../../domain/usage.ts';
import { RecentMap } from '../../std/recent-map.ts';
import type { RunReads } from '../ports/run-reads.ts';
import type { UsageReads } from '../ports/usage.ts';

/** Maximum number of organizations whose past days a server thread keeps in memory, about 70 KB each. */
const USAGE_ORGS_REMEMBERED = 200;

const DAY_MS = 86_400_000;

/** A day counts as closed after this many days. By then, late rows of that day have been written. */
const OPEN_DAYS = 7;

interface DaysOver {
  from: string;
  to: string;
  days: ReadonlyMap<string, UsageCounts>;
}

/** Sums of closed days, by database, then by organization. */
const DAYS_OVER = new WeakMap<RunReads, RecentMap<string, DaysOver>>();

/** The stores with counters. */
interface CountStores {
  accounts: { usage: UsageReads };
  run_reads: RunReads;
}

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
 * Reads the usage of an organization: one entry for each day, including days without usage. The last day is that of
 * `nowMs`.
 * @param project_id null: all projects
 * @param days ≥ 1
 */
export async function readUsage(
  stores: CountStores,
  {
    org_id,
    project_id,
    days,
    nowMs,
  }: { org_id: string; project_id: string | null; days: number; nowMs: number },
): Promise<DayCounts[]> {
  const first = startOfDay(nowMs) - (days - 1) * DAY_MS;
  const series = Array.from({ length: days }, (_, index) => ({
    date: dayOf(first + index * DAY_MS),
    ...ZERO,
  }));
  const byDate = new Map(series.map((entry) => [entry.date, entry]));
  const addAll = (counted: readonly CountedDay[]): void => {
    for (const { day, counts } of counted) {
      const entry = byDate.get(day);
      if (entry !== undefined) add(entry, counts);
    }
  };
  if (project_id !== null) {
    const dates = series.map(({ date }) => date);
    addAll(await stores.run_reads.listProjectCounts(org_id, project_id, dates));
    addAll(stores.accounts.usage.listProjectCounts(org_id, project_id, dates));
    return series;
  }
  const over = dayOf(startOfDay(nowMs) - OPEN_DAYS * DAY_MS);
  const known = await daysOver(stores, org_id, series[0]!.date, over);
  for (const entry of series) {
    if (entry.date < over) add(entry, known.get(entry.date) ?? {});
  }
  addAll(await listCountsSince(stores, org_id, over));
  return series;
}

/** Sums over all projects for days that are closed. These sums cannot change, so they are cached until the next day. */
async function daysOver(
  stores: CountStores,
  org_id: string,
  from: string,
  to: string,
): Promise<ReadonlyMap<string, UsageCounts>> {
  let remembered = DAYS_OVER.get(stores.run_reads);
  if (remembered === undefined) {
    remembered = new RecentMap(USAGE_ORGS_REMEMBERED);
    DAYS_OVER.set(stores.run_reads, remembered);
  }
  const known = remembered.get(org_id);
  if (known !== undefined && known.from <= from && known.to === to) return known.days;
  // Reads the days of the longest report, because the next request may need more days.
  const begin = dayOf(Date.parse(to) - USAGE_DAYS_MAX * DAY_MS);
  const days = new Map<string, UsageCounts>();
  for (const { day, counts } of await listCountsSince(stores, org_id, begin)) {
    if (day >= to) continue;
    let sum = days.get(day);
    if (sum === undefined) {
      sum = { ...ZERO };
      days.set(day, sum);
    }
    add(sum, counts);
  }
  remembered.set(org_id, { from: begin, to, days });
  return days;
}

/** Reads the number of all interventions since the beginning, by retrievals and by evaluations. */
export async function readInterventionTotals(
  { accounts, run_reads }: CountStores,
  org_id: string,
  project_id: string | null,
): Promise<{ retrieve: number; evaluate: number }> {
  const totals = { retrieve: 0, evaluate: 0 };
  const ofRuns = await run_reads.sumInterventions(org_id, project_id);
  for (const counts of [ofRuns, accounts.usage.sumInterventions(org_id, project_id)]) {
    totals.retrieve += counts.injections_retrieve ?? 0;
    totals.evaluate += counts.injections_evaluate ?? 0;
  }
  return totals;
}

/** Counts the interventions between two times, both at the start of a day. */
export async function readInterventions(
  stores: CountStores,
  org_id: string,
  fromMs: number,
  toMs: number,
): Promise<number> {
  const [from, to] = [dayOf(fromMs), dayOf(toMs)];
  let count = 0;
  for (const { day, counts } of await listCountsSince(stores, org_id, from)) {
    if (day < to) count += interventionsOf(counts);
  }
  return count;
}

/** Counts an organization's interventions of each day, including days without any. The last day is that of `nowMs`. */
export async function readInterventionSeries(
  stores: CountStores,
  org_id: string,
  days: number,
  nowMs: number,
): Promise<{ date: string; injections: number }[]> {
  const series = await readUsage(stores, { org_id, project_id: null, days, nowMs });
  return series.map((entry) => ({ date: entry.date, injections: interventionsOf(entry) }));
}

export function interventionsOf(counts: Partial<UsageCounts>): number {
  return (counts.injections_retrieve ?? 0) + (counts.injections_evaluate ?? 0);
}

async function listCountsSince(
  { accounts, run_reads }: CountStores,
  org_id: string,
  day: string,
): Promise<CountedDay[]> {
  return [...(await run_reads.listCounts(org_id, day)), ...accounts.usage.listCounts(org_id, day)];
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
