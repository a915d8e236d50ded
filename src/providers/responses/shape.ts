/**
 * The responses shape (`POST /v1/responses`), whole and streamed.
 * Pure; runs where stored copies are read, never on a server thread. Source: OpenAI's Responses API reference.
 *
 * Usage: `input_tokens` counts cached tokens in. The stop reason is the response's `status`, or for an incomplete one
 * its `incomplete_details.reason`: the shape has no other word for it.
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
  type Role,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
} from '../turn.ts';

export const responsesShape: TurnShape = {
  readRequest: readResponsesRequest,
  startAnswer: () => new ResponsesAnswerReader(),
};

function readResponsesRequest(value: unknown): TurnRequest {
  const body = asObject(value);
  const system: string[] = [];
  const instructions = asText(body.instructions);
  if (instructions !== null) system.push(instructions);
  const messages: Message[] = [];
  const input = body.input;
  if (typeof input === 'string') messages.push({ role: 'user', parts: [{ type: 'text', text: input }] });
  for (const item of asArray(input)) {
    const message = readItem(asObject(item));
    if (message.role === 'system' && messages.length === 0) {
      for (const part of message.parts) if (part.type === 'text') system.push(part.text);
    } else messages.push(message);
  }
  const conversation = body.conversation;
  return {
    model: asText(body.model),
    system,
    messages,
    tools: asArray(body.tools).map((item) => {
      const tool = asObject(item);
      return asText(tool.name) ?? asText(tool.type) ?? '?';
    }),
    previous_answer_id:
      asText(body.previous_response_id) ?? asText(conversation) ?? asText(asObject(conversation).id),
    kept_in: asText(conversation) ?? asText(asObject(conversation).id),
    is_kept: true,
  };
}

/** One item of `input` or `output`. */
function readItem(item: JsonObject): Message {
  const type = asText(item.type) ?? 'message';
  switch (type) {
    case 'message':
      return { role: readItemRole(item.role), parts: readItemContent(item.content) };
    case 'function_call':
    case 'custom_tool_call': {
      const text = item.arguments ?? item.input;
      return {
        role: 'assistant',
        parts: [
          {
            type: 'tool_call',
            id: asText(item.call_id),
            name: asText(item.name) ?? '',
            arguments: typeof text === 'string' ? parseLenient(text) : (text ?? {}),
          },
        ],
      };
    }
    case 'function_call_output':
    case 'custom_tool_call_output':
      return {
        role: 'tool',
        parts: [
          {
            type: 'tool_result',
            call_id: asText(item.call_id),
            name: null,
            is_error: false,
            parts: readItemContent(item.output),
          },
        ],
      };
    case 'reasoning': {
      const summary = asArray(item.summary).map((part) => asText(asObject(part).text) ?? '');
      return { role: 'assistant', parts: [{ type: 'thinking', text: summary.join('\n') }] };
    }
    default: {
      // Ids and states of server-side tools come and go between the answer and its echo.
      const { type: _type, id: _id, status: _status, ...value } = item;
      const role: Role = type.endsWith('_output') ? 'tool' : 'assistant';
      return { role, parts: [{ type: 'other', name: type, value }] };
    }
  }
}

function readItemRole(role: unknown): Role {
  if (role === 'assistant') return 'assistant';
  return role === 'system' || role === 'developer' ? 'system' : 'user';
}

function readItemContent(content: unknown): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  return asArray(content).map((value): Part => {
    const part = asObject(value);
    const type = asText(part.type) ?? '';
    switch (type) {
      case 'input_text':
      case 'output_text':
      case 'text':
        return { type: 'text', text: asText(part.text) ?? '' };
      case 'refusal':
        return { type: 'text', text: asText(part.refusal) ?? '' };
      case 'input_image': {
        const data = asText(part.image_url) ?? asText(part.file_id) ?? '';
        return { type: 'media', media_type: 'image', data };
      }
      case 'input_file': {
        const data = asText(part.file_data) ?? asText(part.file_url) ?? asText(part.file_id) ?? '';
        return { type: 'media', media_type: 'file', data };
      }
      default:
        return { type: 'other', name: type, value: part };
    }
  });
}

class ResponsesAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  /** Output items by their place; those still open have only what output_item.added said. */
  readonly #items = new Map<number, JsonObject>();
  /** Text or arguments of open items as far as the deltas have come; emptied when the item is done. */
  readonly #open = new Map<number, string>();
  #whole: JsonObject | null = null;

  readWhole(value: unknown): void {
    this.#readResponse(asObject(value));
    this.#whole = asObject(value);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    const type = asText(event.type) ?? name;
    const index = Number(event.output_index);
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        this.#readResponse(asObject(event.response));
        break;
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        this.readWhole(event.response);
        break;
      case 'response.output_item.added':
        this.#items.set(index, asObject(event.item));
        break;
      case 'response.output_item.done':
        this.#items.set(index, asObject(event.item));
        this.#open.delete(index);
        break;
      case 'response.output_text.delta':
      case 'response.refusal.delta':
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        this.#open.set(index, (this.#open.get(index) ?? '') + (asText(event.delta) ?? ''));
        break;
      case 'error':
        this.#answer.error = readErrorWords(event) ?? 'error';
        break;
    }
  }

  finish(): TurnAnswer {
    const parts = this.#answer.parts;
    const output = asArray(this.#whole?.output);
    if (output.length > 0) {
      for (const item of output) parts.push(...readItem(asObject(item)).parts);
      return this.#answer;
    }
    // Cut off, or a terminal event that leaves the output out: what the item events told.
    for (const [index, item] of this.#items) {
      const text = this.#open.get(index);
      if (text === undefined) parts.push(...readItem(item).parts);
      else if (item.type === 'message') parts.push({ type: 'text', text });
      else parts.push(...readItem({ ...item, arguments: text, input: text }).parts);
    }
    return this.#answer;
  }

  #readResponse(response: JsonObject): void {
    const answer = this.#answer;
    answer.id = asText(response.id) ?? answer.id;
    answer.model = asText(response.model) ?? answer.model;
    if (response.error !== undefined && response.error !== null) {
      answer.error = readErrorWords(response) ?? 'error';
    }
    const status = asText(response.status);
    if (status !== null && status !== 'in_progress' && status !== 'queued') {
      answer.stop_reason = asText(asObject(response.incomplete_details).reason) ?? status;
    }
    const from = asObject(response.usage);
    const details = asObject(from.input_tokens_details);
    const usage = answer.usage;
    usage.input_tokens = asCount(from.input_tokens) ?? usage.input_tokens;
    usage.output_tokens = asCount(from.output_tokens) ?? usage.output_tokens;
    usage.cache_read_tokens = asCount(details.cached_tokens) ?? usage.cache_read_tokens;
    usage.cache_write_tokens = asCount(details.cache_write_tokens) ?? usage.cache_write_tokens;
  }
}
