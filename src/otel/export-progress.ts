/** The reported progress of the span export. Data; any thread. */

/** Why spans or exchanges are given up. */
export const GIVEN_UP_CAUSES = ['refused', 'rejected', 'unreadable', 'behind'] as const;
export type GivenUpCause = (typeof GIVEN_UP_CAUSES)[number];

/** Events since the last report. */
export interface ExportProgress {
  /** Id of the last exchange up to which all exchanges are exported or given up. */
  position: number;
  /** Id of the last stored exchange. */
  last_id: number;
  exchanges: number;
  spans: number;
  given_up: Partial<Record<GivenUpCause, number>>;
  /** Why the collector accepts nothing now; null when it accepts spans. */
  failing: string | null;
}
