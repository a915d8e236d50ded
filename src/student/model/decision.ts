/**
 * What the student says about a live step: the answer if it can serve the step, otherwise the reason why it cannot.
 * Types only; the student's thread makes decisions, and server threads count them.
 */

import type { TurnBlock } from '../../domain/turn.ts';

/** The blocks that a student can produce. A golden answer with any other block is not an exemplar. */
export type StudentBlock = Extract<TurnBlock, { type: 'text' | 'tool_call' }>;

/**
 * What a call of a tool consists of: JSON `arguments`, a `text` in any form (custom tools), or the command of a
 * `local_shell` as an object.
 */
export type CallForm = 'arguments' | 'text' | 'local_shell';

/** How an answer calls each tool, by name; null: each tool that is a function takes arguments. */
export type CallForms = ReadonlyMap<string, CallForm> | null;

/** An answer before it is written to the wire. */
export interface StudentAnswer {
  /** Ids of tool calls are empty; the code that writes the answer to the wire assigns them. */
  content: StudentBlock[];
  stop_reason: 'end_turn' | 'tool_use';
  /** Roughly what the upstream would have counted, taken from the nearest golden answers. */
  input_tokens: number;
  /**
   * The parts of the input that would have been read from the provider's cache, and written to it; absent: 0.
   */
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  output_tokens: number;
  /** The tier that a service's answer names, if it is not the standard one. */
  tier?: string;
}

/**
 * Why a step is not covered.
 *
 * - `unknown_agent`: no golden step has this system prompt, these tools and settings
 * - `other_value`: all golden runs had the same value (a limit, a date, an id) at a place in the system prompt or the
 *   task, and the step has another value there
 * - `unsupported`: the request asks for something that no student gives (forced thinking, provider's tools, a prefilled
 *   answer, …)
 * - `too_far`: no golden step is near enough, or the step has something new that no golden step had
 * - `disagreement`: the nearest golden steps answered differently
 * - `missing_value`: the agreed answer needs a value that the live step does not contain at the expected place
 * - `unproven`: this kind of answer is not served: too few golden runs have it, the student is wrong too often in them,
 *   or it is excluded
 * - `bad_request`: the upstream would or might refuse the request: it breaks a rule that no golden request broke
 * - `invalid`: the answer would break the request's own rules (tools, their schemas, tool choice, length)
 */
export const UNCOVERED_REASONS = [
  'unknown_agent',
  'other_value',
  'unsupported',
  'too_far',
  'disagreement',
  'missing_value',
  'unproven',
  'bad_request',
  'invalid',
] as const;
export type UncoveredReason = (typeof UNCOVERED_REASONS)[number];

export type StudentDecision =
  | {
      covered: true;
      /** The exemplar's answer; null when only coverage is asked (kind `http`). */
      answer: StudentAnswer | null;
      /** Nonconformity from 0 (golden steps are identical and agree) to 1; at most the manifest's threshold. */
      score: number;
      /** Golden runs that support the answer. */
      support: number;
      /** The step's agent, as the manifest names it. */
      agent: string;
      /** The form whose evidence lets the answer be served; absent: only coverage was asked. */
      form?: string;
      /** All names of the answer's form, the narrowest last (answer-form.ts). */
      forms?: readonly string[];
      /**
       * Whether another answer to this step is equivalent (equivalence.ts). Absent: only equal answers are equivalent.
       */
      agrees?: JudgeAnswer;
    }
  | {
      covered: false;
      reason: UncoveredReason;
      /** null when no score could be computed. */
      score: number | null;
      /** The step's agent; '': unknown; absent: not asked. */
      agent?: string;
    };

/**
 * Whether another answer to a step is equivalent to the student's. `knowsRest`: the caller knows the rest of the run,
 * and itself checks there whether the same lookups only came in another order. Answers then do not count as equivalent
 * merely because they may differ in this order.
 */
export type JudgeAnswer = (other: readonly StudentBlock[], knowsRest?: boolean) => boolean;

/**
 * What the caller asks for. `answer`: the student's answer. `coverage`: whether a service may be asked (kind `http`).
 * `second`: both.
 */
export type WantedDecision = 'answer' | 'coverage' | 'second';
