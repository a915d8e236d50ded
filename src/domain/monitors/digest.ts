/**
 * From a step, whose texts may have megabytes, to its digest: the little that the monitors look at, of bounded size.
 * The run actor journals digests, never the steps, and the monitors read digests alone, so a replay gives the same
 * scores. Pure; runs on actor threads and front threads (evaluate).
 */

/** A step as it comes, all fields there. */
export interface MonitorStep {
  step_index: number;
  action: string;
  action_input: string;
  thought: string;
  observation: string;
  is_error: boolean;
  tokens: number;
}

/** Plain data that msgpack takes as it is, at most about 2 KB. What is inside is the monitors' own business. */
export interface StepDigest {
  step_index: number;
  is_error: boolean;
  /** Short, cleaned of control characters: these are quoted in an intervention. */
  action: string;
  input: string;
  /** Numbers with a layout of their own; see `features.ts`. */
  features: Uint8Array;
}

export interface TaskContext {
  task: string;
  task_profile: string;
}
