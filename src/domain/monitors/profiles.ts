/**
 * Profiles: how much each monitor counts in the total score, and from which score on it fires. The built-in three
 * and the shape that a custom one has. Data and one look-up; any thread.
 */

import { MONITOR_NAMES, type MonitorName } from './names.ts';

export interface MonitorProfile {
  name: string;
  /** At or above 0; `total_score` is the mean of the scores under these. All zero counts as all equal. */
  weights: Record<MonitorName, number>;
  /** In [0, 1]; a monitor fires at a score at or above its own. */
  thresholds: Record<MonitorName, number>;
}

/** The threshold of every monitor of which a profile says nothing. */
const DEFAULT_THRESHOLD = 0.5;

/** Names of the built-in profiles; `coding` is the default of a run. */
const BUILT_IN_PROFILE_NAMES = ['coding', 'pr_review', 'qa'] as const;

export type BuiltInProfileName = (typeof BUILT_IN_PROFILE_NAMES)[number];

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

/** The built-in profiles. Document 2 names the heaviest monitor of each; the rest of the numbers is ours. */
export const BUILT_IN_PROFILES: Record<BuiltInProfileName, MonitorProfile> = {
  coding: makeProfile('coding', {
    infinite_loop: 1,
    semantic_loop: 0.9,
    verification_skip: 0.9,
    claim_contradiction: 0.7,
    cyclic_compression: 0.6,
    silent_topic_drift: 0.5,
  }),
  pr_review: makeProfile('pr_review', {
    semantic_loop: 1,
    claim_contradiction: 0.8,
    verification_skip: 0.8,
    infinite_loop: 0.7,
    silent_topic_drift: 0.6,
    cyclic_compression: 0.5,
  }),
  qa: makeProfile('qa', {
    claim_contradiction: 1,
    silent_topic_drift: 1,
    semantic_loop: 0.7,
    infinite_loop: 0.7,
    verification_skip: 0.6,
    cyclic_compression: 0.5,
  }),
};

/** The built-in profile of that name, or null: then it is a custom one, or none. */
export function findBuiltInProfile(name: string): MonitorProfile | null {
  return (BUILT_IN_PROFILE_NAMES as readonly string[]).includes(name)
    ? BUILT_IN_PROFILES[name as BuiltInProfileName]
    : null;
}
