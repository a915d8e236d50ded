/** Names and descriptions of the monitors, and the names of the built-in profiles. Constants only; any thread. */

/**
 * Every monitor with its description in the API. Tables list them in this order, and stored runs refer to them by
 * position, so a new monitor must come last.
 */
export const MONITOR_DESCRIPTIONS = {
  verification_skip: 'Changes without a check, and success that is claimed anyway',
  claim_contradiction: 'The agent says something other than the results of its tools',
  cyclic_compression: 'The agent summarizes its work, loses results and repeats them',
  semantic_loop: 'The same attempt again and again, in different words',
  silent_topic_drift: 'The agent works on something that is not its task',
  infinite_loop: 'The same action with the same input, again and again',
} as const;

export type MonitorName = keyof typeof MONITOR_DESCRIPTIONS;

/** The names on the wire. */
export const MONITOR_NAMES = Object.keys(MONITOR_DESCRIPTIONS) as unknown as readonly [
  MonitorName,
  ...MonitorName[],
];

/** Writes a monitor's name as it is shown on screens: `infinite loop`. */
export function titleOfMonitor(name: string): string {
  return name.replaceAll('_', ' ');
}

/** One score per monitor, each from 0 to 1. */
export type MonitorScores = Record<MonitorName, number>;

/** `coding` is the default of a run. */
export const BUILT_IN_PROFILE_NAMES = ['coding', 'pr_review', 'qa'] as const;

export type BuiltInProfileName = (typeof BUILT_IN_PROFILE_NAMES)[number];
