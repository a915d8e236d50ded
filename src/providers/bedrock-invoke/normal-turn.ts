/**
 * Bedrock's InvokeModel and InvokeModelWithResponseStream in normal form: the bodies are those of the model's own maker,
 * which `bodies.ts` tells, so this hands them on. Embeddings come by the same path and are no turns.
 * Pure; runs where stored copies are read, never on a server thread.
 * Source: the Amazon Bedrock user guide, inference request parameters.
 */

import type { NormalRequest, TurnBlock } from '../../domain/turn.ts';
import { ConverseContentReader, readNormalConverse } from '../bedrock-converse/normal-turn.ts';
import { readBedrockModel } from '../bedrock-converse/shape.ts';
import { ChatContentReader, readNormalChat } from '../chat-completions/normal-turn.ts';
import { asObject, type JsonObject } from '../json-reading.ts';
import { MessagesContentReader, readNormalMessages } from '../messages/normal-turn.ts';
import {
  type ContentReader,
  emptyRequest,
  type NormalReading,
  type NormalShape,
  textBlocks,
} from '../normal-reading.ts';
import {
  readInvokeChunk,
  readTextAnswer,
  readTextRequest,
  tellInvokeAnswer,
  tellInvokeBody,
} from './bodies.ts';

export const normalBedrockInvoke: NormalShape = {
  readRequest: readNormalInvoke,
  startContent: (reading) => new InvokeContentReader(reading),
};

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
      const { prompt, max_output_tokens } = readTextRequest(body);
      return {
        ...emptyRequest(model),
        messages: prompt === null ? [] : [{ role: 'user', content: textBlocks(prompt) }],
        max_output_tokens,
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
    const chunk = name === 'exception' ? null : readInvokeChunk(value);
    if (chunk === null) return;
    this.#reader ??= this.#choose(chunk);
    if (!(this.#reader instanceof ConverseContentReader)) this.#reader.readEvent('', chunk);
    else for (const [kind, inner] of Object.entries(chunk)) this.#reader.readEvent(kind, inner);
  }

  finish(): TurnBlock[] {
    return this.#reader?.finish() ?? [];
  }

  #choose(body: JsonObject): ContentReader {
    switch (tellInvokeAnswer(body)) {
      case 'messages':
        return new MessagesContentReader(this.#reading);
      case 'converse':
        return new ConverseContentReader(this.#reading);
      case 'chat_completions':
        return new ChatContentReader(this.#reading);
      case 'text':
        return new TextContentReader();
    }
  }
}

class TextContentReader implements ContentReader {
  #text = '';

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    this.#text += readTextAnswer(value).text;
  }

  finish(): TurnBlock[] {
    return textBlocks(this.#text);
  }
}
