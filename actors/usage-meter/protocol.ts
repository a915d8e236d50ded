/**
 * What the usage meter understands. One actor an organization, its key the organization's id: it counts what the
 * organization used, and lets no more retrievals intervene than its plan allows. Any thread.
 */
import type { EvaluatedSteps } from '../../src/domain/evaluated-runs.ts';
import type { UsageCounts } from '../../src/domain/usage.ts';

export const USAGE_METER_KIND = 'usage-meter';

interface InterveneRequest {
  /** Of the counters' row. */
  project_id: string;
  /** Interventions in this UTC month, of both kinds, beyond which none is allowed; null: no cap. */
  cap: number | null;
  /** How many patterns were found: what is served if it is allowed. */
  patterns: number;
}

export interface InterveneReply {
  allowed: boolean;
  /** Interventions in this UTC month, this one included. */
  used: number;
}

export interface CountRequest {
  project_id: string;
  counts: Partial<UsageCounts>;
  /** Names the intervention among `counts`: it counts once, however often it is asked for. */
  once?: string;
}

/** Posted steps are evaluated. */
interface EvaluateStepsRequest {
  project_id: string;
  steps: EvaluatedSteps;
}

export interface EvaluateStepsReply {
  /** The streak's text is to be handed out. */
  due: boolean;
  /** The same steps were evaluated before: the answer is the same, and its intervention has been counted. */
  is_repeat: boolean;
}

export interface CountReply {
  /** Interventions in this UTC month. */
  used: number;
  /** Whether the intervention named by `once` had been counted before. */
  is_repeat: boolean;
}

export type UsageMeterProtocol = {
  /** A retrieval found something: counted as a call, and as an intervention if that is under the cap. */
  intervene: { request: InterveneRequest; reply: InterveneReply };
  /** Counts what happened; nothing is refused. */
  count: { request: CountRequest; reply: CountReply };
  /** Counts an evaluation of posted steps, and says whether it hands a text out. */
  evaluate: { request: EvaluateStepsRequest; reply: EvaluateStepsReply };
  /** Interventions in this UTC month. */
  used: { request: null; reply: { used: number } };
};
