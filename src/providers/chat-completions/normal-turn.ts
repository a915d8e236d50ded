/**
 * The chat-completions shape in normal form, whole and streamed, of OpenAI and those who speak like it.
 * Pure; runs where stored copies are read, never on a server thread. Source: OpenAI's Chat Completions API reference; a
 * stream is put together as `ChatCompletionStream` of openai does it. With `n` > 1 the first choice is the answer.
 */

import type { NormalRequest, TurnBlock, TurnMessage, TurnTool } from '../../domain/turn.ts';
import { asCount, asObject, asText, type JsonObject, parseLenient } from '../json-reading.ts';
import {
  type ContentReader,
  cachePointOf,
  callBlock,
  emptyRequest,
  functionTool,
  mediaFromData,
  mediaFromUrl,
  type NormalReading,
  type NormalShape,
  providerTool,
  readEffort,
  readOpenAiFormat,
  readOpenAiToolChoice,
  textBlocks,
} from '../normal-reading.ts';
import { readChatRole } from './shape.ts';

export const normalChatCompletions: NormalShape = {
  readRequest: readNormalChat,
  startContent: (reading) => new ChatContentReader(reading),
};

/** A chat-completions request body. System messages at the beginning become the system prompt. */
export function readNormalChat(value: unknown, reading: NormalReading): NormalRequest {
  const body = asObject(value);
  const system: TurnBlock[] = [];
  const messages: TurnMessage[] = [];
  for (const item of reading.take(body.messages)) {
    const message = readMessage(asObject(item), reading);
    if (message.role === 'system' && messages.length === 0) system.push(...message.content);
    else messages.push(message);
  }
  const reasoning = asObject(body.reasoning);
  const tools = [...reading.take(body.tools), ...reading.take(body.functions)];
  return {
    ...emptyRequest(asText(body.model)),
    system,
    messages,
    tools: tools.map((tool) => readTool(asObject(tool))),
    tool_choice: readOpenAiToolChoice(body, reading),
    thinking: readEffort(body.reasoning_effort ?? reasoning.effort, reasoning.max_tokens),
    response_schema: readOpenAiFormat(body.response_format),
    max_output_tokens: asCount(body.max_completion_tokens) ?? asCount(body.max_tokens),
  };
}

function readMessage(message: JsonObject, reading: NormalReading): TurnMessage {
  const role = readChatRole(message.role);
  if (role !== 'tool') return { role, content: readMessageBlocks(message, reading) };
  return {
    role,
    content: [
      {
        type: 'tool_result',
        call_id: asText(message.tool_call_id),
        name: asText(message.name),
        is_error: false,
        content: readContent(message.content, reading),
      },
    ],
  };
}

/** Reasoning, content, refusal, audio and calls of a message that is not a tool's. */
function readMessageBlocks(message: JsonObject, reading: NormalReading): TurnBlock[] {
  const blocks: TurnBlock[] = [];
  const reasoning = asText(message.reasoning_content) ?? asText(message.reasoning);
  if (reasoning !== null)
    blocks.push({ type: 'thinking', text: reasoning, signature: null, redacted: false });
  const content = readContent(message.content, reading);
  const annotations = reading.take(message.annotations);
  const text = content[0];
  if (annotations.length > 0 && text?.type === 'text') text.citations = annotations;
  blocks.push(...content);
  const refusal = asText(message.refusal);
  if (refusal !== null) blocks.push({ type: 'refusal', text: refusal });
  const audio = asObject(message.audio);
  const sound = asText(audio.data);
  if (sound !== null)
    blocks.push({ type: 'media', kind: 'audio', media_type: null, source: 'base64', data: sound });
  else if (asText(audio.id) !== null) blocks.push({ type: 'other', name: 'audio', value: audio });
  for (const call of reading.take(message.tool_calls)) blocks.push(readCall(asObject(call)));
  const call = message.function_call;
  if (typeof call === 'object' && call !== null) blocks.push(readCall({ function: call }));
  return blocks;
}

function readCall(call: JsonObject): TurnBlock {
  const body = asObject(call.function ?? call.custom);
  const input = body.arguments ?? body.input;
  return callBlock(call.id, body.name, typeof input === 'string' ? parseLenient(input) : (input ?? {}));
}

function readContent(content: unknown, reading: NormalReading): TurnBlock[] {
  if (typeof content === 'string') return textBlocks(content);
  const blocks: TurnBlock[] = [];
  for (const item of reading.take(content)) {
    const part = asObject(item);
    blocks.push(readPart(part), ...cachePointOf(part));
    if (typeof part.prompt_cache_breakpoint === 'object' && part.prompt_cache_breakpoint !== null)
      blocks.push({ type: 'cache_point', ttl: null });
  }
  return blocks;
}

function readPart(part: JsonObject): TurnBlock {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: asText(part.text) ?? '' };
    case 'refusal':
      return { type: 'refusal', text: asText(part.refusal) ?? '' };
    case 'image_url':
      return mediaFromUrl('image', asText(asObject(part.image_url).url) ?? '', null);
    case 'input_audio': {
      const audio = asObject(part.input_audio);
      const format = asText(audio.format);
      return {
        type: 'media',
        kind: 'audio',
        media_type: format === null ? null : `audio/${format}`,
        source: 'base64',
        data: asText(audio.data) ?? '',
      };
    }
    case 'file': {
      const file = asObject(part.file);
      const data = asText(file.file_data);
      if (data !== null) return mediaFromData('file', data, null);
      const id = asText(file.file_id) ?? '';
      return { type: 'media', kind: 'file', media_type: null, source: 'file_id', data: id };
    }
    default: {
      const { cache_control: _marker, ...value } = part;
      return { type: 'other', name: asText(part.type) ?? '', value };
    }
  }
}

function readTool(tool: JsonObject): TurnTool {
  if (tool.type === undefined) {
    const { name, description, parameters, ...rest } = tool;
    return functionTool(name, description, parameters, rest);
  }
  const { type, function: declared, custom, ...rest } = tool;
  if (type === 'function') {
    const { name, description, parameters, ...more } = asObject(declared);
    return functionTool(name, description, parameters, { ...rest, ...more });
  }
  if (type === 'custom') {
    const { name, description, ...more } = asObject(custom);
    return functionTool(name, description, null, { ...rest, ...more });
  }
  return providerTool(type, tool);
}

/** A tool call of a stream while its pieces come in. */
interface OpenCall {
  id: string | null;
  name: string;
  text: string;
}

/** Puts the content of a chat-completions answer together. */
export class ChatContentReader implements ContentReader {
  readonly #reading: NormalReading;
  readonly #calls = new Map<number, OpenCall>();
  #message: JsonObject = {};
  #text = '';
  #refusal = '';
  #reasoning = '';
  #sound = '';
  readonly #annotations: unknown[] = [];

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    this.#message = asObject(asObject(this.#reading.take(asObject(value).choices)[0]).message);
  }

  readEvent(_name: string, value: unknown): void {
    for (const item of this.#reading.take(asObject(value).choices)) {
      const choice = asObject(item);
      if ((choice.index ?? 0) === 0) this.#readDelta(asObject(choice.delta));
    }
  }

  finish(): TurnBlock[] {
    const message: JsonObject = { ...this.#message };
    if (this.#reasoning !== '') message.reasoning_content = this.#reasoning;
    if (this.#text !== '') message.content = this.#text;
    if (this.#refusal !== '') message.refusal = this.#refusal;
    if (this.#sound !== '') message.audio = { data: this.#sound };
    if (this.#annotations.length > 0) message.annotations = this.#annotations;
    if (this.#calls.size > 0) {
      message.tool_calls = [...this.#calls.values()].map(({ id, name, text }) => ({
        id,
        function: { name, arguments: text },
      }));
    }
    return readMessageBlocks(message, this.#reading);
  }

  #readDelta(delta: JsonObject): void {
    this.#reasoning += asText(delta.reasoning_content) ?? asText(delta.reasoning) ?? '';
    this.#text += asText(delta.content) ?? '';
    this.#refusal += asText(delta.refusal) ?? '';
    this.#sound += asText(asObject(delta.audio).data) ?? '';
    for (const annotation of this.#reading.take(delta.annotations)) this.#annotations.push(annotation);
    const pieces = this.#reading.take(delta.tool_calls).map(asObject);
    if (typeof delta.function_call === 'object' && delta.function_call !== null) {
      pieces.push({ index: 0, function: delta.function_call });
    }
    for (const piece of pieces) this.#readPiece(piece);
  }

  #readPiece(piece: JsonObject): void {
    const index = Number(piece.index ?? 0);
    let call = this.#calls.get(index);
    if (call === undefined) {
      call = { id: null, name: '', text: '' };
      this.#calls.set(index, call);
    }
    const body = asObject(piece.function ?? piece.custom);
    call.id = asText(piece.id) ?? call.id;
    call.name += asText(body.name) ?? '';
    call.text += asText(body.arguments) ?? asText(body.input) ?? '';
  }
}
