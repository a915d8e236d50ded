/** The names of the six monitors, as they stand on the wire. Constants only; any thread. */

/** In the order in which tables print them. */
export const MONITOR_NAMES = [
  'verification_skip',
  'claim_contradiction',
  'cyclic_compression',
  'semantic_loop',
  'silent_topic_drift',
  'infinite_loop',
] as const;

export type MonitorName = (typeof MONITOR_NAMES)[number];

/** One score a monitor, each in [0, 1]. */
export type MonitorScores = Record<MonitorName, number>;
