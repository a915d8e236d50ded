/** One step of a trace. Pure; server threads, actor threads and the command line. */

/** One step: thought, action and result. */
export interface TraceStep {
  step_index: number;
  thought: string;
  action: string;
  action_input: string;
  observation: string;
  is_error: boolean;
  tokens: number;
}
