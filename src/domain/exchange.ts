/**
 * The exchange: one request and its answer as the gateway saw them, in three forms. Pure types and rules. Server
 * threads make exchanges, the capture process stores and indexes them, and the capture reader and the command line read
 * them.
 *
 *   CapturedExchange   what a server thread sends to the capture writer: raw, with credentials, never written to a disk
 *   ExchangeEntry      what the decoder read from the stored copy, after the exchange was stored
 *   ExchangeRecord     what readers get, and `understudy inspect --json` prints: without secrets
 */
import type { ChildKind } from './child-kind.ts';
import type { EndCause } from './end-cause.ts';

/**
 * `turn`: a model answers in a conversation. `other`: anything else, such as counting tokens or listing models.
 */
export type ExchangeKind = 'turn' | 'other';

/** Who answered. `student` occurs only with relegation. */
export type ServedBy = 'upstream' | 'student';

/** Wires of which a student can answer steps (GW_RELEGATION_WIRES). */
export const RELEGATION_WIRES = ['messages', 'chat_completions', 'responses'] as const;
export type RelegationWire = (typeof RELEGATION_WIRES)[number];

/**
 * The wire format of a request. A server thread derives it from method and path. If they show none, the capture process
 * derives it from the bodies. Fields of this type are null for a format that is not decoded.
 */
export type ApiShape =
  | 'messages'
  | 'chat_completions'
  | 'responses'
  | 'completion'
  | 'gemini'
  | 'bedrock_converse'
  | 'bedrock_invoke';

/**
 * What one client's requests have in common. Requests with the same form usually share one object, so that data derived
 * from the form is computed once.
 */
export interface RequestForm {
  /** Flat [name, value, …] in wire order. Each varying value is an example, from one of the requests. */
  headers: readonly string[];
  /** Positions of the varying values, in ascending order. */
  varying: readonly number[];
}

/**
 * Why a body is not kept: its search for secrets could not be completed.
 *   redaction_budget      the search takes more work than is allowed (`REDACTION_WORK`)
 *   decompression_budget  it unpacks to many times its size, and the time for such bodies was used up (`DECOMPRESSION`)
 *   undecodable           compressed in a way that we do not know, or damaged from the beginning
 *   failed                the search itself failed because of a fault in this program
 */
export const WITHHELD_CAUSES = ['redaction_budget', 'decompression_budget', 'undecodable', 'failed'] as const;
export type WithheldCause = (typeof WITHHELD_CAUSES)[number];

/**
 * One finished exchange on its way to the capture writer. Headers are flat [name, value, …] in wire order,
 * latin1.
 */
export interface CapturedExchange {
  /** `x-svc-run`, or null when the client sent none. */
  run_id: string | null;
  /** `x-svc-seq`, or null. */
  seq: number | null;
  note: string;
  /**
   * The label of the upstream: GW_PROVIDER for the default one, `gemini`, `bedrock`, the provider of a route of
   * GW_ROUTES, or the label of a host behind the proxy.
   */
  provider: string;
  kind: ExchangeKind;
  shape: ApiShape | null;
  method: string;
  /** The path as the client sent it: with the prefix, without the query. */
  path: string;
  /** Raw, without `?`; may contain credentials. */
  query: string;
  /** 0 if the upstream never answered with a status. */
  status: number;
  /** Milliseconds since the epoch. */
  started_at_ms: number;
  /** Larger than for every exchange whose request arrived earlier, on any server thread; absent if unknown. */
  arrival?: number | undefined;
  /** From the first byte of the request to the head of the answer; null without an answer. */
  first_byte_ms: number | null;
  duration_ms: number;
  aborted: boolean;
  /** Who ended the exchange, and why; absent if it succeeded. */
  end_cause?: EndCause | undefined;
  /** Whether a body was longer than the capture limit. The stored copy is then its beginning. */
  truncated: boolean;
  served_by: ServedBy;
  request_headers: readonly string[];
  /** The form of the request. The headers of the form equal `request_headers`, except for the varying values. */
  request_form?: RequestForm;
  response_headers: readonly string[];
  /** Lengths on the wire, including truncated parts. */
  request_bytes: number;
  response_bytes: number;
  request_body: Uint8Array;
  response_body: Uint8Array;
}

/** The exchange on a server thread: each body is in the cells into which it was copied, all full except the last. */
export type FinishedExchange = Omit<CapturedExchange, 'request_body' | 'response_body'> & {
  request_form: RequestForm;
  request_cells: readonly Uint8Array[];
  request_kept_bytes: number;
  response_cells: readonly Uint8Array[];
  response_kept_bytes: number;
};

/** Tokens of one turn; null if the provider did not report them. */
export interface TokenUsage {
  input_tokens: number | null;
  output_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  /** The part of `cache_write_tokens` that the provider bills at its one-hour rate. */
  cache_write_1h_tokens: number | null;
  /** Set if the provider reported no counts, and these are estimated from the texts. */
  estimated?: true;
  /**
   * The tier of service that the answer names, if it is not the standard one (`providers/service-tier.ts`); absent in
   * records of versions before 0.2.0, too.
   */
  tier?: string;
}

/** Makes usage whose counts are all unknown; a new object at each call, because the caller fills in the counts. */
export function unknownUsage(): TokenUsage {
  return {
    input_tokens: null,
    output_tokens: null,
    cache_read_tokens: null,
    cache_write_tokens: null,
    cache_write_1h_tokens: null,
  };
}

/** What a decoder found in the stored copy of one exchange. */
export interface ExchangeEntry {
  model: string | null;
  usage: TokenUsage;
  stop_reason: string | null;
  /** Whether it is a turn whose body could not be read (encoding, framing, JSON, size). Its bytes are stored anyway. */
  undecodable: boolean;
  /** Why, in words, when undecodable; '' otherwise. */
  reason: string;
  /**
   * For turns: one hash for each prefix of the conversation in the request (after 1 message, after 2, …). The last hash
   * stands for the whole request. Empty when there is no conversation. The n-th hashes of two requests are equal if
   * their first n messages have the same meaning.
   */
  conversation: string[];
}

/** Headers and length of one side, credentials masked. */
export interface ExchangeSide {
  headers: [name: string, value: string][];
  bytes: number;
  /** Why the body is withheld; absent if it is stored. */
  withheld?: WithheldCause;
}

/**
 * Name of a pseudo header of an answer: relegation's decision about the step, as JSON. No client or upstream can send
 * a header with this name. It is masked and stored like a header.
 */
export const DECISION_FIELD = ':relegation';

/**
 * Name of a pseudo header of a request: a fingerprint of its credential. No client can send a header with this name.
 * Equal credentials have equal fingerprints, which do not reveal the credential.
 */
export const CREDENTIAL_FIELD = ':credential';

/** Relegation's decision about a step, as stored with the exchange. */
export interface RecordedDecision {
  /** `served`, `would_serve` (shadow mode), `audit`, or why the student did not serve. */
  decision: string;
  /** Version of the student; null: it was not asked. */
  student_version: number | null;
  /** The agent of the step, the kind of the student's answer, and its distance from golden steps; null if unknown. */
  agent: string | null;
  kind: string | null;
  score: number | null;
  /**
   * The student's answer as blocks of turn.ts, if the upstream was asked for comparison. null: there was no comparison,
   * or the answer is too long. Numbers keep their digits (`std/exact-json.ts`).
   */
  answer: readonly object[] | null;
}

/** The stored exchange, as all readers see it. */
export interface ExchangeRecord {
  /** From 1, in the order of writing, without gaps, across rotations and restarts. */
  id: number;
  /** The client's label, or one found by conversation; null if the exchange belongs to no run. */
  run_id: string | null;
  seq: number | null;
  /** Whether its `x-svc-seq` was not a number. */
  has_bad_seq?: true;
  /** The client's own session, if its headers name one. */
  session_id?: string;
  /** The parent of its run; absent without one. */
  parent_run_id?: string;
  /** The kind of its run within the session; absent for an agent's own run. */
  run_kind?: ChildKind;
  note: string;
  provider: string;
  kind: ExchangeKind;
  shape: ApiShape | null;
  method: string;
  path: string;
  query: string;
  status: number;
  started_at: string;
  /** Orders exchanges by the arrival of their requests; absent in records of versions before 0.2.0. */
  arrival?: number;
  /** The turn of its run that it continues or retries, as far as the histories prove it; absent otherwise. */
  follows?: number;
  first_byte_ms: number | null;
  duration_ms: number;
  aborted: boolean;
  /** Failed tool results in the request; absent without any. */
  failed_results?: number;
  /** A fingerprint of the request's credential; absent without one, and in records of versions before 0.2.0. */
  credential?: string;
  /**
   * Names of the tools that the answer calls, without repetitions, at most CALLED_TOOLS; absent without one, and in
   * older records.
   */
  tools?: string[];
  /**
   * The program that sent the request, from the beginning of `user-agent`; absent without one, and in older records.
   */
  client?: string;
  /** From the request's `x-svc-tags`; absent without one. */
  tags?: string[];
  /** From the request's `traceparent`; absent without one, and in older records. */
  trace_id?: string;
  /** Who ended the exchange, and why; absent if it succeeded, and in records of versions before 0.2.0. */
  end_cause?: EndCause;
  truncated: boolean;
  undecodable: boolean;
  /**
   * Set while the exchange is not indexed. Until then, the model, stop reason and usage are unknown, and so is the run,
   * unless the request named the run.
   */
  not_indexed?: true;
  served_by: ServedBy;
  model: string | null;
  stop_reason: string | null;
  usage: TokenUsage;
  request: ExchangeSide;
  response: ExchangeSide;
  /** Absent if relegation was not involved. */
  relegation?: RecordedDecision;
}
