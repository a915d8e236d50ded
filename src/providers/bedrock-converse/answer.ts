/**
 * Answers of Bedrock's Converse and ConverseStream. Pure; runs where stored copies are read, never on a server thread.
 * Source: the Amazon Bedrock Runtime API reference.
 */

import type { TurnBlock } from '../../domain/turn.ts';
import {
  asCount,
  asIndex,
  asObject,
  asText,
  type JsonObject,
  parseLenient,
  readErrorWords,
} from '../json-reading.ts';
import type { NormalReading } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import { laterCount } from '../usage-counts.ts';
import { type AnswerReader, emptyAnswer, type WireAnswer } from '../wire.ts';
import { readBlock, readBlocks } from './request.ts';

/** A block of a stream while its deltas arrive. */
interface OpenBlock {
  start: JsonObject;
  text: string;
  input: string;
  thinking: string;
  signature: string | null;
  /** The pieces of redacted thinking, each in base64. */
  redacted: string[];
  citations: unknown[];
  /** Content of the result of a tool that the provider runs itself. */
  results: unknown[];
}

/** Reads one Converse answer, whole or from an event stream. InvokeModel of Nova models uses it too. */
export class ConverseAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #answer: WireAnswer;
  readonly #open = new Map<number, OpenBlock>();
  #tier: string | null = null;
  #latency: string | null = null;

  /** @param model from the path, because the bodies name none */
  constructor(reading: NormalReading, model: string | null) {
    this.#reading = reading;
    this.#answer = emptyAnswer(model);
  }

  readWhole(value: unknown): void {
    const body = asObject(value);
    this.#answer.stop_word = asText(body.stopReason);
    this.#answer.content = readBlocks(asObject(asObject(body.output).message).content, this.#reading);
    this.#readUsage(body);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    switch (name) {
      case 'contentBlockStart':
      case 'contentBlockDelta':
        this.#readBlockEvent(name, event);
        break;
      case 'messageStop':
        this.#answer.stop_word = asText(event.stopReason) ?? this.#answer.stop_word;
        break;
      case 'metadata':
        this.#readUsage(event);
        break;
      case 'exception':
        this.#answer.error = readException(event);
        break;
    }
  }

  finish(): WireAnswer {
    for (const open of this.#open.values()) this.#answer.content.push(...this.#close(open));
    this.#open.clear();
    noteTier(this.#answer.usage, this.#tier, this.#latency);
    return this.#answer;
  }

  #readBlockEvent(name: string, event: JsonObject): void {
    const open = this.#openBlock(asIndex(event.contentBlockIndex) ?? 0);
    if (open === null) return;
    if (name === 'contentBlockStart') open.start = asObject(event.start);
    else this.#readDelta(open, asObject(event.delta));
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
      const toolUse = { ...asObject(start.toolUse), input: parseLenient(input) };
      blocks.push(readBlock({ toolUse }, this.#reading));
    } else if (start.toolResult !== undefined) {
      const toolResult = { ...asObject(start.toolResult), content: open.results };
      blocks.push(readBlock({ toolResult }, this.#reading));
    } else if (Object.keys(start).length > 0) blocks.push(readBlock(start, this.#reading));
    return blocks;
  }

  /** Reads counts and tier. `inputTokens` excludes cache reads and writes, which have separate counts. */
  #readUsage(holder: JsonObject): void {
    this.#tier = asText(asObject(holder.serviceTier).type) ?? this.#tier;
    this.#latency = asText(asObject(holder.performanceConfig).latency) ?? this.#latency;
    const from = asObject(holder.usage);
    const { usage } = this.#answer;
    const take = (name: keyof typeof from, alternative: string): number | null =>
      asCount(from[name]) ?? asCount(from[alternative]);
    usage.input_tokens = laterCount(from.inputTokens, usage.input_tokens);
    usage.output_tokens = laterCount(from.outputTokens, usage.output_tokens);
    usage.cache_read_tokens = laterCount(
      take('cacheReadInputTokens', 'cacheReadInputTokenCount'),
      usage.cache_read_tokens,
    );
    usage.cache_write_tokens = laterCount(
      take('cacheWriteInputTokens', 'cacheWriteInputTokenCount'),
      usage.cache_write_tokens,
    );
    usage.cache_write_1h_tokens = laterCount(
      hourWritesOf(from.cacheDetails, this.#reading),
      usage.cache_write_1h_tokens,
    );
  }
}

/** Sums the cache writes with a lifetime of an hour; null without details. */
function hourWritesOf(details: unknown, reading: NormalReading): number | null {
  if (!Array.isArray(details)) return null;
  let tokens = 0;
  for (const item of reading.take(details)) {
    const { ttl, inputTokens } = asObject(item);
    if (ttl === '1h') tokens += asCount(inputTokens) ?? 0;
  }
  return tokens;
}

/** Describes an exception message of an event stream: its type, and its words if there are any. */
export function readException(event: JsonObject): string {
  const type = asText(event.type) ?? 'exception';
  const words = asText(asObject(event.value).message) ?? readErrorWords(event.value);
  return words === null ? type : `${type}: ${words}`;
}

function joinBase64(pieces: readonly string[]): string {
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString('base64');
}
