/** What defines a monitor. Each monitor's file exports one; `definitions.ts` lists them. Types only; any thread. */

import type { StepFeatures } from './features.ts';
import type { Finding } from './finding.ts';
import type { RunMemory } from './memory.ts';
import type { BuiltInProfileName } from './names.ts';

export interface Monitor {
  /** Weight in each built-in profile. */
  weights: Readonly<Record<BuiltInProfileName, number>>;
  /**
   * `loop`: the run repeats itself. All loop monitors share one streak, so that an agent is told only once.
   * `standstill`: the run makes no progress in another way. `fault`: one step was wrong; its cause may be many steps
   * earlier.
   */
  failure: 'loop' | 'standstill' | 'fault';
  /** Scores a step that `memory` does not contain yet. May update the memory's counters and averages. */
  judge(step: StepFeatures, memory: RunMemory): Finding;
  /** Texts of an intervention, by the `kind` of the finding. */
  texts: Readonly<Record<string, InterventionTexts>>;
}

/** The intervention texts for one rule of a monitor. */
export interface InterventionTexts {
  /** The problem, as a sentence; `{n}` stands for the count, `{changes}` for the number of changes. */
  what: string;
  /** Introduces the earlier steps in the evidence; `{steps}` stands for these steps. Default: `{steps}, then `. */
  lead?: string;
  /** What to do instead. */
  instead: string;
  /** What to do if a nudge changed nothing. */
  stop: string;
}
