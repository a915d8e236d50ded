/**
 * Usage that is counted in the main database: of traces and retrievals. What runs count may be elsewhere (run-reads.ts).
 * Types; any thread.
 */
import type { CountedDay, UsageCounts } from '../../domain/usage.ts';

export interface UsageReads {
  /** What was counted on a day and later, in the order of the days. */
  listCounts(org_id: string, first_day: string): CountedDay[];
  /** The same for one project, on these days. Days without counts may be missing. */
  listProjectCounts(org_id: string, project_id: string, days: readonly string[]): CountedDay[];
  /** All interventions ever. @param project_id null: of all projects */
  sumInterventions(org_id: string, project_id: string | null): Partial<UsageCounts>;
}
