/**
 * A trace: what an agent did from its task to its outcome, as steps, from either of the two submitted formats. From
 * here on texts are bounded and free of secrets: this form is queued, stored and turned into patterns. Pure; server
 * threads, actor threads and the command line.
 */

import { createHash } from 'node:crypto';
import { isRawNumber, numberName } from '../std/exact-json.ts';
import { readCalls, type TraceCall } from './patterns/calls.ts';
import { cleanText } from './patterns/text.ts';
import type { TraceStep } from './trace-step.ts';

/**
 * Bounds of a stored trace, in UTF-16 units and steps. Longer texts are cut, and surplus steps are left out in the
 * middle.
 */
export const TRACE_BOUNDS = {
  steps: 20_000,
  task: 4_000,
  thought: 2_000,
  action: 200,
  action_input: 3_000,
  observation_head: 2_000,
  observation_tail: 1_500,
} as const;

/** A trace in the form in which it is queued and processed. */
export interface Trace {
  trace_id: string;
  run_id: string;
  /** '' if not given; then the first words of the run are used. */
  task: string;
  model: string;
  task_profile: string;
  outcome: string;
  steps: TraceStep[];
}

/** A validated step of the legacy format, as sent. */
interface LegacyStep {
  step_index?: number | undefined;
  thought: string;
  action: string;
  action_input: string;
  observation: string;
  is_error: boolean;
  tokens_used: number;
}

/** The validated fields of a trace, except its steps. */
interface TraceHead {
  trace_id: string;
  run_id: string;
  task: string;
  model: string;
  task_profile: string;
  outcome: string;
}

/** Reads the legacy shape. */
export function readLegacyTrace(head: TraceHead, steps: readonly LegacyStep[]): Trace {
  const kept = keepEnds(steps, TRACE_BOUNDS.steps);
  return {
    ...cleanHead(head),
    steps: kept.map((step, at) =>
      boundStep({ ...step, step_index: step.step_index ?? at, tokens: step.tokens_used }),
    ),
  };
}

/** Reads the v2 shape: the calls' conversation becomes steps. */
export function readCallTrace(head: TraceHead, calls: readonly TraceCall[]): Trace {
  const { task, model, steps } = readCalls(calls, TRACE_BOUNDS.steps);
  return {
    ...cleanHead({ ...head, task: head.task || task, model: head.model || model }),
    steps: steps.map(boundStep),
  };
}

function cleanHead(head: TraceHead): TraceHead {
  return {
    trace_id: head.trace_id,
    run_id: cleanText(head.run_id, 128),
    task: cleanText(head.task, TRACE_BOUNDS.task),
    model: cleanText(head.model, 200),
    task_profile: cleanText(head.task_profile, 64),
    outcome: cleanText(head.outcome, 200),
  };
}

function boundStep(step: TraceStep): TraceStep {
  const { step_index, is_error, tokens } = step;
  return {
    step_index,
    thought: cleanText(step.thought, TRACE_BOUNDS.thought),
    action: cleanText(step.action, TRACE_BOUNDS.action),
    action_input: cleanText(step.action_input, TRACE_BOUNDS.action_input),
    // Errors are at the end of an output as often as at its beginning.
    observation: cleanText(step.observation, TRACE_BOUNDS.observation_head, TRACE_BOUNDS.observation_tail),
    is_error,
    tokens,
  };
}

/** Shortens a list that is too long: keeps its first and its last items, half of the bound each. */
function keepEnds<T>(list: readonly T[], most: number): readonly T[] {
  if (list.length <= most) return list;
  const half = Math.floor(most / 2);
  return [...list.slice(0, half), ...list.slice(list.length - (most - half))];
}

/**
 * Writes a scalar for the fingerprint. Numbers with the same double value have the same text, however they were
 * written.
 */
function nameScalar(value: unknown): string {
  return isRawNumber(value) ? numberName(value.rawJSON) : String(value);
}

/**
 * Makes a fingerprint of a submitted body: equal for the same JSON whatever the order of its keys. It uses its own
 * stack, so that deep nesting cannot overflow the call stack.
 * @param body parsed JSON
 * @param without top-level keys that do not count
 * @returns 43 characters of base64url
 */
export function fingerprintBody(body: Record<string, unknown>, without: readonly string[] = []): string {
  const hash = createHash('sha256');
  const left = new Set(without);
  const top = Object.fromEntries(Object.entries(body).filter(([key]) => !left.has(key)));
  // Strings on the stack are written unchanged; other values are wrapped, so that texts and marks cannot be confused.
  const stack: (string | { value: unknown })[] = [{ value: top }];
  for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
    if (typeof item === 'string') {
      hash.update(item);
      continue;
    }
    const { value } = item;
    if (Array.isArray(value)) {
      hash.update('[');
      stack.push(']');
      for (let i = value.length - 1; i >= 0; i--) stack.push(',', { value: value[i] });
    } else if (typeof value === 'object' && value !== null && !isRawNumber(value)) {
      hash.update('{');
      stack.push('}');
      const keys = Object.keys(value).sort().reverse();
      for (const key of keys) {
        const inner = (value as Record<string, unknown>)[key];
        // A key without a value equals a missing key.
        if (inner !== undefined) stack.push(',', { value: inner }, `${JSON.stringify(key)}:`);
      }
    } else {
      hash.update(typeof value === 'string' ? JSON.stringify(value) : nameScalar(value));
    }
  }
  return hash.digest('base64url');
}
