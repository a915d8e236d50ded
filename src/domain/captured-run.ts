/**
 * What the API asks of the captures and what it is answered, between a server thread and the capture reader. Types; any
 * thread.
 */
import type { ChildKind } from './child-kind.ts';
import type { GoldenReason } from './golden.ts';
import type { MonitorName } from './monitors/names.ts';
import type { RunMark } from './run-mark.ts';
import type { PagePlace } from './run-query/page.ts';
import type { RunQuery } from './run-query/run-query.ts';
import type { RunEnder, RunStatus } from './run-status-name.ts';
import type { FigureQuestion } from './traffic-figures.ts';

/** Which steps of relegation a list shows. */
export interface RelegatedStepFilter {
  /**
   * `refused`: the student was asked, or could not be, and the upstream served; `compared`: both answers are known; `disagreed`:
   * and they differ; `served`: the student served.
   */
  outcome?: 'refused' | 'compared' | 'disagreed' | 'served';
}

export type CaptureQuestion =
  | { name: 'runs'; limit: number; after: PagePlace | null; query: RunQuery }
  | { name: 'run'; run_id: string; limit: number; after: number | null }
  | { name: 'run_cache'; run_id: string }
  | { name: 'cache'; before: number | null; from_ms: number | null }
  | { name: 'limits'; now_ms: number }
  | { name: 'figures'; question: FigureQuestion }
  | { name: 'activity'; from_ms: number; to_ms: number }
  | { name: 'exchange'; id: number }
  | { name: 'steps'; limit: number; before: number | null; filter: RelegatedStepFilter }
  | { name: 'explain'; id: number }
  | { name: 'search'; q: string; limit: number; before: number | null }
  | { name: 'body'; id: number; side: 'request' | 'response' };

/**
 * `json`: the answer's body, as it is sent. `bytes`: a stored body. `missing`: nothing captured is called that.
 * `refused`: it cannot be read now, with the reason for the operator. `unfit`: the question cannot be answered, with the reason
 * for the user.
 */
export type CaptureAnswer =
  | { type: 'json'; json: Uint8Array }
  | { type: 'bytes'; bytes: Uint8Array }
  | { type: 'missing' }
  | { type: 'refused'; detail: string }
  | { type: 'unfit'; detail: string };

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

/** What was reported of a run of the list. */
interface ReportedPart {
  /** Differs from the captured run's where the two were joined by a trace or a session. */
  run_id: string;
  org_id: string;
  project_id: string;
  agent_name: string;
  framework: string;
  task_profile: string;
  codebase_id: string;
  experiment_id: string;
  arm: string;
  is_finished: boolean;
  started_at: string;
  finished_at: string | null;
  steps: number;
  tokens: number;
  max_total_score: number;
  fired: Record<MonitorName, number>;
}

/** A run as the list shows it: captured, reported or both. */
export interface CapturedRunRow {
  run_id: string;
  /** false: it was only reported. */
  is_captured: boolean;
  /** How it ended, or that it goes on (run-status.ts). */
  status: RunStatus;
  /** null: it goes on, or it is not known. */
  ended_by: RunEnder | null;
  /** Why it has this status, for people. */
  status_words: string;
  /** The reported name, or else the client program; '' when neither is known. */
  agent: string;
  /** null: no run of its id, trace or session was reported. */
  reported: ReportedPart | null;
  /** The client's own session; null where its headers name none. */
  session_id: string | null;
  /** The run that this one is part of; null: not part of a run. */
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
  /** Tools that its answers called, the first 64. */
  tools: string[];
  /** The program that sent its first request; null where its headers name none. */
  client: string | null;
  /** Of the first `traceparent`; null without one. */
  trace_id: string | null;
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
  /** Turns in `cost_usd` whose price is a guess, or whose tokens are estimated. */
  estimated_turns: number;
  errors: number;
  aborted: number;
  /** Missing x-svc-seq, both ends included. */
  gaps: [from: number, to: number][];
  /** Of the finished monitor run with the same id; null without one. */
  outcome: string | null;
  /** A person's; null: none. */
  mark: RunMark | null;
  tags: readonly string[];
  /** A person's; '' without one. */
  note: string;
  /** 0 to 1; null: none. */
  feedback_score: number | null;
  /** null: not judged yet. */
  golden: boolean | null;
  /** Why not golden. */
  reasons: GoldenReason[];
  /** What the mark overrules. */
  overruled: GoldenReason[];
}

/** What passed the gateway in a span, as far as it was captured. */
interface ActivityCounts {
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
  /** Turns in `cost_usd` whose price is a guess, or whose tokens are estimated. */
  estimated_turns: number;
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
