/**
 * The completion wire: one prompt, one text. Anthropic's `/v1/complete` and OpenAI's `/v1/completions`, whole and
 * streamed. Pure; any thread. Sources: both API references.
 *
 * The old Anthropic form reports no tokens, so its usage stays unknown. A prompt is one user message, so a conversation
 * inside a growing prompt string is not recognised: such exchanges are grouped only by `x-svc-run`.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { CHAT_STOPS, readChatUsage } from '../chat-completions/dialects.ts';
import { asCount, asIndex, asObject, asText, hasError, readErrorWords } from '../json-reading.ts';
import { emptyRequest, type NormalReading, textBlocks } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import {
  type AnswerReader,
  emptyAnswer,
  endsVersioned,
  plainRequest,
  type Wire,
  type WireAnswer,
} from '../wire.ts';

export const completion: Wire<'completion'> = {
  shape: 'completion',
  paths: {
    routes: 'all',
    tell: (path) =>
      endsVersioned(path, '/v1/completions', '/completions') ||
      endsVersioned(path, '/v1/complete', '/complete')
        ? 'turn'
        : null,
    examples: ['/v1/complete'],
  },
  asks: (body) => body.prompt !== undefined,
  answers: ({ object }) => object === 'text_completion',
  readRequest: (body) => plainRequest(readCompletionRequest(body)),
  startAnswer: (reading) => new CompletionAnswerReader(reading),
  stops: CHAT_STOPS,
  usage: { includes_cache: true },
  prompt: {
    caching: 'automatic',
    tools: [],
    system: [],
    messages: ['prompt', 'inputText'],
    blocks: 'content',
    settings: [],
    kept_by: null,
  },
  has_call_ids: true,
  span_operation: 'text_completion',
  findSideCall: () => null,
  can_be_golden: false,
  served: null,
};

function readCompletionRequest(value: unknown): NormalRequest {
  const body = asObject(value);
  const { prompt } = body;
  const text = typeof prompt === 'string' ? prompt : prompt === undefined ? '' : JSON.stringify(prompt);
  return {
    ...emptyRequest(asText(body.model)),
    messages: text === '' ? [] : [{ role: 'user', content: textBlocks(text) }],
    max_output_tokens: asCount(body.max_tokens) ?? asCount(body.max_tokens_to_sample),
  };
}

class CompletionAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #answer: WireAnswer = emptyAnswer();
  #text = '';
  #tier: string | null = null;

  constructor(reading: NormalReading) {
    this.#reading = reading;
  }

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(name: string, value: unknown): void {
    const body = asObject(value);
    const answer = this.#answer;
    const choices = this.#reading.take(body.choices).map(asObject);
    const choice = choices.find(({ index }) => (asIndex(index) ?? 0) === 0) ?? {};
    answer.id = asText(body.id) ?? answer.id;
    answer.model = asText(body.model) ?? answer.model;
    answer.stop_word = asText(body.stop_reason) ?? asText(choice.finish_reason) ?? answer.stop_word;
    if (hasError(body) || name === 'error') answer.error = readErrorWords(body) ?? 'error';
    this.#text += asText(body.completion) ?? asText(choice.text) ?? '';
    readChatUsage(body, answer.usage);
    this.#tier = asText(body.service_tier) ?? this.#tier;
  }

  finish(): WireAnswer {
    this.#answer.content = textBlocks(this.#text);
    noteTier(this.#answer.usage, this.#tier);
    return this.#answer;
  }
}
