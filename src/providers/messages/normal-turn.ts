/**
 * The Messages shape in normal form: `POST /v1/messages`, whole and streamed, and InvokeModel of the same models.
 * Pure; runs where stored copies are read, never on a server thread. Source: Anthropic's Messages API reference; a stream
 * is put together as `MessageStream` of @anthropic-ai/sdk does it.
 *
 * `cache_control` on a block, a system text or a tool is a cache point behind it; a tool's is in its settings. Tools that
 * the provider runs itself (`server_tool_use` and the results that go with it) are blocks of type `other`.
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
  type ContentReader,
  cachePointOf,
  callBlock,
  emptyRequest,
  functionTool,
  type NormalReading,
  type NormalShape,
  providerTool,
  readMessagesThinking,
  textBlocks,
} from '../normal-reading.ts';
import { readThread } from './shape.ts';

export const normalMessages: NormalShape = {
  readRequest: readNormalMessages,
  startContent: (reading) => new MessagesContentReader(reading),
};

/** Blocks inside a tool result inside … : nobody nests deeper than one. */
const MAX_NESTING = 4;

/** A Messages request body. */
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

/** A `content` or `system` field: a string or blocks. */
export function readMessagesBlocks(content: unknown, reading: NormalReading, depth = 0): TurnBlock[] {
  if (typeof content === 'string') return textBlocks(content);
  const blocks: TurnBlock[] = [];
  for (const item of reading.take(content)) {
    if (typeof item === 'string') blocks.push({ type: 'text', text: item });
    else {
      const block = asObject(item);
      blocks.push(readBlock(block, reading, depth), ...cachePointOf(block));
    }
  }
  return blocks;
}

function readBlock(block: JsonObject, reading: NormalReading, depth: number): TurnBlock {
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

/** A content block of a stream while its deltas come in. */
interface OpenBlock {
  block: JsonObject;
  text: string;
  thinking: string;
  input: string;
  signature: string | null;
  citations: unknown[];
}

/** Puts the content of a Messages answer together. */
export class MessagesContentReader implements ContentReader {
  readonly #reading: NormalReading;
  /** By index. */
  readonly #open = new Map<number, OpenBlock>();
  #blocks: TurnBlock[] = [];

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    const body = asObject(value);
    if (body.type !== 'error') this.#blocks = readMessagesBlocks(body.content, this.#reading);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    const type = asText(event.type) ?? name;
    if (type === 'content_block_start') {
      if (!this.#reading.takeOne()) return;
      this.#open.set(Number(event.index), startBlock(asObject(event.content_block)));
    } else if (type === 'content_block_delta') this.#readDelta(Number(event.index), asObject(event.delta));
  }

  finish(): TurnBlock[] {
    for (const open of this.#open.values()) this.#blocks.push(this.#close(open));
    this.#open.clear();
    return this.#blocks;
  }

  #readDelta(index: number, delta: JsonObject): void {
    let open = this.#open.get(index);
    if (open === undefined) {
      // Its start was lost: the delta's own type says what it belongs to.
      if (!this.#reading.takeOne()) return;
      const type =
        delta.type === 'input_json_delta'
          ? 'tool_use'
          : delta.type === 'thinking_delta' || delta.type === 'signature_delta'
            ? 'thinking'
            : 'text';
      open = startBlock({ type });
      this.#open.set(index, open);
    }
    open.text += asText(delta.text) ?? '';
    open.thinking += asText(delta.thinking) ?? '';
    open.input += asText(delta.partial_json) ?? '';
    open.signature = asText(delta.signature) ?? open.signature;
    if (delta.citation !== undefined && this.#reading.takeOne()) open.citations.push(delta.citation);
    // Compaction blocks come as one delta that holds all their content.
    if (delta.type === 'compaction_delta') open.block = { ...open.block, content: delta.content };
  }

  #close({ block, text, thinking, input, signature, citations }: OpenBlock): TurnBlock {
    const whole: JsonObject = { ...block };
    if (text !== '') whole.text = (asText(block.text) ?? '') + text;
    if (thinking !== '') whole.thinking = (asText(block.thinking) ?? '') + thinking;
    if (input !== '') whole.input = parseLenient(input);
    if (signature !== null) whole.signature = signature;
    if (citations.length > 0) {
      whole.citations = Array.isArray(block.citations) ? [...block.citations, ...citations] : citations;
    }
    return readBlock(whole, this.#reading, 0);
  }
}

function startBlock(block: JsonObject): OpenBlock {
  return { block, text: '', thinking: '', input: '', signature: null, citations: [] };
}
