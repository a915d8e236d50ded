/** The interface of a family of synthetic agents: its messages, its world and its policy. Bench process. */

import type { Prng } from '../../src/std/prng.ts';

interface ToolUse {
  type: 'tool_use';
  id: string;
  name: string;
  input: Record<string, unknown>;
}
export interface ToolResult {
  type: 'tool_result';
  tool_use_id: string;
  content: string;
  is_error?: boolean;
}
export type WireBlock = { type: 'text'; text: string } | ToolUse | ToolResult;
export interface WireMessage {
  role: 'user' | 'assistant';
  content: string | WireBlock[];
}

export interface WireTool {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
}

/** Body of `POST /v1/messages`. */
export interface MessagesRequest {
  model: string;
  max_tokens: number;
  system: { type: 'text'; text: string }[];
  tools: WireTool[];
  messages: WireMessage[];
  metadata: { user_id: string };
}

/** An answer of the Messages API. */
export interface MessagesAnswer {
  id: string;
  type: 'message';
  role: 'assistant';
  model: string;
  content: WireBlock[];
  stop_reason: 'end_turn' | 'tool_use';
  stop_sequence: null;
  usage: {
    input_tokens: number;
    output_tokens: number;
    cache_read_input_tokens: number;
    cache_creation_input_tokens: number;
  };
}

/** JSON that the worlds define. */
// biome-ignore lint/suspicious/noExplicitAny: each family knows its own fields
export type Fields = Record<string, any>;

/** A call and its result from the world. */
export interface LoggedCall {
  name: string;
  input: Record<string, unknown>;
  text: string;
  /** `text` parsed as JSON; null if it is not JSON. */
  json: Fields | null;
  is_error: boolean;
}

/** The next action of a policy. */
export type Act =
  | { calls: { name: string; input: Record<string, unknown> }[]; say?: string }
  | { final: string };

/** A kind of agent: its prompts, its world, and the policy that knows what to do in it. */
// biome-ignore lint/suspicious/noExplicitAny: a list of families holds worlds of all kinds
export interface AgentFamily<World = any> {
  name: string;
  tools: WireTool[];
  /** Makes the world of a run. @param isShifted the task is of a kind that no earlier run had */
  makeWorld(random: Prng, isShifted: boolean): World;
  system(world: World, random: Prng): string;
  task(world: World, random: Prng): string;
  /** Executes a call, which may change the world. @returns the result of the call */
  call(world: World, name: string, input: Fields): { text: string; is_error?: boolean };
  /** Decides the next act. @param random gives the same numbers for the same step */
  act(world: World, log: readonly LoggedCall[], random: Prng): Act;
  /** Whether the world is in the state that the task requires, and the last answer is true. */
  isDone(world: World, log: readonly LoggedCall[], final: string): boolean;
}
