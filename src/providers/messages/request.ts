/**
 * Requests of the Messages wire in normal form, and its content blocks, which answers share. Pure; runs where stored
 * copies are read, and on the student's thread. Source: Anthropic's Messages API reference.
 *
 * `cache_control` on a block or a system text becomes a cache point after it; on a tool, it stays in the settings.
 * Tools that the provider runs itself (`server_tool_use` and their results) are blocks of type `other`.
 */

import type {
  NormalRequest,
  TurnBlock,
  TurnMessage,
  TurnResponseSchema,
  TurnTool,
  TurnToolChoice,
} from '../../domain/turn.ts';
import { asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import {
  cachePointOf,
  callBlock,
  emptyRequest,
  functionTool,
  type NormalReading,
  providerTool,
  readMessagesThinking,
  textBlocks,
} from '../normal-reading.ts';

/** Maximum number of nesting levels of tool results that are read; clients nest one. */
const MAX_NESTING = 4;

/** Reads the body of a Messages request. */
export function readNormalMessages(value: unknown, reading: NormalReading): NormalRequest {
  const body = asObject(value);
  const messages = reading.take(body.messages).map((item): TurnMessage => {
    const message = asObject(item);
    const role = message.role === 'assistant' || message.role === 'system' ? message.role : 'user';
    return { role, content: readMessagesBlocks(message.content, reading) };
  });
  return {
    ...emptyRequest(asText(body.model)),
    system: readMessagesBlocks(body.system, reading),
    messages,
    tools: reading.take(body.tools).map((tool) => readTool(asObject(tool))),
    tool_choice: readToolChoice(asObject(body.tool_choice)),
    thinking: readMessagesThinking(body),
    response_schema: readFormat(asObject(asObject(body.output_config).format ?? body.output_format)),
    max_output_tokens: asCount(body.max_tokens),
    previous_answer_id: readThread(body),
  };
}

/**
 * Reads the id of the answer that a request continues in a conversation kept by the provider (`thread`); null without
 * one.
 */
function readThread(body: JsonObject): string | null {
  const { type, previous_message_id: previousId } = asObject(body.thread);
  return type === 'continue' ? asText(previousId) : null;
}

/** Reads a `content` or `system` field: a string or a list of blocks. */
export function readMessagesBlocks(content: unknown, reading: NormalReading, depth = 0): TurnBlock[] {
  if (typeof content === 'string') return textBlocks(content);
  const blocks: TurnBlock[] = [];
  for (const item of reading.take(content)) {
    if (typeof item === 'string') blocks.push({ type: 'text', text: item });
    else {
      const block = asObject(item);
      blocks.push(readMessagesBlock(block, reading, depth), ...cachePointOf(block));
    }
  }
  return blocks;
}

/** Reads one content block. */
export function readMessagesBlock(block: JsonObject, reading: NormalReading, depth = 0): TurnBlock {
  switch (block.type) {
    case 'text': {
      const citations = reading.take(block.citations);
      const text = asText(block.text) ?? '';
      return citations.length === 0 ? { type: 'text', text } : { type: 'text', text, citations };
    }
    case 'thinking':
      return {
        type: 'thinking',
        text: asText(block.thinking) ?? '',
        signature: asText(block.signature),
        redacted: false,
      };
    case 'redacted_thinking':
      return { type: 'thinking', text: '', signature: asText(block.data), redacted: true };
    case 'tool_use':
      return callBlock(block.id, block.name, block.input ?? {});
    case 'tool_result':
      return {
        type: 'tool_result',
        call_id: asText(block.tool_use_id),
        name: null,
        is_error: block.is_error === true,
        content: depth >= MAX_NESTING ? [] : readMessagesBlocks(block.content, reading, depth + 1),
      };
    case 'image':
    case 'document':
      return readMedia(block.type, block) ?? readOther(block);
    default:
      return readOther(block);
  }
}

function readMedia(kind: 'image' | 'document', block: JsonObject): TurnBlock | null {
  const source = asObject(block.source);
  const media = { type: 'media', kind, media_type: asText(source.media_type) } as const;
  const data = asText(source.data);
  if (data !== null) return { ...media, source: source.type === 'text' ? 'text' : 'base64', data };
  const url = asText(source.url);
  if (url !== null) return { ...media, source: 'url', data: url };
  const file = asText(source.file_id);
  return file === null ? null : { ...media, source: 'file_id', data: file };
}

function readOther(block: JsonObject): TurnBlock {
  const { cache_control: _marker, ...value } = block;
  return { type: 'other', name: asText(block.type) ?? '', value };
}

function readTool(tool: JsonObject): TurnTool {
  const { type, name, description, input_schema: schema, ...rest } = tool;
  const kind = asText(type);
  if (kind === null || kind === 'custom') return functionTool(name, description, schema, rest);
  return providerTool(name ?? type, { type, ...rest });
}

function readToolChoice(choice: JsonObject): TurnToolChoice | null {
  const mode = choice.type;
  if (mode !== 'auto' && mode !== 'any' && mode !== 'none' && mode !== 'tool') return null;
  const name = asText(choice.name);
  const off = choice.disable_parallel_tool_use;
  return { mode, names: name === null ? [] : [name], parallel: typeof off === 'boolean' ? !off : null };
}

function readFormat(format: JsonObject): TurnResponseSchema | null {
  if (format.type !== 'json_schema') return null;
  return { schema: format.schema ?? null, name: asText(format.name), strict: null };
}
