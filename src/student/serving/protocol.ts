/**
 * The messages between a server thread and the student's thread, over a message port, and the reasons and reports in
 * them. A message is plain data; its body travels as bytes in transferred memory. Types and constants; server threads and
 * the student's thread.
 *
 * Messages on one port arrive in the order in which they were sent. The server thread decides who serves a
 * step: after it has sent the step to the upstream and `abandon` to the student, it ignores a late answer.
 */

import { RELEGATION_WIRES, type RelegationWire } from '../../domain/exchange.ts';
import type { LedgerReport } from '../../domain/student-ledger.ts';
import { UNCOVERED_REASONS } from '../model/decision.ts';
import type { WatchedAgentReport } from '../model/drift-watch.ts';

/**
 * Versions of the Messages API that a student supports. Answers and their events are the same in both. The newer
 * version refuses some requests that the older one accepts.
 */
export const API_VERSIONS = ['2023-06-01', '2026-10-21'] as const;
export type ApiVersion = (typeof API_VERSIONS)[number];

export { RELEGATION_WIRES, type RelegationWire };

/** A step that the student decides on. */
export interface StepRequest {
  type: 'decide';
  wire: RelegationWire;
  /** The server thread's number for the step. */
  id: number;
  /** The request's whole body. */
  body: Uint8Array;
  /** The run's label, from the standard header or an operator's own; null if absent. */
  run_id: string | null;
  /**
   * The unit that must stay together when a version serves a share of the runs: the run, or a client's session; null
   * when unknown.
   */
  session_id: string | null;
  seq: number | null;
  /** Values of the wire's beta header as received. */
  betas: string[];
  /** `anthropic-version`. For other wires, the value has no meaning and is the first one. */
  api_version: ApiVersion;
  /** The address at which the request arrived, as `nameOrigin` names it. */
  origin: string;
  /** Deadline on the monotonic clock, which all threads share. */
  expires_at_ms: number;
}

export type ClientMessage =
  | StepRequest
  /** The upstream took the step over; a student's answer is ignored. */
  | { type: 'abandon'; id: number; run_id: string | null }
  /** The client has disconnected: do not serve the step. */
  | { type: 'cancel'; id: number }
  /** The upstream serves a step of that run without asking the student. */
  | { type: 'taken'; run_id: string }
  /** Shadow mode and audits: what the upstream answered to a step that the student would have served. */
  | { type: 'compare'; id: number; status: number; headers: string[]; body: Uint8Array };

/** What the student found out about a step; kept with the step's exchange. */
export interface StepFinding {
  /** The step's agent; null when unknown. */
  agent: string | null;
  /** Kind of the student's answer; null when the student has no answer that it could serve. */
  kind: string | null;
  /** How unlike golden steps the step is, 0 to 1; null if it was not compared. */
  score: number | null;
  /**
   * The student's answer as JSON: blocks of turn.ts with exact numbers. Present only in shadow mode and for audits.
   */
  answer?: string;
}

/** A complete answer, ready for the wire. */
export interface ServedStep {
  type: 'served';
  id: number;
  finding: StepFinding;
  body: Uint8Array;
  /** true for server-sent events, false for JSON. */
  is_stream: boolean;
  /** For the header `request-id`, or `x-request-id`. */
  request_id: string;
  /** Approximate number of tokens that the upstream did not have to process. */
  input_tokens: number;
  output_tokens: number;
}

export type StudentMessage =
  | ServedStep
  | { type: 'declined'; id: number; reason: DeclineReason; finding: StepFinding | null }
  /** Shadow mode: the student would have served the step. */
  | { type: 'would_serve'; id: number; finding: StepFinding }
  /** The step is audited: the upstream serves it, and the upstream's answer must be sent for comparison. */
  | { type: 'audit'; id: number; finding: StepFinding }
  /**
   * Shadow mode and audits: whether the student's answer agrees with the upstream's. `reading_differs`: two readings of
   * the upstream's answer differ, so the answers do not count as agreed.
   */
  | { type: 'compared'; agreed: boolean; reading_differs: boolean };

/** Why the student's thread replies to a step without an answer. */
export const DECLINE_REASONS = [
  ...UNCOVERED_REASONS,
  /** The upstream has taken over the run, or has given the conversation's last answer. */
  'taken_over',
  /** The student does not know the conversation so far: it began elsewhere, before a restart, or long ago. */
  'unknown_run',
  /** The student was recently wrong too often with this agent or kind of answer, or an operator suspended it. */
  'suspended',
  /** The version serves a share of the runs, and this run is not among them. */
  'canary',
  /** The student's validity has ended. */
  'expired',
  /** The step could not be translated for the service behind the student. */
  'untranslatable',
  /** The student, or the service behind it, failed or gave an unusable answer. */
  'failed',
] as const;
export type DeclineReason = (typeof DECLINE_REASONS)[number];

/** Every reason why a step goes to the upstream, in `relegation.fallbacks` of the stats. */
export const FALLBACK_REASONS = [
  ...DECLINE_REASONS,
  /** The student would have served the step; the upstream serves the step, for comparison. */
  'audit',
  /** Shadow mode: the student would have served the step. */
  'shadow',
  /** The directory holds no student, or none that can be read. */
  'no_student',
  /** The student is being loaded or restarted. */
  'loading',
  /** The maximum number of steps is in progress. */
  'busy',
  'timeout',
  /** The student's thread ended. */
  'crashed',
  'too_large',
  /** The rest of the body is slow to arrive. */
  'slow_body',
  /** The body is compressed, or its content type is not JSON. */
  'encoded',
  /** The operator has not named the credential, and the upstream has not accepted it recently. */
  'unknown_credential',
  /** The request has neither `x-api-key` nor `authorization`, so the upstream must refuse it. */
  'no_credential',
] as const;
export type FallbackReason = (typeof FALLBACK_REASONS)[number];

/** Reasons that also count as errors, because the student should have answered. */
export const ERROR_REASONS: ReadonlySet<FallbackReason> = new Set(['failed', 'timeout', 'crashed']);

/** How often the student was right, judged by comparisons; for the stats. */
export interface WatchReport extends LedgerReport {
  /** Share of the runs that this version serves. */
  share: number;
  /** When the student expires; null: it does not. */
  valid_until: string | null;
  is_expired: boolean;
  agents: WatchedAgentReport[];
}
export type { WatchedAgentReport };

/** The student that a thread has loaded. */
export interface StudentFacts {
  kind: 'exemplar' | 'http';
  /** Version of its manifest. */
  version: number;
}
