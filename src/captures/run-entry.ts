/**
 * An entry of the list of runs: a captured run, a reported run, or both. This file has the fields that queries read,
 * and makes the row that the list shows. Pure; capture reader, command line.
 *
 * A captured run and a reported run are the same run if they have the same id. They are also the same run if the id of
 * the reported run is the captured run's trace or, if the captured run has no parent, its session. Telemetry that names
 * no run is reported under the id of its trace or session.
 */
import type { CapturedRunRow } from '../domain/captured-run.ts';
import type { GoldenReason } from '../domain/golden.ts';
import { MONITOR_NAMES, type MonitorName } from '../domain/monitors/names.ts';
import { listName, type ReportedRun } from '../domain/reported-run.ts';
import { isUnmarked, type RunMarks, type RunWords } from '../domain/run-mark.ts';
import type { TimedStatus } from '../domain/run-query/columns.ts';
import type { RunReader } from '../domain/run-query/match.ts';
import type { NameValue } from '../domain/run-query/run-query.ts';
import { RUN_IDLE_MS, type ToldStatus, tellStatus } from '../domain/run-status.ts';
import type { RunStatus } from '../domain/run-status-name.ts';
import { classifyOutcome } from '../domain/run-summary.ts';
import type { ChangedIds } from '../std/changed-ids.ts';
import type { StoredRunWords } from '../storage/run-words.ts';
import type { ListedRun } from './listed-run.ts';
import type { RunsWithText, RunTexts } from './run-texts.ts';

/** A run of the list; at least one of the two fields is not null. */
export interface RunEntry {
  listed: ListedRun | null;
  reported: ReportedRun | null;
}

/** External statements about runs. */
export interface SaidOfRuns {
  /** The present statements about one run. */
  wordsOf(runId: string): RunWords;
  /** A person's marks on a run, for a query over all runs: fast, but possibly some seconds old. */
  marksOf(runId: string): RunMarks;
  reportedOf(runId: string): ReportedRun | undefined;
  /** All reported runs with an id; several if several organizations used the same id. */
  allReportedOf(runId: string): readonly ReportedRun[];
  reported(): Iterable<ReportedRun>;
  /** The ids of runs whose marks or reported runs changed. */
  readonly changes: Pick<ChangedIds, 'end' | 'since'>;
  /** The runs in which a full-text index finds a text; null without an index. */
  findText(text: NameValue): RunsWithText | null;
}

/**
 * Stored statements about runs.
 * @param texts searches what was said in runs; null: texts are searched only in the list's own data
 */
export function saidBy(words: StoredRunWords, texts: RunTexts | null = null): SaidOfRuns {
  return {
    wordsOf: (runId) => words.of(runId),
    marksOf: (runId) => words.marksOf(runId),
    reportedOf: (runId) => words.reportedOf(runId),
    allReportedOf: (runId) => words.allReportedOf(runId),
    reported: () => words.reported(),
    changes: words.changes,
    findText: (text) => texts?.find(text) ?? null,
  };
}

/** The verdict on a run, combined with external statements; golden is null before it is judged. */
interface WeighedRun {
  golden: boolean | null;
  reasons: readonly GoldenReason[];
}

const NOTHING: readonly string[] = [];

export function idOf({ listed, reported }: RunEntry): string {
  return listed?.tally.summary.run_id ?? reported!.run_id;
}

/** Finds the reported run that belongs to a captured run: by its id, its trace or its session; null: none. */
export function findReported(
  { tally: { summary } }: ListedRun,
  said: Pick<SaidOfRuns, 'reportedOf'>,
): ReportedRun | null {
  const { run_id, trace_id, session_id, parent_run_id } = summary;
  const found = said.reportedOf(run_id!) ?? (trace_id === null ? undefined : said.reportedOf(trace_id));
  if (found !== undefined || session_id === null || parent_run_id !== null) return found ?? null;
  return said.reportedOf(session_id) ?? null;
}

/** Verdicts on runs, as far as they are known. */
interface Verdicts {
  weigh: (run: RunEntry) => WeighedRun;
  /** Whether the run is golden; null: not known. Does no more than that, because it is called for all runs. */
  isGolden: (run: RunEntry) => boolean | null;
}

/**
 * Makes the reader of the fields by which queries filter and sort runs.
 * @param nowMs the time for which the status is computed, in milliseconds since the epoch
 */
export function makeEntryReader(
  said: SaidOfRuns,
  { weigh, isGolden }: Verdicts,
  nowMs: number,
): RunReader<RunEntry> {
  return {
    names: makeNames(said, weigh),
    numbers: { ...NUMBERS, feedback: (run) => marksOf(run, said).feedback_score },
    started: startOf,
    finished: ({ listed, reported }) => listed?.tally.last_ms ?? reported!.finished_ms,
    failed: ({ listed }) => listed?.tally.last_failed_ms ?? null,
    choices: makeChoices(said, isGolden, nowMs),
    monitors: (run, monitor) => countFired(run, monitor),
    findText: (text) => {
      const runs = said.findText(text);
      return runs === null ? null : (run) => run.listed !== null && runs.test(idOf(run));
    },
    someText: (run, matches, matchesShared) => someWord(run, marksOf(run, said), matches, matchesShared),
    isTextRead: ({ listed }) => listed === null || listed.task !== null,
  };
}

function makeNames(said: SaidOfRuns, weigh: (run: RunEntry) => WeighedRun): RunReader<RunEntry>['names'] {
  const ofReported = (read: (run: ReportedRun) => string) => (run: RunEntry) =>
    listName(run.reported === null ? undefined : read(run.reported));
  return {
    text: (run) => listWords(run, marksOf(run, said)),
    task: ({ listed, reported }) =>
      listed === null ? [reported!.task] : listed.task === null ? null : [listed.task],
    run: (run) => idsOf(run),
    session: ({ listed }) => listName(listed?.tally.summary.session_id ?? undefined),
    parent: ({ listed }) => listName(listed?.tally.summary.parent_run_id ?? undefined),
    agent: (run) => listName(agentOf(run)),
    model: ({ listed, reported }) => listed?.tally.summary.models ?? listName(reported!.model),
    provider: ({ listed }) => listed?.tally.summary.providers ?? NOTHING,
    tool: ({ listed }) => listed?.tally.summary.tools ?? NOTHING,
    note: (run) => listNotes(run, marksOf(run, said)),
    tag: (run) => listTags(run, marksOf(run, said)),
    key: listKeys,
    outcome: ofReported(({ outcome }) => outcome),
    reason: (run) => {
      const { golden, reasons } = weigh(run);
      return golden === null ? null : reasons.map(({ code }) => code);
    },
    project: ofReported(({ project_id }) => project_id),
    framework: ofReported(({ framework }) => framework),
    profile: ofReported(({ task_profile }) => task_profile),
    codebase: ofReported(({ codebase_id }) => codebase_id),
    experiment: ofReported(({ experiment_id }) => experiment_id),
    arm: ofReported(({ arm }) => arm),
  };
}

/** Lists the ids of a run: two if a captured and a reported run with different ids were joined, otherwise one. */
function idsOf(run: RunEntry): string[] {
  const id = idOf(run);
  return run.reported === null || run.reported.run_id === id ? [id] : [id, run.reported.run_id];
}

/**
 * Whether a run has a matching text among those that the query field `text` searches; docs/queries.md lists them.
 * @param matchesShared tests texts that many runs share, such as names of models
 */
function someWord(
  { listed, reported }: RunEntry,
  { tags, note }: RunMarks,
  matches: (text: string) => boolean,
  matchesShared: (name: string) => boolean,
): boolean {
  if (tags.some(matchesShared) || (note !== '' && matches(note))) return true;
  if (listed !== null) {
    const { run_id, session_id, notes, models, tools, client, request_tags } = listed.tally.summary;
    if (matches(run_id!) || (listed.task !== null && matches(listed.task))) return true;
    if (session_id !== null && session_id !== run_id && matches(session_id)) return true;
    if (client !== null && matchesShared(client)) return true;
    if (models.some(matchesShared) || tools.some(matchesShared)) return true;
    if (request_tags.some(matchesShared) || notes.some(matchesShared)) return true;
  }
  if (reported === null) return false;
  const { run_id, task, agent_name, outcome } = reported;
  return matches(run_id) || matches(task) || matchesShared(agent_name) || matchesShared(outcome);
}

/** All texts that {@link someWord} tests. */
function listWords(run: RunEntry, marks: RunMarks): string[] {
  const words: string[] = [];
  const collect = (text: string): boolean => {
    words.push(text);
    return false;
  };
  someWord(run, marks, collect, collect);
  return words;
}

/** Tags that people gave the run, and tags of its requests. */
function listTags({ listed }: RunEntry, { tags }: RunMarks): readonly string[] {
  const sent = listed?.tally.summary.request_tags ?? NOTHING;
  return tags.length === 0 ? sent : [...tags, ...sent];
}

/** Fingerprints of the credentials of captured requests, and the id of the API key that reported the run. */
function listKeys({ listed, reported }: RunEntry): readonly string[] {
  const sent = listed?.tally.summary.keys ?? NOTHING;
  return reported === null || reported.key_id === '' ? sent : [...sent, reported.key_id];
}

/** Notes of gateways, and a person's note. */
function listNotes({ listed }: RunEntry, { note }: RunMarks): readonly string[] {
  const notes = listed?.tally.summary.notes ?? NOTHING;
  return note === '' ? notes : [...notes, note];
}

/** Marks of the captured run; if it has none, those of the reported run that it was joined with. */
function marksOf({ listed, reported }: RunEntry, said: SaidOfRuns): RunMarks {
  const marks = said.marksOf(idOf({ listed, reported }));
  return isUnmarked(marks) && reported !== null ? said.marksOf(reported.run_id) : marks;
}

const NUMBERS: RunReader<RunEntry>['numbers'] = {
  cost: ({ listed }) => listed?.cost_usd ?? null,
  tokens: ({ listed, reported }) => (listed === null ? reported!.tokens : sumTokens(listed)),
  input: ({ listed }) => listed?.tally.summary.input_tokens ?? null,
  output: ({ listed }) => listed?.tally.summary.output_tokens ?? null,
  cached: ({ listed }) => listed?.tally.summary.cache_read_tokens ?? null,
  turns: ({ listed }) => listed?.tally.summary.turns ?? null,
  steps: ({ reported }) => reported?.steps ?? null,
  exchanges: ({ listed }) => listed?.tally.summary.exchanges ?? null,
  errors: ({ listed }) => listed?.tally.summary.errors ?? null,
  aborted: ({ listed }) => listed?.tally.summary.aborted ?? null,
  score: ({ reported }) => reported?.max_total_score ?? null,
  duration: ({ listed, reported }) =>
    listed === null ? (reported!.is_finished ? reported!.duration_ms : null) : durationOf(listed),
};

function sumTokens({ tally: { summary } }: ListedRun): number | null {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = summary;
  if (input_tokens === null && output_tokens === null) return null;
  return (input_tokens ?? 0) + (output_tokens ?? 0) + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0);
}

function durationOf({ tally: { first_ms, last_ms } }: ListedRun): number {
  return Math.max(0, last_ms - first_ms);
}

/** When a run began, in milliseconds since the epoch. */
export function startOf({ listed, reported }: RunEntry): number {
  return listed?.tally.first_ms ?? reported!.started_ms;
}

function agentOf({ listed, reported }: RunEntry): string {
  return reported?.agent_name || (listed?.tally.summary.client ?? '');
}

function makeChoices(
  said: SaidOfRuns,
  isGolden: Verdicts['isGolden'],
  nowMs: number,
): RunReader<RunEntry>['choices'] {
  const markOf = (run: RunEntry) => marksOf(run, said).mark;
  // Cached, because a query asks for several statuses of one run in succession.
  let tally: unknown;
  let reported: unknown;
  let status: RunStatus = 'unknown';
  const statusOf = (run: RunEntry): RunStatus => {
    const own = run.listed?.tally ?? null;
    if (own === tally && run.reported === reported) return status;
    [tally, reported] = [own, run.reported];
    status = tellEntryStatus(run, quickWordsOf(run, said), nowMs).status;
    return status;
  };
  const is: Record<string, (run: RunEntry) => boolean | null> = {
    golden: isGolden,
    captured: ({ listed }) => listed !== null,
    reported: ({ reported }) => reported !== null,
    child: ({ listed }) => (listed?.tally.summary.parent_run_id ?? null) !== null,
    good: (run) => markOf(run) === 'good',
    bad: (run) => markOf(run) === 'bad',
  };
  const has: Record<string, (run: RunEntry) => boolean> = {
    error: ({ listed, reported }) =>
      (listed?.tally.summary.errors ?? 0) > 0 || classifyOutcome(reported?.outcome ?? '') === 'failure',
    tool: ({ listed }) => (listed?.tally.summary.tools.length ?? 0) > 0,
    monitor: (run) => MONITOR_NAMES.some((monitor) => countFired(run, monitor) > 0),
    outcome: ({ reported }) => (reported?.outcome ?? '') !== '',
    mark: (run) => markOf(run) !== null,
    note: (run) => listNotes(run, marksOf(run, said)).length > 0,
    tag: (run) => listTags(run, marksOf(run, said)).length > 0,
    feedback: (run) => marksOf(run, said).feedback_score !== null,
    cost: ({ listed }) => (listed?.cost_usd ?? null) !== null,
    gap: ({ listed }) => (listed?.tally.golden.gaps().length ?? 0) > 0,
    session: ({ listed }) => (listed?.tally.summary.session_id ?? null) !== null,
    child: ({ listed }) => (listed?.children.length ?? 0) > 0,
  };
  return {
    status: (run, value) => statusOf(run) === value,
    is: (run, value) => is[value]!(run),
    has: (run, value) => has[value]!(run),
    kind: ({ listed }, value) => (listed?.tally.summary.kind ?? 'agent') === value,
    served: ({ listed }, value) => {
      if (listed === null) return false;
      const { turns, student_turns } = listed.tally.summary;
      return value === 'student' ? student_turns > 0 : student_turns < turns;
    },
  };
}

/**
 * Counts how often a monitor fired. If the run was not reported, the count comes from the verdict, which knows only
 * firings near the end of the run; 0 before there is a verdict.
 */
function countFired({ listed, reported }: RunEntry, monitor: MonitorName): number {
  if (reported !== null) return reported.fired[MONITOR_NAMES.indexOf(monitor)] ?? 0;
  const reason = listed!.verdict?.reasons.find(
    ({ code, words }) => code === 'monitor_fired' && words.startsWith(`${monitor} `),
  );
  return reason === undefined ? 0 : Number(/ fired at (\d+) /.exec(reason.words)?.[1] ?? 1);
}

/** Statements about a run, without reading a database. */
export function quickWordsOf(run: RunEntry, said: SaidOfRuns): RunWords {
  return { outcome: outcomeOf(run), ...marksOf(run, said) };
}

/** The outcome and mark of {@link quickWordsOf}, which can overrule a verdict. */
export function quickOutcomeOf(run: RunEntry, said: SaidOfRuns): Pick<RunWords, 'outcome' | 'mark'> {
  return { outcome: outcomeOf(run), mark: marksOf(run, said).mark };
}

/** The status of a run, and the time at which it changes if nothing else happens. */
export function timeStatus(run: RunEntry, said: SaidOfRuns): TimedStatus {
  const words = quickWordsOf(run, said);
  const later_ms = lastSignOf(run) + RUN_IDLE_MS;
  return {
    status: tellEntryStatus(run, words, later_ms - 1).status,
    later: tellEntryStatus(run, words, later_ms).status,
    later_ms,
  };
}

/** When the run was last heard of, in milliseconds since the epoch. */
function lastSignOf({ listed, reported }: RunEntry): number {
  return Math.max(listed?.tally.last_ms ?? 0, reported?.finished_ms ?? reported?.started_ms ?? 0);
}

function outcomeOf({ reported }: RunEntry): string | null {
  return reported?.is_finished ? reported.outcome : null;
}

function tellEntryStatus(
  run: RunEntry,
  { outcome, mark }: Pick<RunWords, 'outcome' | 'mark'>,
  nowMs: number,
): ToldStatus {
  const { listed, reported } = run;
  const isReported = reported !== null || outcome !== null;
  return tellStatus(
    {
      mark,
      reported: isReported ? { is_finished: outcome !== null, outcome: outcome ?? '' } : null,
      captured: listed?.tally.golden.end ?? null,
      last_ms: lastSignOf(run),
    },
    nowMs,
  );
}

export type WeighedFields = Pick<CapturedRunRow, keyof RunWords | 'golden' | 'reasons' | 'overruled'>;

/**
 * Makes a run's row.
 * @param weighed the current verdict
 */
export function showEntry(run: RunEntry, weighed: WeighedFields, nowMs: number): CapturedRunRow {
  const { listed, reported } = run;
  const { status, ended_by, words } = tellEntryStatus(run, weighed, nowMs);
  return {
    ...(listed === null ? showReportedOnly(reported!) : showListed(listed)),
    is_captured: listed !== null,
    status,
    ended_by,
    status_words: words,
    agent: agentOf(run),
    request_tags: listed?.tally.summary.request_tags ?? NOTHING,
    keys: listKeys(run),
    reported: reported === null ? null : showReported(reported),
    ...weighed,
  };
}

type ListedFields = Omit<
  CapturedRunRow,
  | keyof WeighedFields
  | 'is_captured'
  | 'status'
  | 'ended_by'
  | 'status_words'
  | 'agent'
  | 'reported'
  | 'request_tags'
  | 'keys'
>;

function showListed(run: ListedRun): ListedFields {
  const { tally, task, children } = run;
  const { summary, first_ms, last_ms } = tally;
  return {
    run_id: summary.run_id!,
    session_id: summary.session_id,
    parent_run_id: summary.parent_run_id,
    kind: summary.kind,
    child_runs: [...children],
    task,
    notes: summary.notes,
    providers: summary.providers,
    models: summary.models,
    tools: summary.tools,
    client: summary.client,
    trace_id: summary.trace_id,
    exchanges: summary.exchanges,
    turns: summary.turns,
    student_turns: summary.student_turns,
    started_at: new Date(first_ms).toISOString(),
    finished_at: new Date(last_ms).toISOString(),
    duration_ms: durationOf(run),
    input_tokens: summary.input_tokens,
    output_tokens: summary.output_tokens,
    cache_read_tokens: summary.cache_read_tokens,
    cache_write_tokens: summary.cache_write_tokens,
    cost_usd: run.cost_usd,
    unpriced_turns: run.unpriced_turns,
    estimated_turns: run.estimated_turns,
    errors: summary.errors,
    aborted: summary.aborted,
    gaps: tally.golden.gaps(),
  };
}

/** The fields of a run that was only reported, not captured. */
function showReportedOnly(run: ReportedRun): ListedFields {
  const started_at = new Date(run.started_ms).toISOString();
  return {
    run_id: run.run_id,
    session_id: null,
    parent_run_id: null,
    kind: null,
    child_runs: [],
    task: run.task,
    notes: [],
    providers: [],
    models: [...listName(run.model)],
    tools: [],
    client: null,
    trace_id: null,
    exchanges: 0,
    turns: 0,
    student_turns: 0,
    started_at,
    finished_at: run.finished_ms === null ? started_at : new Date(run.finished_ms).toISOString(),
    duration_ms: run.duration_ms,
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
  };
}

function showReported(run: ReportedRun): NonNullable<CapturedRunRow['reported']> {
  const fired = Object.fromEntries(MONITOR_NAMES.map((name, at) => [name, run.fired[at] ?? 0]));
  return {
    run_id: run.run_id,
    org_id: run.org_id,
    project_id: run.project_id,
    agent_name: run.agent_name,
    framework: run.framework,
    task_profile: run.task_profile,
    codebase_id: run.codebase_id,
    experiment_id: run.experiment_id,
    arm: run.arm,
    is_finished: run.is_finished,
    started_at: new Date(run.started_ms).toISOString(),
    finished_at: run.finished_ms === null ? null : new Date(run.finished_ms).toISOString(),
    steps: run.steps,
    tokens: run.tokens,
    max_total_score: run.max_total_score,
    fired: fired as Record<MonitorName, number>,
  };
}
