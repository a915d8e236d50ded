/**
 * Profiles: the weight of each monitor in the total score, and the score at which it fires. The three built-in profiles
 * and the type of a custom profile. Data and one look-up; any thread.
 */

import { MONITORS } from './definitions.ts';
import { BUILT_IN_PROFILE_NAMES, type BuiltInProfileName, MONITOR_NAMES, type MonitorName } from './names.ts';

export interface MonitorProfile {
  name: string;
  /** At least 0; `total_score` is the mean of the scores with these weights. All zeros count as equal weights. */
  weights: Record<MonitorName, number>;
  /** From 0 to 1; a monitor fires when its score is at least its threshold. */
  thresholds: Record<MonitorName, number>;
}

/** The threshold of every monitor that a profile does not mention. */
const DEFAULT_THRESHOLD = 0.5;

/**
 * Completes a customer's profile: a missing weight is 0, a missing threshold 0.5. The caller has checked the ranges.
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
 * The built-in profiles, with the weights that each monitor's definition gives. Contract document 2 names the heaviest
 * monitor of each profile.
 */
export const BUILT_IN_PROFILES = Object.fromEntries(
  BUILT_IN_PROFILE_NAMES.map((profile) => {
    const weights = MONITOR_NAMES.map((monitor) => [monitor, MONITORS[monitor].weights[profile]]);
    return [profile, makeProfile(profile, Object.fromEntries(weights) as Record<MonitorName, number>)];
  }),
) as Record<BuiltInProfileName, MonitorProfile>;

/** Finds the built-in profile with this name; null for any other name. */
export function findBuiltInProfile(name: string): MonitorProfile | null {
  return (BUILT_IN_PROFILE_NAMES as readonly string[]).includes(name)
    ? BUILT_IN_PROFILES[name as BuiltInProfileName]
    : null;
}
