/**
 * The usage meter's messages. Each organization has one actor, whose key is the organization's id. It counts usage, and
 * limits the number of interventions to that of the plan. Any thread.
 */
import type { EvaluatedSteps } from '../../src/domain/evaluated-runs.ts';
import type { UsageCounts } from '../../src/domain/usage.ts';

export const USAGE_METER_KIND = 'usage-meter';

interface InterveneRequest {
  /** Key of the counters' row. */
  project_id: string;
  /** Maximum number of interventions of both kinds in this UTC month; null: no cap. */
  cap: number | null;
  /** Number of patterns found, which are served if the intervention is allowed. */
  patterns: number;
}

export interface InterveneReply {
  allowed: boolean;
  /** Interventions in this UTC month, including this one if it is allowed. */
  used: number;
}

export interface CountRequest {
  project_id: string;
  counts: Partial<UsageCounts>;
  /**
   * Name of the intervention in `counts`. With the name, the intervention counts once, even if it is reported several
   * times.
   */
  once?: string;
}

/** Asks whether the evaluation of these posted steps returns a text. */
interface EvaluateStepsRequest {
  project_id: string;
  steps: EvaluatedSteps;
}

export interface EvaluateStepsReply {
  /** Whether the evaluation returns the intervention's text. */
  due: boolean;
  /**
   * Whether the same steps were evaluated before, with the same answer, or the intervention is already counted. The
   * evaluation then counts no intervention.
   */
  is_repeat: boolean;
}

export interface CountReply {
  /** Interventions in this UTC month. */
  used: number;
  /** Whether the intervention named by `once` was already counted. */
  is_repeat: boolean;
}

export type UsageMeterProtocol = {
  /** Counts a retrieval that found patterns, and its intervention if the cap is not reached. */
  intervene: { request: InterveneRequest; reply: InterveneReply };
  /** Adds to the counters; never refused. */
  count: { request: CountRequest; reply: CountReply };
  /** Counts an evaluation of posted steps, and decides whether it returns a text. */
  evaluate: { request: EvaluateStepsRequest; reply: EvaluateStepsReply };
  /** Interventions in this UTC month. */
  used: { request: null; reply: { used: number } };
};
