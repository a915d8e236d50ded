/**
 * Answers of the Gemini wire: whole, as a JSON array of chunks, or as server-sent events (`alt=sse`). Pure; runs where
 * stored copies are read, never on a server thread. Source: the Gemini API reference (GenerateContentResponse,
 * UsageMetadata).
 *
 * The chunks of a stream are consecutive parts. Consecutive texts are joined, because chunks divide text anywhere. A
 * chunk's usage is cumulative.
 */

import type { TokenUsage } from '../../domain/exchange.ts';
import type { TurnBlock } from '../../domain/turn.ts';
import { readHeader } from '../content-encoding.ts';
import {
  asCount,
  asIndex,
  asObject,
  asText,
  hasError,
  type JsonObject,
  pick,
  readErrorWords,
} from '../json-reading.ts';
import type { NormalReading } from '../normal-reading.ts';
import { noteTier } from '../service-tier.ts';
import { laterCount } from '../usage-counts.ts';
import { type AnswerReader, emptyAnswer, type WireAnswer } from '../wire.ts';
import { readGeminiModel, readParts } from './request.ts';

export class GeminiAnswerReader implements AnswerReader {
  readonly #reading: NormalReading;
  readonly #answer: WireAnswer;
  #tier: string | null;

  constructor(reading: NormalReading, path: string, headers: readonly string[]) {
    this.#reading = reading;
    this.#tier = asText(readHeader(headers, 'x-gemini-service-tier'));
    this.#answer = emptyAnswer(readGeminiModel(path));
  }

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  /** Reads a whole answer or a chunk of a stream, which have the same form. */
  readEvent(name: string, value: unknown): void {
    const body = asObject(value);
    const answer = this.#answer;
    if (hasError(body) || name === 'error') answer.error = readErrorWords(body) ?? 'error';
    answer.id = asText(pick(body, 'responseId', 'response_id')) ?? answer.id;
    answer.model ??= asText(pick(body, 'modelVersion', 'model_version'));
    const candidates = this.#reading.take(body.candidates).map(asObject);
    const candidate = candidates.find(({ index }) => (asIndex(index) ?? 0) === 0) ?? {};
    for (const block of readParts(asObject(candidate.content).parts, this.#reading)) this.#add(block);
    answer.stop_word = asText(pick(candidate, 'finishReason', 'finish_reason')) ?? answer.stop_word;
    const blocked = asObject(pick(body, 'promptFeedback', 'prompt_feedback'));
    answer.stop_word ??= asText(pick(blocked, 'blockReason', 'block_reason'));
    const counts = asObject(pick(body, 'usageMetadata', 'usage_metadata'));
    readUsage(counts, answer.usage);
    // The Gemini API has `serviceTier`, Vertex AI has `trafficType`.
    const tier = pick(counts, 'serviceTier', 'service_tier') ?? pick(counts, 'trafficType', 'traffic_type');
    this.#tier = asText(tier) ?? this.#tier;
  }

  finish(): WireAnswer {
    noteTier(this.#answer.usage, this.#tier);
    return this.#answer;
  }

  #add(block: TurnBlock): void {
    const { content } = this.#answer;
    const last = content.at(-1);
    if (block.type === 'text') {
      // A part with an empty text may contain only the signature of the preceding part.
      if (last?.type === 'text' && last.signature === undefined) {
        last.text += block.text;
        if (block.signature !== undefined) last.signature = block.signature;
      } else if (block.text !== '' || block.signature !== undefined) content.push(block);
    } else if (block.type === 'thinking' && last?.type === 'thinking' && last.signature === null) {
      last.text += block.text;
      last.signature = block.signature;
    } else content.push(block);
  }
}

/**
 * Reads the counts. `promptTokenCount` includes cached tokens. Thoughts, and prompts of tools that Google runs, are
 * counted separately, unless the total shows that another count includes them.
 */
function readUsage(counts: JsonObject, usage: TokenUsage): void {
  const count = (camel: string, snake: string): number | null => asCount(pick(counts, camel, snake));
  const prompt = count('promptTokenCount', 'prompt_token_count');
  const tools = count('toolUsePromptTokenCount', 'tool_use_prompt_token_count') ?? 0;
  const candidates = count('candidatesTokenCount', 'candidates_token_count');
  const thoughts = count('thoughtsTokenCount', 'thoughts_token_count');
  const total = count('totalTokenCount', 'total_token_count');
  const spent = (candidates ?? 0) + (thoughts ?? 0);
  // The total shows whether the prompt's count includes the prompts of tools.
  const input = prompt === null || total === prompt + spent ? prompt : prompt + tools;
  usage.input_tokens = laterCount(input, usage.input_tokens);
  if (candidates !== null || thoughts !== null) {
    const isWithin = thoughts !== null && candidates !== null && total === (input ?? 0) + candidates;
    usage.output_tokens = laterCount(isWithin ? candidates : spent, usage.output_tokens);
  }
  usage.cache_read_tokens = laterCount(
    count('cachedContentTokenCount', 'cached_content_token_count'),
    usage.cache_read_tokens,
  );
}
