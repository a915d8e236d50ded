/**
 * The exchange: one request and its answer as the gateway saw them, in the three forms it takes on its way.
 * Pure types and rules; used on server threads (made), actor threads (stored, indexed) and in the command line (read).
 *
 *   CapturedExchange   server thread → capture writer. Raw: still holds credentials, never touches a disk.
 *   ExchangeEntry      what the decoder read out of the stored copy, later and off the hot path.
 *   ExchangeRecord     what `understudy inspect --json` prints; nothing secret in it.
 */
import type { ChildKind } from './child-kind.ts';
import type { EndCause } from './end-cause.ts';

/** A turn is one answer of a model in a conversation; everything else (counting tokens, listing models) is other. */
export type ExchangeKind = 'turn' | 'other';

/** Who answered. `student` comes with relegation. */
export type ServedBy = 'upstream' | 'student';

/** Wires of which a student can answer steps (GW_RELEGATION_WIRES). */
export const RELEGATION_WIRES = ['messages', 'chat_completions', 'responses'] as const;
export type RelegationWire = (typeof RELEGATION_WIRES)[number];

/** The request's shape, told from its method and path alone. `null`: not one that we decode. */
export type ApiShape =
  | 'messages'
  | 'chat_completions'
  | 'responses'
  | 'completion'
  | 'gemini'
  | 'bedrock_converse'
  | 'bedrock_invoke';

/** What requests of one client have in common. Mostly one object for all of them, so that what is made of it is made once. */
export interface RequestForm {
  /** Flat [name, value, …] in wire order; of a value that varies, the one of some such request. */
  headers: readonly string[];
  /** Where those values are, in ascending order. */
  varying: readonly number[];
}

/**
 * Why a body is not kept: it could not be shown to hold no secret.
 *   redaction_budget      it takes more work to search than it may (`REDACTION_WORK`)
 *   decompression_budget  it unpacks to far more than it is, and the time for such bodies was used up (`DECOMPRESSION`)
 *   undecodable           compressed in a way that we do not know, or damaged from the beginning
 *   failed                the search itself failed, which is a mistake of ours
 */
export const WITHHELD_CAUSES = ['redaction_budget', 'decompression_budget', 'undecodable', 'failed'] as const;
export type WithheldCause = (typeof WITHHELD_CAUSES)[number];

/** One finished exchange on its way to the capture writer. Headers are flat [name, value, …] in wire order, latin1. */
export interface CapturedExchange {
  /** `x-svc-run`, or null when the client sent none. */
  run_id: string | null;
  /** `x-svc-seq`, or null. */
  seq: number | null;
  note: string;
  /** The route's label: GW_PROVIDER for the default upstream, `gemini`, `bedrock`. */
  provider: string;
  kind: ExchangeKind;
  shape: ApiShape | null;
  method: string;
  /** As the client sent it, prefix included, without the query. */
  path: string;
  /** Raw, without `?`; may still hold credentials here. */
  query: string;
  /** 0 when the upstream never answered with a status. */
  status: number;
  /** Milliseconds since the epoch. */
  started_at_ms: number;
  /** Larger than that of every exchange whose request arrived earlier, on whichever server thread; left out: not known. */
  arrival?: number;
  /** From the first byte of the request to the head of the answer; null when none came. */
  first_byte_ms: number | null;
  duration_ms: number;
  aborted: boolean;
  /** Who ended it, and why; left out where it went well. */
  end_cause?: EndCause;
  /** A body was longer than the capture limit: the stored copy is its beginning. */
  truncated: boolean;
  served_by: ServedBy;
  request_headers: readonly string[];
  /** Its headers are `request_headers`, but for those values that vary. */
  request_form?: RequestForm;
  response_headers: readonly string[];
  /** Lengths on the wire, truncation or not. */
  request_bytes: number;
  response_bytes: number;
  request_body: Uint8Array;
  response_body: Uint8Array;
}

/** The same as a server thread holds it: each body in the cells it was copied into, all but the last filled to the end. */
export type FinishedExchange = Omit<CapturedExchange, 'request_body' | 'response_body'> & {
  request_form: RequestForm;
  request_cells: readonly Uint8Array[];
  request_kept_bytes: number;
  response_cells: readonly Uint8Array[];
  response_kept_bytes: number;
};

/** Tokens of one turn; null where the provider did not say. */
export interface TokenUsage {
  input_tokens: number | null;
  output_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  /** The part of `cache_write_tokens` that the provider bills at its one-hour rate. */
  cache_write_1h_tokens: number | null;
  /** The provider told no counts: these are estimated from the texts. */
  estimated?: true;
}

/** Usage of which nothing is known. A fresh object each time: readers fill it in. */
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
  /** A turn whose body we could not read (encoding, framing, JSON, over the size cap); the bytes are stored all the same. */
  undecodable: boolean;
  /** Why, in words, when undecodable; '' otherwise. */
  reason: string;
  /**
   * For turns: one hash for each prefix of the conversation in the request (after 1 message, after 2, …), the last
   * one standing for the whole request. Empty when there is no conversation. Two requests share the n-th hash when
   * their first n messages mean the same.
   */
  conversation: string[];
}

/** Headers and length of one side, credentials masked. */
export interface ExchangeSide {
  headers: [name: string, value: string][];
  bytes: number;
  /** The body is not kept, for this reason; left out where it is. */
  withheld?: WithheldCause;
}

/**
 * Among the headers of an answer, what relegation decided about its step, as JSON: a name that no wire can bring. So it is
 * masked and stored as they are.
 */
export const DECISION_FIELD = ':relegation';

/**
 * Among the headers of a request, a sign of the credential that it came with: a name that no wire can bring. Equal credentials
 * have equal signs, and no sign tells its credential.
 */
export const CREDENTIAL_FIELD = ':credential';

/** What relegation decided about a step, as it is kept with the exchange. */
export interface RecordedDecision {
  /** `served`, `would_serve` (shadow mode), `audit`, or why the student did not serve. */
  decision: string;
  /** Of the student; null: it was not asked. */
  student_version: number | null;
  /** Whose step it is, the kind of answer that the student has for it, and how unlike golden steps it is; null: not known. */
  agent: string | null;
  kind: string | null;
  score: number | null;
  /**
   * What the student would have said, where the upstream was asked for comparison, as blocks of turn.ts; null: nothing, or
   * too much to keep. Numbers keep their digits (`std/exact-json.ts`).
   */
  answer: readonly object[] | null;
}

/** The stored exchange as everybody but the writer sees it. */
export interface ExchangeRecord {
  /** From 1, in the order of writing, without holes, across rotation and restart. */
  id: number;
  /** The client's, or one found by conversation; null for an exchange that belongs to no run. */
  run_id: string | null;
  seq: number | null;
  /** It came with an `x-svc-seq` that is no number. */
  has_bad_seq?: true;
  /** The client's own session, where its headers name one. */
  session_id?: string;
  /** The run that its run is part of; absent: of none. */
  parent_run_id?: string;
  /** What its run is within the session; absent: an agent's own run. */
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
  /** Orders exchanges by the arrival of their requests; left out in records of versions before 0.2.0. */
  arrival?: number;
  /** The turn of its run that it continues or tries again, as far as the histories prove; left out: none, or not known. */
  follows?: number;
  first_byte_ms: number | null;
  duration_ms: number;
  aborted: boolean;
  /** Results of tools that the request brings and that say that the tool failed; left out: none. */
  failed_results?: number;
  /** A sign of the credential that the request came with; left out without one, and in records of versions before 0.2.0. */
  credential?: string;
  /** Names of the tools that the answer calls, each once, the first CALLED_TOOLS; left out without one, and in older records. */
  tools?: string[];
  /** The program that sent the request, as `user-agent` begins; left out without one, and in older records. */
  client?: string;
  /** Of the request's `traceparent`; left out without one, and in older records. */
  trace_id?: string;
  /** Who ended it, and why; left out where it went well, and in records of versions before 0.2.0. */
  end_cause?: EndCause;
  truncated: boolean;
  undecodable: boolean;
  /**
   * The index has not read it yet, so its model, stop reason, usage and, unless the request named it, its run are not known;
   * left out once it has.
   */
  not_indexed?: true;
  served_by: ServedBy;
  model: string | null;
  stop_reason: string | null;
  usage: TokenUsage;
  request: ExchangeSide;
  response: ExchangeSide;
  /** Left out where relegation had no say. */
  relegation?: RecordedDecision;
}
