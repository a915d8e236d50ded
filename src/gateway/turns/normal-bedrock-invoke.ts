/**
 * Bedrock's InvokeModel and InvokeModelWithResponseStream in normal form: the bodies are those of the model's own maker,
 * so this tells them apart and hands them on. Embeddings come by the same path and are no turns.
 * Pure; runs where stored copies are read, never on a front thread.
 * Source: the Amazon Bedrock user guide, inference request parameters.
 */

import type { NormalRequest, TurnBlock } from '../../domain/turn.ts';
import { readBedrockModel } from './bedrock-converse.ts';
import { asksForEmbedding } from './bedrock-invoke.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from './json-reading.ts';
import { ConverseContentReader, readNormalConverse } from './normal-bedrock-converse.ts';
import { ChatContentReader, readNormalChat } from './normal-chat-completions.ts';
import { MessagesContentReader, readNormalMessages } from './normal-messages.ts';
import {
  type ContentReader,
  emptyRequest,
  type NormalReading,
  type NormalShape,
  textBlocks,
} from './normal-reading.ts';

export const normalBedrockInvoke: NormalShape = {
  readRequest: readNormalInvoke,
  startContent: (reading) => new InvokeContentReader(reading),
};

/** In which maker's form a body is. */
export type InvokeBody = 'messages' | 'converse' | 'chat_completions' | 'text' | 'embedding';

/** Tells whose form a request body has, by its fields and the model's name. */
export function tellInvokeBody(value: unknown, path: string): InvokeBody {
  const body = asObject(value);
  if (body.anthropic_version !== undefined) return 'messages';
  const messages = asArray(body.messages);
  if (messages.length > 0) {
    const { content } = asObject(messages[0]);
    const typed = typeof content === 'string' || asObject(asArray(content)[0]).type !== undefined;
    return typed ? 'chat_completions' : 'converse';
  }
  return asksForEmbedding(body, readBedrockModel(path)) ? 'embedding' : 'text';
}

function readNormalInvoke(value: unknown, reading: NormalReading, path: string): NormalRequest {
  const body = asObject(value);
  const model = readBedrockModel(path);
  switch (tellInvokeBody(body, path)) {
    case 'messages':
      return { ...readNormalMessages(body, reading), model };
    case 'chat_completions':
      return { ...readNormalChat(body, reading), model };
    case 'converse':
      return readNormalConverse(body, reading, path);
    case 'text':
    case 'embedding': {
      const prompt = asText(body.prompt) ?? asText(body.inputText) ?? asText(body.message);
      const titan = asObject(body.textGenerationConfig);
      return {
        ...emptyRequest(model),
        messages: prompt === null ? [] : [{ role: 'user', content: textBlocks(prompt) }],
        max_output_tokens:
          asCount(body.max_tokens) ??
          asCount(body.max_gen_len) ??
          asCount(body.max_tokens_to_sample) ??
          asCount(titan.maxTokenCount),
      };
    }
  }
}

/** Chooses the reader by what the first value looks like. */
class InvokeContentReader implements ContentReader {
  readonly #reading: NormalReading;
  #reader: ContentReader | null = null;

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    this.#reader = this.#choose(asObject(value));
    this.#reader.readWhole(value);
  }

  readEvent(name: string, value: unknown): void {
    const encoded = asText(asObject(value).bytes);
    if (name === 'exception' || encoded === null) return;
    // Throws on what is no JSON: the frame's reader then calls the message damaged.
    const chunk = asObject(JSON.parse(Buffer.from(encoded, 'base64').toString('utf8')));
    this.#reader ??= this.#choose(chunk);
    if (!(this.#reader instanceof ConverseContentReader)) this.#reader.readEvent('', chunk);
    else for (const [kind, inner] of Object.entries(chunk)) this.#reader.readEvent(kind, inner);
  }

  finish(): TurnBlock[] {
    return this.#reader?.finish() ?? [];
  }

  #choose(body: JsonObject): ContentReader {
    if (asText(body.type) !== null) return new MessagesContentReader(this.#reading);
    if (body.messageStart !== undefined || asObject(body.output).message !== undefined) {
      return new ConverseContentReader(this.#reading);
    }
    const choice = asObject(asArray(body.choices)[0]);
    if (choice.message !== undefined || choice.delta !== undefined)
      return new ChatContentReader(this.#reading);
    return new TextContentReader();
  }
}

/** The text-in, text-out families (Titan, Llama, Mistral, Cohere, Jurassic), whose field names do not clash. */
class TextContentReader implements ContentReader {
  #text = '';

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    const body = asObject(value);
    const first = asObject(
      asArray(body.results ?? body.outputs ?? body.generations ?? body.completions ?? body.choices)[0],
    );
    this.#text +=
      asText(body.generation) ??
      asText(body.outputText) ??
      asText(body.completion) ??
      asText(body.text) ??
      asText(first.outputText) ??
      asText(first.text) ??
      asText(asObject(first.data).text) ??
      '';
  }

  finish(): TurnBlock[] {
    return textBlocks(this.#text);
  }
}
