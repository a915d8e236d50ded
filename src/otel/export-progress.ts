/** What the export of spans tells of itself. Data; any thread. */

/** Why spans or exchanges are given up. */
export const GIVEN_UP_CAUSES = ['refused', 'rejected', 'unreadable', 'behind'] as const;
export type GivenUpCause = (typeof GIVEN_UP_CAUSES)[number];

/** What has happened since the last report. */
export interface ExportProgress {
  /** Everything up to this exchange is done with. */
  position: number;
  /** The last exchange that is stored. */
  last_id: number;
  exchanges: number;
  spans: number;
  given_up: Partial<Record<GivenUpCause, number>>;
  /** Why the collector does not take anything now; null: it does. */
  failing: string | null;
}
