/**
 * Events of the live stream: what happens to runs, and new patterns. They contain only names, numbers and scores, never
 * the texts of a run, which are long and may contain secrets. Types and pure rules; any thread.
 */

import type { InterventionLevel } from './monitors/intervention.ts';
import type { MonitorName, MonitorScores } from './monitors/names.ts';

/** Longest text in a live event, in UTF-16 units. */
export const LIVE_TEXT_CHARACTERS = 200;

/** Fields of every event. */
interface LiveFacts {
  org_id: string;
  /** null: no project. Keys of the organization see the event, keys of a project do not. */
  project_id: string | null;
  run_id: string | null;
  /** RFC 3339 UTC with milliseconds. */
  at: string;
}

export interface RunStartEvent extends LiveFacts {
  event: 'run_start';
  run_id: string;
  agent_name: string;
  model: string;
  framework: string;
  task_profile: string;
}

/** A step was logged, with its scores. */
interface StepEvent extends LiveFacts {
  event: 'step';
  run_id: string;
  step_index: number;
  /** Name of the tool, never its input. */
  action: string;
  is_error: boolean;
  tokens: number;
  scores: MonitorScores;
  total_score: number;
  fired: readonly MonitorName[];
  /** The highest of the scores. */
  max_score: number;
  /** Whether a monitor fired. */
  alarm: boolean;
}

interface RunFinishEvent extends LiveFacts {
  event: 'run_finish';
  run_id: string;
  outcome: string;
  steps: number;
  tokens: number;
  duration_ms: number;
  max_total_score: number;
  /** Number of steps at which each monitor fired; monitors that never fired may be absent. */
  fired: Readonly<Partial<Record<MonitorName, number>>>;
}

/**
 * An intervention: at a step of a run, or by an evaluation (`run_id` is null unless the evaluation named a
 * run).
 */
interface InterventionEvent extends LiveFacts {
  event: 'intervention';
  /** null for an evaluation. */
  step_index: number | null;
  failure_type: MonitorName;
  level: InterventionLevel;
  fired: readonly MonitorName[];
}

interface PatternCreatedEvent extends LiveFacts {
  event: 'pattern_created';
  pattern_id: string;
  tier: 'e1' | 'e2' | 'e3';
  /** The trace that it was distilled from; null for an imported pattern. */
  trace_id: string | null;
  failure_type: string;
}

/** A retrieval found patterns but returned none, because the organization has used up this month's interventions. */
interface RetrievalCappedEvent extends LiveFacts {
  event: 'retrieval_capped';
  run_id: null;
  /** Interventions that the plan allows per month. */
  cap: number;
}

export type LiveEvent =
  | RunStartEvent
  | StepEvent
  | RunFinishEvent
  | InterventionEvent
  | PatternCreatedEvent
  | RetrievalCappedEvent;

/** Cuts the event's texts to LIVE_TEXT_CHARACTERS (UTF-16 units) without splitting a surrogate pair. */
export function boundLiveEvent<Event extends LiveEvent>(event: Event): Event {
  let bounded: Record<string, unknown> | null = null;
  for (const name in event) {
    const value = event[name];
    if (typeof value !== 'string' || value.length <= LIVE_TEXT_CHARACTERS) continue;
    bounded ??= { ...event };
    bounded[name] = cutAt(value, LIVE_TEXT_CHARACTERS);
  }
  return (bounded as Event | null) ?? event;
}

/** Writes the `data:` field of an event: the event as JSON on one line, without its name. */
export function encodeLiveData({ event: _, ...data }: LiveEvent): string {
  return JSON.stringify(data);
}

function cutAt(text: string, units: number): string {
  const last = text.charCodeAt(units - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? units - 1 : units);
}
