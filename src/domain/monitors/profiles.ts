/**
 * Profiles: how much each monitor counts in the total score, and from which score on it fires. The built-in three
 * and the shape that a custom one has. Data and one look-up; any thread.
 */

import { MONITORS } from './definitions.ts';
import { BUILT_IN_PROFILE_NAMES, type BuiltInProfileName, MONITOR_NAMES, type MonitorName } from './names.ts';

export interface MonitorProfile {
  name: string;
  /** At or above 0; `total_score` is the mean of the scores under these. All zero counts as all equal. */
  weights: Record<MonitorName, number>;
  /** In [0, 1]; a monitor fires at a score at or above its own. */
  thresholds: Record<MonitorName, number>;
}

/** The threshold of every monitor of which a profile says nothing. */
const DEFAULT_THRESHOLD = 0.5;

/**
 * A whole profile out of what a customer says: a weight that is left out is 0, a threshold that is left out 0.5.
 * The caller has checked the ranges.
 */
export function makeProfile(
  name: string,
  weights: Partial<Record<MonitorName, number>>,
  thresholds: Partial<Record<MonitorName, number>> = {},
): MonitorProfile {
  const profile: MonitorProfile = {
    name,
    weights: {} as Record<MonitorName, number>,
    thresholds: {} as Record<MonitorName, number>,
  };
  for (const monitor of MONITOR_NAMES) {
    profile.weights[monitor] = weights[monitor] ?? 0;
    profile.thresholds[monitor] = thresholds[monitor] ?? DEFAULT_THRESHOLD;
  }
  return profile;
}

/**
 * The built-in profiles, with the weights that each monitor's definition gives. Document 2 names the heaviest monitor of
 * each profile.
 */
export const BUILT_IN_PROFILES = Object.fromEntries(
  BUILT_IN_PROFILE_NAMES.map((profile) => {
    const weights = MONITOR_NAMES.map((monitor) => [monitor, MONITORS[monitor].weights[profile]]);
    return [profile, makeProfile(profile, Object.fromEntries(weights) as Record<MonitorName, number>)];
  }),
) as Record<BuiltInProfileName, MonitorProfile>;

/** The built-in profile of that name, or null: then it is a custom one, or none. */
export function findBuiltInProfile(name: string): MonitorProfile | null {
  return (BUILT_IN_PROFILE_NAMES as readonly string[]).includes(name)
    ? BUILT_IN_PROFILES[name as BuiltInProfileName]
    : null;
}
