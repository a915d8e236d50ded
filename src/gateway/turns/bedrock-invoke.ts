/**
 * Bedrock's InvokeModel and InvokeModelWithResponseStream: the path is Bedrock's, the bodies are those of the model's
 * own maker. Messages (Anthropic), Converse-like (Nova) and chat-completions-like bodies are read in full; of the
 * text-in, text-out families (Titan, Llama, Mistral, Cohere) prompt, text, stop reason and counts; of any other
 * (embeddings, images) the usage that Bedrock gives in its headers or its invocation metrics.
 * Pure; runs where stored copies are read, never on a front thread.
 * Source: the Amazon Bedrock user guide, inference request parameters; the header names from recorded answers.
 */

import {
  ConverseAnswerReader,
  readBedrockModel,
  readConverseRequest,
  readException,
} from './bedrock-converse.ts';
import { ChatAnswerReader, readChatRequest } from './chat-completions.ts';
import { readHeader } from './content-encoding.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from './json-reading.ts';
import { MessagesAnswerReader, readMessagesRequest } from './messages.ts';
import {
  type AnswerReader,
  emptyAnswer,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
  unknownUsage,
} from './turn.ts';

export const bedrockInvokeShape: TurnShape = {
  readRequest: readInvokeRequest,
  startAnswer: (path) => new InvokeAnswerReader(readBedrockModel(path)),
};

function readInvokeRequest(value: unknown, path: string): TurnRequest {
  const body = asObject(value);
  const model = readBedrockModel(path);
  if (body.anthropic_version !== undefined) return { ...readMessagesRequest(body), model };
  const messages = asArray(body.messages);
  if (messages.length > 0) {
    const content = asObject(messages[0]).content;
    const typed = typeof content === 'string' || asObject(asArray(content)[0]).type !== undefined;
    return typed ? { ...readChatRequest(body), model } : readConverseRequest(body, path);
  }
  const prompt = asText(body.prompt) ?? asText(body.inputText) ?? asText(body.message);
  return {
    model,
    system: [],
    messages: prompt === null ? [] : [{ role: 'user', parts: [{ type: 'text', text: prompt }] }],
    tools: [],
    previous_answer_id: null,
    embeds: asksForEmbedding(body, model),
  };
}

/** Fields that only the bodies of embedding models have. */
const EMBEDDING_FIELDS = ['normalize', 'dimensions', 'embeddingTypes', 'input_type', 'singleEmbeddingParams'];

/** Whether a body without messages asks for an embedding: by the model's name, or where a profile hides it by its fields. */
export function asksForEmbedding(body: JsonObject, model: string | null): boolean {
  return /embed/i.test(model ?? '') || EMBEDDING_FIELDS.some((field) => body[field] !== undefined);
}

/** Chooses the reader by what the first value looks like. */
class InvokeAnswerReader implements AnswerReader {
  readonly #model: string | null;
  readonly #metrics = unknownUsage();
  #reader: AnswerReader | null = null;
  #error: string | null = null;
  #embeds = false;

  constructor(model: string | null) {
    this.#model = model;
  }

  readWhole(value: unknown): void {
    const { embedding, embeddings } = asObject(value);
    this.#embeds = embedding !== undefined || embeddings !== undefined;
    this.#reader = this.#choose(asObject(value));
    this.#reader.readWhole(value);
  }

  readEvent(name: string, value: unknown): void {
    const event = asObject(value);
    if (name === 'exception') {
      this.#error = readException(event);
      return;
    }
    const encoded = asText(event.bytes);
    if (encoded === null) return;
    // Throws on what is no JSON: the frame's reader then calls the message damaged.
    const chunk = asObject(JSON.parse(Buffer.from(encoded, 'base64').toString('utf8')));
    const metrics = asObject(chunk['amazon-bedrock-invocationMetrics']);
    this.#metrics.input_tokens = asCount(metrics.inputTokenCount) ?? this.#metrics.input_tokens;
    this.#metrics.output_tokens = asCount(metrics.outputTokenCount) ?? this.#metrics.output_tokens;
    this.#metrics.cache_read_tokens =
      asCount(metrics.cacheReadInputTokenCount) ?? this.#metrics.cache_read_tokens;
    this.#metrics.cache_write_tokens =
      asCount(metrics.cacheWriteInputTokenCount) ?? this.#metrics.cache_write_tokens;
    this.#reader ??= this.#choose(chunk);
    if (!(this.#reader instanceof ConverseAnswerReader)) {
      this.#reader.readEvent('', chunk);
      return;
    }
    for (const [kind, inner] of Object.entries(chunk)) this.#reader.readEvent(kind, inner);
  }

  finish(): TurnAnswer {
    const answer = this.#reader?.finish() ?? emptyAnswer();
    answer.model = this.#model ?? answer.model;
    answer.error ??= this.#error;
    answer.embeds = this.#embeds;
    fillUsage(answer, this.#metrics);
    return answer;
  }

  #choose(body: JsonObject): AnswerReader {
    const type = asText(body.type);
    if (type !== null) return new MessagesAnswerReader();
    if (body.messageStart !== undefined || asObject(body.output).message !== undefined) {
      return new ConverseAnswerReader(this.#model);
    }
    const choice = asObject(asArray(body.choices)[0]);
    if (choice.message !== undefined || choice.delta !== undefined) return new ChatAnswerReader();
    return new TextAnswerReader();
  }
}

/** The text-in, text-out families, whose field names differ and do not clash. */
class TextAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  #text = '';

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    const body = asObject(value);
    const first = asObject(
      asArray(body.results ?? body.outputs ?? body.generations ?? body.completions ?? body.choices)[0],
    );
    const answer = this.#answer;
    this.#text +=
      asText(body.generation) ??
      asText(body.outputText) ??
      asText(body.completion) ??
      asText(body.text) ??
      asText(first.outputText) ??
      asText(first.text) ??
      '';
    answer.stop_reason =
      asText(body.stop_reason) ??
      asText(body.completionReason) ??
      asText(body.finish_reason) ??
      asText(first.stop_reason) ??
      asText(first.completionReason) ??
      asText(first.finish_reason) ??
      answer.stop_reason;
    const usage = answer.usage;
    usage.input_tokens =
      asCount(body.prompt_token_count) ?? asCount(body.inputTextTokenCount) ?? usage.input_tokens;
    usage.output_tokens =
      asCount(body.generation_token_count) ??
      asCount(body.totalOutputTextTokenCount) ??
      asCount(first.tokenCount) ??
      usage.output_tokens;
  }

  finish(): TurnAnswer {
    if (this.#text !== '') this.#answer.parts.push({ type: 'text', text: this.#text });
    return this.#answer;
  }
}

/** Counts that the body left open, out of Bedrock's own response headers. */
export function fillUsageFromHeaders(answer: TurnAnswer, headers: readonly string[]): void {
  const read = (name: string): number | null => {
    const value = readHeader(headers, name);
    return /^\d{1,15}$/.test(value) ? Number(value) : null;
  };
  fillUsage(answer, {
    input_tokens: read('x-amzn-bedrock-input-token-count'),
    output_tokens: read('x-amzn-bedrock-output-token-count'),
    cache_read_tokens: read('x-amzn-bedrock-cache-read-input-token-count'),
    cache_write_tokens: read('x-amzn-bedrock-cache-write-input-token-count'),
  });
}

function fillUsage(answer: TurnAnswer, from: TurnAnswer['usage']): void {
  const usage = answer.usage;
  usage.input_tokens ??= from.input_tokens;
  usage.output_tokens ??= from.output_tokens;
  usage.cache_read_tokens ??= from.cache_read_tokens;
  usage.cache_write_tokens ??= from.cache_write_tokens;
}
