/**
 * Requests of the responses wire in normal form, and its items, which answers share. Pure; runs where stored copies are
 * read, and on the student's thread. Source: OpenAI's Responses API reference.
 *
 * Each input item is a message. Calls that the client must run (`function_call`, `custom_tool_call`, shells, the
 * computer, patches) are tool calls; what the provider runs itself is a block `other`. An input item
 * `additional_tools` declares tools, like the field `tools`; newer models get all their tools in this way.
 */

import type { NormalRequest, TurnBlock, TurnMessage, TurnRole, TurnTool } from '../../domain/turn.ts';
import { asArray, asCount, asObject, asText, type JsonObject, parseLenient } from '../json-reading.ts';
import {
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

/** Items that ask the client to run something, and the field that holds the input. */
const CLIENT_CALLS: Readonly<Record<string, string>> = {
  local_shell_call: 'action',
  shell_call: 'action',
  computer_call: 'action',
  apply_patch_call: 'operation',
  tool_search_call: 'arguments',
};

/** Reads the body of a responses request. Instructions and system messages at its beginning are the system prompt. */
export function readNormalResponses(value: unknown, reading: NormalReading): NormalRequest {
  const body = asObject(value);
  const system = textBlocks(body.instructions);
  const messages: TurnMessage[] = [];
  if (typeof body.input === 'string') messages.push({ role: 'user', content: textOrEmpty(body.input) });
  for (const item of reading.take(body.input)) {
    if (listToolsIn(item) !== null) continue;
    const message = readItem(asObject(item), reading);
    if (message.role === 'system' && messages.length === 0) system.push(...message.content);
    else messages.push(message);
  }
  const { conversation } = body;
  const tools: TurnTool[] = [];
  for (const tool of reading.take(listDeclaredTools(body))) tools.push(...readTool(asObject(tool), reading));
  return {
    ...emptyRequest(asText(body.model)),
    system,
    messages,
    tools,
    tool_choice: readOpenAiToolChoice(body, reading),
    thinking: readEffort(asObject(body.reasoning).effort),
    response_schema: readOpenAiFormat(asObject(body.text).format),
    max_output_tokens: asCount(body.max_output_tokens),
    previous_answer_id:
      asText(body.previous_response_id) ?? asText(conversation) ?? asText(asObject(conversation).id),
  };
}

/** Lists the tools that a request declares, in the field `tools` and in items of its input, as they are written. */
export function listDeclaredTools(body: JsonObject): unknown[] {
  return [asArray(body.tools), ...asArray(body.input).map((item) => listToolsIn(item) ?? [])].flat();
}

/** Lists the tools that an input item declares; null for an item that is no list of tools. */
export function listToolsIn(item: unknown): unknown[] | null {
  const { type, tools } = asObject(item);
  return type === 'additional_tools' ? asArray(tools) : null;
}

function textOrEmpty(text: string): TurnBlock[] {
  return [{ type: 'text', text }];
}

/** Reads one item of `input` or `output`. */
export function readItem(item: JsonObject, reading: NormalReading): TurnMessage {
  const type = asText(item.type) ?? 'message';
  switch (type) {
    case 'message': {
      const role = item.role === 'assistant' ? 'assistant' : readOtherRole(item.role);
      return { role, content: readContent(item.content, reading) };
    }
    case 'function_call': {
      const { arguments: input } = item;
      const parsed = typeof input === 'string' ? parseLenient(input) : (input ?? {});
      return { role: 'assistant', content: [callBlock(item.call_id, item.name, parsed)] };
    }
    case 'custom_tool_call':
      return { role: 'assistant', content: [callBlock(item.call_id, item.name, item.input ?? '')] };
    case 'reasoning':
      return { role: 'assistant', content: [readReasoning(item, reading)] };
  }
  // The field `execution` of a tool search says who runs the search.
  const isClients = item.execution === undefined ? type !== 'tool_search_call' : item.execution === 'client';
  if (isClients && Object.hasOwn(CLIENT_CALLS, type)) {
    const name = type.slice(0, -'_call'.length);
    return { role: 'assistant', content: [callBlock(item.call_id, name, item[CLIENT_CALLS[type]!] ?? {})] };
  }
  if (isClients && type.endsWith('_output') && asText(item.call_id) !== null) {
    return { role: 'tool', content: [readOutput(type, item, reading)] };
  }
  const role: TurnRole = type.endsWith('_output') ? 'tool' : 'assistant';
  return { role, content: [{ type: 'other', name: type, value: item }] };
}

function readOtherRole(role: unknown): TurnRole {
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}

function readOutput(type: string, item: JsonObject, reading: NormalReading): TurnBlock {
  const { output } = item;
  const isPlain = type === 'function_call_output' || type === 'custom_tool_call_output';
  const content =
    typeof output === 'string' || isPlain
      ? readContent(output, reading)
      : [{ type: 'other', name: type, value: output ?? null } as const];
  const failed = item.status === 'failed' || item.status === 'incomplete';
  return { type: 'tool_result', call_id: asText(item.call_id), name: null, is_error: failed, content };
}

function readReasoning(item: JsonObject, reading: NormalReading): TurnBlock {
  const textsOf = (parts: unknown): string =>
    reading
      .take(parts)
      .map((part) => asText(asObject(part).text) ?? '')
      .join('\n');
  const text = textsOf(item.content) || textsOf(item.summary);
  return {
    type: 'thinking',
    text,
    signature: asText(item.encrypted_content),
    redacted: text === '' && asText(item.encrypted_content) !== null,
  };
}

function readContent(content: unknown, reading: NormalReading): TurnBlock[] {
  if (typeof content === 'string') return textBlocks(content);
  return reading.take(content).map((item) => readPart(asObject(item), reading));
}

function readPart(part: JsonObject, reading: NormalReading): TurnBlock {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text': {
      const citations = reading.take(part.annotations);
      const text = asText(part.text) ?? '';
      return citations.length === 0 ? { type: 'text', text } : { type: 'text', text, citations };
    }
    case 'refusal':
      return { type: 'refusal', text: asText(part.refusal) ?? '' };
    case 'input_image':
      return readMedia('image', part.image_url, part.file_id, null);
    case 'input_file':
      return readMedia('file', part.file_url, part.file_id, part.file_data);
    default:
      return { type: 'other', name: asText(part.type) ?? '', value: part };
  }
}

function readMedia(kind: 'image' | 'file', url: unknown, file: unknown, inline: unknown): TurnBlock {
  const data = asText(inline);
  if (data !== null) return mediaFromData(kind, data, null);
  // Clients of chat-completions put the address into an object.
  const address = asText(url) ?? asText(asObject(url).url);
  if (address !== null) return mediaFromUrl(kind, address, null);
  return { type: 'media', kind, media_type: null, source: 'file_id', data: asText(file) ?? '' };
}

/** Reads a declared tool; a namespace stands for the tools in it. */
function readTool(tool: JsonObject, reading: NormalReading): TurnTool[] {
  const { type, name, description, parameters, ...rest } = tool;
  switch (type) {
    case 'function':
    case 'custom':
      return [functionTool(name, description, parameters, rest)];
    case 'namespace':
      return reading.take(tool.tools).map((inner) => {
        const {
          type: _type,
          name: ownName,
          description: words,
          parameters: schema,
          ...more
        } = asObject(inner);
        const space = asText(name) ?? '?';
        return functionTool(ownName, words, schema, { ...more, namespace: space });
      });
    case 'local_shell':
    case 'shell':
    case 'apply_patch':
    case 'computer_use_preview':
    case 'computer':
      return [functionTool(type, description, parameters, tool)];
    default:
      return [providerTool(tool.server_label ?? name ?? type, tool)];
  }
}
