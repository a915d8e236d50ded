/**
 * Answers of the responses wire, whole and streamed. Pure; runs where stored copies are read, never on a server thread.
 * Source: OpenAI's Responses API reference. The last event of a stream holds the whole answer, as for `ResponseStream`
 * of the openai package; if its output is missing, the events of the items provide it.
 *
 * The stop word is the response's `status`, or for an incomplete response its `incomplete_details.reason`. The status
 * of an answer in background mode is `queued` or `in_progress`; the GET that fetches it later is no turn.
 */

import type { TurnBlock } from '../../domain/turn.ts';
import {
  asArray,
  asCount,
  asIndex,
  asObject,
  asText,
  hasError,
  type JsonObject,
  readErrorWords,
} from '../json-reading.ts';
import type { NormalReading } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import { laterCount, outputWithReasoning } from '../usage-counts.ts';
import { type AnswerReader, emptyAnswer, type WireAnswer } from '../wire.ts';
import { readItem } from './request.ts';

/** Beginning of an event as the API writes it. */
const TYPE = '{"type":"response.';

/** Kinds of events without arguments or results as values. */
const PLAIN_EVENTS = [
  'output_text',
  'reasoning',
  'function_call',
  'created',
  'in_progress',
  'content_part',
  'refusal',
];

/** An output item of a stream: from its first or last event, and from the deltas while it is open. */
interface StreamedItem {
  item: JsonObject;
  text: string;
  isDone: boolean;
}

export class ResponsesAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #answer: WireAnswer = emptyAnswer();
  /** By index, or by id when an event has no index. */
  readonly #items = new Map<number | string, StreamedItem>();
  #output: unknown[] = [];
  #tier: string | null = null;

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    const response = asObject(value);
    this.#readResponse(response);
    this.#output = asArray(response.output);
    const status = asText(response.status);
    if (response.background !== true || !isOpen(status)) return;
    this.#answer.stop_word = status;
    this.#answer.is_pending = true;
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    switch (name === 'error' ? name : (asText(event.type) ?? name)) {
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
        this.#takeItem(event, false);
        break;
      case 'response.output_item.done':
        this.#takeItem(event, true);
        break;
      case 'response.output_text.delta':
      case 'response.refusal.delta':
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        this.#takeDelta(event);
        break;
      case 'error':
        this.#answer.error = readErrorWords(event) ?? 'error';
        break;
      default:
        if (hasError(event)) this.#answer.error = readErrorWords(event) ?? 'error';
    }
  }

  /**
   * Whether the digits of the numbers in an event do not matter. They matter only in events with a whole item or the
   * whole response.
   */
  isPlain(text: string): boolean {
    return text.startsWith(TYPE) && PLAIN_EVENTS.some((kind) => text.startsWith(kind, TYPE.length));
  }

  finish(): WireAnswer {
    this.#answer.content = this.#readContent();
    noteTier(this.#answer.usage, this.#tier);
    return this.#answer;
  }

  #readContent(): TurnBlock[] {
    const blocks: TurnBlock[] = [];
    for (const item of this.#reading.take(this.#output))
      blocks.push(...readItem(asObject(item), this.#reading).content);
    if (blocks.length > 0) return blocks;
    for (const streamed of this.#items.values())
      blocks.push(...readItem(closeItem(streamed), this.#reading).content);
    return blocks;
  }

  #takeItem(event: JsonObject, isDone: boolean): void {
    const item = asObject(event.item);
    const place = placeOf(event, item.id);
    if (!this.#items.has(place) && !this.#reading.takeOne()) return;
    this.#items.set(place, { item, text: '', isDone });
  }

  #takeDelta(event: JsonObject): void {
    const streamed = this.#items.get(placeOf(event, event.item_id));
    if (streamed !== undefined && !streamed.isDone) streamed.text += asText(event.delta) ?? '';
  }

  #readResponse(response: JsonObject): void {
    const answer = this.#answer;
    answer.id = asText(response.id) ?? answer.id;
    answer.model = asText(response.model) ?? answer.model;
    if (hasError(response)) answer.error = readErrorWords(response) ?? 'error';
    const status = asText(response.status);
    if (status !== null && !isOpen(status)) {
      answer.stop_word = asText(asObject(response.incomplete_details).reason) ?? status;
    }
    // The first events of a stream have the tier that the request asks for, and the last one the tier that was used.
    this.#tier = asText(response.service_tier) ?? this.#tier;
    const from = asObject(response.usage);
    const details = asObject(from.input_tokens_details);
    const { usage } = answer;
    const output = asCount(from.output_tokens);
    const counts = {
      input: asCount(from.input_tokens) ?? 0,
      output: output ?? 0,
      reasoning: asCount(asObject(from.output_tokens_details).reasoning_tokens) ?? 0,
      total: asCount(from.total_tokens),
    };
    usage.input_tokens = laterCount(from.input_tokens, usage.input_tokens);
    usage.output_tokens = laterCount(output && outputWithReasoning(counts), usage.output_tokens);
    usage.cache_read_tokens = laterCount(details.cached_tokens, usage.cache_read_tokens);
    usage.cache_write_tokens = laterCount(details.cache_write_tokens, usage.cache_write_tokens);
  }
}

/** Whether the provider still works on a response with this status. */
function isOpen(status: string | null): boolean {
  return status === 'in_progress' || status === 'queued';
}

function placeOf(event: JsonObject, id: unknown): number | string {
  return asIndex(event.output_index) ?? asText(id) ?? '';
}

/** Returns an item of a stream; an open item gets the text that was received so far. */
function closeItem({ item, text, isDone }: StreamedItem): JsonObject {
  if (isDone || text === '') return item;
  switch (item.type) {
    case 'message':
      return { ...item, content: text };
    case 'reasoning':
      return { ...item, summary: [{ text }] };
    default:
      return { ...item, arguments: text, input: text };
  }
}
