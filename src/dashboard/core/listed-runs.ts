/**
 * The list of runs: captured, reported and joined ones in rows of one kind, as far as the reader may see them. A reader who may not
 * see what was captured gets the reported runs of their organization. Browser.
 */
import { quoteValue } from '../../domain/run-query/words.ts';
import { filterOf, hrefOf } from './address.ts';
import { call } from './api.ts';
import type { CapturedRun } from './captured.ts';
import type { Reply } from './contract.ts';
import type { CursorPage } from './paged-list.ts';
import type { Run } from './run-reader.ts';
import { isOperator, organization, seesCaptures } from './session.ts';

/** Captured runs with what was reported of them, or the runs that an organization reported. */
export type RunScope = 'captures' | 'organization';

/** A row of the list. A reported run has what is known of it in the same fields. */
export type ListedRun = CapturedRun;

export interface RunPageRows extends CursorPage<ListedRun> {
  /** Runs that match, on all pages; null: they were not counted. */
  matched: number | null;
  /** Of the captures; null in the other scope. */
  captures: Reply<'GET /capture/runs'> | null;
}

const PAGE_ROWS = 100;
/** A query is no longer than this. */
const ASKED_CHARACTERS = 1_800;

/** What the list holds: the address may ask for the other one, where the reader may see both. */
export function scopeOf(): RunScope {
  if (!isOperator.value) return 'organization';
  const asked = filterOf('list');
  if (asked === 'captures' || asked === 'organization') return asked;
  return seesCaptures.value ? 'captures' : 'organization';
}

/** In links, where the list is not the one that shows by itself. */
export function scopeFilters(): Record<string, string> {
  const list = filterOf('list');
  return list === '' ? {} : { list };
}

/** Where captured runs are: the list of them with a query, or one of them. */
export function hrefOfCaptured(run_id: string | null, filters: Record<string, string> = {}): string {
  return hrefOf('runs', run_id, { ...filters, ...(seesCaptures.value ? {} : { list: 'captures' }) });
}

export async function readRuns(
  scope: RunScope,
  q: string,
  cursor: string | undefined,
  signal: AbortSignal,
  limit = PAGE_ROWS,
): Promise<RunPageRows> {
  if (scope === 'captures') {
    const page = await call('GET /capture/runs', { query: { q, limit, cursor }, signal });
    return { rows: page.runs, next_cursor: page.next_cursor, matched: page.matched_runs, captures: page };
  }
  const org_id = organization.value!.id;
  const page = await call('GET /v1/monitor/runs', { query: { org_id, q, limit, cursor }, signal });
  const rows = page.runs.map((run) => showReported(org_id, run));
  return { rows, next_cursor: page.next_cursor, matched: page.matched_runs, captures: null };
}

/** Some runs by their ids, as many as one question takes; `asked` of them were asked for. */
export async function readRunsById(
  scope: RunScope,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<{ asked: number; rows: ListedRun[] }> {
  let q = 'run:';
  let asked = 0;
  for (const id of ids) {
    const value = `${asked === 0 ? '' : ','}=${quoteValue(id, true)}`;
    if (asked > 0 && q.length + value.length > ASKED_CHARACTERS) break;
    q += value;
    asked += 1;
  }
  return { asked, rows: (await readRuns(scope, q, undefined, signal)).rows };
}

/** A reported run as a row; it has nothing that only a copy of its traffic tells. */
export function showReported(org_id: string, run: Run): ListedRun {
  const { run_id, task, agent_name, model, state, ended_by, state_words, started_at, finished_at } = run;
  return {
    ...NOTHING_CAPTURED,
    run_id,
    task,
    agent: agent_name,
    models: model === '' ? [] : [model],
    mark: run.mark,
    tags: run.tags,
    note: run.note,
    feedback_score: run.feedback_score,
    status: state,
    ended_by,
    status_words: state_words,
    started_at,
    finished_at: finished_at ?? started_at,
    duration_ms: run.duration_ms,
    outcome: run.outcome === '' ? null : run.outcome,
    reported: {
      run_id,
      org_id,
      project_id: run.project_id,
      agent_name,
      framework: run.framework,
      task_profile: run.task_profile,
      codebase_id: run.codebase_id,
      experiment_id: run.experiment_id,
      arm: run.arm,
      is_finished: run.status === 'finished',
      started_at,
      finished_at,
      steps: run.steps,
      tokens: run.tokens,
      max_total_score: run.max_total_score,
      fired: run.fired,
    },
  };
}

const NOTHING_CAPTURED = {
  is_captured: false,
  session_id: null,
  parent_run_id: null,
  kind: null,
  child_runs: [],
  notes: [],
  request_tags: [],
  keys: [],
  providers: [],
  tools: [],
  client: null,
  trace_id: null,
  exchanges: 0,
  turns: 0,
  student_turns: 0,
  input_tokens: null,
  output_tokens: null,
  cache_read_tokens: null,
  cache_write_tokens: null,
  cost_usd: null,
  unpriced_turns: 0,
  estimated_turns: 0,
  errors: 0,
  aborted: 0,
  gaps: [],
  golden: null,
  reasons: [],
  overruled: [],
} satisfies Partial<ListedRun>;
