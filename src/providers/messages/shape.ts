/**
 * The Messages shape (`POST /v1/messages`): requests, whole answers and streams (message_start … message_stop).
 * Pure; runs where stored copies are read, never on a server thread. Source: Anthropic's Messages API reference.
 *
 * Usage: `input_tokens` is the provider's own number, which leaves out what was read from or written to the cache.
 * In a stream, message_start carries a first count and message_delta the cumulative one, which wins.
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

export const messagesShape: TurnShape = {
  readRequest: readMessagesRequest,
  startAnswer: () => new MessagesAnswerReader(),
};

/** Reads a Messages request body. */
export function readMessagesRequest(value: unknown): TurnRequest {
  const body = asObject(value);
  const messages: Message[] = [];
  for (const item of asArray(body.messages)) {
    const message = asObject(item);
    const role = message.role === 'assistant' ? 'assistant' : message.role === 'system' ? 'system' : 'user';
    messages.push({ role, parts: readMessagesContent(message.content) });
  }
  return {
    model: asText(body.model),
    system: readTextBlocks(body.system),
    messages,
    tools: asArray(body.tools).map(
      (tool) => asText(asObject(tool).name) ?? asText(asObject(tool).type) ?? '?',
    ),
    previous_answer_id: readThread(body),
    is_kept: typeof asObject(body.thread).type === 'string',
  };
}

/** The answer that a request goes on from, of a conversation that the provider keeps (`thread`); else null. */
export function readThread(body: JsonObject): string | null {
  const { type, previous_message_id: previousId } = asObject(body.thread);
  return type === 'continue' ? asText(previousId) : null;
}

/** A `content` field: a string or blocks. `cache_control` and citations are left out: they mean nothing to the reader. */
function readMessagesContent(content: unknown): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  const parts: Part[] = [];
  for (const item of asArray(content)) {
    if (typeof item === 'string') parts.push({ type: 'text', text: item });
    else parts.push(readBlock(asObject(item)));
  }
  return parts;
}

function readBlock(block: JsonObject): Part {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: asText(block.text) ?? '' };
    case 'thinking':
      return { type: 'thinking', text: asText(block.thinking) ?? '' };
    case 'redacted_thinking':
      return { type: 'thinking', text: '' };
    case 'tool_use':
      return {
        type: 'tool_call',
        id: asText(block.id),
        name: asText(block.name) ?? '',
        arguments: block.input ?? {},
      };
    case 'tool_result':
      return {
        type: 'tool_result',
        call_id: asText(block.tool_use_id),
        name: null,
        is_error: block.is_error === true,
        parts: readMessagesContent(block.content),
      };
    case 'image':
    case 'document': {
      const source = asObject(block.source);
      const data = asText(source.data) ?? asText(source.url) ?? asText(source.file_id);
      if (data === null) return readOtherBlock(block);
      return { type: 'media', media_type: asText(source.media_type) ?? String(block.type), data };
    }
    default:
      return readOtherBlock(block);
  }
}

function readOtherBlock(block: JsonObject): Part {
  const { type, cache_control: _cacheControl, citations: _citations, ...value } = block;
  return { type: 'other', name: asText(type) ?? '', value };
}

/** A system prompt as a string or as text blocks. */
function readTextBlocks(value: unknown): string[] {
  if (typeof value === 'string') return value === '' ? [] : [value];
  const blocks: string[] = [];
  for (const item of asArray(value)) {
    const text = asText(asObject(item).text);
    if (text !== null) blocks.push(text);
  }
  return blocks;
}

/** A content block of a stream while its deltas come in. */
interface OpenBlock {
  block: JsonObject;
  /** Text, thinking or the JSON of the input, as far as it has come. */
  text: string;
}

/** Reads one answer of the Messages shape. Bedrock's InvokeModel uses it too. */
export class MessagesAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  readonly #blocks = new Map<number, OpenBlock>();

  readWhole(value: unknown): void {
    const body = asObject(value);
    if (body.type === 'error') {
      this.#answer.error = readErrorWords(body);
      return;
    }
    this.#readHead(body);
    this.#answer.parts = readMessagesContent(body.content);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    switch (asText(event.type) ?? name) {
      case 'message_start':
        this.#readHead(asObject(event.message));
        break;
      case 'content_block_start':
        this.#blocks.set(Number(event.index), { block: asObject(event.content_block), text: '' });
        break;
      case 'content_block_delta':
        this.#readDelta(Number(event.index), asObject(event.delta));
        break;
      case 'message_delta':
        this.#readHead(asObject(event.delta));
        this.#readUsage(event.usage);
        break;
      case 'error':
        this.#answer.error = readErrorWords(event) ?? 'error';
        break;
    }
  }

  finish(): TurnAnswer {
    for (const open of this.#blocks.values()) this.#answer.parts.push(closeBlock(open));
    this.#blocks.clear();
    return this.#answer;
  }

  #readHead(message: JsonObject): void {
    const answer = this.#answer;
    answer.id = asText(message.id) ?? answer.id;
    answer.model = asText(message.model) ?? answer.model;
    answer.stop_reason = asText(message.stop_reason) ?? answer.stop_reason;
    this.#readUsage(message.usage);
  }

  #readUsage(value: unknown): void {
    const from = asObject(value);
    const usage = this.#answer.usage;
    usage.input_tokens = asCount(from.input_tokens) ?? usage.input_tokens;
    usage.output_tokens = asCount(from.output_tokens) ?? usage.output_tokens;
    usage.cache_read_tokens = asCount(from.cache_read_input_tokens) ?? usage.cache_read_tokens;
    usage.cache_write_tokens = asCount(from.cache_creation_input_tokens) ?? usage.cache_write_tokens;
  }

  #readDelta(index: number, delta: JsonObject): void {
    let open = this.#blocks.get(index);
    if (open === undefined) {
      // Its start was lost: the delta's own type says what it belongs to.
      const type =
        delta.type === 'input_json_delta'
          ? 'tool_use'
          : delta.type === 'thinking_delta'
            ? 'thinking'
            : 'text';
      open = { block: { type }, text: '' };
      this.#blocks.set(index, open);
    }
    open.text += asText(delta.text) ?? asText(delta.partial_json) ?? asText(delta.thinking) ?? '';
  }
}

function closeBlock({ block, text }: OpenBlock): Part {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: (asText(block.text) ?? '') + text };
    case 'thinking':
      return { type: 'thinking', text: (asText(block.thinking) ?? '') + text };
    default:
      return readBlock(text === '' ? block : { ...block, input: parseLenient(text) });
  }
}
