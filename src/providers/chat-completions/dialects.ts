/**
 * Tables of how servers with the chat-completions API differ from OpenAI's. The body decides which row applies, not the
 * host, because a server can have many host names. Each row names a server and the source of its form. Pure; runs where
 * stored copies are read.
 */

import type { TokenUsage } from '../../domain/exchange.ts';
import type { TurnStop } from '../../domain/turn.ts';
import { asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { laterCount, outputWithReasoning } from '../usage-counts.ts';

interface Row {
  server: string;
  source: string;
  /** Names of the fields that lead to the value, outermost first. */
  path: readonly string[];
}

/** The place of the object with the counts in a body, a chunk or a choice. */
const USAGE_PLACES: readonly Row[] = [
  { server: 'OpenAI', source: 'API reference, chat completion object', path: ['usage'] },
  { server: 'Groq', source: 'groq-python, XGroq of chat_completion_chunk', path: ['x_groq', 'usage'] },
];

/** Tokens read from a cache, within the usage object. These servers include them in `prompt_tokens`. */
const CACHE_READS: readonly Row[] = [
  {
    server: 'OpenAI, OpenRouter, xAI, Groq, vLLM, Azure',
    source: 'OpenAI API reference, usage',
    path: ['prompt_tokens_details', 'cached_tokens'],
  },
  { server: 'DeepSeek', source: 'DeepSeek API docs, Context Caching', path: ['prompt_cache_hit_tokens'] },
  { server: 'Moonshot, Together', source: 'Moonshot API docs, usage', path: ['cached_tokens'] },
  { server: 'LiteLLM', source: 'LiteLLM docs, Prompt Caching', path: ['cache_read_input_tokens'] },
  { server: 'Mistral', source: 'Mistral API reference, UsageInfo', path: ['num_cached_tokens'] },
  {
    server: 'Responses-style usage behind a proxy',
    source: 'OpenAI API reference, responses usage',
    path: ['input_tokens_details', 'cached_tokens'],
  },
];

/** Tokens written to a cache. */
const CACHE_WRITES: readonly Row[] = [
  {
    server: 'OpenRouter',
    source: 'OpenRouter docs, Usage Accounting',
    path: ['prompt_tokens_details', 'cache_write_tokens'],
  },
  { server: 'LiteLLM', source: 'LiteLLM docs, Prompt Caching', path: ['cache_creation_input_tokens'] },
  {
    server: 'LiteLLM',
    source: 'litellm/types/utils.py, PromptTokensDetailsWrapper',
    path: ['prompt_tokens_details', 'cache_creation_tokens'],
  },
  {
    server: 'Alibaba Cloud Model Studio',
    source: 'Model Studio docs, Context Cache',
    path: ['prompt_tokens_details', 'cache_creation_input_tokens'],
  },
];

/** The part of the cache writes with a lifetime of an hour. */
const HOUR_WRITES: readonly Row[] = [
  {
    server: 'LiteLLM',
    source: 'litellm/types/utils.py, CacheCreationTokenDetails',
    path: ['prompt_tokens_details', 'cache_creation_token_details', 'ephemeral_1h_input_tokens'],
  },
  {
    server: 'Proxies that forward the counts of the Messages API',
    source: 'Messages API reference, usage',
    path: ['cache_creation', 'ephemeral_1h_input_tokens'],
  },
];

/** Reasoning as text, within a message or a delta. Some servers send it under two names: the first one counts. */
const REASONING_FIELDS: readonly Row[] = [
  {
    server: 'DeepSeek, xAI, vLLM, SGLang, LiteLLM, Fireworks, Moonshot',
    source: 'DeepSeek API docs, Thinking Mode',
    path: ['reasoning_content'],
  },
  {
    server: 'OpenRouter, Groq, Ollama, Cerebras, vLLM',
    source: 'OpenRouter docs, Reasoning Tokens',
    path: ['reasoning'],
  },
  { server: 'GitHub Copilot', source: 'recorded by its clients', path: ['reasoning_text'] },
];

/** Errors of a stream in other fields than `error`. */
const STREAM_ERRORS: readonly Row[] = [
  { server: 'Groq', source: 'groq-python, XGroq of chat_completion_chunk', path: ['x_groq', 'error'] },
];

/** Stop words, in lower case: OpenAI's first, then those of other servers. */
export const CHAT_STOPS: Readonly<Record<string, TurnStop>> = {
  stop: 'end_turn',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
  // Together AI, and Hugging Face's text-generation-inference (FinishReason).
  eos: 'end_turn',
  eos_token: 'end_turn',
  stop_sequence: 'stop_sequence',
  // LiteLLM and gateways that forward the words of Messages, Gemini (`STOP`) and Cohere (`COMPLETE`).
  end_turn: 'end_turn',
  tool_use: 'tool_use',
  tool_call: 'tool_use',
  max_tokens: 'max_tokens',
  complete: 'end_turn',
  completed: 'end_turn',
  finish: 'end_turn',
  refusal: 'refusal',
  safety: 'refusal',
  recitation: 'refusal',
  blocklist: 'refusal',
  prohibited_content: 'refusal',
  malformed_function_call: 'error',
  // Mistral (ChatCompletionChoice.finish_reason).
  model_length: 'max_tokens',
  // OpenRouter, Mistral.
  error: 'error',
  // DeepSeek, Zhipu, vLLM and SGLang.
  insufficient_system_resource: 'error',
  network_error: 'error',
  sensitive: 'refusal',
  abort: 'error',
};

/** Reads the value at a row's place. */
function valueAt(object: JsonObject, { path }: Row): unknown {
  let value: unknown = object;
  for (const name of path) value = asObject(value)[name];
  return value;
}

/**
 * Finds the largest of the rows' counts, because a server may fill one field and leave zero in another.
 * @returns null when no row has a count
 */
function highestAt(object: JsonObject, rows: readonly Row[]): number | null {
  let highest: number | null = null;
  for (const row of rows) {
    const count = asCount(valueAt(object, row));
    if (count !== null) highest = Math.max(highest ?? 0, count);
  }
  return highest;
}

/** Reads the reasoning of a message or a delta; null if absent. */
export function reasoningOf(message: JsonObject): string | null {
  for (const row of REASONING_FIELDS) {
    const text = asText(valueAt(message, row));
    if (text !== null) return text;
  }
  return null;
}

/** Reads the error from a chunk of a failed stream whose server does not use the field `error`; null without one. */
export function streamErrorOf(chunk: JsonObject): string | null {
  for (const row of STREAM_ERRORS) {
    const value = valueAt(chunk, row);
    const words = asText(value) ?? asText(asObject(value).message);
    if (words !== null) return words;
  }
  return null;
}

/**
 * Merges the counts of a body, a chunk or a choice into the usage so far. A stream sends the counts once, or cumulative
 * counts with every chunk. In the result, `input_tokens` includes the caches and `output_tokens` the reasoning,
 * whatever the server's convention.
 */
export function readChatUsage(holder: JsonObject, usage: TokenUsage): void {
  for (const row of USAGE_PLACES) {
    const counts = asObject(valueAt(holder, row));
    if (Object.keys(counts).length > 0) takeUsage(counts, usage);
  }
}

function takeUsage(counts: JsonObject, usage: TokenUsage): void {
  // Some proxies use the names of the responses API in `usage`.
  const prompt = asCount(counts.prompt_tokens) ?? asCount(counts.input_tokens);
  const completion = asCount(counts.completion_tokens) ?? asCount(counts.output_tokens);
  const total = asCount(counts.total_tokens);
  const read = highestAt(counts, CACHE_READS);
  const written = highestAt(counts, CACHE_WRITES);
  const reasoning =
    asCount(asObject(counts.completion_tokens_details).reasoning_tokens) ??
    asCount(asObject(counts.output_tokens_details).reasoning_tokens) ??
    asCount(counts.reasoning_tokens) ??
    0;
  const cached = (read ?? 0) + (written ?? 0);
  const input =
    prompt !== null && leavesOutCache(prompt, cached, completion ?? 0, total) ? prompt + cached : prompt;
  const output =
    completion === null
      ? null
      : outputWithReasoning({ input: input ?? 0, output: completion, reasoning, total });
  usage.input_tokens = laterCount(input, usage.input_tokens);
  usage.output_tokens = laterCount(output, usage.output_tokens);
  usage.cache_read_tokens = laterCount(read, usage.cache_read_tokens);
  usage.cache_write_tokens = laterCount(written, usage.cache_write_tokens);
  usage.cache_write_1h_tokens = laterCount(highestAt(counts, HOUR_WRITES), usage.cache_write_1h_tokens);
}

/** Whether `prompt_tokens` excludes the caches, as behind proxies for the Messages API. */
function leavesOutCache(prompt: number, cached: number, completion: number, total: number | null): boolean {
  return cached > 0 && (cached > prompt || total === prompt + cached + completion);
}
