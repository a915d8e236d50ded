/**
 * The normal form of a model turn: what was asked and what was answered, in one vocabulary for every provider, so that
 * the code that traces, teaches or serves does not have to know seven wire formats. Types and rules without IO; used wherever
 * stored turns are read (command line, rounds) and by the student; never on the forward path.
 *
 * The vocabulary is that of the Messages API, since it says most. What it has no word for is kept whole under `other`.
 */

import type { TokenUsage } from './exchange.ts';

/** One piece of a system prompt, a message or an answer. */
export type TurnBlock =
  | {
      type: 'text';
      text: string;
      /** As the provider gave them; absent without any. */
      citations?: unknown[];
      /** What the provider wants back with this text to go on reasoning (newer Gemini models); mostly absent. */
      signature?: string;
    }
  | { type: 'refusal'; text: string }
  /** Reasoning. Hidden reasoning has no text, only the signature (or encrypted content) that stands for it. */
  | { type: 'thinking'; text: string; signature: string | null; redacted: boolean }
  /** A call that the client is asked to make. See {@link TurnBlock} `tool_result` for its other half. */
  | {
      type: 'tool_call';
      /** The provider's; `order:3` for the third call of the conversation where the provider gives no ids. */
      id: string;
      name: string;
      /** Parsed; the text itself where it is no JSON. */
      input: unknown;
      signature?: string;
    }
  | {
      type: 'tool_result';
      /** Id of the call that it answers; null when nothing tells. */
      call_id: string | null;
      /** Name of the tool, from the call where the result does not say. */
      name: string | null;
      is_error: boolean;
      content: TurnBlock[];
    }
  | {
      type: 'media';
      kind: 'image' | 'document' | 'audio' | 'video' | 'file';
      /** MIME type or the provider's format word; null when not told. */
      media_type: string | null;
      /** `file`: kept apart, `data` is the SHA-256 of the bytes (in traces). */
      source: 'base64' | 'url' | 'file_id' | 'text' | 'file';
      data: string;
    }
  /** Everything before it may be cached by the provider. */
  | { type: 'cache_point'; ttl: string | null }
  /** Anything else (tools that the provider runs itself, containers, …): its type, and the block as it was. */
  | { type: 'other'; name: string; value: unknown };

export type TurnRole = 'system' | 'user' | 'assistant' | 'tool';

/** `tool`: tool results and nothing else, whatever the provider calls its sender. */
export interface TurnMessage {
  role: TurnRole;
  content: TurnBlock[];
}

/** A tool that the model may call. */
export interface TurnTool {
  /** `function`: the client runs it. `provider`: the provider does (web search, code execution, MCP, …). */
  kind: 'function' | 'provider';
  name: string;
  description: string;
  /** JSON Schema of its input; null without one. */
  input_schema: unknown;
  /** Whatever else was declared of it; null for nothing. */
  settings: unknown;
}

export interface TurnToolChoice {
  /** `any`: it must call one; `tool`: the one named; `validated`: it may, and calls are checked (Gemini). */
  mode: 'auto' | 'any' | 'none' | 'tool' | 'validated';
  /** The tools that it may choose from, or the one; empty: all. */
  names: string[];
  /** Several calls in one answer; null when not told. */
  parallel: boolean | null;
}

export interface TurnThinking {
  /** `adaptive`: as much as the model finds right. */
  mode: 'on' | 'off' | 'adaptive';
  budget_tokens: number | null;
  /** The provider's word (`low`, `high`, …). */
  effort: string | null;
}

export interface TurnResponseSchema {
  /** null for plain JSON of any shape. */
  schema: unknown;
  name: string | null;
  strict: boolean | null;
}

/** Why an answer ended, in one vocabulary. `other`: the provider's word is not known here. */
export type TurnStop =
  | 'end_turn'
  | 'tool_use'
  | 'stop_sequence'
  | 'max_tokens'
  | 'refusal'
  | 'pause_turn'
  | 'error'
  | 'other';

export interface NormalRequest {
  model: string | null;
  system: TurnBlock[];
  messages: TurnMessage[];
  tools: TurnTool[];
  /** The next four: null when the request does not say. */
  tool_choice: TurnToolChoice | null;
  thinking: TurnThinking | null;
  response_schema: TurnResponseSchema | null;
  max_output_tokens: number | null;
  /** The answer that the provider keeps and this request goes on from; else null. */
  previous_answer_id: string | null;
}

export interface NormalAnswer {
  id: string | null;
  model: string | null;
  content: TurnBlock[];
  /** null without an end: no answer, an error, a stream that was cut. */
  stop_reason: TurnStop | null;
  /** Tokens in the Messages API's sense: `input_tokens` without what was read from or written to the cache. */
  usage: TokenUsage;
  /** The provider's error in words; else null. */
  error: string | null;
}

/** A turn in normal form. */
export interface NormalTurn {
  request: NormalRequest;
  answer: NormalAnswer;
  /** In words, what could not be read; '' when everything could. */
  problem: string;
}

/** Text of blocks, one after the other: what a reader would read, thinking and tools left out. */
export function textOf(blocks: readonly TurnBlock[]): string {
  let text = '';
  for (const block of blocks) if (block.type === 'text') text += block.text;
  return text;
}
