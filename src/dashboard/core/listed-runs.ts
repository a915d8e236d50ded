/**
 * Reads the list of runs. Captured runs, reported runs, and runs that are both become rows with the same fields. A
 * reader without access to captures gets the reported runs of their organization. Browser.
 */
import { quoteValue } from '../../domain/run-query/words.ts';
import { filterOf, hrefOf } from './address.ts';
import { call } from './api.ts';
import type { CapturedRun } from './captured.ts';
import type { Reply } from './contract.ts';
import type { CursorPage } from './paged-list.ts';
import type { Run } from './run-reader.ts';
import { isOperator, organization, seesCaptures } from './session.ts';

/** Captured runs with their reported parts, or the reported runs of an organization. */
export type RunScope = 'captures' | 'organization';

type FoundText = Reply<'GET /capture/runs'>['found'][number];

/** A row of the list. A reported run has its known values in the same fields. */
export type ListedRun = CapturedRun & {
  /**
   * The first turn or step whose text matches a text of the query. Absent if no text matches, if there was no time to
   * read the run, and in the list of an organization's reported runs.
   */
  found?: FoundText;
};

export interface RunPageRows extends CursorPage<ListedRun> {
  /** Number of matching runs on all pages; null: not counted. */
  matched: number | null;
  /** The service's answer about the captures; null in the scope `organization`. */
  captures: Reply<'GET /capture/runs'> | null;
}

const PAGE_ROWS = 100;
/** Maximum length of the query that reads runs by their ids. */
const ASKED_CHARACTERS = 1_800;

/** The scope of the list. The address may select the other scope if the reader may see both. */
export function scopeOf(): RunScope {
  if (!isOperator.value) return 'organization';
  const asked = filterOf('list');
  if (asked === 'captures' || asked === 'organization') return asked;
  return seesCaptures.value ? 'captures' : 'organization';
}

/** The scope that the present address selects, as a filter for links; empty if the address selects none. */
export function scopeFilters(): Record<string, string> {
  const list = filterOf('list');
  return list === '' ? {} : { list };
}

/** The address of the list of captured runs with a query, or of one captured run. */
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
    const rows = page.runs.map((run): ListedRun => {
      const found = page.found.find(({ run_id }) => run_id === run.run_id);
      return found === undefined ? run : { ...run, found };
    });
    return { rows, next_cursor: page.next_cursor, matched: page.matched_runs, captures: page };
  }
  const org_id = organization.value!.id;
  const page = await call('GET /v1/monitor/runs', { query: { org_id, q, limit, cursor }, signal });
  const rows = page.runs.map((run) => showReported(org_id, run));
  return { rows, next_cursor: page.next_cursor, matched: page.matched_runs, captures: null };
}

/** Reads the first of these runs, as many as fit into one query. `asked` is their number. */
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

/** A reported run as a row, without the facts that only captured traffic shows. */
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
