/**
 * The completion shape: one prompt, one text. Anthropic's `/v1/complete` and OpenAI's `/v1/completions`, whole and
 * streamed. Pure; runs where stored copies are read, never on a server thread. Sources: both API references.
 *
 * The old Anthropic shape says nothing of tokens: its usage stays unknown. A prompt is one user message, so a
 * conversation kept inside a growing prompt string is not recognised as one: such exchanges group by `x-svc-run` only.
 */

import { readOpenAiUsage } from '../chat-completions/shape.ts';
import { asArray, asObject, asText, readErrorWords } from '../json-reading.ts';
import {
  type AnswerReader,
  emptyAnswer,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
} from '../turn.ts';

export const completionShape: TurnShape = {
  readRequest: readCompletionRequest,
  startAnswer: () => new CompletionAnswerReader(),
};

function readCompletionRequest(value: unknown): TurnRequest {
  const body = asObject(value);
  const prompt = body.prompt;
  const text = typeof prompt === 'string' ? prompt : prompt === undefined ? '' : JSON.stringify(prompt);
  return {
    model: asText(body.model),
    system: [],
    messages: text === '' ? [] : [{ role: 'user', parts: [{ type: 'text', text }] }],
    tools: [],
    previous_answer_id: null,
  };
}

class CompletionAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();
  #text = '';

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  readEvent(_name: string, value: unknown): void {
    const body = asObject(value);
    const answer = this.#answer;
    const choice = asObject(asArray(body.choices)[0]);
    answer.id = asText(body.id) ?? answer.id;
    answer.model = asText(body.model) ?? answer.model;
    answer.stop_reason = asText(body.stop_reason) ?? asText(choice.finish_reason) ?? answer.stop_reason;
    if (body.error !== undefined && body.error !== null) answer.error = readErrorWords(body) ?? 'error';
    this.#text += asText(body.completion) ?? asText(choice.text) ?? '';
    readOpenAiUsage(body.usage, answer);
  }

  finish(): TurnAnswer {
    if (this.#text !== '') this.#answer.parts.push({ type: 'text', text: this.#text });
    return this.#answer;
  }
}
