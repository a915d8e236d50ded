/**
 * Answers of Bedrock's InvokeModel and InvokeModelWithResponseStream. The first value shows the body's form. Messages
 * (Anthropic), Converse-like (Nova) and chat-completions-like bodies are read in full. For the text-in, text-out
 * families (`bodies.ts`), text, stop reason and counts are read; for all others (embeddings, images), the usage in
 * Bedrock's headers or invocation metrics. Pure; runs where stored copies are read, never on a server thread. Source:
 * the Amazon Bedrock user guide, inference request parameters; the header names from recorded answers.
 */

import { type TokenUsage, unknownUsage } from '../../domain/exchange.ts';
import { ConverseAnswerReader, readException } from '../bedrock-converse/answer.ts';
import { readBedrockModel } from '../bedrock-converse/request.ts';
import { ChatAnswerReader } from '../chat-completions/answer.ts';
import { readHeader } from '../content-encoding.ts';
import { asCount, asObject, type JsonObject } from '../json-reading.ts';
import { MessagesAnswerReader } from '../messages/answer.ts';
import { type NormalReading, textBlocks } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import { laterCount, leaveOutCache } from '../usage-counts.ts';
import { type AnswerReader, emptyAnswer, type WireAnswer } from '../wire.ts';
import { readInvokeChunk, readTextAnswer, tellInvokeAnswer } from './bodies.ts';

export class InvokeAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #model: string | null;
  readonly #headers: readonly string[];
  readonly #metrics = unknownUsage();
  #reader: AnswerReader | null = null;
  #error: string | null = null;
  #embeds = false;

  constructor(reading: NormalReading, path: string, headers: readonly string[]) {
    this.#reading = reading;
    this.#model = readBedrockModel(path);
    this.#headers = headers;
  }

  readWhole(value: unknown): void {
    const body = asObject(value);
    this.#embeds = body.embedding !== undefined || body.embeddings !== undefined;
    this.#reader = this.#choose(body);
    this.#reader.readWhole(value);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    if (name === 'exception') {
      this.#error = readException(event);
      return;
    }
    const chunk = readInvokeChunk(event);
    if (chunk === null) return;
    this.#readMetrics(asObject(chunk['amazon-bedrock-invocationMetrics']));
    this.#reader ??= this.#choose(chunk);
    if (!(this.#reader instanceof ConverseAnswerReader)) {
      this.#reader.readEvent('', chunk);
      return;
    }
    for (const [kind, inner] of Object.entries(chunk)) this.#reader.readEvent(kind, inner);
  }

  finish(): WireAnswer {
    const answer = this.#reader?.finish() ?? emptyAnswer();
    answer.model = this.#model ?? answer.model;
    answer.error ??= this.#error;
    answer.embeds = this.#embeds;
    // Bedrock's own counts exclude the cache, so the answer's counts must too, whatever its form.
    if (this.#reader instanceof ChatAnswerReader) answer.usage = leaveOutCache(answer.usage);
    fillUsage(answer.usage, this.#metrics);
    fillUsage(answer.usage, readUsageHeaders(this.#headers));
    noteTier(
      answer.usage,
      answer.usage.tier,
      readHeader(this.#headers, 'x-amzn-bedrock-service-tier'),
      readHeader(this.#headers, 'x-amzn-bedrock-performanceconfig-latency'),
    );
    return answer;
  }

  #choose(body: JsonObject): AnswerReader {
    switch (tellInvokeAnswer(body)) {
      case 'messages':
        return new MessagesAnswerReader(this.#reading);
      case 'converse':
        return new ConverseAnswerReader(this.#reading, this.#model);
      case 'chat_completions':
        return new ChatAnswerReader(this.#reading);
      case 'text':
        return new TextAnswerReader();
    }
  }

  #readMetrics(told: JsonObject): void {
    const metrics = this.#metrics;
    metrics.input_tokens = laterCount(told.inputTokenCount, metrics.input_tokens);
    metrics.output_tokens = laterCount(told.outputTokenCount, metrics.output_tokens);
    metrics.cache_read_tokens = laterCount(told.cacheReadInputTokenCount, metrics.cache_read_tokens);
    metrics.cache_write_tokens = laterCount(told.cacheWriteInputTokenCount, metrics.cache_write_tokens);
  }
}

class TextAnswerReader implements AnswerReader {
  readonly #answer: WireAnswer = emptyAnswer();
  #text = '';

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    const { text, stop_reason, input_tokens, output_tokens } = readTextAnswer(value);
    const { usage } = this.#answer;
    this.#text += text;
    this.#answer.stop_word = stop_reason ?? this.#answer.stop_word;
    usage.input_tokens = laterCount(input_tokens, usage.input_tokens);
    usage.output_tokens = laterCount(output_tokens, usage.output_tokens);
  }

  finish(): WireAnswer {
    this.#answer.content = textBlocks(this.#text);
    return this.#answer;
  }
}

/** Reads the counts in Bedrock's own response headers, which an error answer has too. */
function readUsageHeaders(headers: readonly string[]): TokenUsage {
  const read = (name: string): number | null => {
    const value = readHeader(headers, name);
    return /^\d{1,15}$/.test(value) ? asCount(Number(value)) : null;
  };
  return {
    ...unknownUsage(),
    input_tokens: read('x-amzn-bedrock-input-token-count'),
    output_tokens: read('x-amzn-bedrock-output-token-count'),
    cache_read_tokens: read('x-amzn-bedrock-cache-read-input-token-count'),
    cache_write_tokens: read('x-amzn-bedrock-cache-write-input-token-count'),
  };
}

/** Fills in the counts that the body does not have. */
function fillUsage(usage: TokenUsage, from: TokenUsage): void {
  usage.input_tokens ??= from.input_tokens;
  usage.output_tokens ??= from.output_tokens;
  usage.cache_read_tokens ??= from.cache_read_tokens;
  usage.cache_write_tokens ??= from.cache_write_tokens;
}
