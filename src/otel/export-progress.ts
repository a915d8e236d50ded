/** The reported progress of the span export. Data; any thread. */

/** Why spans or exchanges are given up. */
export const GIVEN_UP_CAUSES = ['refused', 'rejected', 'unreadable', 'behind'] as const;
export type GivenUpCause = (typeof GIVEN_UP_CAUSES)[number];

/** Events since the last report. */
export interface ExportProgress {
  /** All exchanges up to this one are finished. */
  position: number;
  /** The last stored exchange. */
  last_id: number;
  exchanges: number;
  spans: number;
  given_up: Partial<Record<GivenUpCause, number>>;
  /** Why the collector accepts nothing now; null when it accepts spans. */
  failing: string | null;
}
