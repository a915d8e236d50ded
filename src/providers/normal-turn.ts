/**
 * Reads the stored copy of an exchange into the normal form of `src/domain/turn.ts`. Pure; runs in the command line and
 * wherever traces are made, never on a server thread. Never throws: what cannot be read is flagged, with the reason, and
 * the rest is given all the same.
 *
 * Id, model, stop reason, usage and error are what the shape's own decoder finds (messages.ts and its neighbours); this
 * adds the content, the tools and the settings, and puts stop reason and usage into one vocabulary.
 *
 * Bounds: a body is decoded to at most DECODED_BODY_BYTES, a turn takes at most NORMAL_TURN_ITEMS blocks, tools and
 * events; time and memory are linear in those.
 */

import type { ApiShape } from '../domain/exchange.ts';
import type { NormalAnswer, NormalTurn, TurnBlock, TurnStop } from '../domain/turn.ts';
import { normalBedrockConverse } from './bedrock-converse/normal-turn.ts';
import { bedrockConverseShape } from './bedrock-converse/shape.ts';
import { type InvokeBody, tellInvokeBody } from './bedrock-invoke/bodies.ts';
import { normalBedrockInvoke } from './bedrock-invoke/normal-turn.ts';
import { bedrockInvokeShape, fillUsageFromHeaders } from './bedrock-invoke/shape.ts';
import { normalChatCompletions } from './chat-completions/normal-turn.ts';
import { chatCompletionsShape } from './chat-completions/shape.ts';
import { normalCompletion } from './completion/normal-turn.ts';
import { completionShape } from './completion/shape.ts';
import { decodeContent, readHeader } from './content-encoding.ts';
import { guard, readErrorAnswer, type StoredExchange } from './decode.ts';
import { readFrames } from './framing.ts';
import { leaveOutCache, readFreshUsage } from './fresh-usage.ts';
import { normalGemini } from './gemini/normal-turn.ts';
import { geminiShape } from './gemini/shape.ts';
import { asObject, parseJson } from './json-reading.ts';
import { normalMessages } from './messages/normal-turn.ts';
import { messagesShape } from './messages/shape.ts';
import { emptyRequest, NormalReading, type NormalShape, pairCalls } from './normal-reading.ts';
import { normalResponses } from './responses/normal-turn.ts';
import { responsesShape } from './responses/shape.ts';
import { emptyAnswer, type TurnAnswer, type TurnShape, unknownUsage } from './turn.ts';

const SHAPES: Record<ApiShape, { shape: TurnShape; normal: NormalShape }> = {
  messages: { shape: messagesShape, normal: normalMessages },
  chat_completions: { shape: chatCompletionsShape, normal: normalChatCompletions },
  responses: { shape: responsesShape, normal: normalResponses },
  completion: { shape: completionShape, normal: normalCompletion },
  gemini: { shape: geminiShape, normal: normalGemini },
  bedrock_converse: { shape: bedrockConverseShape, normal: normalBedrockConverse },
  bedrock_invoke: { shape: bedrockInvokeShape, normal: normalBedrockInvoke },
};

/** The providers' words for an end, in lower case. What stands nowhere is `other`. */
const STOPS: Readonly<Record<string, TurnStop>> = {
  // Messages; Converse uses the same words.
  end_turn: 'end_turn',
  tool_use: 'tool_use',
  stop_sequence: 'stop_sequence',
  max_tokens: 'max_tokens',
  refusal: 'refusal',
  pause_turn: 'pause_turn',
  model_context_window_exceeded: 'max_tokens',
  guardrail_intervened: 'refusal',
  content_filtered: 'refusal',
  malformed_model_output: 'error',
  malformed_tool_use: 'error',
  // Chat-completions and completion.
  stop: 'end_turn',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
  error: 'error',
  // Responses.
  completed: 'end_turn',
  max_output_tokens: 'max_tokens',
  failed: 'error',
  cancelled: 'error',
  // Gemini; `stop` and `max_tokens` as above.
  safety: 'refusal',
  recitation: 'refusal',
  language: 'refusal',
  blocklist: 'refusal',
  prohibited_content: 'refusal',
  spii: 'refusal',
  image_safety: 'refusal',
  image_prohibited_content: 'refusal',
  image_recitation: 'refusal',
  model_armor: 'refusal',
  jailbreak: 'refusal',
  malformed_function_call: 'error',
  unexpected_tool_call: 'error',
  too_many_tool_calls: 'error',
  missing_thought_signature: 'error',
  malformed_response: 'error',
  // Titan and Cohere under InvokeModel.
  finish: 'end_turn',
  complete: 'end_turn',
  endoftext: 'end_turn',
  error_toxic: 'refusal',
  error_limit: 'max_tokens',
};

/** The stored exchange in normal form; null when it is no turn. Never throws. */
export function normalizeTurn(exchange: StoredExchange): NormalTurn | null {
  if (exchange.shape === null) return null;
  const problems: string[] = [];
  if (exchange.truncated) problems.push('the stored copy is cut off');
  const body = readRequestBody(exchange, problems);
  const invoked =
    exchange.shape === 'bedrock_invoke'
      ? (guard(problems, 'request', () => tellInvokeBody(body, exchange.path)) ?? 'text')
      : null;
  if (invoked === 'embedding') return null;
  const shape = SHAPES[exchange.shape];
  const reading = new NormalReading();
  const request =
    guard(problems, 'request', () => shape.normal.readRequest(body, reading, exchange.path)) ??
    emptyRequest();
  const { answer, content, is_embedding: isEmbedding } = readAnswer(exchange, shape, reading, problems);
  if (isEmbedding && invoked !== null) return null;
  guard(problems, 'pairing', () => pairCalls(request.messages, content));
  if (reading.isOver) problems.push('more blocks, tools or events than are read');
  return {
    request,
    answer: normalizeAnswer(answer, content, exchange.shape, invoked),
    problem: problems.join('; '),
  };
}

/**
 * An answer and its content in normal form.
 * @param invoked for InvokeModel, whose form the bodies have
 */
function normalizeAnswer(
  answer: TurnAnswer,
  content: TurnBlock[],
  shape: ApiShape,
  invoked: InvokeBody | null,
): NormalAnswer {
  return {
    id: answer.id,
    model: answer.model,
    content,
    stop_reason: normalizeStop(answer.stop_reason, content),
    usage: invoked === 'chat_completions' ? leaveOutCache(answer.usage) : readFreshUsage(shape, answer.usage),
    error: answer.error,
  };
}

/**
 * The provider's word for an end in the common vocabulary. Where a provider ends an answer that calls a tool like any
 * other (`STOP`, `completed`, and `stop` after a forced call), it still waits for the tool: `tool_use`.
 */
export function normalizeStop(word: string | null, content: readonly TurnBlock[]): TurnStop | null {
  if (word === null) return null;
  const known = word.toLowerCase();
  const stop = Object.hasOwn(STOPS, known) ? STOPS[known]! : 'other';
  return stop === 'end_turn' && content.some(({ type }) => type === 'tool_call') ? 'tool_use' : stop;
}

function readRequestBody(exchange: StoredExchange, problems: string[]): unknown {
  const content = decodeContent(exchange.request_body, exchange.request_headers);
  if (content.problem !== '') {
    problems.push(`request: ${content.problem}`);
    return null;
  }
  if (content.bytes.byteLength === 0) {
    if (exchange.status >= 200 && exchange.status < 300) problems.push('request: empty');
    return null;
  }
  try {
    return parseJson(new TextDecoder().decode(content.bytes));
  } catch (error) {
    problems.push(`request: not JSON (${(error as Error).message.slice(0, 120)})`);
    return null;
  }
}

function readAnswer(
  exchange: StoredExchange,
  { shape, normal }: { shape: TurnShape; normal: NormalShape },
  reading: NormalReading,
  problems: string[],
): { answer: TurnAnswer; content: TurnBlock[]; is_embedding: boolean } {
  const content = decodeContent(exchange.response_body, exchange.response_headers);
  if (exchange.status < 200 || exchange.status >= 300) {
    const answer = emptyAnswer();
    if (exchange.status !== 0) answer.error = readErrorAnswer(content.bytes) ?? `status ${exchange.status}`;
    return { answer, content: [], is_embedding: false };
  }
  const reader = shape.startAnswer(exchange.path);
  const blocks = normal.startContent(reading);
  let isEmbedding = false;
  const sink = {
    readWhole: (value: unknown) => {
      const { embedding, embeddings } = asObject(value);
      isEmbedding = embedding !== undefined || embeddings !== undefined;
      reader.readWhole(value);
      blocks.readWhole(value);
    },
    readEvent: (name: string, value: unknown) => {
      reader.readEvent(name, value);
      blocks.readEvent(name, value);
    },
  };
  const contentType = readHeader(exchange.response_headers, 'content-type');
  const problem = guard(problems, 'answer', () => readFrames(content.bytes, contentType, sink)) ?? '';
  if (content.problem !== '') problems.push(`answer: ${content.problem}`);
  else if (problem !== '') problems.push(`answer: ${problem}`);
  const answer = guard(problems, 'answer', () => reader.finish()) ?? {
    ...emptyAnswer(),
    usage: unknownUsage(),
  };
  if (exchange.shape === 'bedrock_invoke') fillUsageFromHeaders(answer, exchange.response_headers);
  return {
    answer,
    content: guard(problems, 'answer', () => blocks.finish()) ?? [],
    is_embedding: isEmbedding,
  };
}
