/**
 * Recognises the forms of InvokeModel's bodies: which maker's form they have, and the content of the text-in, text-out
 * families (Titan, Llama, Mistral, Cohere, Jurassic), whose field names differ and do not clash. Pure; runs where
 * stored copies are read, never on a server thread. Source: the Amazon Bedrock user guide, inference request
 * parameters.
 */

import { readBedrockModel } from '../bedrock-converse/request.ts';
import { asArray, asCount, asObject, asText, type JsonObject, parseJson } from '../json-reading.ts';

/** The form of a body, by the model's maker. */
type InvokeBody = 'messages' | 'converse' | 'chat_completions' | 'text' | 'embedding';

/** Determines the form of a request body by its fields and the model's name. */
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

/** Fields that only the bodies of embedding models have. */
const EMBEDDING_FIELDS = ['normalize', 'dimensions', 'embeddingTypes', 'input_type', 'singleEmbeddingParams'];

/**
 * Whether a body without messages asks for an embedding. The model's name shows it, or else a field that only such
 * bodies have, because the ARN of an inference profile does not contain the model's name.
 */
function asksForEmbedding(body: JsonObject, model: string | null): boolean {
  return /embed/i.test(model ?? '') || EMBEDDING_FIELDS.some((field) => body[field] !== undefined);
}

/** Determines the form of an answer, from the whole answer or from the first chunk of a stream. */
export function tellInvokeAnswer(body: JsonObject): Exclude<InvokeBody, 'embedding'> {
  if (asText(body.type) !== null) return 'messages';
  if (body.messageStart !== undefined || asObject(body.output).message !== undefined) return 'converse';
  const choice = asObject(asArray(body.choices)[0]);
  return choice.message !== undefined || choice.delta !== undefined ? 'chat_completions' : 'text';
}

/**
 * Reads the maker's chunk from an event of InvokeModelWithResponseStream; null when the event contains none.
 * @throws for a chunk that is not JSON; the frame's reader then reports a damaged message
 */
export function readInvokeChunk(event: unknown): JsonObject | null {
  const encoded = asText(asObject(event).bytes);
  return encoded === null ? null : asObject(parseJson(Buffer.from(encoded, 'base64').toString('utf8')));
}

/** The text of a text family's request, or the text to embed. */
interface TextRequest {
  prompt: string | null;
  max_output_tokens: number | null;
}

export function readTextRequest(body: JsonObject): TextRequest {
  return {
    prompt: asText(body.prompt) ?? asText(body.inputText) ?? asText(body.message),
    max_output_tokens:
      asCount(body.max_tokens) ??
      asCount(body.maxTokens) ??
      asCount(body.max_gen_len) ??
      asCount(body.max_tokens_to_sample) ??
      asCount(asObject(body.textGenerationConfig).maxTokenCount),
  };
}

/** The text of a text family's answer or of a chunk. */
interface TextAnswer {
  text: string;
  stop_reason: string | null;
  input_tokens: number | null;
  output_tokens: number | null;
}

export function readTextAnswer(value: unknown): TextAnswer {
  const body = asObject(value);
  const first = asObject(
    asArray(body.results ?? body.outputs ?? body.generations ?? body.completions ?? body.choices)[0],
  );
  return {
    text:
      asText(body.generation) ??
      asText(body.outputText) ??
      asText(body.completion) ??
      asText(body.text) ??
      asText(first.outputText) ??
      asText(first.text) ??
      asText(asObject(first.data).text) ??
      '',
    stop_reason:
      asText(body.stop_reason) ??
      asText(body.completionReason) ??
      asText(body.finish_reason) ??
      asText(first.stop_reason) ??
      asText(first.completionReason) ??
      asText(first.finish_reason) ??
      asText(asObject(first.finishReason).reason),
    input_tokens: asCount(body.prompt_token_count) ?? asCount(body.inputTextTokenCount),
    output_tokens:
      asCount(body.generation_token_count) ??
      asCount(body.totalOutputTextTokenCount) ??
      asCount(first.tokenCount),
  };
}
