/**
 * Usage that is counted in the main database: of traces and retrievals. The counters of runs may be in the shared
 * database (run-reads.ts). Types; any thread.
 */
import type { CountedDay, UsageCounts } from '../../domain/usage.ts';

export interface UsageReads {
  /** Lists the counters of an organization from a day on, in the order of the days. */
  listCounts(org_id: string, first_day: string): CountedDay[];
  /** Lists the counters of one project on these days. Days without counts may be missing. */
  listProjectCounts(org_id: string, project_id: string, days: readonly string[]): CountedDay[];
  /** Counts all interventions since the beginning, by kind. @param project_id null: of all projects */
  sumInterventions(org_id: string, project_id: string | null): Partial<UsageCounts>;
}
