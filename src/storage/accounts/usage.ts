/**
 * Usage by day (src/domain/usage.ts): sums of the rows of all databases that count. A report of 365 days reads only
 * those days. Any thread.
 */
import {
  INTERVENTION_TOTALS,
  USAGE,
  USAGE_DAYS_MAX,
  type UsageCounts,
  usageKey,
} from '../../domain/usage.ts';
import { RecentMap } from '../../std/recent-map.ts';
import type { Stores } from '../stores.ts';
import type { TableReader } from '../tables.ts';

/** Maximum number of organizations whose past days a server thread keeps in memory, about 70 KB each. */
const USAGE_ORGS_REMEMBERED = 200;

const DAY_MS = 86_400_000;

/** A day counts as closed after this many days. Rows may arrive late, but then its last row is certainly written. */
const OPEN_DAYS = 7;

interface DaysOver {
  from: string;
  to: string;
  days: ReadonlyMap<string, UsageCounts>;
}

/** Days that are over, by database, then by organization. */
const DAYS_OVER = new WeakMap<TableReader, RecentMap<string, DaysOver>>();

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
 * One entry for each day, including days without usage. The last day is that of `nowMs`.
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
  if (project_id !== null) {
    series.forEach((entry, index) => {
      const row = usageKey(org_id, first + index * DAY_MS, project_id);
      for (const tables of [stores.main, stores.runs])
        add(entry, tables.get<Partial<UsageCounts>>(USAGE, row) ?? {});
    });
    return series;
  }
  const over = dayOf(startOfDay(nowMs) - OPEN_DAYS * DAY_MS);
  const known = daysOver(stores, org_id, series[0]!.date, over);
  const byDate = new Map(series.map((entry) => [entry.date, entry]));
  for (const entry of series) {
    if (entry.date < over) add(entry, known.get(entry.date) ?? {});
  }
  for (const { row, value } of rowsSince(stores, org_id, over)) {
    const entry = byDate.get(String(row[1]));
    if (entry !== undefined) add(entry, value);
  }
  return series;
}

/** Sums over all projects for days that are closed. These sums cannot change, so they are read once and cached. */
function daysOver(
  stores: Stores,
  org_id: string,
  from: string,
  to: string,
): ReadonlyMap<string, UsageCounts> {
  let remembered = DAYS_OVER.get(stores.runs);
  if (remembered === undefined) {
    remembered = new RecentMap(USAGE_ORGS_REMEMBERED);
    DAYS_OVER.set(stores.runs, remembered);
  }
  const known = remembered.get(org_id);
  if (known !== undefined && known.from <= from && known.to === to) return known.days;
  // Always reads the days of a whole report, because the next request may need more days.
  const begin = dayOf(Date.parse(to) - USAGE_DAYS_MAX * DAY_MS);
  const days = new Map<string, UsageCounts>();
  for (const { row, value } of rowsSince(stores, org_id, begin)) {
    const date = String(row[1]);
    if (date >= to) continue;
    let counts = days.get(date);
    if (counts === undefined) {
      counts = { ...ZERO };
      days.set(date, counts);
    }
    add(counts, value);
  }
  remembered.set(org_id, { from: begin, to, days });
  return days;
}

/** All interventions ever. */
export function readInterventionTotals(
  { main, runs }: Stores,
  org_id: string,
  project_id: string | null,
): { retrieve: number; evaluate: number } {
  const row = project_id === null ? [org_id] : [org_id, project_id];
  const totals = { retrieve: 0, evaluate: 0 };
  for (const tables of [main, runs]) {
    const counts = tables.get<Partial<UsageCounts>>(INTERVENTION_TOTALS, row);
    totals.retrieve += counts?.injections_retrieve ?? 0;
    totals.evaluate += counts?.injections_evaluate ?? 0;
  }
  return totals;
}

/** Interventions between two times, both at the start of a day. */
export function readInterventions(stores: Stores, org_id: string, fromMs: number, toMs: number): number {
  const [from, to] = [dayOf(fromMs), dayOf(toMs)];
  let count = 0;
  for (const { row, value } of rowsSince(stores, org_id, from)) {
    if (String(row[1]) < to) count += interventionsOf(value);
  }
  return count;
}

/** One entry for each day. The last day is that of `nowMs`. */
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
    // The keys of a day extend this key, so they sort after it.
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
