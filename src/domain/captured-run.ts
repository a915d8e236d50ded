/**
 * What the API asks of the captures and what it is answered, between a server thread and the capture reader. Types; any
 * thread.
 */
import type { ChildKind } from './client-run.ts';
import type { GoldenReason } from './golden.ts';

/** Which captured runs a list shows; what is left out does not matter. */
export interface CapturedRunFilter {
  /** Began at this time or later, and before that one; milliseconds since the epoch. */
  from_ms?: number;
  to_ms?: number;
  /** Some turn asked for it. */
  model?: string;
  golden?: boolean;
  /** Some turn was answered by it. */
  served_by?: 'student' | 'upstream';
  /** Of this session of the client. */
  session_id?: string;
  /** Part of no other run; false: part of one. */
  is_own?: boolean;
  /** Stands in the run's id, its first words, a note or a model, whatever the case. */
  q?: string;
}

/** Which steps of relegation a list shows. */
export interface RelegatedStepFilter {
  /**
   * `refused`: the student was asked, or could not be, and the upstream served; `compared`: both answers are known; `disagreed`:
   * and they differ; `served`: the student served.
   */
  outcome?: 'refused' | 'compared' | 'disagreed' | 'served';
}

export type CaptureQuestion =
  | { name: 'runs'; limit: number; before: number | null; filter: CapturedRunFilter }
  | { name: 'run'; run_id: string; limit: number; after: number | null }
  | { name: 'activity'; from_ms: number; to_ms: number }
  | { name: 'exchange'; id: number }
  | { name: 'steps'; limit: number; before: number | null; filter: RelegatedStepFilter }
  | { name: 'explain'; id: number }
  | { name: 'body'; id: number; side: 'request' | 'response' };

/**
 * `json`: the answer's body, as it is sent. `bytes`: a stored body. `missing`: nothing captured is called that.
 * `refused`: it cannot be read now, with the reason for the operator.
 */
export type CaptureAnswer =
  | { type: 'json'; json: Uint8Array }
  | { type: 'bytes'; bytes: Uint8Array }
  | { type: 'missing' }
  | { type: 'refused'; detail: string };

/** Reads captures. */
export interface CaptureAsker {
  /** @throws CatalogueError `unavailable` or `deadline_exceeded` (rejects) */
  ask(question: CaptureQuestion): Promise<CaptureAnswer>;
}

/** A run that is part of another one. */
export interface ChildRunName {
  run_id: string;
  kind: ChildKind | null;
}

/** A captured run as a list shows it. */
export interface CapturedRunRow {
  run_id: string;
  /** The client's own session; null where its headers name none. */
  session_id: string | null;
  /** The run that this one is part of; null: of none. */
  parent_run_id: string | null;
  /** What it is within its session; null: an agent's own run. */
  kind: ChildKind | null;
  /** Runs that are part of it, the first NAMED_CHILD_RUNS in the order in which they began. */
  child_runs: ChildRunName[];
  /** First words of the user; null: not read yet. */
  task: string | null;
  notes: string[];
  providers: string[];
  models: string[];
  exchanges: number;
  turns: number;
  student_turns: number;
  started_at: string;
  finished_at: string;
  duration_ms: number;
  input_tokens: number | null;
  output_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  /** Dollars for the upstream's turns; null: no price is known. */
  cost_usd: number | null;
  /** Turns that it leaves out: their price or tokens are not known. */
  unpriced_turns: number;
  errors: number;
  aborted: number;
  /** Missing x-svc-seq, both ends included. */
  gaps: [from: number, to: number][];
  /** null: not judged yet. */
  golden: boolean | null;
  /** Why not golden. */
  reasons: GoldenReason[];
}

/** What passed the gateway in a span, as far as it was captured. */
export interface ActivityCounts {
  exchanges: number;
  turns: number;
  errors: number;
  student_turns: number;
  input_tokens: number;
  output_tokens: number;
  /** Dollars for the upstream's turns; null: no price is known. */
  cost_usd: number | null;
  /** Turns that it leaves out. */
  unpriced_turns: number;
  /** Of turns, to the end and to the first byte of the answer; null without one. */
  latency_p50_ms: number | null;
  latency_p95_ms: number | null;
  first_byte_p50_ms: number | null;
  first_byte_p95_ms: number | null;
}

/** The same in all and in equal parts. */
export interface CapturedActivity extends ActivityCounts {
  from: string;
  to: string;
  /** false: the span holds more exchanges than are remembered, and the newest alone are counted. */
  is_whole: boolean;
  series: (ActivityCounts & { at: string })[];
  /** Of the newest runs. */
  golden: { golden: number; not_golden: number; not_judged: number };
}
