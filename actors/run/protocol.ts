/**
 * What a run understands. One actor a run of an organization, whatever its project; its answers are JSON that goes to
 * the caller as it is. Any thread.
 */
import { createHash } from 'node:crypto';
import type { MonitorStep } from '../../src/domain/monitors/digest.ts';
import type { RunStart, RunTotals } from '../../src/domain/run.ts';
import { PackablePayload } from '../../src/runtime/link.ts';
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

/** A step for its run. */
export class StepMessage extends PackablePayload {
  /** The project that the caller is held to; null: none. */
  readonly project_id: string | null;
  readonly step: MonitorStep;

  constructor(projectId: string | null, step: MonitorStep) {
    super();
    this.project_id = projectId;
    this.step = step;
  }

  pack(): PackedStep {
    const { step_index, action, action_input, thought, observation, is_error, tokens } = this.step;
    return [this.project_id, step_index, action, action_input, thought, observation, is_error, tokens];
  }
}

/** The same by position, which msgpack writes and reads in half the time of named fields. */
export type PackedStep = readonly [
  project_id: string | null,
  step_index: number,
  action: string,
  action_input: string,
  thought: string,
  observation: string,
  is_error: boolean,
  tokens: number,
];

/** The step as it was sent, whether from this thread or another. */
export function readStep(message: StepMessage | PackedStep): Pick<StepMessage, 'project_id' | 'step'> {
  if (message instanceof StepMessage) return message;
  const [project_id, step_index, action, action_input, thought, observation, is_error, tokens] = message;
  return { project_id, step: { step_index, action, action_input, thought, observation, is_error, tokens } };
}

/** What an evaluation of the run gives. */
export interface EvaluateReply {
  json: string;
  inject: boolean;
  /** Steps that the run has: two answers with as many hand out the same intervention. */
  steps: number;
  /** The run's own. */
  project_id: string;
}

export type RunProtocol = {
  start: { request: RunStart; reply: string };
  step: { request: StepMessage | PackedStep; reply: string };
  finish: { request: { project_id: string | null; outcome: string }; reply: string };
  evaluate: { request: { project_id: string | null }; reply: EvaluateReply };
  /** What a run that is not finished adds up to so far. */
  totals: { request: { project_id: string | null }; reply: RunTotals };
};

/** Where the run lives. Ids hold no line end; those that are too long for a key together are hashed. */
export function runAddress(orgId: string, runId: string): ActorAddress {
  const key = `${orgId}\n${runId}`;
  if (key.length <= MAX_KEY_LENGTH) return { kind: RUN_KIND, key };
  return { kind: RUN_KIND, key: createHash('sha256').update(key).digest('hex') };
}
