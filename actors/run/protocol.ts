/**
 * A run's messages. Each run of an organization has one actor. The project is not part of the actor's address. A reply
 * that is a text is JSON, which the caller receives unchanged. Any thread.
 */
import { createHash } from 'node:crypto';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { MonitorStep } from '../../src/domain/monitors/masked-step.ts';
import type { CallReport } from '../../src/domain/reported-calls.ts';
import type { RunStart, RunTotals } from '../../src/domain/run.ts';
import { type ActorAddress, MAX_KEY_LENGTH } from '../../src/runtime/protocol.ts';
import type { StepMessage } from './step-message.ts';

export const RUN_KIND = 'run';

/** The refusals of a run. */
export const RUN_REFUSALS = {
  run_not_found: 'Run not found',
  run_conflict: 'A run with this run_id exists with another start',
  run_finished: 'The run is finished',
  outcome_conflict: 'The run is finished with another outcome',
  run_deleting: 'The run is being deleted; it can be started again in a moment',
} as const;

export type RunRefusalCode = keyof typeof RUN_REFUSALS;

/** The result of an evaluation of the run. */
export interface EvaluateReply {
  /** The answer of the API, as JSON. */
  json: string;
  /** Whether an intervention is due, which `json` then contains. */
  inject: boolean;
  /** Number of the run's steps: two answers with the same number contain the same intervention. */
  steps: number;
  /** The run's project. */
  project_id: string;
}

interface DeleteRequest {
  /** The project to which the caller is limited; null: no limit. */
  project_id: string | null;
  /** Audit entry that is written with the deletion; null: the caller records the deletion elsewhere. */
  audit: AuditEntry | null;
}

/** A step that telemetry reports, without an index. */
export interface KeyedStep extends Pick<CallReport, 'key' | 'told_by' | 'call'> {
  step: Omit<MonitorStep, 'step_index'>;
}

export interface KeyedStepsRequest {
  /** The project to which the caller is limited; null: no limit. */
  project_id: string | null;
  /** The steps, which are looked up and recorded together, in this order. */
  steps: readonly KeyedStep[];
  /** The model that the report names; '': it names none. A run that was started without a model takes this one. */
  model: string;
}

export interface KeyedStepsReply {
  /** Number of steps that were recorded. */
  recorded: number;
  /** Number of new steps that were not recorded, because the run is finished. */
  refused: number;
}

export type RunProtocol = {
  start: { request: RunStart; reply: string };
  step: { request: StepMessage; reply: string };
  /**
   * Records each step with the next index of the run. Does not record a step whose call was reported before, or a new
   * step of a finished run.
   */
  keyed_steps: { request: KeyedStepsRequest; reply: KeyedStepsReply };
  finish: { request: { project_id: string | null; outcome: string }; reply: string };
  evaluate: { request: { project_id: string | null }; reply: EvaluateReply };
  /** The run's totals so far. */
  totals: { request: { project_id: string | null }; reply: RunTotals };
  /** Deletes the run. The reply comes when the run is hidden; the steps of a long run are deleted shortly after. */
  delete: { request: DeleteRequest; reply: null };
  /** Loads the actor, which then resumes a deletion that was interrupted. The reply does not wait for the deletion. */
  wake: { request: null; reply: null };
};

/**
 * Returns the address of a run. The key is both ids, separated by a line break, which no id contains. If the key would
 * be too long, its hash is used instead.
 */
export function runAddress(orgId: string, runId: string): ActorAddress {
  const key = `${orgId}\n${runId}`;
  if (key.length <= MAX_KEY_LENGTH) return { kind: RUN_KIND, key };
  return { kind: RUN_KIND, key: createHash('sha256').update(key).digest('hex') };
}
