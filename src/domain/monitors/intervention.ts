/**
 * What an agent is told when a monitor fires: the failure, the evidence, what to do instead. Pure; any thread.
 */

import type { MonitorName } from './names.ts';

/** `nudge`: change course. `stop`: the nudge did not help; end this line of work. */
export type InterventionLevel = 'nudge' | 'stop';

export interface Intervention {
  failure_type: MonitorName;
  /** For the model, at most INTERVENTION_CHARACTERS. */
  text: string;
  level: InterventionLevel;
}

/** Longest intervention text, in UTF-16 units (decision: 1,200 characters). */
export const INTERVENTION_CHARACTERS = 1200;
