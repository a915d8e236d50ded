/**
 * Bedrock's Converse and ConverseStream in normal form. Pure; runs where stored copies are read, never on a server thread.
 * Source: the Amazon Bedrock Runtime API reference. Bytes stay the base64 that they are on the wire.
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
  callBlock,
  emptyRequest,
  functionTool,
  type NormalReading,
  type NormalShape,
  providerTool,
  readMessagesThinking,
} from '../normal-reading.ts';
import { readBedrockModel } from './shape.ts';

export const normalBedrockConverse: NormalShape = {
  readRequest: readNormalConverse,
  startContent: (reading) => new ConverseContentReader(reading),
};

/** Blocks inside a tool result inside … : nobody nests deeper than one. */
const MAX_NESTING = 4;

/** A Converse request body (Nova's InvokeModel bodies are the same). */
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

function readBlocks(content: unknown, reading: NormalReading, depth = 0): TurnBlock[] {
  return reading.take(content).map((item) => readBlock(asObject(item), reading, depth));
}

function readBlock(block: JsonObject, reading: NormalReading, depth: number): TurnBlock {
  if (typeof block.text === 'string') return { type: 'text', text: block.text };
  if (block.json !== undefined) return { type: 'text', text: JSON.stringify(block.json) };
  if (block.cachePoint !== undefined)
    return { type: 'cache_point', ttl: asText(asObject(block.cachePoint).ttl) };
  const call = asObject(block.toolUse);
  // Calls of this type are for the provider itself to run; so are results that have a type.
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

/** A block of a stream while its deltas come in. */
interface OpenBlock {
  start: JsonObject;
  text: string;
  input: string;
  thinking: string;
  signature: string | null;
  /** Pieces of it, base64 each. */
  redacted: string[];
  citations: unknown[];
  /** Content of the result of a tool that the provider runs itself. */
  results: unknown[];
}

/** Puts the content of a Converse answer together. InvokeModel of Nova models uses it too. */
export class ConverseContentReader implements ContentReader {
  readonly #reading: NormalReading;
  readonly #open = new Map<number, OpenBlock>();
  #blocks: TurnBlock[] = [];

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    const message = asObject(asObject(asObject(value).output).message);
    this.#blocks = readBlocks(message.content, this.#reading);
  }

  readEvent(name: string, value: unknown): void {
    if (name !== 'contentBlockStart' && name !== 'contentBlockDelta') return;
    const event = asObject(value);
    const open = this.#openBlock(Number(event.contentBlockIndex ?? 0));
    if (open === null) return;
    if (name === 'contentBlockStart') open.start = asObject(event.start);
    else this.#readDelta(open, asObject(event.delta));
  }

  finish(): TurnBlock[] {
    for (const open of this.#open.values()) this.#blocks.push(...this.#close(open));
    this.#open.clear();
    return this.#blocks;
  }

  #openBlock(index: number): OpenBlock | null {
    let open = this.#open.get(index);
    if (open === undefined) {
      if (!this.#reading.takeOne()) return null;
      open = {
        start: {},
        text: '',
        input: '',
        thinking: '',
        signature: null,
        redacted: [],
        citations: [],
        results: [],
      };
      this.#open.set(index, open);
    }
    return open;
  }

  #readDelta(open: OpenBlock, delta: JsonObject): void {
    const reasoning = asObject(delta.reasoningContent);
    open.text += asText(delta.text) ?? '';
    open.input += asText(asObject(delta.toolUse).input) ?? '';
    open.thinking += asText(reasoning.text) ?? '';
    open.signature = asText(reasoning.signature) ?? open.signature;
    const hidden = asText(reasoning.redactedContent);
    if (hidden !== null && this.#reading.takeOne()) open.redacted.push(hidden);
    if (delta.citation !== undefined && this.#reading.takeOne()) open.citations.push(delta.citation);
    for (const result of this.#reading.take(delta.toolResult)) open.results.push(result);
  }

  #close(open: OpenBlock): TurnBlock[] {
    const blocks: TurnBlock[] = [];
    const { start, text, input, thinking, signature, redacted, citations } = open;
    if (redacted.length > 0) {
      const whole = redacted.length === 1 ? redacted[0]! : joinBase64(redacted);
      blocks.push({ type: 'thinking', text: '', signature: whole, redacted: true });
    }
    if (thinking !== '' || signature !== null)
      blocks.push({ type: 'thinking', text: thinking, signature, redacted: false });
    if (text !== '') blocks.push({ type: 'text', text, ...(citations.length === 0 ? {} : { citations }) });
    if (start.toolUse !== undefined || input !== '') {
      blocks.push(
        readBlock({ toolUse: { ...asObject(start.toolUse), input: parseLenient(input) } }, this.#reading, 0),
      );
    } else if (start.toolResult !== undefined) {
      const result = { ...asObject(start.toolResult), content: open.results };
      blocks.push(readBlock({ toolResult: result }, this.#reading, 0));
    } else if (Object.keys(start).length > 0) blocks.push(readBlock(start, this.#reading, 0));
    return blocks;
  }
}

function joinBase64(pieces: readonly string[]): string {
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64');
}
