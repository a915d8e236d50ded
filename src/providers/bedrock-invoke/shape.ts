/**
 * Bedrock's InvokeModel and InvokeModelWithResponseStream: the path is Bedrock's, the bodies are those of the model's
 * own maker. Messages (Anthropic), Converse-like (Nova) and chat-completions-like bodies are read in full; of the
 * text-in, text-out families (`bodies.ts`) prompt, text, stop reason and counts; of any other
 * (embeddings, images) the usage that Bedrock gives in its headers or its invocation metrics.
 * Pure; runs where stored copies are read, never on a server thread.
 * Source: the Amazon Bedrock user guide, inference request parameters; the header names from recorded answers.
 */

import {
  ConverseAnswerReader,
  readBedrockModel,
  readConverseRequest,
  readException,
} from '../bedrock-converse/shape.ts';
import { ChatAnswerReader, readChatRequest } from '../chat-completions/shape.ts';
import { readHeader } from '../content-encoding.ts';
import { asCount, asObject, type JsonObject } from '../json-reading.ts';
import { MessagesAnswerReader, readMessagesRequest } from '../messages/shape.ts';
import {
  type AnswerReader,
  emptyAnswer,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
  unknownUsage,
} from '../turn.ts';
import {
  readInvokeChunk,
  readTextAnswer,
  readTextRequest,
  tellInvokeAnswer,
  tellInvokeBody,
} from './bodies.ts';

export const bedrockInvokeShape: TurnShape = {
  readRequest: readInvokeRequest,
  startAnswer: (path) => new InvokeAnswerReader(readBedrockModel(path)),
};

function readInvokeRequest(value: unknown, path: string): TurnRequest {
  const body = asObject(value);
  const model = readBedrockModel(path);
  const kind = tellInvokeBody(body, path);
  switch (kind) {
    case 'messages':
      return { ...readMessagesRequest(body), model };
    case 'chat_completions':
      return { ...readChatRequest(body), model };
    case 'converse':
      return readConverseRequest(body, path);
    case 'text':
    case 'embedding': {
      const { prompt } = readTextRequest(body);
      return {
        model,
        system: [],
        messages: prompt === null ? [] : [{ role: 'user', parts: [{ type: 'text', text: prompt }] }],
        tools: [],
        previous_answer_id: null,
        embeds: kind === 'embedding',
      };
    }
  }
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
    const chunk = readInvokeChunk(event);
    if (chunk === null) return;
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
    switch (tellInvokeAnswer(body)) {
      case 'messages':
        return new MessagesAnswerReader();
      case 'converse':
        return new ConverseAnswerReader(this.#model);
      case 'chat_completions':
        return new ChatAnswerReader();
      case 'text':
        return new TextAnswerReader();
    }
  }
}

class TextAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  #text = '';

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    const { text, stop_reason, input_tokens, output_tokens } = readTextAnswer(value);
    const { usage } = this.#answer;
    this.#text += text;
    this.#answer.stop_reason = stop_reason ?? this.#answer.stop_reason;
    usage.input_tokens = input_tokens ?? usage.input_tokens;
    usage.output_tokens = output_tokens ?? usage.output_tokens;
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
