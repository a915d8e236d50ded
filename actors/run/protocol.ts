/**
 * What a run understands. One actor a run of an organization, whatever its project; its answers are JSON that goes to
 * the caller as it is. Any thread.
 */
import { createHash } from 'node:crypto';
import type { AuditEntry } from '../../src/domain/account.ts';
import type { MonitorStep } from '../../src/domain/monitors/masked-step.ts';
import type { CallReport } from '../../src/domain/reported-calls.ts';
import type { RunStart, RunTotals } from '../../src/domain/run.ts';
import { type ActorAddress, MAX_KEY_LENGTH } from '../../src/runtime/protocol.ts';
import type { StepMessage } from './step-message.ts';

export const RUN_KIND = 'run';

/** What a run refuses with. */
export const RUN_REFUSALS = {
  run_not_found: 'Run not found',
  run_conflict: 'A run with this run_id exists with another start',
  run_finished: 'The run is finished',
  outcome_conflict: 'The run is finished with another outcome',
  run_deleting: 'The run is being deleted; it can be started anew in a moment',
} as const;

export type RunRefusalCode = keyof typeof RUN_REFUSALS;

/** What an evaluation of the run gives. */
export interface EvaluateReply {
  json: string;
  inject: boolean;
  /** Steps that the run has: two answers with as many hand out the same intervention. */
  steps: number;
  /** The run's own. */
  project_id: string;
}

interface DeleteRequest {
  project_id: string | null;
  /** Written with the deletion; null: the caller records the deletion elsewhere. */
  audit: AuditEntry | null;
}

/** A step that a record of telemetry reports, and that has no index. */
export interface KeyedStep extends Pick<CallReport, 'key' | 'told_by' | 'call'> {
  step: Omit<MonitorStep, 'step_index'>;
}

export interface KeyedStepsRequest {
  project_id: string | null;
  /** Looked up and recorded together, in this order. */
  steps: readonly KeyedStep[];
}

export interface KeyedStepsReply {
  recorded: number;
  /** New ones that came too late: the run is finished. */
  refused: number;
}

export type RunProtocol = {
  start: { request: RunStart; reply: string };
  step: { request: StepMessage; reply: string };
  /** Each gets the next index of the run, unless the call has been reported before. */
  keyed_steps: { request: KeyedStepsRequest; reply: KeyedStepsReply };
  finish: { request: { project_id: string | null; outcome: string }; reply: string };
  evaluate: { request: { project_id: string | null }; reply: EvaluateReply };
  /** What a run that is not finished adds up to so far. */
  totals: { request: { project_id: string | null }; reply: RunTotals };
  /** Answered once the run is hidden; the steps of a long run are deleted a moment later. */
  delete: { request: DeleteRequest; reply: null };
  /** Goes on with a deletion that a crash left; answered at once. */
  wake: { request: null; reply: null };
};

/** Where the run lives. Ids hold no line end; those that are too long for a key together are hashed. */
export function runAddress(orgId: string, runId: string): ActorAddress {
  const key = `${orgId}\n${runId}`;
  if (key.length <= MAX_KEY_LENGTH) return { kind: RUN_KIND, key };
  return { kind: RUN_KIND, key: createHash('sha256').update(key).digest('hex') };
}
