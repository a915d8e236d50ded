/**
 * The six monitors over one run, step by step: `advanceMonitors` takes the state before a step and its digest and gives
 * the state after it and what the monitors say. Bounded state, the same cost at every step, the same result live and
 * in replay. Pure; any thread.
 */

import type { Intervention } from './intervention.ts';
import type { MonitorName, MonitorScores } from './names.ts';

/** What is kept of a run: plain data that msgpack takes as it is, at most 6 KB however long the run. */
export interface MonitorsState {
  /** Steps seen so far. */
  steps: number;
  /** Numbers with a layout of their own. */
  memory: Uint8Array;
}

export interface StepOutcome {
  scores: MonitorScores;
  /** Weighted mean of the scores under the profile. */
  total_score: number;
  /** Monitors at or above their threshold, in the order of MONITOR_NAMES. */
  fired: MonitorName[];
  /** Once a streak, and again when it escalates; otherwise null. */
  intervention: Intervention | null;
}
