/** Runs the monitors over a finished trace, step by step. Pure; actor threads and the command line. */

import { digestStep } from '../monitors/digest.ts';
import { maskStep } from '../monitors/masked-step.ts';
import { advanceMonitors, initialMonitors, type MonitorsState } from '../monitors/monitors.ts';
import type { MonitorName } from '../monitors/names.ts';
import { BUILT_IN_PROFILES, findBuiltInProfile, type MonitorProfile } from '../monitors/profiles.ts';
import type { Trace } from '../trace.ts';
import type { TraceStep } from '../trace-step.ts';

/** Maximum number of steps that the monitors see; later steps of a longer trace are not monitored. */
const MONITORED_STEPS = 2_000;
const NONE: readonly MonitorName[] = [];

/** Runs the monitors over the steps of a trace, as they would have run when the steps were logged. */
export class TraceMonitor {
  readonly #profile: MonitorProfile;
  #state: MonitorsState;
  #steps = 0;

  constructor(trace: Trace) {
    // The thresholds of an organization's custom profile are not available here, and matter little for this purpose.
    this.#profile = findBuiltInProfile(trace.task_profile) ?? BUILT_IN_PROFILES.coding;
    this.#state = initialMonitors(trace.task);
  }

  /** Judges the next step, and returns the monitors that fire at it. */
  judge(step: TraceStep): readonly MonitorName[] {
    if (this.#steps++ >= MONITORED_STEPS) return NONE;
    const { state, outcome } = advanceMonitors(this.#state, digestStep(maskStep(step)), this.#profile);
    this.#state = state;
    return outcome.fired;
  }
}
