/**
 * What a run understands. One actor a run of an organization, whatever its project; its answers are JSON that goes to
 * the caller as it is. Any thread.
 */
import { createHash } from 'node:crypto';
import type { MonitorStep } from '../../src/domain/monitors/digest.ts';
import type { RunStart } from '../../src/domain/run.ts';
import { type ActorAddress, MAX_KEY_LENGTH } from '../../src/runtime/protocol.ts';

export const RUN_KIND = 'run';

/** What a run refuses with. */
export const RUN_REFUSALS = {
  run_not_found: 'Run not found',
  run_conflict: 'A run with this run_id exists with another start',
  run_finished: 'The run is finished',
  outcome_conflict: 'The run is finished with another outcome',
} as const;

export type RunRefusalCode = keyof typeof RUN_REFUSALS;

/**
 * A step on the link: its fields by position, which packs in half the time of named ones. First the project that the
 * caller is held to (null: none), then the step.
 */
export type StepMessage = readonly [
  project_id: string | null,
  step_index: number,
  action: string,
  action_input: string,
  thought: string,
  observation: string,
  is_error: boolean,
  tokens: number,
];

export function packStep(projectId: string | null, step: MonitorStep): StepMessage {
  const { step_index, action, action_input, thought, observation, is_error, tokens } = step;
  return [projectId, step_index, action, action_input, thought, observation, is_error, tokens];
}

export function unpackStep(message: StepMessage): MonitorStep {
  const [, step_index, action, action_input, thought, observation, is_error, tokens] = message;
  return { step_index, action, action_input, thought, observation, is_error, tokens };
}

/** What an evaluation of the run gives. */
export interface EvaluateReply {
  json: string;
  inject: boolean;
  /** The run's own. */
  project_id: string;
}

export type RunProtocol = {
  start: { request: RunStart; reply: string };
  step: { request: StepMessage; reply: string };
  finish: { request: { project_id: string | null; outcome: string }; reply: string };
  evaluate: { request: { project_id: string | null }; reply: EvaluateReply };
};

/** Where the run lives. Ids hold no line end; those that are too long for a key together are hashed. */
export function runAddress(orgId: string, runId: string): ActorAddress {
  const key = `${orgId}\n${runId}`;
  if (key.length <= MAX_KEY_LENGTH) return { kind: RUN_KIND, key };
  return { kind: RUN_KIND, key: createHash('sha256').update(key).digest('hex') };
}
