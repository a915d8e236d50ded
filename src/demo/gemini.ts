/**
 * The generative-content API of the fake provider: generateContent, streamGenerateContent (server-sent events with
 * `alt=sse`, otherwise one JSON array), countTokens, errors. Fields follow what the provider's API sends and its SDK reads.
 * Pure.
 */
import {
  asObject,
  asObjects,
  asString,
  idFrom,
  type JsonObject,
  jsonReply,
  type ProviderReply,
  retryHeaders,
  type ScriptedAnswer,
  type ScriptedError,
  type ScriptRequest,
  sseReply,
  streamPieces,
  usageOf,
} from './script.ts';

const STATUS_NAMES: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};

/**
 * Extracts from a request what a script needs. The path has the model and says whether to stream, so the caller passes
 * both.
 */
export function readGemini(
  body: JsonObject,
  model: string,
  streaming: boolean,
): Omit<ScriptRequest, 'shape' | 'calls_before'> {
  const contents = asObjects(body.contents);
  const parts = asObjects(contents.at(-1)?.parts);
  return {
    model,
    streaming,
    tools: asObjects(body.tools).flatMap((tool) =>
      asObjects(tool.functionDeclarations).map((declaration) => asString(declaration.name)),
    ),
    text: parts.map((part) => asString(part.text)).join(''),
    tool_results: parts
      .filter((part) => part.functionResponse !== undefined)
      .map((part) => JSON.stringify(asObject(part.functionResponse).response ?? null)),
    messages: contents.length,
  };
}

/** An error in the form of this API. A request for a stream gets the same JSON body. */
export function geminiError(error: ScriptedError): ProviderReply {
  const status = STATUS_NAMES[error.status] ?? 'UNKNOWN';
  return jsonReply(
    error.status,
    { error: { code: error.status, message: error.message, status } },
    retryHeaders(error),
  );
}

function candidate(parts: JsonObject[], finishReason?: string): JsonObject {
  const content = { parts, role: 'model' };
  return finishReason === undefined ? { content, index: 0 } : { content, finishReason, index: 0 };
}

/** `POST …/models/{model}:generateContent` and `:streamGenerateContent`. */
export function answerGemini(
  answer: ScriptedAnswer,
  call: { model: string; streaming: boolean; sse: boolean },
  requestBody: Buffer,
): ProviderReply {
  if (answer.error !== undefined) return geminiError(answer.error);
  const usage = usageOf(answer, requestBody);
  const around = (last: boolean): JsonObject => ({
    usageMetadata: {
      promptTokenCount: usage.input,
      ...(usage.cache_read > 0 ? { cachedContentTokenCount: usage.cache_read } : {}),
      ...(last ? { candidatesTokenCount: usage.output } : {}),
      totalTokenCount: usage.input + (last ? usage.output : 0),
      promptTokensDetails: [{ modality: 'TEXT', tokenCount: usage.input }],
    },
    modelVersion: call.model,
    responseId: idFrom('', requestBody).slice(0, 16),
  });
  const thinking = answer.thinking === undefined ? [] : [answer.thinking];
  const calls = (answer.tool_calls ?? []).map((tool) => ({
    functionCall: { name: tool.name, args: tool.input },
  }));
  const headers: [string, string][] = [
    ['vary', 'Origin'],
    ['vary', 'X-Origin'],
    ['vary', 'Referer'],
  ];
  if (!call.streaming) {
    const parts = [
      ...thinking.map((text) => ({ text, thought: true })),
      ...(answer.text === undefined ? [] : [{ text: answer.text }]),
      ...calls,
    ];
    return jsonReply(200, { candidates: [candidate(parts, 'STOP')], ...around(true) }, headers);
  }
  const partsInOrder: JsonObject[] = [
    ...thinking.flatMap(streamPieces).map((text) => ({ text, thought: true })),
    ...streamPieces(answer.text ?? '').map((text) => ({ text })),
    ...calls,
  ];
  const last = partsInOrder.length - 1;
  const chunks = partsInOrder.map((part, i) => ({
    candidates: [i === last ? candidate([part], 'STOP') : candidate([part])],
    ...around(i === last),
  }));
  if (!call.sse) return jsonReply(200, chunks, headers);
  const frames = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`);
  if (answer.stream_error !== undefined) {
    const error = { code: 503, message: answer.stream_error, status: 'UNAVAILABLE' };
    frames[frames.length - 1] = `data: ${JSON.stringify({ error })}\r\n\r\n`;
  }
  return sseReply(frames, headers, answer.hold_after_frames);
}

/** `POST …/models/{model}:countTokens`. */
export function countGeminiTokens(requestBody: Buffer): ProviderReply {
  const totalTokens = Math.ceil(requestBody.length / 4);
  return jsonReply(200, {
    totalTokens,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: totalTokens }],
  });
}
