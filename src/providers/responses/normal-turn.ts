/**
 * The responses shape in normal form, whole and streamed. Pure; runs where stored copies are read, never on a server thread. Source: OpenAI's Responses API reference; of a stream the last event holds the whole answer, as for
 * `ResponseStream` of openai.
 *
 * Each input item is a message of its own, as in the request. Calls that the client is asked to run (`function_call`,
 * `custom_tool_call`, shells, the computer, patches) are tool calls; what the provider runs itself is a block `other`.
 */

import type { NormalRequest, TurnBlock, TurnMessage, TurnRole, TurnTool } from '../../domain/turn.ts';
import { asArray, asCount, asObject, asText, type JsonObject, parseLenient } from '../json-reading.ts';
import {
  type ContentReader,
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

export const normalResponses: NormalShape = {
  readRequest: readNormalResponses,
  startContent: (reading) => new ResponsesContentReader(reading),
};

/** Items by which the model asks the client to run something, and under which name they hold what to run. */
const CLIENT_CALLS: Readonly<Record<string, string>> = {
  local_shell_call: 'action',
  shell_call: 'action',
  computer_call: 'action',
  apply_patch_call: 'operation',
  tool_search_call: 'arguments',
};

function readNormalResponses(value: unknown, reading: NormalReading): NormalRequest {
  const body = asObject(value);
  const system = textBlocks(body.instructions);
  const messages: TurnMessage[] = [];
  if (typeof body.input === 'string') messages.push({ role: 'user', content: textOrEmpty(body.input) });
  for (const item of reading.take(body.input)) {
    const message = readItem(asObject(item), reading);
    if (message.role === 'system' && messages.length === 0) system.push(...message.content);
    else messages.push(message);
  }
  const { conversation } = body;
  const tools: TurnTool[] = [];
  for (const tool of reading.take(body.tools)) tools.push(...readTool(asObject(tool), reading));
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

function textOrEmpty(text: string): TurnBlock[] {
  return [{ type: 'text', text }];
}

/** One item of `input` or `output`. */
function readItem(item: JsonObject, reading: NormalReading): TurnMessage {
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
  // Of a tool search the item says who runs it.
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
  const address = asText(url);
  if (address !== null) return mediaFromUrl(kind, address, null);
  return { type: 'media', kind, media_type: null, source: 'file_id', data: asText(file) ?? '' };
}

/** A tool; a namespace is the tools in it. */
function readTool(tool: JsonObject, reading: NormalReading): TurnTool[] {
  const { type, name, description, parameters, ...rest } = tool;
  switch (type) {
    case 'function':
    case 'custom':
      return [functionTool(name, description, parameters, rest)];
    case 'namespace':
      return reading.take(tool.tools).map((inner) => {
        const { type: _type, name: own, description: words, parameters: schema, ...more } = asObject(inner);
        const space = asText(name) ?? '?';
        return functionTool(own, words, schema, { ...more, namespace: space });
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

/** Puts the content of a responses answer together. */
class ResponsesContentReader implements ContentReader {
  readonly #reading: NormalReading;
  /** Output items by their place; those still open have only what output_item.added said. */
  readonly #items = new Map<number, JsonObject>();
  /** Text or arguments of open items as far as the deltas have come. */
  readonly #open = new Map<number, string>();
  #output: unknown[] = [];

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    this.#output = asArray(asObject(value).output);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    const index = Number(event.output_index);
    switch (asText(event.type) ?? name) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        this.readWhole(event.response);
        break;
      case 'response.output_item.added':
        if (this.#reading.takeOne()) this.#items.set(index, asObject(event.item));
        break;
      case 'response.output_item.done':
        if (this.#reading.takeOne()) this.#items.set(index, asObject(event.item));
        this.#open.delete(index);
        break;
      case 'response.output_text.delta':
      case 'response.refusal.delta':
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta': {
        const text = this.#open.get(index);
        if (text === undefined && !this.#reading.takeOne()) break;
        this.#open.set(index, (text ?? '') + (asText(event.delta) ?? ''));
        break;
      }
    }
  }

  finish(): TurnBlock[] {
    const blocks: TurnBlock[] = [];
    for (const item of this.#reading.take(this.#output))
      blocks.push(...readItem(asObject(item), this.#reading).content);
    if (blocks.length > 0) return blocks;
    // Cut off, or a terminal event that leaves the output out: what the item events told.
    for (const [index, item] of this.#items) {
      const text = this.#open.get(index);
      const whole = text === undefined ? item : fillItem(item, text);
      blocks.push(...readItem(whole, this.#reading).content);
    }
    return blocks;
  }
}

/** An open item with the text that has come so far. */
function fillItem(item: JsonObject, text: string): JsonObject {
  switch (item.type) {
    case 'message':
      return { ...item, content: text };
    case 'reasoning':
      return { ...item, summary: [{ text }] };
    default:
      return { ...item, arguments: text, input: text };
  }
}
