/**
 * The API's requests to the capture reader, and the replies. Types; any thread.
 */
import type { CacheQuestion } from './cache-miss.ts';
import type { ChildKind } from './child-kind.ts';
import type { ExchangeKind, ServedBy } from './exchange.ts';
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
   * `refused`: the student was asked, or could not be asked, and the upstream served; `compared`: both answers are
   * known; `disagreed`: both are known and differ; `served`: the student served.
   */
  outcome?: 'refused' | 'compared' | 'disagreed' | 'served';
}

export type CaptureQuestion =
  /** `is_counted`, `is_read`: as in captures/captured-runs.ts. */
  | {
      name: 'runs';
      limit: number;
      after: PagePlace | null;
      query: RunQuery;
      is_counted?: boolean;
      is_read?: boolean;
    }
  /** The values of a field in the runs that match a query. */
  | { name: 'values'; field: string; contains: string; limit: number; query: RunQuery }
  | { name: 'window'; from_ms: number; query: RunQuery; of_query: RunQuery | null }
  | { name: 'run'; run_id: string; limit: number; after: number | null }
  | { name: 'run_cache'; run_id: string }
  /**
   * `after`: an exchange, 0 for the first part. The reply contains a part of the run's spans, and the
   * beginning of the next part.
   */
  | { name: 'run_spans'; run_id: string; after: number }
  | { name: 'cache'; question: CacheQuestion }
  | { name: 'limits'; now_ms: number }
  | { name: 'figures'; question: FigureQuestion }
  | { name: 'activity'; from_ms: number; to_ms: number }
  | { name: 'exchange'; id: number }
  | { name: 'steps'; limit: number; before: number | null; filter: RelegatedStepFilter }
  | { name: 'explain'; id: number }
  | { name: 'search'; q: string; limit: number; before: number | null }
  | { name: 'body'; id: number; side: 'request' | 'response' };

/**
 * `json`: the body of the answer, which is sent unchanged. `bytes`: a stored body. `missing`: the id is unknown.
 * `refused`: the captures cannot be read now, with the reason for the operator. `unfit`: the request cannot be
 * answered, with the reason for the user.
 */
export type CaptureAnswer =
  | { type: 'json'; json: Uint8Array }
  | { type: 'bytes'; bytes: Uint8Array }
  | { type: 'missing' }
  | { type: 'refused'; detail: string }
  | { type: 'unfit'; detail: string };

/** Captures that come from a bucket, and how new they are. Times are RFC 3339. */
export interface CaptureReaderSource {
  /** When the bucket was last read; null: not yet. */
  looked_at: string | null;
  /** Why the bucket could not be read; null: it was read. */
  failure: string | null;
  gateways: {
    gateway: string;
    /** When the gateway last wrote its list of files to the bucket; null: unknown. */
    sent_at: string | null;
    /** When the gateway's newest copied exchange ended; null: no exchange is copied yet. */
    newest_at: string | null;
    /** Number of copied exchanges. */
    exchanges: number;
    failure: string | null;
  }[];
}

/** Sums over the runs of a window: those whose last answer or reported end is in it. */
export interface WindowSums {
  /** Runs that match both queries. */
  runs: number;
  /** Runs that match the second query; without it, `runs`. */
  of_runs: number;
  /** Total dollars that the `runs` have cost since their beginning, as far as prices are known. */
  cost_usd: number;
  /** Runs that may match but are not read yet; they do not count. */
  unread: number;
  /** false: there were more runs than the bound allows. */
  is_whole: boolean;
}

/** Sends questions to a capture reader. */
export interface CaptureAsker {
  /** @throws CatalogueError `unavailable` or `deadline_exceeded` (rejects) */
  ask(question: CaptureQuestion): Promise<CaptureAnswer>;
}

/** A child run of another run. */
export interface ChildRunName {
  run_id: string;
  kind: ChildKind | null;
}

/** The reported part of a listed run. */
interface ReportedPart {
  /** Differs from the captured run's id if they were matched by trace or session. */
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
  /** false: the run was only reported. */
  is_captured: boolean;
  /** How it ended, or that it is still running (run-status.ts). */
  status: RunStatus;
  /** null: it is still running, or the ender is unknown. */
  ended_by: RunEnder | null;
  /** Why it has this status, in words. */
  status_words: string;
  /** The reported name, otherwise the client program; '' if neither is known. */
  agent: string;
  /** null: no run with its id, trace or session was reported. */
  reported: ReportedPart | null;
  /** The client's own session; null if its headers name none. */
  session_id: string | null;
  /** The parent run; null without one. */
  parent_run_id: string | null;
  /** Kind of the child run; null for an agent's own run. */
  kind: ChildKind | null;
  /** Its child runs, the first NAMED_CHILD_RUNS by start. */
  child_runs: ChildRunName[];
  /** First words of the user; null: not read yet. */
  task: string | null;
  notes: string[];
  providers: string[];
  models: string[];
  /** Tools that its answers called, at most 64. */
  tools: string[];
  /** The program that sent its first request; null if its headers name none. */
  client: string | null;
  /** From the first `traceparent`; null without one. */
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
  /** Turns that are not in `cost_usd`, because their price or tokens are unknown. */
  unpriced_turns: number;
  /** Turns in `cost_usd` whose price is a guess, or whose tokens are estimated. */
  estimated_turns: number;
  errors: number;
  aborted: number;
  /** Ranges of missing x-svc-seq values, with both ends. */
  gaps: [from: number, to: number][];
  /** Outcome of the finished monitor run with the same id; null: no outcome counts for this run (run-words.ts). */
  outcome: string | null;
  /** A person's mark; null: none. */
  mark: RunMark | null;
  tags: readonly string[];
  /** Tags from the header `x-svc-tags` of its requests. */
  request_tags: readonly string[];
  /** Fingerprints of its requests' credentials, and the id of the API key that reported it. */
  keys: readonly string[];
  /** A person's note; '' without one. */
  note: string;
  /** 0 to 1; null: none. */
  feedback_score: number | null;
  /** null: not judged yet. */
  golden: boolean | null;
  /** Why the run is not golden; empty if it is golden or not judged yet. */
  reasons: GoldenReason[];
  /** Reasons that the mark overrules. */
  overruled: GoldenReason[];
}

/** A stored exchange that the index lacks, with what is known without reading its bodies. */
export interface ExchangeBeingIndexed {
  exchange_id: number;
  /** The run that the request names; null: it names none, or only the index can find the run. */
  run_id: string | null;
  /** Whether the list has a row of `run_id`, from earlier exchanges. */
  run_is_listed: boolean;
  provider: string;
  kind: ExchangeKind;
  method: string;
  path: string;
  served_by: ServedBy;
  /** 0: no answer came. */
  status: number;
  /** No answer, or a status of 400 and above. */
  failed: boolean;
  aborted: boolean;
  started_at: string;
  duration_ms: number;
  request_bytes: number;
  response_bytes: number;
}

/** The stored exchanges that the index lacks. */
export interface BeingIndexed {
  /** Number of all these exchanges. */
  stored: number;
  /** Number of these exchanges, the newest ones, that were tested with the query. */
  examined: number;
  /** Number of tested exchanges of which it is not known yet whether the query selects them. They are not shown. */
  undecided: number;
  /** Newest first. */
  exchanges: ExchangeBeingIndexed[];
}

/** Counts of captured traffic in a period. */
interface ActivityCounts {
  exchanges: number;
  turns: number;
  errors: number;
  student_turns: number;
  /** Without the tokens that were read from a cache or written to it. */
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  /** Dollars for the upstream's turns; null: no price is known. */
  cost_usd: number | null;
  /** Turns that `cost_usd` leaves out. */
  unpriced_turns: number;
  /** Turns in `cost_usd` whose price is a guess, or whose tokens are estimated. */
  estimated_turns: number;
  /** Latency of turns, to the end and to the first byte of the answer; null: no turn has one. */
  latency_p50_ms: number | null;
  latency_p95_ms: number | null;
  first_byte_p50_ms: number | null;
  first_byte_p95_ms: number | null;
}

/** A call that belongs to no run, such as a list of models. */
export interface CallWithoutRun {
  exchange_id: number;
  started_at: string;
  method: string;
  path: string;
  provider: string;
  /** 0: no answer. */
  status: number;
  aborted: boolean;
}

/** The counts of the whole period, and of equal parts of it. */
export interface CapturedActivity extends ActivityCounts {
  from: string;
  to: string;
  /** false: the period has more exchanges than are kept, and only the newest are counted. */
  is_whole: boolean;
  /** How many of the failed calls belong to no run. */
  errors_without_run: number;
  /** The newest failed calls that belong to no run, newest first. */
  failed_without_run: CallWithoutRun[];
  series: (ActivityCounts & { at: string })[];
  /** Counts of the newest runs. */
  golden: { golden: number; not_golden: number; not_judged: number };
}
