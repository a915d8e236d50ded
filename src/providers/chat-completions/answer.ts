/**
 * Answers of the chat-completions wire, whole and streamed. Pure; runs where stored copies are read, never on a server
 * thread. Source: OpenAI's Chat Completions API reference; a stream is assembled like `ChatCompletionStream` of the
 * openai package. With `n` > 1 the first choice is the answer.
 */

import type { TurnBlock } from '../../domain/turn.ts';
import {
  asArray,
  asIndex,
  asObject,
  asText,
  hasError,
  type JsonObject,
  readErrorWords,
} from '../json-reading.ts';
import type { NormalReading } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import { type AnswerReader, emptyAnswer, normalizeStop, type WireAnswer } from '../wire.ts';
import { CHAT_STOPS, readChatUsage, reasoningOf, streamErrorOf } from './dialects.ts';
import { readContent, readMessageBlocks } from './request.ts';
import { StreamedCalls } from './streamed-calls.ts';

/** Reads one chat-completions answer. Bedrock's InvokeModel uses it too. */
export class ChatAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #answer: WireAnswer = emptyAnswer();
  readonly #stream: StreamedMessage;
  #tier: string | null = null;

  constructor(reading: NormalReading) {
    this.#reading = reading;
    this.#stream = new StreamedMessage(reading);
  }

  readWhole(value: unknown): void {
    for (const choice of this.#readHead('', asObject(value)))
      this.#answer.content.push(...readMessageBlocks(asObject(choice.message), this.#reading));
  }

  readEvent(name: string, value: unknown): void {
    for (const { delta, message } of this.#readHead(name, asObject(value)))
      this.#stream.add(asObject(delta ?? message));
  }

  /**
   * Whether the digits of the numbers in an event do not matter. They matter only in a call's arguments that are sent
   * as an object. Such arguments occur only in events with `tool_calls` or `function_call`.
   */
  isPlain(text: string): boolean {
    return !text.includes('_call');
  }

  finish(): WireAnswer {
    const answer = this.#answer;
    answer.content.push(...this.#stream.finish());
    noteTier(answer.usage, this.#tier);
    // Some servers report a failure only by the stop word.
    if (normalizeStop({ stops: CHAT_STOPS }, answer.stop_word, []) === 'error')
      answer.error ??= `finish_reason ${answer.stop_word}`;
    return answer;
  }

  /**
   * Reads everything but the content: ids, errors, counts and the end.
   * @returns the choices that form the answer; some servers divide one answer into several choices with the same
   * index
   */
  #readHead(name: string, body: JsonObject): JsonObject[] {
    const answer = this.#answer;
    answer.id = asText(body.id) ?? answer.id;
    answer.model = asText(body.model) ?? answer.model;
    // vLLM streams errors without `error`, as an object of that name.
    if (hasError(body) || name === 'error' || body.object === 'error')
      answer.error = readErrorWords(body) ?? 'error';
    answer.error = streamErrorOf(body) ?? answer.error;
    readChatUsage(body, answer.usage);
    this.#tier = asText(body.service_tier) ?? this.#tier;
    const choices: JsonObject[] = [];
    for (const item of this.#reading.take(body.choices)) {
      const choice = asObject(item);
      if ((asIndex(choice.index) ?? 0) !== 0) continue;
      answer.stop_word = asText(choice.finish_reason) ?? answer.stop_word;
      if (hasError(choice)) answer.error = readErrorWords(choice) ?? 'error';
      readChatUsage(choice, answer.usage);
      choices.push(choice);
    }
    return choices;
  }
}

/** A message while its deltas arrive. */
class StreamedMessage {
  readonly #reading: NormalReading;
  readonly #calls: StreamedCalls;
  /** Blocks of text and thinking, in the order in which they began, and other parts of lists. */
  readonly #blocks: TurnBlock[] = [];
  /** The blocks for text and reasoning in plain fields. Later deltas are appended to them, whatever came in between. */
  #text: Extract<TurnBlock, { type: 'text' }> | null = null;
  #thinking: Extract<TurnBlock, { type: 'thinking' }> | null = null;
  #refusal = '';
  #sound = '';
  readonly #annotations: unknown[] = [];

  constructor(reading: NormalReading) {
    this.#reading = reading;
    this.#calls = new StreamedCalls(reading);
  }

  add(delta: JsonObject): void {
    this.#addReasoning(delta);
    if (typeof delta.content === 'string') this.#addText(delta.content);
    else for (const block of readContent(delta.content, this.#reading)) this.#addBlock(block);
    this.#refusal += asText(delta.refusal) ?? '';
    this.#sound += asText(asObject(delta.audio).data) ?? '';
    for (const annotation of this.#reading.take(delta.annotations)) this.#annotations.push(annotation);
    this.#calls.add(delta);
  }

  finish(): TurnBlock[] {
    const blocks = this.#blocks.filter((block) => block.type !== 'text' || block.text !== '');
    const text = blocks.find((block) => block.type === 'text');
    if (text !== undefined && this.#annotations.length > 0) text.citations = this.#annotations;
    if (this.#refusal !== '') blocks.push({ type: 'refusal', text: this.#refusal });
    if (this.#sound !== '')
      blocks.push({ type: 'media', kind: 'audio', media_type: null, source: 'base64', data: this.#sound });
    blocks.push(...this.#calls.finish());
    return blocks;
  }

  #addText(text: string): void {
    if (text === '') return;
    const last = this.#blocks.at(-1);
    if (this.#text === null && last?.type === 'text') this.#text = last;
    if (this.#text === null) {
      this.#text = { type: 'text', text };
      this.#blocks.push(this.#text);
    } else this.#text.text += text;
  }

  #addReasoning(delta: JsonObject): void {
    const details = asArray(delta.reasoning_details).map(asObject);
    let text = reasoningOf(delta);
    if (text === null)
      for (const detail of details)
        text = (text ?? '') + (asText(detail.text) ?? asText(detail.summary) ?? '');
    const signature = details.map((detail) => asText(detail.signature) ?? asText(detail.data)).find(Boolean);
    if ((text === null || text === '') && signature === undefined) return;
    if (this.#thinking === null) {
      this.#thinking = { type: 'thinking', text: '', signature: null, redacted: false };
      this.#blocks.push(this.#thinking);
    }
    this.#thinking.text += text ?? '';
    this.#thinking.signature = signature ?? this.#thinking.signature;
    this.#thinking.redacted = this.#thinking.text === '';
  }

  /** Adds a part of a list; a part that continues the last block of its kind joins it. */
  #addBlock(block: TurnBlock): void {
    const last = this.#blocks.at(-1);
    if (block.type === 'text' && last?.type === 'text') {
      last.text += block.text;
      if (block.citations !== undefined) last.citations = [...(last.citations ?? []), ...block.citations];
    } else if (block.type === 'thinking' && last?.type === 'thinking') {
      last.text += block.text;
      last.signature = block.signature ?? last.signature;
    } else if (block.type !== 'text' || block.text !== '') this.#blocks.push(block);
  }
}
