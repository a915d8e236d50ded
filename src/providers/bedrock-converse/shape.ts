/**
 * Bedrock's Converse and ConverseStream (`/model/{id}/converse`, `/converse-stream`).
 * Pure; runs where stored copies are read, never on a server thread. Source: the Amazon Bedrock Runtime API reference.
 *
 * The model is the path's, percent-decoded. Usage: `inputTokens` leaves out cache reads and writes, which have
 * counts of their own.
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
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
} from '../turn.ts';

export const bedrockConverseShape: TurnShape = {
  readRequest: readConverseRequest,
  startAnswer: (path) => new ConverseAnswerReader(readBedrockModel(path)),
};

/** The model id in `/model/{id}/verb`, percent-decoded; null when the path has none. */
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

/** Reads a Converse request body (Nova's InvokeModel bodies are the same). */
export function readConverseRequest(value: unknown, path: string): TurnRequest {
  const body = asObject(value);
  const system: string[] = [];
  for (const item of asArray(body.system)) {
    const text = asText(asObject(item).text);
    if (text !== null) system.push(text);
  }
  const messages = asArray(body.messages).map((item): Message => {
    const message = asObject(item);
    return {
      role: message.role === 'assistant' ? 'assistant' : 'user',
      parts: readBlocks(message.content),
    };
  });
  const tools: string[] = [];
  for (const item of asArray(asObject(body.toolConfig).tools)) {
    const name = asText(asObject(asObject(item).toolSpec).name);
    if (name !== null) tools.push(name);
  }
  return { model: readBedrockModel(path), system, messages, tools, previous_answer_id: null };
}

function readBlocks(content: unknown): Part[] {
  const parts: Part[] = [];
  for (const item of asArray(content)) {
    const block = asObject(item);
    // A cache point marks a place and says nothing.
    if (block.cachePoint === undefined) parts.push(readBlock(block));
  }
  return parts;
}

function readBlock(block: JsonObject): Part {
  if (typeof block.text === 'string') return { type: 'text', text: block.text };
  if (block.json !== undefined) return { type: 'text', text: JSON.stringify(block.json) };
  if (block.toolUse !== undefined) {
    const call = asObject(block.toolUse);
    return {
      type: 'tool_call',
      id: asText(call.toolUseId),
      name: asText(call.name) ?? '',
      arguments: call.input ?? {},
    };
  }
  if (block.toolResult !== undefined) {
    const result = asObject(block.toolResult);
    return {
      type: 'tool_result',
      call_id: asText(result.toolUseId),
      name: null,
      is_error: result.status === 'error',
      parts: readBlocks(result.content),
    };
  }
  if (block.reasoningContent !== undefined) {
    const reasoning = asObject(asObject(block.reasoningContent).reasoningText);
    return { type: 'thinking', text: asText(reasoning.text) ?? '' };
  }
  for (const kind of ['image', 'document', 'video', 'audio']) {
    if (block[kind] === undefined) continue;
    const media = asObject(block[kind]);
    const source = asObject(media.source);
    const data = asText(source.bytes) ?? asText(asObject(source.s3Location).uri) ?? asText(source.text);
    return { type: 'media', media_type: `${kind}/${asText(media.format) ?? '*'}`, data: data ?? '' };
  }
  return { type: 'other', name: Object.keys(block)[0] ?? '', value: block };
}

/** A block of a stream while its deltas come in. */
interface OpenBlock {
  id: string | null;
  name: string | null;
  text: string;
  input: string;
  thinking: string;
}

/** Reads one Converse answer, whole or from an event stream. InvokeModel of Nova models uses it too. */
export class ConverseAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  readonly #blocks = new Map<number, OpenBlock>();

  constructor(model: string | null) {
    this.#answer.model = model;
  }

  readWhole(value: unknown): void {
    const body = asObject(value);
    this.#answer.stop_reason = asText(body.stopReason);
    this.#answer.parts = readBlocks(asObject(asObject(body.output).message).content);
    this.#readUsage(body.usage);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    const index = Number(event.contentBlockIndex ?? 0);
    switch (name) {
      case 'contentBlockStart': {
        const call = asObject(asObject(event.start).toolUse);
        const open = this.#openBlock(index);
        open.id = asText(call.toolUseId);
        open.name = asText(call.name);
        break;
      }
      case 'contentBlockDelta': {
        const delta = asObject(event.delta);
        const open = this.#openBlock(index);
        open.text += asText(delta.text) ?? '';
        open.input += asText(asObject(delta.toolUse).input) ?? '';
        open.thinking += asText(asObject(delta.reasoningContent).text) ?? '';
        break;
      }
      case 'messageStop':
        this.#answer.stop_reason = asText(event.stopReason) ?? this.#answer.stop_reason;
        break;
      case 'metadata':
        this.#readUsage(event.usage);
        break;
      case 'exception':
        this.#answer.error = readException(event);
        break;
    }
  }

  finish(): TurnAnswer {
    for (const open of this.#blocks.values()) this.#answer.parts.push(...closeBlock(open));
    this.#blocks.clear();
    return this.#answer;
  }

  #openBlock(index: number): OpenBlock {
    let open = this.#blocks.get(index);
    if (open === undefined) {
      open = { id: null, name: null, text: '', input: '', thinking: '' };
      this.#blocks.set(index, open);
    }
    return open;
  }

  #readUsage(value: unknown): void {
    const from = asObject(value);
    const usage = this.#answer.usage;
    usage.input_tokens = asCount(from.inputTokens) ?? usage.input_tokens;
    usage.output_tokens = asCount(from.outputTokens) ?? usage.output_tokens;
    usage.cache_read_tokens =
      asCount(from.cacheReadInputTokens) ?? asCount(from.cacheReadInputTokenCount) ?? usage.cache_read_tokens;
    usage.cache_write_tokens =
      asCount(from.cacheWriteInputTokens) ??
      asCount(from.cacheWriteInputTokenCount) ??
      usage.cache_write_tokens;
  }
}

/** An exception message of an event stream, in words. */
export function readException(event: JsonObject): string {
  const type = asText(event.type) ?? 'exception';
  const words = asText(asObject(event.value).message) ?? readErrorWords(event.value);
  return words === null ? type : `${type}: ${words}`;
}

function closeBlock(open: OpenBlock): Part[] {
  const parts: Part[] = [];
  if (open.thinking !== '') parts.push({ type: 'thinking', text: open.thinking });
  if (open.text !== '') parts.push({ type: 'text', text: open.text });
  if (open.name !== null || open.input !== '') {
    parts.push({
      type: 'tool_call',
      id: open.id,
      name: open.name ?? '',
      arguments: parseLenient(open.input),
    });
  }
  return parts;
}
