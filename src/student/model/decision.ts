/**
 * What the student says of a live step: that it has mastered it, with the answer, or that it has not, and why. Types
 * alone; made on the student's thread, counted on server threads.
 */

import type { TurnBlock } from '../../domain/turn.ts';

/** The blocks that a student can give: what a golden answer had of others makes it no exemplar. */
export type StudentBlock = Extract<TurnBlock, { type: 'text' | 'tool_call' }>;

/** An answer that is not on the wire yet. */
export interface StudentAnswer {
  /** Ids of tool calls are empty; the code that writes the answer to the wire gives them. */
  content: StudentBlock[];
  stop_reason: 'end_turn' | 'tool_use';
  /** What the upstream would have counted, about: from the golden answers beside the step. */
  input_tokens: number;
  /** Of the input, what would have come from the provider's cache, and gone to it; left out: none. */
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  output_tokens: number;
}

/**
 * Why a step is not covered.
 *  - `unknown_agent`: no golden step has this system prompt, these tools and settings
 *  - `other_value`: the system prompt or the task has another value where all golden runs had the same one (a limit, a date, an id)
 *  - `unsupported`: the request asks for what no student gives (forced thinking, provider's tools, a prefilled answer, …)
 *  - `too_far`: no golden step is near enough, or what is new in this one is in none
 *  - `disagreement`: the golden steps beside it answered differently
 *  - `missing_value`: the agreed answer needs a value that the live step does not hold, or not where it should
 *  - `unproven`: this kind of answer is not served: too few golden runs have it, it is wrong too often in them, or it is excepted
 *  - `bad_request`: the upstream would refuse the request, or may: it breaks a rule that no golden request broke
 *  - `invalid`: the answer would break the request's own rules (tools, their schemas, tool choice, length)
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
      /** The exemplar's answer; null where coverage alone is asked (kind `http`). */
      answer: StudentAnswer | null;
      /** Nonconformity, 0 (seen just so, all agree) … 1; at most the manifest's threshold. */
      score: number;
      /** Golden runs that stand behind the answer. */
      support: number;
      /** Whose step it is, as the manifest names agents. */
      agent: string;
    }
  | {
      covered: false;
      reason: UncoveredReason;
      /** null where none could be computed. */
      score: number | null;
      /** Whose step it is; '' where nobody knows, left out where nobody asked. */
      agent?: string;
    };

/**
 * What is asked of the student: its answer; whether a service may be asked (kind `http`); or that, and its own answer
 * beside it.
 */
export type WantedDecision = 'answer' | 'coverage' | 'second';
