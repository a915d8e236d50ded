/**
 * Requests of Bedrock's Converse and ConverseStream in normal form, and their content blocks, which answers share.
 * Pure; runs where stored copies are read, never on a server thread. Source: the Amazon Bedrock Runtime API reference.
 * Binary content stays in base64, as on the wire.
 */

import type {
  NormalRequest,
  TurnBlock,
  TurnMessage,
  TurnResponseSchema,
  TurnTool,
  TurnToolChoice,
} from '../../domain/turn.ts';
import { asCount, asObject, asText, type JsonObject, parseLenient } from '../json-reading.ts';
import {
  callBlock,
  emptyRequest,
  functionTool,
  type NormalReading,
  providerTool,
  readMessagesThinking,
} from '../normal-reading.ts';

/** Maximum number of nesting levels of tool results that are read; clients nest one. */
const MAX_NESTING = 4;

/** Reads the model id in `/model/{id}/verb`, percent-decoded; null when the path has none. */
export function readBedrockModel(path: string): string | null {
  const at = path.indexOf('/model/');
  const end = path.lastIndexOf('/');
  if (at < 0 || end <= at + 7) return null;
  const id = path.slice(at + 7, end);
  try {
    return asText(decodeURIComponent(id));
  } catch {
    return asText(id);
  }
}

/** Reads the body of a Converse request. Bodies of InvokeModel for Nova models have the same form. */
export function readNormalConverse(value: unknown, reading: NormalReading, path: string): NormalRequest {
  const body = asObject(value);
  const messages = reading.take(body.messages).map((item): TurnMessage => {
    const message = asObject(item);
    return {
      role: message.role === 'assistant' ? 'assistant' : 'user',
      content: readBlocks(message.content, reading),
    };
  });
  const config = asObject(body.toolConfig);
  return {
    ...emptyRequest(readBedrockModel(path)),
    system: readBlocks(body.system, reading),
    messages,
    tools: readTools(config.tools, reading),
    tool_choice: readToolChoice(asObject(config.toolChoice)),
    thinking: readMessagesThinking(asObject(body.additionalModelRequestFields)),
    response_schema: readFormat(asObject(asObject(body.outputConfig).textFormat)),
    max_output_tokens: asCount(asObject(body.inferenceConfig).maxTokens),
  };
}

/** Reads a list of content blocks. */
export function readBlocks(content: unknown, reading: NormalReading, depth = 0): TurnBlock[] {
  return reading.take(content).map((item) => readBlock(asObject(item), reading, depth));
}

/** Reads one content block. */
export function readBlock(block: JsonObject, reading: NormalReading, depth = 0): TurnBlock {
  if (typeof block.text === 'string') return { type: 'text', text: block.text };
  if (block.json !== undefined) return { type: 'text', text: JSON.stringify(block.json) };
  if (block.cachePoint !== undefined)
    return { type: 'cache_point', ttl: asText(asObject(block.cachePoint).ttl) };
  const call = asObject(block.toolUse);
  // The provider itself runs calls of type `server_tool_use` and writes their results, which have a `type`. These calls
  // and results are read as blocks of type `other`.
  if (block.toolUse !== undefined && call.type !== 'server_tool_use')
    return callBlock(call.toolUseId, call.name, call.input ?? {});
  const result = asObject(block.toolResult);
  if (block.toolResult !== undefined && result.type === undefined) {
    return {
      type: 'tool_result',
      call_id: asText(result.toolUseId),
      name: null,
      is_error: result.status === 'error',
      content: depth >= MAX_NESTING ? [] : readBlocks(result.content, reading, depth + 1),
    };
  }
  if (block.reasoningContent !== undefined) return readReasoning(asObject(block.reasoningContent));
  if (block.citationsContent !== undefined) {
    const cited = asObject(block.citationsContent);
    const texts = reading.take(cited.content).map((item) => asText(asObject(item).text) ?? '');
    const citations = reading.take(cited.citations);
    return { type: 'text', text: texts.join(''), ...(citations.length === 0 ? {} : { citations }) };
  }
  return readMedia(block) ?? { type: 'other', name: Object.keys(block)[0] ?? '', value: block };
}

function readReasoning(content: JsonObject): TurnBlock {
  const redacted = asText(content.redactedContent);
  if (redacted !== null) return { type: 'thinking', text: '', signature: redacted, redacted: true };
  const { text, signature } = asObject(content.reasoningText);
  return { type: 'thinking', text: asText(text) ?? '', signature: asText(signature), redacted: false };
}

function readMedia(block: JsonObject): TurnBlock | null {
  for (const kind of ['image', 'document', 'video', 'audio'] as const) {
    if (block[kind] === undefined) continue;
    const media = asObject(block[kind]);
    const source = asObject(media.source);
    const head = { type: 'media', kind, media_type: asText(media.format) } as const;
    const bytes = asText(source.bytes);
    if (bytes !== null) return { ...head, source: 'base64', data: bytes };
    const text = asText(source.text);
    if (text !== null) return { ...head, source: 'text', data: text };
    return { ...head, source: 'url', data: asText(asObject(source.s3Location).uri) ?? '' };
  }
  return null;
}

function readTools(value: unknown, reading: NormalReading): TurnTool[] {
  const tools: TurnTool[] = [];
  for (const item of reading.take(value)) {
    const tool = asObject(item);
    const last = tools.at(-1);
    if (tool.toolSpec !== undefined) {
      const { name, description, inputSchema, ...rest } = asObject(tool.toolSpec);
      tools.push(functionTool(name, description, asObject(inputSchema).json, rest));
    } else if (tool.cachePoint === undefined) {
      const [kind, settings] = Object.entries(tool)[0] ?? ['?', {}];
      tools.push(providerTool(asObject(settings).name ?? kind, { [kind]: settings }));
    } else if (last !== undefined) {
      last.settings = { ...asObject(last.settings), cachePoint: tool.cachePoint };
    }
  }
  return tools;
}

function readToolChoice(choice: JsonObject): TurnToolChoice | null {
  if (choice.tool !== undefined) {
    const name = asText(asObject(choice.tool).name);
    return { mode: 'tool', names: name === null ? [] : [name], parallel: null };
  }
  if (choice.any !== undefined) return { mode: 'any', names: [], parallel: null };
  return choice.auto === undefined ? null : { mode: 'auto', names: [], parallel: null };
}

function readFormat(format: JsonObject): TurnResponseSchema | null {
  if (format.type !== 'json_schema') return null;
  const { schema, name } = asObject(asObject(format.structure).jsonSchema);
  const parsed = typeof schema === 'string' ? parseLenient(schema) : (schema ?? null);
  return { schema: parsed, name: asText(name), strict: null };
}
