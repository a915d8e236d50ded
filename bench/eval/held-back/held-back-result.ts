/** Results of the held-back trials. Types; bench process. */

import type { TrialFigures } from './trial-figures.ts';

/** By the agent's name. */
export type ByAgent<T> = Record<string, T>;

export interface HeldBackStage {
  golden_runs: number;
  round_cpu_s: number;
  is_published: boolean;
  live: ByAgent<TrialFigures>;
  restricted: ByAgent<TrialFigures>;
}

/** Results of the runs after a round that followed the change. */
export interface Return {
  /** Runs of each agent since the change, before the round. */
  new_runs: number;
  steps: number;
  served: number;
  wrong: number;
}

export interface SilentChange {
  /** Before the change. */
  golden_runs: number;
  /** Runs after the change, before a round learnt from it. */
  changed_runs: number;
  agents: ByAgent<{
    /** Share of the steps that the student served before the change. */
    served_before: number;
    /** Steps served in the runs after the change and before the first round. */
    served: number;
    wrong: number;
    /** The run of the last wrong answer, counted from the change; 0: there was none. */
    last_wrong_run: number;
    returns: Return[];
  }>;
  rounds_cpu_s: number[];
}

export interface HeldBackResult {
  seed: number;
  stages: HeldBackStage[];
  silent_change: SilentChange | null;
  /** Processor time of this process and of all processes that it started. */
  cpu_s: number;
}

/** What one agent's student would serve after this many golden runs, measured without a gateway. */
export interface OfflineResult {
  agent: string;
  golden_runs: number;
  round_cpu_s: number;
  usual: TrialFigures;
  restricted: TrialFigures;
}
