/**
 * The one form into which every provider's request and answer are read: what the conversation hashes, `inspect` and
 * whoever else reads stored turns work on. Types only; used wherever stored copies are read, never on a server thread.
 */

import type { ApiShape, TokenUsage } from '../domain/exchange.ts';

/** The stored copy of an exchange: the fields of CapturedExchange and ExchangeRecord that reading it needs. */
export interface StoredExchange {
  shape: ApiShape | null;
  path: string;
  /** 0 when there was no answer. */
  status: number;
  /** Flat [name, value, …]. */
  request_headers: readonly string[];
  response_headers: readonly string[];
  request_body: Uint8Array;
  response_body: Uint8Array;
  /** A stored body is only its beginning. */
  truncated: boolean;
}

/** One piece of a message. */
export type Part =
  | { type: 'text'; text: string }
  /** Reasoning shown by the model; clients may drop it when they send the answer back, so it is never hashed. */
  | { type: 'thinking'; text: string }
  /** `id` is null where the provider has none (older Gemini models pair by name and order). */
  | { type: 'tool_call'; id: string | null; name: string; arguments: unknown }
  | { type: 'tool_result'; call_id: string | null; name: string | null; is_error: boolean; parts: Part[] }
  /** `data` is the base64 text, the URL or the file's id, as it stood in the body. */
  | { type: 'media'; media_type: string; data: string }
  /** Anything else a provider has (server tools, citations' documents, …): its type and its JSON. */
  | { type: 'other'; name: string; value: unknown };

export type Role = 'system' | 'user' | 'assistant' | 'tool';

export interface Message {
  role: Role;
  parts: Part[];
}

/** What a request asks. */
export interface TurnRequest {
  model: string | null;
  /** System prompt in blocks, in order: the system field, and system or developer messages at the very beginning. */
  system: string[];
  messages: Message[];
  /** Names of the declared tools. */
  tools: string[];
  /** The answer that this request goes on from, kept by the provider (`previous_response_id`, `thread`); else null. */
  previous_answer_id: string | null;
  /** The conversation in which the provider keeps the answer, to go on from; null or left out when there is none. */
  kept_in?: string | null;
  /** The provider keeps the answer, so that a later request may name it instead of holding it. */
  is_kept?: boolean;
  /** It asks for an embedding, which comes by a turn's path (InvokeModel) and is none. */
  embeds?: boolean;
}

/** What came back. All null and empty when there was no answer. */
export interface TurnAnswer {
  id: string | null;
  model: string | null;
  parts: Part[];
  /** The provider's own word. */
  stop_reason: string | null;
  usage: TokenUsage;
  /** The provider's error in words, from an error answer or an error event in the stream; else null. */
  error: string | null;
  /** It is an embedding. */
  embeds?: boolean;
}

/** Puts a whole or streamed answer together. One object reads one answer. */
export interface AnswerReader {
  /** One event of a streamed answer; `name` is the event's own name or ''. Unknown events are ignored. */
  readEvent(name: string, value: unknown): void;
  /** A whole answer, 2xx. */
  readWhole(value: unknown): void;
  /** The answer so far. Called once, last. */
  finish(): TurnAnswer;
}

/** A provider shape: how to read its requests and answers. Neither may assume anything of the JSON it gets. */
export interface TurnShape {
  readRequest(body: unknown, path: string): TurnRequest;
  startAnswer(path: string): AnswerReader;
}

/** Usage of which nothing is known. A fresh object each time: readers fill it in. */
export function unknownUsage(): TokenUsage {
  return { input_tokens: null, output_tokens: null, cache_read_tokens: null, cache_write_tokens: null };
}

/** An answer of which nothing is known yet. */
export function emptyAnswer(): TurnAnswer {
  return { id: null, model: null, parts: [], stop_reason: null, usage: unknownUsage(), error: null };
}
