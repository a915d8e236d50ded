/**
 * A monitored run as the result of its events: start, steps as digests, finish. The state is bounded for runs of any
 * length, and every step costs the same. Pure; server threads, and wherever a run's rows are read.
 */
import { findMaxScore, followStreak, NO_STEP_YET, toEvaluation } from './evaluation.ts';
import type { StepDigest } from './monitors/digest.ts';
import type { Intervention } from './monitors/intervention.ts';
import {
  advanceMonitors,
  initialMonitors,
  type MonitorsState,
  type StepOutcome,
} from './monitors/monitors.ts';
import { MONITOR_NAMES, type MonitorName, type MonitorScores } from './monitors/names.ts';
import { BUILT_IN_PROFILES, findBuiltInProfile, type MonitorProfile } from './monitors/profiles.ts';
import type { Arm } from './run-summary.ts';

/** Fields of a run's start that stay in memory. */
export interface RunFacts {
  org_id: string;
  project_id: string;
  run_id: string;
  agent_name: string;
  model: string;
  framework: string;
  task_profile: string;
  codebase_id: string;
  /** '': no experiment. */
  experiment_id: string;
  arm: Arm;
  assignment_unit: string;
  svc_version: string;
  /** Id of the API key that started it; absent for other credentials, and in earlier versions. */
  key_id?: string;
}

/** A run start as it was accepted. */
export interface RunStart {
  facts: RunFacts;
  /** Secrets masked. */
  task: string;
  /** The free-form object as JSON, secrets masked; '' for none. */
  metadata: string;
  /** Digest of everything that the caller sent: a repeated start has the same. */
  fingerprint: string;
  /** The organization's custom profile at the time of the start; null for a built-in one. */
  profile: MonitorProfile | null;
  /**
   * Set if the start may only be answered when it repeats an earlier one, because the named profile no longer
   * exists for a new run.
   */
  is_repeat_only?: true;
}

/** The events of a run. They are stored permanently: later versions must accept all earlier formats. */
export type RunEvent =
  | { type: 'start'; at_ms: number; start: RunStart }
  | {
      type: 'step';
      at_ms: number;
      step_index: number;
      is_error: boolean;
      tokens: number;
      digest: StepDigest;
    }
  | { type: 'finish'; at_ms: number; outcome: string }
  /** An evaluation returned the streak's intervention. */
  | { type: 'told' }
  /** Telemetry reported calls, some of which may already be steps. */
  | { type: 'reported' }
  /** Telemetry named the model of a run that was started without one. */
  | { type: 'named'; model: string }
  /** Steps of the finished run were put into one row. */
  | { type: 'gathered' }
  /** The run was deleted: it is hidden from now on, and its steps are deleted in portions. */
  | { type: 'deleting' }
  /** `steps`: how many steps of the deleted run were removed. */
  | { type: 'swept'; steps: number }
  /** The whole run was removed; this event ends its history. */
  | { type: 'deleted' };

/** A step, scored once. */
export type StepEvent = Extract<RunEvent, { type: 'step' }>;

export interface RunState {
  /** null: not started. */
  facts: RunFacts | null;
  fingerprint: string;
  started_at_ms: number;
  profile: MonitorProfile | null;
  /** null before the start and after the finish. */
  monitors: MonitorsState | null;
  steps: number;
  tokens: number;
  /** Greatest step_index; −1 before the first step. */
  last_index: number;
  /** Steps that arrived after one with a greater index. */
  late_steps: number;
  max_total_score: number;
  /** Steps at which each monitor fired, in the order of MONITOR_NAMES. */
  fired_counts: readonly number[];
  /** The outcome of the last step, without its intervention. */
  last: StepOutcome;
  /** The intervention of the current streak. */
  intervention: Intervention | null;
  /** Number of steps when the intervention was returned; null: not yet. */
  told_at: number | null;
  /** Number of telemetry requests with new information. */
  reports: number;
  /** null: it is running. */
  finish: { at_ms: number; outcome: string } | null;
  /** Number of steps that are still to be removed of a run that is being deleted; null otherwise. */
  left_to_delete: number | null;
}

export const UNKNOWN_RUN: RunState = {
  facts: null,
  fingerprint: '',
  started_at_ms: 0,
  profile: null,
  monitors: null,
  steps: 0,
  tokens: 0,
  last_index: -1,
  late_steps: 0,
  max_total_score: 0,
  fired_counts: MONITOR_NAMES.map(() => 0),
  last: NO_STEP_YET,
  intervention: null,
  told_at: null,
  reports: 0,
  finish: null,
  left_to_delete: null,
};

/** Returns the state after an event. A replay of the same events returns the same state. */
export function applyRunEvent(state: RunState, event: RunEvent): RunState {
  switch (event.type) {
    case 'start':
      return {
        ...state,
        facts: event.start.facts,
        fingerprint: event.start.fingerprint,
        started_at_ms: event.at_ms,
        profile: event.start.profile,
        monitors: initialMonitors(event.start.task),
      };
    case 'step':
      return applyStep(state, event);
    case 'finish':
      return { ...state, monitors: null, finish: { at_ms: event.at_ms, outcome: event.outcome } };
    case 'told':
      return { ...state, told_at: state.steps };
    case 'reported':
      return { ...state, reports: state.reports + 1 };
    case 'named':
      return { ...state, facts: { ...state.facts!, model: event.model } };
    case 'gathered':
      return state;
    case 'deleting':
      // Only the keys of its rows are still needed.
      return { ...UNKNOWN_RUN, facts: state.facts, left_to_delete: state.steps };
    case 'swept':
      return { ...state, left_to_delete: (state.left_to_delete ?? 0) - event.steps };
    case 'deleted':
      return UNKNOWN_RUN;
  }
}

function applyStep(state: RunState, event: StepEvent): RunState {
  const { step_index, tokens, digest } = event;
  const { state: monitors, outcome } = advanceMonitors(state.monitors!, digest, profileOf(state));
  const intervention = followStreak(state.intervention, outcome);
  return {
    ...state,
    monitors,
    steps: state.steps + 1,
    tokens: state.tokens + tokens,
    last_index: Math.max(state.last_index, step_index),
    late_steps: state.late_steps + (step_index < state.last_index ? 1 : 0),
    max_total_score: Math.max(state.max_total_score, outcome.total_score),
    fired_counts: outcome.fired.length === 0 ? state.fired_counts : countFired(state.fired_counts, outcome),
    last: outcome.intervention === null ? outcome : { ...outcome, intervention: null },
    intervention: intervention === state.intervention ? intervention : detach(intervention),
    told_at: intervention === state.intervention ? state.told_at : null,
  };
}

function profileOf({ profile, facts }: RunState): MonitorProfile {
  return profile ?? findBuiltInProfile(facts!.task_profile) ?? BUILT_IN_PROFILES.coding;
}

function countFired(counts: readonly number[], { fired }: StepOutcome): number[] {
  return MONITOR_NAMES.map((name, at) => (counts[at] ?? 0) + (fired.includes(name) ? 1 : 0));
}

/**
 * Copies an intervention with its text, because a slice would keep the whole text of the step in memory, which may be
 * megabytes. null stays null.
 */
function detach(intervention: Intervention | null): Intervention | null {
  return intervention === null ? null : { ...intervention, text: Buffer.from(intervention.text).toString() };
}

/** Writes the answer to a run start. A repeated start gets the same answer. */
export function renderStart({ facts, started_at_ms }: RunState): string {
  return JSON.stringify({ run_id: facts!.run_id, status: 'running', started_at: toTimestamp(started_at_ms) });
}

/** Writes the scores of an answer (contract document 2). */
export function renderScores({ scores, total_score, fired }: StepOutcome): string {
  return writeScores(writeNumbers(scores, MONITOR_NAMES), total_score, fired, findMaxScore(scores));
}

/**
 * The scores of a step as its row stores them. `scores` is in the order of MONITOR_NAMES, and `fired` contains indexes
 * of it. New names are only appended to MONITOR_NAMES, so old rows stay readable.
 */
export type PackedScores = readonly [
  scores: readonly number[],
  total_score: number,
  fired: readonly number[],
];

/** Packs the scores of a step for its row. */
export function packScores({ scores, total_score, fired }: StepOutcome): PackedScores {
  return [
    MONITOR_NAMES.map((name) => scores[name]),
    total_score,
    fired.map((name) => MONITOR_NAMES.indexOf(name)),
  ];
}

/**
 * Writes the answer to a step from the step's row: the same bytes that `renderScores` returned. A row of an earlier
 * version contains the answer itself.
 */
export function readAnswer(stored: string | PackedScores): string {
  if (typeof stored === 'string') return stored;
  const [numbers, total, fired] = stored;
  const names = MONITOR_NAMES.slice(0, numbers.length);
  const scores = Object.fromEntries(names.map((name, at) => [name, numbers[at]!])) as MonitorScores;
  const firedNames = fired.map((at) => MONITOR_NAMES[at]!);
  return writeScores(writeNumbers(scores, names), total, firedNames, Math.max(0, ...numbers));
}

function writeScores(scores: string, total: number, fired: readonly MonitorName[], max: number): string {
  return `{"scores":${scores},"total_score":${total},"fired":${JSON.stringify(fired)},"max_score":${max},"alarm":${fired.length > 0}}`;
}

/** Writes finite numbers under names that need no escape, as JSON. */
function writeNumbers(scores: MonitorScores, names: readonly MonitorName[]): string {
  let text = '{';
  for (const name of names) text += `${text === '{' ? '' : ','}"${name}":${scores[name]}`;
  return `${text}}`;
}

/** Sums the stored steps of a running run; `outcome` is '' and `duration_ms` 0. */
export function sumSteps(
  run_id: string,
  steps: Iterable<{ answer: string | PackedScores; tokens: number }>,
): RunTotals {
  const fired = Object.fromEntries(MONITOR_NAMES.map((name) => [name, 0])) as Record<MonitorName, number>;
  const totals = { run_id, outcome: '', steps: 0, tokens: 0, duration_ms: 0, max_total_score: 0, fired };
  for (const { answer, tokens } of steps) {
    const said = JSON.parse(readAnswer(answer)) as { total_score: number; fired: MonitorName[] };
    totals.steps += 1;
    totals.tokens += tokens;
    totals.max_total_score = Math.max(totals.max_total_score, said.total_score);
    for (const name of said.fired) fired[name] += 1;
  }
  return totals;
}

/** Writes the answer to a finish. */
export function renderFinish(state: RunState): string {
  const { run_id, ...totals } = totalsOf(state);
  return JSON.stringify({ run_id, status: 'finished', ...totals });
}

/** The totals of a run. */
export interface RunTotals {
  run_id: string;
  /** '' while it runs. */
  outcome: string;
  steps: number;
  tokens: number;
  /** From start to finish; 0 while it runs. */
  duration_ms: number;
  max_total_score: number;
  /** Number of steps at which each monitor fired. */
  fired: Record<MonitorName, number>;
}

/** Computes the totals of a started run; `outcome` is '' and `duration_ms` 0 while it runs. */
export function totalsOf(state: RunState): RunTotals {
  return {
    run_id: state.facts!.run_id,
    outcome: state.finish?.outcome ?? '',
    steps: state.steps,
    tokens: state.tokens,
    // The wall clock may have been set back meanwhile.
    duration_ms: state.finish === null ? 0 : Math.max(0, state.finish.at_ms - state.started_at_ms),
    max_total_score: state.max_total_score,
    fired: Object.fromEntries(MONITOR_NAMES.map((name, at) => [name, state.fired_counts[at] ?? 0])) as Record<
      MonitorName,
      number
    >,
  };
}

/**
 * Finds the intervention that an evaluation must return now: a streak's intervention once, and again after it has
 * escalated. The result stays the same until the next step, because the first answer may have been lost.
 * @returns null: nothing is due
 */
export function dueIntervention(state: RunState): Intervention | null {
  return state.told_at === null || state.told_at === state.steps ? state.intervention : null;
}

/** Writes the answer to an evaluation of the run itself. */
export function renderEvaluation(state: RunState): string {
  return JSON.stringify(toEvaluation(state.last, dueIntervention(state)));
}

/** Writes a time as RFC 3339 in UTC with milliseconds. */
export function toTimestamp(atMs: number): string {
  const wholeMs = Math.trunc(atMs);
  const second = Math.floor(wholeMs / 1000);
  if (second !== lastSecond.second) lastSecond = { second, text: new Date(atMs).toISOString().slice(0, -4) };
  return `${lastSecond.text}${String(wholeMs - second * 1000).padStart(3, '0')}Z`;
}

/** Formatting a date takes ten times as long as formatting three digits. */
let lastSecond = { second: Number.NaN, text: '' };
