/**
 * Requests to the fake provider and its answers, in one form for all wire formats. A script is a function
 * from a request to an answer. Pure; runs wherever the fake provider runs (the demo's main thread, tests).
 */
import { createHash } from 'node:crypto';

/** The wire format of a request. */
type ProviderShape =
  | 'messages'
  | 'chat_completions'
  | 'responses'
  | 'gemini'
  | 'bedrock_converse'
  | 'bedrock_invoke';

/** A request as a script sees it. */
export interface ScriptRequest {
  shape: ProviderShape;
  model: string;
  streaming: boolean;
  /** Names of the tools that were declared. */
  tools: string[];
  /** Text of the last message, without tool results. */
  text: string;
  /** Tool results in the last message, in order. */
  tool_results: string[];
  /** Number of messages in the conversation so far. */
  messages: number;
  /** Calls of the script before this one. */
  calls_before: number;
}

/** A tool call in an answer. */
export interface ScriptedToolCall {
  name: string;
  /** A text is the input of a custom tool; only in the responses-style API. */
  input: Record<string, unknown> | string;
  /** Namespace of a tool that was declared in one; only in the responses-style API. */
  namespace?: string;
}

/** An answer that is an error, as the provider concerned would word it. */
export interface ScriptedError {
  /** 400, 401, 403, 404, 429, 500, 503, 529, … */
  status: number;
  message: string;
  /** Sent as `retry-after` (seconds) when given. */
  retry_after_s?: number;
}

/** The answer. Its order on the wire: thinking, text, tool calls. */
export interface ScriptedAnswer {
  thinking?: string;
  text?: string;
  tool_calls?: ScriptedToolCall[];
  usage?: { input: number; output: number; cache_read?: number; cache_write?: number };
  /** Replaces all fields above. */
  error?: ScriptedError;
  /** Only for streams: after this many frames, the stream stalls until the client disconnects. */
  hold_after_frames?: number;
  /** Only for streams: the stream ends with the provider's error event instead of its normal end. */
  stream_error?: string;
}

/** Decides every answer. Deterministic: the same request must get the same answer. */
export type Script = (request: ScriptRequest) => ScriptedAnswer;

/** An answer ready for the socket: one body, or frames that are each written on their own. */
export interface ProviderReply {
  status: number;
  headers: [name: string, value: string][];
  body?: Buffer;
  frames?: Buffer[];
  hold_after_frames?: number;
}

/** A JSON object with unknown content. */
export type JsonObject = Record<string, unknown>;

/** The value as an object; an empty object for any other value. */
export function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** The value as an array of objects; empty for any other value. */
export function asObjects(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.map(asObject) : [];
}

/** The value as a string; empty for any other value. */
export function asString(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Parses a body that must be a JSON object; null for other text. */
export function parseBody(requestBody: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(requestBody.toString('utf8'));
    return asObject(value) === value ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}

/** An identifier that depends only on the request, so that the same request gets the same bytes. */
export function idFrom(prefix: string, requestBody: Buffer, nth = 0): string {
  return prefix + createHash('sha256').update(requestBody).update(String(nth)).digest('hex').slice(0, 24);
}

/** Token counts of an answer: the script's own, or about four bytes a token. */
export function usageOf(
  answer: ScriptedAnswer,
  requestBody: Buffer,
): Required<NonNullable<ScriptedAnswer['usage']>> {
  const said = (answer.thinking ?? '') + (answer.text ?? '') + JSON.stringify(answer.tool_calls ?? '');
  return {
    input: Math.ceil(requestBody.length / 4),
    output: Math.ceil(said.length / 4),
    cache_read: 0,
    cache_write: 0,
    ...answer.usage,
  };
}

/** A text in the pieces in which a model would stream it: words with the blank before them. */
export function streamPieces(text: string): string[] {
  return text.match(/\s*\S+\s*$|\s*\S+/g) ?? (text === '' ? [] : [text]);
}

/** A JSON text in pieces that ignore its structure, as models stream arguments. */
export function jsonPieces(value: unknown): string[] {
  return JSON.stringify(value).match(/[\s\S]{1,9}/g) ?? [];
}

/** A whole JSON answer. */
export function jsonReply(status: number, value: unknown, headers: [string, string][] = []): ProviderReply {
  return {
    status,
    headers: [['content-type', 'application/json'], ...headers],
    body: Buffer.from(JSON.stringify(value)),
  };
}

/** A server-sent-events answer; each frame is one event. */
export function sseReply(
  frames: string[],
  headers: [string, string][],
  hold_after_frames: number | undefined,
): ProviderReply {
  return {
    status: 200,
    headers: [
      ['content-type', 'text/event-stream; charset=utf-8'],
      ['cache-control', 'no-cache'],
      ...headers,
    ],
    frames: frames.map((frame) => Buffer.from(frame)),
    ...(hold_after_frames === undefined ? {} : { hold_after_frames }),
  };
}

/** `retry-after` when the error has one. */
export function retryHeaders(error: ScriptedError): [string, string][] {
  return error.retry_after_s === undefined ? [] : [['retry-after', String(error.retry_after_s)]];
}

/**
 * The answers of a provider without a script: it calls the first declared tool once with a question about the
 * text, reports tool results, or repeats its input.
 */
export const echoScript: Script = (request) => {
  if (request.tool_results.length > 0) {
    return { text: `The tools said: ${request.tool_results.join('; ')}` };
  }
  const tool = request.tools[0];
  if (tool !== undefined) {
    return { text: 'Let me look.', tool_calls: [{ name: tool, input: { query: request.text } }] };
  }
  return { text: `You said: ${request.text}` };
};
