/**
 * A reported run (`POST /v1/monitor/runs`, telemetry, hooks) in the compact form in which lists search it. Pure;
 * server threads, capture reader, command line.
 */
import { MONITOR_NAMES } from './monitors/names.ts';
import { NO_MARKS, type RunMarks } from './run-mark.ts';
import type { RunReader } from './run-query/match.ts';
import type { RunRow, RunStartRow } from './run-rows.ts';
import { tellStatus } from './run-status.ts';
import { classifyOutcome } from './run-summary.ts';

/** Maximum number of characters of a task that lists show and search. */
const LISTED_TASK_CHARACTERS = 200;

export interface ReportedRun {
  org_id: string;
  project_id: string;
  run_id: string;
  task: string;
  agent_name: string;
  model: string;
  framework: string;
  task_profile: string;
  codebase_id: string;
  experiment_id: string;
  arm: string;
  /** Id of the API key that started it; '' for other credentials, and in rows of earlier versions. */
  key_id: string;
  is_finished: boolean;
  /** '' while it is running. */
  outcome: string;
  started_ms: number;
  /** null while it is running. */
  finished_ms: number | null;
  duration_ms: number;
  steps: number;
  tokens: number;
  max_total_score: number;
  /** Number of steps at which each monitor fired, in the order of MONITOR_NAMES. */
  fired: readonly number[];
}

const NOTHING_FIRED: readonly number[] = MONITOR_NAMES.map(() => 0);

/**
 * Converts the rows of a run to the compact form.
 * @param share returns the same string object for equal names, so that 100,000 runs share it
 */
export function toReportedRun(
  row: RunRow,
  start: RunStartRow | undefined,
  share: (name: string) => string = (name) => name,
): ReportedRun {
  const fired = MONITOR_NAMES.map((name) => row.fired[name] ?? 0);
  return {
    org_id: share(row.org_id),
    project_id: share(row.project_id),
    run_id: row.run_id,
    task: (start?.task ?? '').replace(/\s+/g, ' ').slice(0, LISTED_TASK_CHARACTERS).toWellFormed(),
    agent_name: share(row.agent_name),
    model: share(row.model),
    framework: share(row.framework),
    task_profile: share(row.task_profile),
    codebase_id: share(row.codebase_id),
    experiment_id: share(row.experiment_id),
    arm: row.arm,
    key_id: share(row.key_id ?? ''),
    is_finished: row.status === 'finished',
    outcome: share(row.outcome),
    started_ms: Date.parse(row.started_at),
    finished_ms: row.finished_at === null ? null : Date.parse(row.finished_at),
    duration_ms: row.duration_ms,
    steps: row.steps,
    tokens: row.tokens,
    max_total_score: row.max_total_score,
    fired: fired.every((count) => count === 0) ? NOTHING_FIRED : fired,
  };
}

/** Makes a list with the name; an empty list for '' or undefined. */
export function listName(name: string | undefined): readonly string[] {
  return name === undefined || name === '' ? [] : [name];
}

/**
 * Makes the reader of the fields by which queries filter and sort reported runs.
 * @param nowMs the time for which the status is computed, in milliseconds since the epoch
 * @param marksOf the marks of a run
 */
export function makeReportedReader(
  nowMs: number,
  marksOf: (run: ReportedRun) => RunMarks = () => NO_MARKS,
): RunReader<ReportedRun> {
  const statusOf = (run: ReportedRun) => tellReportedStatus(run, nowMs, marksOf(run)).status;
  return {
    names: {
      text: (run) => {
        const { tags, note } = marksOf(run);
        const { task, run_id, agent_name, model, outcome, codebase_id } = run;
        return [task, run_id, agent_name, model, outcome, codebase_id, ...tags, note];
      },
      task: (run) => [run.task],
      run: (run) => [run.run_id],
      agent: (run) => listName(run.agent_name),
      model: (run) => listName(run.model),
      tag: (run) => marksOf(run).tags,
      note: (run) => listName(marksOf(run).note),
      outcome: (run) => listName(run.outcome),
      project: (run) => [run.project_id],
      framework: (run) => listName(run.framework),
      profile: (run) => listName(run.task_profile),
      codebase: (run) => listName(run.codebase_id),
      experiment: (run) => listName(run.experiment_id),
      arm: (run) => listName(run.arm),
      key: (run) => listName(run.key_id),
    },
    numbers: {
      tokens: (run) => run.tokens,
      steps: (run) => run.steps,
      score: (run) => run.max_total_score,
      feedback: (run) => marksOf(run).feedback_score,
      duration: (run) => (run.is_finished ? run.duration_ms : null),
    },
    started: (run) => run.started_ms,
    finished: (run) => run.finished_ms,
    choices: {
      status: (run, value) => statusOf(run) === value,
      is: (run, value) => value === 'reported' || marksOf(run).mark === value,
      has: (run, value) => isHolding(run, marksOf(run), value),
    },
    monitors: (run, monitor) => run.fired[MONITOR_NAMES.indexOf(monitor)] ?? 0,
  };
}

function isHolding(run: ReportedRun, { mark, tags, note, feedback_score }: RunMarks, value: string): boolean {
  switch (value) {
    case 'monitor':
      return run.fired !== NOTHING_FIRED;
    case 'outcome':
      return run.outcome !== '';
    case 'error':
      return classifyOutcome(run.outcome) === 'failure';
    case 'mark':
      return mark !== null;
    case 'tag':
      return tags.length > 0;
    case 'note':
      return note !== '';
    default:
      return value === 'feedback' && feedback_score !== null;
  }
}

export function tellReportedStatus(run: ReportedRun, nowMs: number, { mark }: Pick<RunMarks, 'mark'>) {
  const { is_finished, outcome } = run;
  const reported = { is_finished, outcome };
  const last_ms = run.finished_ms ?? run.started_ms;
  return tellStatus({ mark, reported, captured: null, last_ms }, nowMs);
}
