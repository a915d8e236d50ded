/**
 * The Gemini shape (`…:generateContent`, `…:streamGenerateContent`): whole, as a JSON array of chunks, or as
 * server-sent events (`alt=sse`). Pure; runs where stored copies are read, never on a server thread.
 * Source: the Gemini API reference (GenerateContentResponse, UsageMetadata).
 *
 * The model is the path's. Usage: `promptTokenCount` counts cached tokens in; output is candidates plus thoughts, as
 * the other providers count reasoning into their output. Protobuf's JSON takes camelCase and snake_case: so do we.
 */

import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  pick,
  readErrorWords,
} from '../json-reading.ts';
import {
  type AnswerReader,
  emptyAnswer,
  type Message,
  type Part,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
} from '../turn.ts';

export const geminiShape: TurnShape = {
  readRequest: readGeminiRequest,
  startAnswer: (path) => new GeminiAnswerReader(path),
};

function readGeminiRequest(value: unknown, path: string): TurnRequest {
  const body = asObject(value);
  const system: string[] = [];
  for (const item of asArray(asObject(pick(body, 'systemInstruction', 'system_instruction')).parts)) {
    const text = asText(asObject(item).text);
    if (text !== null) system.push(text);
  }
  const contents = Array.isArray(body.contents) ? body.contents : [body.contents].filter(Boolean);
  const messages = contents.map((item): Message => {
    const content = asObject(item);
    const role = content.role === 'model' ? 'assistant' : content.role === 'function' ? 'tool' : 'user';
    return { role, parts: readParts(content.parts) };
  });
  const tools: string[] = [];
  for (const item of asArray(body.tools)) {
    for (const [kind, declared] of Object.entries(asObject(item))) {
      if (kind !== 'functionDeclarations' && kind !== 'function_declarations') tools.push(kind);
      else for (const tool of asArray(declared)) tools.push(asText(asObject(tool).name) ?? '?');
    }
  }
  return { model: readGeminiModel(path), system, messages, tools, previous_answer_id: null };
}

/** The model's name in a path such as `/v1beta/models/NAME:generateContent`; null when it has none. */
export function readGeminiModel(path: string): string | null {
  const end = Math.max(path.lastIndexOf(':'), path.lastIndexOf('%3A'), path.lastIndexOf('%3a'));
  if (end < 0) return null;
  const name = path.slice(path.lastIndexOf('/', end) + 1, end);
  try {
    return asText(decodeURIComponent(name));
  } catch {
    return asText(name);
  }
}

function readParts(value: unknown): Part[] {
  return asArray(Array.isArray(value) ? value : [value].filter(Boolean)).map((item) =>
    readPart(asObject(item)),
  );
}

/** One part; the signature of a thought is left out: older clients drop it when they send the answer back. */
function readPart(part: JsonObject): Part {
  if (typeof part.text === 'string') {
    return { type: part.thought === true ? 'thinking' : 'text', text: part.text };
  }
  const call = pick(part, 'functionCall', 'function_call');
  if (call !== undefined) {
    const body = asObject(call);
    return {
      type: 'tool_call',
      id: asText(body.id),
      name: asText(body.name) ?? '',
      arguments: body.args ?? {},
    };
  }
  const result = pick(part, 'functionResponse', 'function_response');
  if (result !== undefined) {
    const body = asObject(result);
    const response = asObject(body.response);
    return {
      type: 'tool_result',
      call_id: asText(body.id),
      name: asText(body.name),
      is_error: response.error !== undefined,
      parts: [{ type: 'text', text: JSON.stringify(response) }],
    };
  }
  const inline = pick(part, 'inlineData', 'inline_data');
  const file = pick(part, 'fileData', 'file_data');
  if (inline !== undefined || file !== undefined) {
    const body = asObject(inline ?? file);
    return {
      type: 'media',
      media_type: asText(pick(body, 'mimeType', 'mime_type')) ?? 'file',
      data: asText(body.data) ?? asText(pick(body, 'fileUri', 'file_uri')) ?? '',
    };
  }
  const { thoughtSignature: _signature, thought_signature: _snakeSignature, ...value } = part;
  return { type: 'other', name: Object.keys(value)[0] ?? '', value };
}

class GeminiAnswerReader implements AnswerReader {
  readonly #answer: TurnAnswer = emptyAnswer();

  constructor(path: string) {
    this.#answer.model = readGeminiModel(path);
  }

  readWhole(value: unknown): void {
    this.readEvent('', value);
  }

  /** A whole answer and a chunk of a stream look the same; a chunk's parts are new, its usage is cumulative. */
  readEvent(_name: string, value: unknown): void {
    const body = asObject(value);
    const answer = this.#answer;
    if (body.error !== undefined) answer.error = readErrorWords(body) ?? 'error';
    answer.id = asText(pick(body, 'responseId', 'response_id')) ?? answer.id;
    answer.model ??= asText(pick(body, 'modelVersion', 'model_version'));
    const candidate = asObject(asArray(body.candidates)[0]);
    for (const part of readParts(asObject(candidate.content).parts)) addPart(answer.parts, part);
    answer.stop_reason = asText(pick(candidate, 'finishReason', 'finish_reason')) ?? answer.stop_reason;
    const blocked = asObject(pick(body, 'promptFeedback', 'prompt_feedback'));
    answer.stop_reason ??= asText(pick(blocked, 'blockReason', 'block_reason'));
    const from = asObject(pick(body, 'usageMetadata', 'usage_metadata'));
    const usage = answer.usage;
    const candidates = asCount(pick(from, 'candidatesTokenCount', 'candidates_token_count'));
    const thoughts = asCount(pick(from, 'thoughtsTokenCount', 'thoughts_token_count'));
    usage.input_tokens = asCount(pick(from, 'promptTokenCount', 'prompt_token_count')) ?? usage.input_tokens;
    if (candidates !== null || thoughts !== null) usage.output_tokens = (candidates ?? 0) + (thoughts ?? 0);
    usage.cache_read_tokens =
      asCount(pick(from, 'cachedContentTokenCount', 'cached_content_token_count')) ?? usage.cache_read_tokens;
  }

  finish(): TurnAnswer {
    return this.#answer;
  }
}

/** Adds a part; text that goes on from text of the same kind is joined, since chunks cut it anywhere. */
function addPart(parts: Part[], part: Part): void {
  const last = parts.at(-1);
  if (last !== undefined && last.type === part.type && (part.type === 'text' || part.type === 'thinking')) {
    (last as { text: string }).text += part.text;
  } else if (!(part.type === 'text' && part.text === '')) parts.push(part);
}
