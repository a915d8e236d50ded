/**
 * The counters of usage: one row of counters for each organization, UTC day and project, updated in the transaction
 * of the counted event. Pure; any thread.
 */

/** Maximum number of days in a usage report. */
export const USAGE_DAYS_MAX = 365;

/** Table of these rows, in `runs.mdb`. */
export const USAGE = 'usage';

/**
 * Table with the numbers of all interventions ever, in addition to {@link USAGE}: one row for [org], one for [org,
 * project]. So a total is one look-up, however many days there are.
 */
export const INTERVENTION_TOTALS = 'intervention_totals';

/** Names of the counters; a missing one is 0. */
export interface UsageCounts {
  runs: number;
  steps: number;
  tokens: number;
  traces: number;
  /** Calls of retrieve, whether or not a pattern was found. */
  retrievals: number;
  evaluations: number;
  /** Interventions: retrievals that returned a pattern, evaluations that answered `inject: true`. */
  injections_retrieve: number;
  injections_evaluate: number;
}

/** What was counted on one day, for one project. */
export interface CountedDay {
  /** `2026-11-21` */
  day: string;
  project_id: string;
  counts: Partial<UsageCounts>;
}

/** The part of a table's interface that is needed here. */
interface CountReader {
  get<Value>(table: string, row: readonly string[]): Value | undefined;
  range<Value>(
    table: string,
    range: { prefix: readonly string[]; after: readonly string[] },
  ): Iterable<{ row: (string | number)[]; value: Value }>;
}

/** Reads an organization's counts from a day on, in the order of the days. */
export function readCountedDays(rows: CountReader, orgId: string, firstDay: string): CountedDay[] {
  const days: CountedDay[] = [];
  // The keys of a day extend this key, so they sort after it.
  const range = { prefix: [orgId], after: [orgId, firstDay] };
  for (const { row, value } of rows.range<Partial<UsageCounts>>(USAGE, range))
    days.push({ day: String(row[1]), project_id: String(row[2]), counts: value });
  return days;
}

/** Reads a project's counts on these days; the result has no entry for a day without counts. */
export function readProjectDays(
  rows: CountReader,
  orgId: string,
  projectId: string,
  days: readonly string[],
): CountedDay[] {
  return days.flatMap((day) => {
    const counts = rows.get<Partial<UsageCounts>>(USAGE, [orgId, day, projectId]);
    return counts === undefined ? [] : [{ day, project_id: projectId, counts }];
  });
}

/**
 * Reads the numbers of all interventions ever; empty if there were none.
 * @param projectId null: the sum over all projects
 */
export function readInterventionSum(
  rows: CountReader,
  orgId: string,
  projectId: string | null,
): Partial<UsageCounts> {
  const row = projectId === null ? [orgId] : [orgId, projectId];
  return rows.get<Partial<UsageCounts>>(INTERVENTION_TOTALS, row) ?? {};
}

/** Makes the key of a row. The day precedes the project, so that an organization's period is one range. */
export function usageKey(
  orgId: string,
  atMs: number,
  projectId: string,
): [org_id: string, day: string, project_id: string] {
  return [orgId, dayOf(atMs), projectId];
}

const DAY_MS = 24 * 3_600_000;

/**
 * Names the UTC day of a time, such as `2026-11-21`. The last day is cached, because most counted events belong to the
 * same day.
 */
function dayOf(atMs: number): string {
  if (!(atMs >= lastDay.from_ms && atMs < lastDay.from_ms + DAY_MS)) {
    const text = new Date(atMs).toISOString().slice(0, 10);
    lastDay = { from_ms: Date.parse(text), text };
  }
  return lastDay.text;
}

let lastDay = { from_ms: Number.NaN, text: '' };

/** A row with counts to add, in the form of the runtime and the tables. */
interface UsageWrite {
  op: 'add';
  table: string;
  row: string[];
  counts: Readonly<Record<string, number>>;
}

/** Makes the rows to write for counts: the day's row, and the totals if there are interventions. */
export function usageWrites(
  orgId: string,
  atMs: number,
  projectId: string,
  counts: Readonly<Partial<UsageCounts>>,
): UsageWrite[] {
  const writes: UsageWrite[] = [{ op: 'add', table: USAGE, row: usageKey(orgId, atMs, projectId), counts }];
  const { injections_retrieve = 0, injections_evaluate = 0 } = counts;
  if (injections_retrieve + injections_evaluate > 0) {
    const interventions = { injections_retrieve, injections_evaluate };
    for (const row of [[orgId], [orgId, projectId]])
      writes.push({ op: 'add', table: INTERVENTION_TOTALS, row, counts: interventions });
  }
  return writes;
}
