/**
 * What a server thread and the student's thread say to each other over a message port. Plain data; a body travels as
 * bytes of its own memory, which is handed over. Types alone; server threads and the student's thread.
 *
 * Messages of one message port arrive in the order in which they were sent. The server thread decides what becomes of a step: it
 * ignores an answer that comes after it has turned to the upstream, and has told the student with `abandon`.
 */

import { RELEGATION_WIRES, type RelegationWire } from '../../domain/exchange.ts';
import { type StudentBlock, UNCOVERED_REASONS } from '../model/decision.ts';
import type { WatchedAgentReport } from '../model/drift-watch.ts';
import type { LedgerRow } from '../model/ledger-row.ts';

/**
 * Versions of the Messages API that a student speaks. Answers and their events are the same in both; the newer one
 * refuses some requests that the older one takes.
 */
export const API_VERSIONS = ['2023-06-01', '2026-10-21'] as const;
export type ApiVersion = (typeof API_VERSIONS)[number];

export { RELEGATION_WIRES, type RelegationWire };

/** What one step is decided by. */
export interface StepRequest {
  type: 'decide';
  wire: RelegationWire;
  /** The server thread's number for it. */
  id: number;
  /** The request's whole body. */
  body: Uint8Array;
  /** The run by its label, or by an operator's own header; null where there is none. */
  run_id: string | null;
  /** What belongs together when a version serves a share of the runs: the run, or a client's session; null where nothing says. */
  session_id: string | null;
  seq: number | null;
  /** Values of the wire's beta header as they came. */
  betas: string[];
  /** `anthropic-version`; of other wires the first, which says nothing. */
  api_version: ApiVersion;
  /** Where it came in, as `nameOrigin` names it. */
  origin: string;
  /** On the monotonic clock, which all threads read alike: nobody waits any longer. */
  expires_at_ms: number;
}

export type ClientMessage =
  | StepRequest
  /** The upstream took the step over, whatever the student says or has said. */
  | { type: 'abandon'; id: number; run_id: string | null }
  /** The client is gone: nobody serves the step. */
  | { type: 'cancel'; id: number }
  /** The upstream serves a step of that run which the student was not asked about. */
  | { type: 'taken'; run_id: string }
  /** Shadow mode and audits: what the upstream answered to a step that the student would have served. */
  | { type: 'compare'; id: number; status: number; headers: string[]; body: Uint8Array };

/** What the student found of a step, to be kept with its exchange. */
export interface StepFinding {
  /** Whose step it is; null: nobody knows. */
  agent: string | null;
  /** Of the answer that it has; null: it has none. */
  kind: string | null;
  /** How unlike golden steps it is, 0 to 1; null: it was not compared. */
  score: number | null;
  /** What it would have said; left out where that is served, or nothing. */
  answer?: StudentBlock[];
}

/** A whole answer, ready for the wire. */
export interface ServedStep {
  type: 'served';
  id: number;
  finding: StepFinding;
  body: Uint8Array;
  /** Server-sent events; else JSON. */
  is_stream: boolean;
  /** For the header `request-id`, or `x-request-id`. */
  request_id: string;
  /** What the upstream was spared, about. */
  input_tokens: number;
  output_tokens: number;
  /** The same in millionths of a dollar, less what a service behind the student took; null where a price is missing. */
  saved_micro_usd: number | null;
}

export type StudentMessage =
  | ServedStep
  | { type: 'declined'; id: number; reason: DeclineReason; finding: StepFinding | null }
  /** Shadow mode: it would have been served. */
  | { type: 'would_serve'; id: number; finding: StepFinding }
  /** It would be served, but is audited: the upstream serves it, and its answer is to be handed over to be compared. */
  | { type: 'audit'; id: number; finding: StepFinding }
  /** Shadow mode and audits: how that answer compares with the upstream's. */
  | { type: 'compared'; agreed: boolean };

/** Why the student's thread hands a step back. */
export const DECLINE_REASONS = [
  ...UNCOVERED_REASONS,
  /** The upstream has taken the run over, or has given the last answer of the conversation. */
  'taken_over',
  /** A conversation under way that nothing is known of here: begun elsewhere, before a restart, or long ago. */
  'unknown_run',
  /** The student was wrong too often of late with this agent, or with this kind of answer, or an operator says no. */
  'suspended',
  /** The version serves a share of the runs, and this one is not of them. */
  'canary',
  /** The student is older than it may be. */
  'expired',
  /** The service behind the student could not be told the step as it was meant. */
  'untranslatable',
  /** The student, or the service behind it, failed or answered nonsense. */
  'failed',
] as const;
export type DeclineReason = (typeof DECLINE_REASONS)[number];

/** Every reason why a step goes to the upstream, in `relegation.fallbacks` of the stats. */
export const FALLBACK_REASONS = [
  ...DECLINE_REASONS,
  /** The student would have served it: the upstream does, so that the two can be compared. */
  'audit',
  /** Shadow mode: the student would have served it. */
  'shadow',
  /** The student has not been read in yet, or is being started again. */
  'loading',
  /** As many steps as there may be are under way. */
  'busy',
  'timeout',
  /** The student's thread ended. */
  'crashed',
  'too_large',
  /** The rest of the body is long in coming. */
  'slow_body',
  /** Compressed, or not JSON by its content type. */
  'encoded',
  /** A credential that neither the operator has named nor the upstream lately taken. */
  'unknown_credential',
  /** Neither `x-api-key` nor `authorization`: the upstream must say no. */
  'no_credential',
] as const;
export type FallbackReason = (typeof FALLBACK_REASONS)[number];

/** Reasons that are counted as errors, too: the student should have done better. */
export const ERROR_REASONS: ReadonlySet<FallbackReason> = new Set(['failed', 'timeout', 'crashed']);

/** How right the student has been, by what was compared; for the stats. */
export interface WatchReport {
  /** What it did by agent, over the days that are kept. */
  ledger: LedgerRow[];
  /** Of the runs, how much this version serves. */
  share: number;
  /** When it expires; null: never. */
  valid_until: string | null;
  is_expired: boolean;
  agents: WatchedAgentReport[];
}
export type { WatchedAgentReport };

/** The student that a thread has read in. */
export interface StudentFacts {
  kind: 'exemplar' | 'http';
  /** Of its manifest. */
  version: number;
}
