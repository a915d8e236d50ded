/** The reported progress of the span export. Data; any thread. */

/** Why spans or exchanges are given up. */
export const GIVEN_UP_CAUSES = ['refused', 'rejected', 'unreadable', 'behind'] as const;
export type GivenUpCause = (typeof GIVEN_UP_CAUSES)[number];

/** The state of the export, and the counts since the last report. */
export interface ExportProgress {
  /** Id of the last exchange up to which all exchanges are exported or given up. */
  position: number;
  /** Id of the last stored exchange. */
  last_id: number;
  /** Exchanges exported since the last report. */
  exchanges: number;
  /** Spans that the collector accepted since the last report. */
  spans: number;
  /** What was given up since the last report, by cause. */
  given_up: Partial<Record<GivenUpCause, number>>;
  /** Why the collector accepts nothing now; null when it accepts spans. */
  failing: string | null;
}
