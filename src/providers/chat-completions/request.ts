/**
 * Requests of the chat-completions wire in normal form, for OpenAI and compatible servers. Pure; runs where stored
 * copies are read, and on the student's thread. Source: OpenAI's Chat Completions API reference.
 */

import type { NormalRequest, TurnBlock, TurnMessage, TurnRole, TurnTool } from '../../domain/turn.ts';
import { asCount, asObject, asText, type JsonObject, parseLenient } from '../json-reading.ts';
import {
  cachePointOf,
  callBlock,
  emptyRequest,
  functionTool,
  mediaFromData,
  mediaFromUrl,
  type NormalReading,
  providerTool,
  readEffort,
  readOpenAiFormat,
  readOpenAiToolChoice,
  textBlocks,
} from '../normal-reading.ts';
import { reasoningOf } from './dialects.ts';

/** Reads the body of a chat-completions request. System messages at the beginning become the system prompt. */
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

/** Reads a message's role; an unknown role counts as the user. */
function readChatRole(role: unknown): TurnRole {
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

/** Reads the reasoning, content, refusal, audio and calls of a message that is not a tool's. */
export function readMessageBlocks(message: JsonObject, reading: NormalReading): TurnBlock[] {
  const blocks = readReasoning(message, reading);
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

/** Reads the reasoning beside the content: text, or a list of details with signatures (OpenRouter, LiteLLM). */
function readReasoning(message: JsonObject, reading: NormalReading): TurnBlock[] {
  const details = reading.take(message.thinking_blocks ?? message.reasoning_details).map(asObject);
  const reasoning = reasoningOf(message);
  const blocks = details.flatMap((detail): TurnBlock[] => {
    const text = asText(detail.text) ?? asText(detail.summary) ?? asText(detail.thinking) ?? '';
    const signature = asText(detail.signature) ?? asText(detail.data);
    if (text === '' && signature === null) return [];
    return [{ type: 'thinking', text, signature, redacted: text === '' }];
  });
  if (reasoning === null) return blocks;
  // The field and the list contain the same text, and only the list contains the signatures.
  if (blocks.some((block) => block.type === 'thinking' && block.text !== '')) return blocks;
  return [{ type: 'thinking', text: reasoning, signature: null, redacted: false }, ...blocks];
}

function readCall(call: JsonObject): TurnBlock {
  const body = asObject(call.function ?? call.custom);
  const input = body.arguments ?? body.input;
  return callBlock(call.id, body.name, typeof input === 'string' ? parseLenient(input) : (input ?? {}));
}

/** Reads the `content` of a message: text, or a list of parts. */
export function readContent(content: unknown, reading: NormalReading): TurnBlock[] {
  if (typeof content === 'string') return textBlocks(content);
  const blocks: TurnBlock[] = [];
  for (const item of reading.take(content)) {
    const part = asObject(item);
    blocks.push(typeof item === 'string' ? { type: 'text', text: item } : readPart(part, reading));
    blocks.push(...cachePointOf(part));
    if (typeof part.prompt_cache_breakpoint === 'object' && part.prompt_cache_breakpoint !== null)
      blocks.push({ type: 'cache_point', ttl: null });
  }
  return blocks;
}

function readPart(part: JsonObject, reading: NormalReading): TurnBlock {
  switch (part.type) {
    case 'text':
    case 'output_text':
    case 'input_text':
      return { type: 'text', text: asText(part.text) ?? '' };
    case 'refusal':
      return { type: 'refusal', text: asText(part.refusal) ?? '' };
    // Mistral's reasoning models send a list of texts, other models a text.
    case 'thinking':
    case 'reasoning':
      return readThinkingPart(part, reading);
    case 'image_url':
    case 'input_image': {
      // Mistral and others send the address itself instead of an object that contains it.
      const url = asText(part.image_url) ?? asText(asObject(part.image_url).url);
      return mediaFromUrl('image', url ?? '', null);
    }
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

function readThinkingPart(part: JsonObject, reading: NormalReading): TurnBlock {
  const thinking = part.thinking ?? part.reasoning ?? part.text;
  const texts = Array.isArray(thinking) ? reading.take(thinking).map(readText) : [readText(thinking)];
  const signature = asText(part.signature);
  return { type: 'thinking', text: texts.join(''), signature, redacted: false };
}

function readText(value: unknown): string {
  return typeof value === 'string' ? value : (asText(asObject(value).text) ?? '');
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
