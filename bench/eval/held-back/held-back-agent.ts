/**
 * The parts of an agent of the held-back evaluation: its tools, a seeded world, and the right moves at each point of a
 * run. Types; bench process.
 */

import type { Facts } from './facts.ts';

export type Arguments = Record<string, unknown>;

export interface Tool {
  name: string;
  description: string;
  /** JSON schema of the arguments. */
  parameters: object;
}

export interface ToolCall {
  name: string;
  input: Arguments;
}

/** A model's answer: text, calls, or both. */
export interface Answer {
  text: string;
  calls: ToolCall[];
}

export interface Result {
  text: string;
  is_error: boolean;
  /** The tool was unreachable, so the call had no effect. The same call may succeed later. */
  is_transient?: boolean;
}

export interface Turn {
  answer: Answer;
  /** In the order of the answer's calls. */
  results: Result[];
}

/** Text in the model's own words, and the facts that it must state. */
export interface FreeText {
  /** `{a|b}` chooses, `<name>` is a value of `values`. */
  wordings: readonly string[];
  values: Readonly<Record<string, string>>;
  /** null: the effect of the call alone decides. */
  facts: Facts | null;
}

/** A right call, with the arguments that the model words freely. */
export interface WantedCall {
  name: string;
  input: Arguments;
  free?: Readonly<Record<string, FreeText>>;
}

/** One possible next move. */
export interface Move {
  /**
   * How often the frontier model makes this move, relative to the others. 0: the move is right, but the model never
   * makes it.
   */
  weight: number;
  /** A mistake that the model makes and corrects. A student that repeats it is wrong. */
  is_slip?: boolean;
  /** The order of the calls does not matter. */
  calls: readonly WantedCall[];
  /** The last answer of the run; only without calls. */
  text?: FreeText;
}

/**
 * - `usual`: like the golden runs
 * - `restricted`: a sentence of the prompt or the task forbids, limits or permits something, which decides a step
 * - `changed`: the frontier model or a tool behaves differently than in the golden runs, and no prompt says so
 */
export type RunKind = 'usual' | 'restricted' | 'changed';

export interface Run {
  system: string;
  task: string;
  /** Executes a call in the world; an unknown tool or wrong arguments are an error result. */
  perform(call: ToolCall): Result;
  /** Lists all moves that are right after these turns, which contain no transient failures, and possible slips. */
  moves(turns: readonly Turn[]): Move[];
  /** Whether two calls of the same tool have the same effect; by default their arguments are compared. */
  isAlike?(wanted: WantedCall, given: ToolCall): boolean;
}

export interface HeldBackAgent {
  name: string;
  model: string;
  wire: 'messages' | 'chat_completions' | 'responses';
  is_streaming: boolean;
  /** The client labels its requests with `x-svc-run` and `x-svc-seq`. */
  is_labelled: boolean;
  tools: readonly Tool[];
  /** Texts that the model writes together with calls, and how often it does. */
  asides: readonly string[];
  aside_share: number;
  /** Names that a text may contain only if its values or the task contain them. */
  names: readonly string[];
  start(seed: number, kind: RunKind): Run;
}

/** Makes a tool whose arguments are all required, except those whose type ends with `?`. */
export function tool(name: string, description: string, fields: Readonly<Record<string, string>>): Tool {
  const properties: Record<string, object> = {};
  const required: string[] = [];
  for (const [field, type] of Object.entries(fields)) {
    const plain = type.replace(/\?$/, '');
    properties[field] = plain.endsWith('[]')
      ? { type: 'array', items: { type: plain.slice(0, -2) } }
      : { type: plain };
    if (!type.endsWith('?')) required.push(field);
  }
  return { name, description, parameters: { type: 'object', properties, required } };
}

/** Makes the result of a tool that succeeded. */
export function good(value: unknown): Result {
  return { text: typeof value === 'string' ? value : JSON.stringify(value), is_error: false };
}

/** Makes the result of a tool that failed. */
export function bad(text: string): Result {
  return { text, is_error: true };
}

/** Makes the only right move, which consists of these calls. */
export function only(...calls: WantedCall[]): Move[] {
  return [{ weight: 1, calls }];
}

/** Makes the only right move, which is the last answer of the run. */
export function ending(text: FreeText): Move[] {
  return [{ weight: 1, calls: [], text }];
}
