/**
 * The messages-style API of the fake provider: messages (JSON and server-sent events), token counting, models and the
 * errors with their types. Event names and fields follow what the provider's API sends and its SDK reads. Pure.
 */
import {
  asObjects,
  asString,
  idFrom,
  type JsonObject,
  jsonPieces,
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

const ERROR_TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  529: 'overloaded_error',
};

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return asObjects(content)
    .filter((block) => block.type === 'text')
    .map((block) => asString(block.text))
    .join('\n');
}

/** Extracts what a script needs from a messages request, or from the body of Bedrock's InvokeModel. */
export function readMessages(body: JsonObject): Omit<ScriptRequest, 'shape' | 'calls_before'> {
  const messages = asObjects(body.messages);
  const last = messages.at(-1) ?? {};
  return {
    model: asString(body.model),
    streaming: body.stream === true,
    tools: asObjects(body.tools).map((tool) => asString(tool.name)),
    text: textOf(last.content),
    tool_results: asObjects(last.content)
      .filter((block) => block.type === 'tool_result')
      .map((block) => textOf(block.content)),
    messages: messages.length,
  };
}

function contentOf(answer: ScriptedAnswer, requestBody: Buffer): JsonObject[] {
  const content: JsonObject[] = [];
  if (answer.thinking !== undefined) {
    const signature = Buffer.from(idFrom('', requestBody, 99)).toString('base64');
    content.push({ type: 'thinking', thinking: answer.thinking, signature });
  }
  if (answer.text !== undefined) content.push({ type: 'text', text: answer.text });
  for (const [i, call] of (answer.tool_calls ?? []).entries()) {
    content.push({
      type: 'tool_use',
      id: idFrom('toolu_', requestBody, i),
      name: call.name,
      input: call.input,
    });
  }
  return content;
}

function usageFields(answer: ScriptedAnswer, requestBody: Buffer): JsonObject {
  const usage = usageOf(answer, requestBody);
  return {
    input_tokens: usage.input,
    cache_creation_input_tokens: usage.cache_write,
    cache_read_input_tokens: usage.cache_read,
    output_tokens: usage.output,
    service_tier: 'standard',
  };
}

/** Makes the whole message of an answer. */
export function messageOf(answer: ScriptedAnswer, model: string, requestBody: Buffer): JsonObject {
  return {
    id: idFrom('msg_', requestBody),
    type: 'message',
    role: 'assistant',
    model,
    content: contentOf(answer, requestBody),
    stop_reason: answer.tool_calls?.length ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: usageFields(answer, requestBody),
  };
}

function deltasOf(block: JsonObject): { start: JsonObject; deltas: JsonObject[] } {
  if (block.type === 'thinking') {
    const pieces = streamPieces(asString(block.thinking)).map((thinking) => ({
      type: 'thinking_delta',
      thinking,
    }));
    return {
      start: { ...block, thinking: '', signature: '' },
      deltas: [...pieces, { type: 'signature_delta', signature: block.signature }],
    };
  }
  if (block.type === 'tool_use') {
    const pieces = ['', ...jsonPieces(block.input)];
    return {
      start: { ...block, input: {} },
      deltas: pieces.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    };
  }
  const pieces = streamPieces(asString(block.text)).map((text) => ({ type: 'text_delta', text }));
  return { start: { ...block, text: '' }, deltas: pieces };
}

/** The message as the events of a stream, in order. */
export function messageEvents(answer: ScriptedAnswer, model: string, requestBody: Buffer): JsonObject[] {
  const message = messageOf(answer, model, requestBody);
  const usage = message.usage as JsonObject;
  const events: JsonObject[] = [
    {
      type: 'message_start',
      message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
    },
  ];
  for (const [index, block] of (message.content as JsonObject[]).entries()) {
    const { start, deltas } = deltasOf(block);
    events.push({ type: 'content_block_start', index, content_block: start });
    if (index === 0) events.push({ type: 'ping' });
    for (const delta of deltas) events.push({ type: 'content_block_delta', index, delta });
    events.push({ type: 'content_block_stop', index });
  }
  if (answer.stream_error !== undefined) {
    events.push({ type: 'error', error: { type: 'overloaded_error', message: answer.stream_error } });
    return events;
  }
  events.push({
    type: 'message_delta',
    delta: { stop_reason: message.stop_reason, stop_sequence: null },
    usage: { output_tokens: usage.output_tokens },
  });
  events.push({ type: 'message_stop' });
  return events;
}

/** An error in the form of this API. */
export function messagesError(error: ScriptedError, requestBody: Buffer): ProviderReply {
  const type = ERROR_TYPES[error.status] ?? 'api_error';
  const request_id = idFrom('req_', requestBody);
  return jsonReply(error.status, { type: 'error', error: { type, message: error.message }, request_id }, [
    ['request-id', request_id],
    ...retryHeaders(error),
  ]);
}

/** `POST /v1/messages`. */
export function answerMessages(answer: ScriptedAnswer, body: JsonObject, requestBody: Buffer): ProviderReply {
  if (answer.error !== undefined) return messagesError(answer.error, requestBody);
  const headers: [string, string][] = [
    ['request-id', idFrom('req_', requestBody)],
    ['anthropic-ratelimit-requests-remaining', '3999'],
  ];
  const model = asString(body.model);
  if (body.stream !== true) return jsonReply(200, messageOf(answer, model, requestBody), headers);
  const frames = messageEvents(answer, model, requestBody).map(
    (event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  );
  return sseReply(frames, headers, answer.hold_after_frames);
}

/** `POST /v1/messages/count_tokens`. */
export function countMessagesTokens(requestBody: Buffer): ProviderReply {
  return jsonReply(200, { input_tokens: Math.ceil(requestBody.length / 4) });
}

/** `GET /v1/models`. */
export function listMessagesModels(): ProviderReply {
  const model = (id: string, display_name: string): JsonObject => ({
    type: 'model',
    id,
    display_name,
    created_at: '2025-01-01T00:00:00Z',
  });
  const data = [model('claude-demo-large', 'Demo large'), model('claude-demo-small', 'Demo small')];
  return jsonReply(200, { data, has_more: false, first_id: data[0]!.id, last_id: data.at(-1)!.id });
}

/** The credential of a request to this API; '' if the request has none. */
export function messagesCredential(header: (name: string) => string): string {
  return header('x-api-key') || header('authorization');
}
