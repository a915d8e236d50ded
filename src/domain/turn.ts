/**
 * The normal form of a model turn: request and answer in one vocabulary for all providers, so that code that makes
 * traces, teaches students or serves steps need not know seven wire formats. Types and rules without IO; used wherever
 * stored turns are read, and by the student; never on the forward path. The vocabulary is that of the Messages API,
 * which is the most expressive. Anything that this vocabulary lacks is kept whole as `other`.
 */

import type { TokenUsage } from './exchange.ts';

/** One piece of a system prompt, a message or an answer. */
export type TurnBlock =
  | {
      type: 'text';
      text: string;
      /** The citations as the provider gave them; absent without any. */
      citations?: unknown[];
      /**
       * A signature that the provider expects back with this text to continue its reasoning (newer Gemini models);
       * usually absent.
       */
      signature?: string;
    }
  | { type: 'refusal'; text: string }
  /** Reasoning. Hidden reasoning has no text, only the signature (or encrypted content) that represents it. */
  | { type: 'thinking'; text: string; signature: string | null; redacted: boolean }
  /** A call that the client must make. Its result is a {@link TurnBlock} `tool_result`. */
  | {
      type: 'tool_call';
      /** The provider's id; `order:3` for the third call of the conversation if the provider gives no ids. */
      id: string;
      name: string;
      /** Parsed, or the text itself if it is not JSON. */
      input: unknown;
      signature?: string;
    }
  | {
      type: 'tool_result';
      /** Id of the call that it answers; null if unknown. */
      call_id: string | null;
      /** Name of the tool, taken from the call if the result does not contain it. */
      name: string | null;
      is_error: boolean;
      content: TurnBlock[];
    }
  | {
      type: 'media';
      kind: 'image' | 'document' | 'audio' | 'video' | 'file';
      /** MIME type or the provider's word for the format; null if unknown. */
      media_type: string | null;
      /** `file`: stored separately; `data` is the SHA-256 of the bytes (in traces). */
      source: 'base64' | 'url' | 'file_id' | 'text' | 'file';
      data: string;
    }
  /** The provider may cache everything before it. */
  | { type: 'cache_point'; ttl: string | null }
  /** Any other block (tools that the provider runs itself, containers, …): its type, and the unchanged block. */
  | { type: 'other'; name: string; value: unknown };

export type TurnRole = 'system' | 'user' | 'assistant' | 'tool';

/** `tool`: only tool results, whatever the provider calls the role. */
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
  /** All other declared settings; null without any. */
  settings: unknown;
}

export interface TurnToolChoice {
  /**
   * `any`: the model must call a tool. `tool`: it must call the named one. `validated`: it may call tools, and the
   * provider checks the calls (Gemini).
   */
  mode: 'auto' | 'any' | 'none' | 'tool' | 'validated';
  /** The tools from which it may choose, or the required one; empty: all. */
  names: string[];
  /** Whether several calls in one answer are allowed; null if not stated. */
  parallel: boolean | null;
}

export interface TurnThinking {
  /** `adaptive`: the model decides how much it thinks. */
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

/** Why an answer ended, in one vocabulary. `other`: an unknown word of the provider. */
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
  /** This field and the next three are null if the request does not contain them. */
  tool_choice: TurnToolChoice | null;
  thinking: TurnThinking | null;
  response_schema: TurnResponseSchema | null;
  max_output_tokens: number | null;
  /** Id of the answer that this request continues, if the provider keeps this answer; otherwise null. */
  previous_answer_id: string | null;
}

export interface NormalAnswer {
  id: string | null;
  model: string | null;
  content: TurnBlock[];
  /** null without an end: no answer, an error, or a truncated stream. */
  stop_reason: TurnStop | null;
  /** Tokens as in the Messages API: `input_tokens` excludes cache reads and writes. */
  usage: TokenUsage;
  /** The provider's error in words, otherwise null. */
  error: string | null;
}

/** A turn in normal form. */
export interface NormalTurn {
  request: NormalRequest;
  answer: NormalAnswer;
  /** A description of the unreadable parts; '' if everything was readable. */
  problem: string;
}

/** Joins the texts of all `text` blocks, without refusals, thinking and tools. */
export function textOf(blocks: readonly TurnBlock[]): string {
  let text = '';
  for (const block of blocks) if (block.type === 'text') text += block.text;
  return text;
}
