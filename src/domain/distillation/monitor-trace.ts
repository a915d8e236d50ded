/** Runs the monitors over a whole trace after the fact. Pure; actor threads. */

import { digestStep } from '../monitors/digest.ts';
import { advanceMonitors, initialMonitors } from '../monitors/monitors.ts';
import type { MonitorName } from '../monitors/names.ts';
import { BUILT_IN_PROFILES, findBuiltInProfile } from '../monitors/profiles.ts';
import type { Trace } from '../trace.ts';
import type { FiredBySteps } from './failure-type.ts';

/** Steps that the monitors are run over; a longer trace has its later steps unmonitored. */
const MONITORED_STEPS = 2_000;
/** Runs the monitors over the trace as they would have run live. */
export function monitorTrace(trace: Trace): FiredBySteps {
  // A custom profile is the organization's own affair; its thresholds are not at hand, nor do they matter much here.
  const profile = findBuiltInProfile(trace.task_profile) ?? BUILT_IN_PROFILES.coding;
  let state = initialMonitors(trace.task);
  const fired: (readonly MonitorName[])[] = [];
  for (const step of trace.steps.slice(0, MONITORED_STEPS)) {
    const advanced = advanceMonitors(state, digestStep(step), profile);
    state = advanced.state;
    fired.push(advanced.outcome.fired);
  }
  return fired;
}
