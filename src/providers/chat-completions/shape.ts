/**
 * The chat-completions shape (`POST …/chat/completions`), whole and streamed, of OpenAI and those who speak like it.
 * Pure; runs where stored copies are read, never on a server thread. Source: OpenAI's Chat Completions API reference.
 *
 * Usage: `prompt_tokens`, which counts cached tokens in. A stream has usage only when the client asked for it
 * (`stream_options.include_usage`); else it stays unknown. With `n` > 1 the first choice is the answer.
 */

import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseLenient,
  readErrorWords,
} from '../json-reading.ts';
import {
  type AnswerReader,
  emptyAnswer,
  type Message,
  type Part,
  type Role,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
} from '../turn.ts';

export const chatCompletionsShape: TurnShape = {
  readRequest: readChatRequest,
  startAnswer: () => new ChatAnswerReader(),
};

/** Reads a chat-completions request body. System messages at the beginning become the system prompt. */
export function readChatRequest(value: unknown): TurnRequest {
  const body = asObject(value);
  const system: string[] = [];
  const messages: Message[] = [];
  for (const item of asArray(body.messages)) {
    const message = readChatMessage(asObject(item));
    if (message.role === 'system' && messages.length === 0) {
      for (const part of message.parts) if (part.type === 'text') system.push(part.text);
    } else messages.push(message);
  }
  return {
    model: asText(body.model),
    system,
    messages,
    tools: [...asArray(body.tools), ...asArray(body.functions)].map((item) => {
      const tool = asObject(item);
      return asText(asObject(tool.function).name) ?? asText(tool.name) ?? asText(tool.type) ?? '?';
    }),
    previous_answer_id: null,
  };
}

function readChatMessage(message: JsonObject): Message {
  const role = readChatRole(message.role);
  if (role === 'tool') {
    const parts = readChatContent(message.content);
    const id = asText(message.tool_call_id);
    return {
      role,
      parts: [{ type: 'tool_result', call_id: id, name: asText(message.name), is_error: false, parts }],
    };
  }
  return { role, parts: readChatMessageParts(message) };
}

/** A message's role; an unknown role counts as the user. */
export function readChatRole(role: unknown): Role {
  switch (role) {
    case 'assistant':
      return 'assistant';
    case 'system':
    case 'developer':
      return 'system';
    case 'tool':
    case 'function':
      return 'tool';
    default:
      return 'user';
  }
}

/** The parts of a message that is not a tool's: reasoning, text, refusal and calls. */
function readChatMessageParts(message: JsonObject): Part[] {
  const parts: Part[] = [];
  const reasoning = asText(message.reasoning_content) ?? asText(message.reasoning);
  if (reasoning !== null) parts.push({ type: 'thinking', text: reasoning });
  parts.push(...readChatContent(message.content));
  const refusal = asText(message.refusal);
  if (refusal !== null) parts.push({ type: 'text', text: refusal });
  for (const item of asArray(message.tool_calls)) parts.push(readToolCall(asObject(item)));
  const call = message.function_call;
  if (typeof call === 'object' && call !== null) parts.push(readToolCall({ function: call }));
  return parts;
}

function readToolCall(call: JsonObject): Part {
  const body = asObject(call.function ?? call.custom);
  const text = body.arguments ?? body.input;
  return {
    type: 'tool_call',
    id: asText(call.id),
    name: asText(body.name) ?? '',
    arguments: typeof text === 'string' ? parseLenient(text) : (text ?? {}),
  };
}

function readChatContent(content: unknown): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).map((item) => readContentPart(asObject(item)));
}

function readContentPart(part: JsonObject): Part {
  const type = asText(part.type) ?? '';
  switch (type) {
    case 'text':
      return { type: 'text', text: asText(part.text) ?? '' };
    case 'refusal':
      return { type: 'text', text: asText(part.refusal) ?? '' };
    case 'image_url':
      return { type: 'media', media_type: 'image', data: asText(asObject(part.image_url).url) ?? '' };
    case 'input_audio': {
      const audio = asObject(part.input_audio);
      return {
        type: 'media',
        media_type: `audio/${asText(audio.format) ?? '*'}`,
        data: asText(audio.data) ?? '',
      };
    }
    case 'file': {
      const file = asObject(part.file);
      const data = asText(file.file_data) ?? asText(file.file_id) ?? '';
      return { type: 'media', media_type: 'file', data };
    }
    default: {
      const { type: _type, cache_control: _cacheControl, ...value } = part;
      return { type: 'other', name: type, value };
    }
  }
}

/** A tool call of a stream while its pieces come in. */
interface OpenCall {
  id: string | null;
  name: string;
  text: string;
}

/** Reads one chat-completions answer. Bedrock's InvokeModel uses it too. */
export class ChatAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  readonly #calls = new Map<number, OpenCall>();
  #text = '';
  #thinking = '';

  readWhole(value: unknown): void {
    const body = asObject(value);
    this.#readHead(body);
    const choice = asObject(asArray(body.choices)[0]);
    this.#answer.stop_reason = asText(choice.finish_reason);
    this.#answer.parts = readChatMessageParts(asObject(choice.message));
  }

  readEvent(_name: string, value: unknown): void {
    const body = asObject(value);
    this.#readHead(body);
    for (const item of asArray(body.choices)) {
      const choice = asObject(item);
      if ((choice.index ?? 0) !== 0) continue;
      this.#answer.stop_reason = asText(choice.finish_reason) ?? this.#answer.stop_reason;
      this.#readDelta(asObject(choice.delta));
    }
  }

  finish(): TurnAnswer {
    const parts = this.#answer.parts;
    if (this.#thinking !== '') parts.push({ type: 'thinking', text: this.#thinking });
    if (this.#text !== '') parts.push({ type: 'text', text: this.#text });
    for (const call of this.#calls.values()) {
      parts.push({ type: 'tool_call', id: call.id, name: call.name, arguments: parseLenient(call.text) });
    }
    this.#calls.clear();
    return this.#answer;
  }

  #readHead(body: JsonObject): void {
    const answer = this.#answer;
    answer.id = asText(body.id) ?? answer.id;
    answer.model = asText(body.model) ?? answer.model;
    if (body.error !== undefined && body.error !== null) answer.error = readErrorWords(body) ?? 'error';
    readOpenAiUsage(body.usage, answer);
  }

  #readDelta(delta: JsonObject): void {
    this.#thinking += asText(delta.reasoning_content) ?? asText(delta.reasoning) ?? '';
    this.#text += asText(delta.content) ?? asText(delta.refusal) ?? '';
    const pieces = asArray(delta.tool_calls).map(asObject);
    if (typeof delta.function_call === 'object' && delta.function_call !== null) {
      pieces.push({ index: 0, function: delta.function_call });
    }
    for (const piece of pieces) {
      const index = Number(piece.index ?? 0);
      const call = this.#calls.get(index) ?? { id: null, name: '', text: '' };
      const body = asObject(piece.function ?? piece.custom);
      call.id = asText(piece.id) ?? call.id;
      call.name += asText(body.name) ?? '';
      call.text += asText(body.arguments) ?? asText(body.input) ?? '';
      this.#calls.set(index, call);
    }
  }
}

/** `usage` of chat-completions and completion answers into the answer's; what is absent stays as it was. */
export function readOpenAiUsage(value: unknown, answer: TurnAnswer): void {
  const from = asObject(value);
  const usage = answer.usage;
  const details = asObject(from.prompt_tokens_details);
  usage.input_tokens = asCount(from.prompt_tokens) ?? usage.input_tokens;
  usage.output_tokens = asCount(from.completion_tokens) ?? usage.output_tokens;
  usage.cache_read_tokens = asCount(details.cached_tokens) ?? usage.cache_read_tokens;
  usage.cache_write_tokens = asCount(details.cache_write_tokens) ?? usage.cache_write_tokens;
}
