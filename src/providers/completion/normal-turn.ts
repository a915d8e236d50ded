/**
 * The completion shape in normal form: one prompt, one text. Pure; runs where stored copies are read, never on a server thread. Sources: Anthropic's `/v1/complete` and OpenAI's `/v1/completions`, whole and streamed.
 */

import type { NormalRequest, TurnBlock } from '../../domain/turn.ts';
import { asCount, asObject, asText } from '../json-reading.ts';
import {
  type ContentReader,
  emptyRequest,
  type NormalReading,
  type NormalShape,
  textBlocks,
} from '../normal-reading.ts';

export const normalCompletion: NormalShape = {
  readRequest: readNormalCompletion,
  startContent: (reading) => new CompletionContentReader(reading),
};

function readNormalCompletion(value: unknown): NormalRequest {
  const body = asObject(value);
  const { prompt } = body;
  const text = typeof prompt === 'string' ? prompt : prompt === undefined ? '' : JSON.stringify(prompt);
  return {
    ...emptyRequest(asText(body.model)),
    messages: text === '' ? [] : [{ role: 'user', content: textBlocks(text) }],
    max_output_tokens: asCount(body.max_tokens) ?? asCount(body.max_tokens_to_sample),
  };
}

class CompletionContentReader implements ContentReader {
  readonly #reading: NormalReading;
  #text = '';

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    const body = asObject(value);
    const choices = this.#reading.take(body.choices).map(asObject);
    const choice = choices.find(({ index }) => (index ?? 0) === 0);
    this.#text += asText(body.completion) ?? asText(choice?.text) ?? '';
  }

  finish(): TurnBlock[] {
    return textBlocks(this.#text);
  }
}
