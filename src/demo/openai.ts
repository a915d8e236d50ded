/**
 * The chat-completions and responses APIs of the fake provider: JSON and server-sent events, tools, the usage chunk,
 * errors, models. Fields follow what the provider's API sends and its SDK reads. Pure.
 */
import {
  asObject,
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

/** The creation time in every answer. It is constant, so that the same request gets the same bytes. */
const CREATED_AT_S = 1_750_000_000;

function partsText(content: unknown): string {
  if (typeof content === 'string') return content;
  return asObjects(content)
    .map((part) => asString(part.text))
    .join('\n');
}

/** Extracts what a script needs from a chat-completions request. */
export function readChat(body: JsonObject): Omit<ScriptRequest, 'shape' | 'calls_before'> {
  const messages = asObjects(body.messages);
  const results: string[] = [];
  for (let i = messages.length - 1; messages[i]?.role === 'tool'; i -= 1) {
    results.unshift(partsText(messages[i]!.content));
  }
  return {
    model: asString(body.model),
    streaming: body.stream === true,
    tools: asObjects(body.tools).map((tool) => asString(asObject(tool.function).name)),
    text: results.length > 0 ? '' : partsText(messages.at(-1)?.content),
    tool_results: results,
    messages: messages.length,
  };
}

const RESULTS: ReadonlySet<unknown> = new Set(['function_call_output', 'custom_tool_call_output']);

/** Extracts what a script needs from a responses request. */
export function readResponses(body: JsonObject): Omit<ScriptRequest, 'shape' | 'calls_before'> {
  const items =
    typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : asObjects(body.input);
  const results: string[] = [];
  for (let i = items.length - 1; RESULTS.has(asObject(items[i]).type); i -= 1) {
    results.unshift(partsText(asObject(items[i]).output));
  }
  const added = items
    .filter(({ type }) => type === 'additional_tools')
    .flatMap(({ tools }) => asObjects(tools));
  return {
    model: asString(body.model),
    streaming: body.stream === true,
    tools: [...asObjects(body.tools), ...added].map((tool) => asString(tool.name)),
    text: results.length > 0 ? '' : partsText(asObject(items.at(-1)).content),
    tool_results: results,
    messages: items.length,
  };
}

/** A scripted error as OpenAI's APIs send it. */
export function openaiError(error: ScriptedError, requestBody: Buffer): ProviderReply {
  const codes: Record<number, [type: string, code: string | null]> = {
    400: ['invalid_request_error', null],
    401: ['invalid_request_error', 'invalid_api_key'],
    404: ['invalid_request_error', 'model_not_found'],
    429: ['tokens', 'rate_limit_exceeded'],
  };
  const [type, code] = codes[error.status] ?? ['server_error', null];
  return jsonReply(error.status, { error: { message: error.message, type, param: null, code } }, [
    ['x-request-id', idFrom('req_', requestBody)],
    ...retryHeaders(error),
  ]);
}

function chatUsage(answer: ScriptedAnswer, requestBody: Buffer): JsonObject {
  const usage = usageOf(answer, requestBody);
  return {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cache_read, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  };
}

/** `POST /v1/chat/completions`. */
export function answerChat(answer: ScriptedAnswer, body: JsonObject, requestBody: Buffer): ProviderReply {
  if (answer.error !== undefined) return openaiError(answer.error, requestBody);
  const calls = (answer.tool_calls ?? []).map((call, i) => ({
    id: idFrom('call_', requestBody, i),
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.input) },
  }));
  const finish = calls.length > 0 ? 'tool_calls' : 'stop';
  const base = { id: idFrom('chatcmpl-', requestBody), created: CREATED_AT_S, model: asString(body.model) };
  const headers: [string, string][] = [
    ['openai-version', '2020-10-01'],
    ['x-request-id', idFrom('req_', requestBody)],
  ];
  if (body.stream !== true) {
    const message = {
      role: 'assistant',
      content: answer.text ?? null,
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      refusal: null,
      annotations: [],
    };
    const choice = { index: 0, message, logprobs: null, finish_reason: finish };
    const usage = chatUsage(answer, requestBody);
    return jsonReply(200, { ...base, object: 'chat.completion', choices: [choice], usage }, headers);
  }
  const wantsUsage = asObject(body.stream_options).include_usage === true;
  const chunk = (choices: JsonObject[], usage: JsonObject | null = null): string =>
    `data: ${JSON.stringify({
      ...base,
      object: 'chat.completion.chunk',
      choices,
      ...(wantsUsage ? { usage } : {}),
    })}\n\n`;
  const delta = (value: JsonObject, finish_reason: string | null = null): string =>
    chunk([{ index: 0, delta: value, logprobs: null, finish_reason }]);
  const frames = [delta({ role: 'assistant', content: '', refusal: null })];
  for (const content of streamPieces(answer.text ?? '')) frames.push(delta({ content }));
  for (const [index, call] of calls.entries()) {
    frames.push(delta({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: '' } }] }));
    for (const piece of jsonPieces(answer.tool_calls![index]!.input)) {
      frames.push(delta({ tool_calls: [{ index, function: { arguments: piece } }] }));
    }
  }
  if (answer.stream_error !== undefined) {
    const error = { message: answer.stream_error, type: 'server_error', param: null, code: null };
    frames.push(`data: ${JSON.stringify({ error })}\n\n`);
    return sseReply(frames, headers, answer.hold_after_frames);
  }
  frames.push(delta({}, finish));
  if (wantsUsage) frames.push(chunk([], chatUsage(answer, requestBody)));
  frames.push('data: [DONE]\n\n');
  return sseReply(frames, headers, answer.hold_after_frames);
}

function outputItems(answer: ScriptedAnswer, requestBody: Buffer): JsonObject[] {
  const items: JsonObject[] = [];
  if (answer.thinking !== undefined) {
    const summary = [{ type: 'summary_text', text: answer.thinking }];
    items.push({ id: idFrom('rs_', requestBody), type: 'reasoning', summary });
  }
  if (answer.text !== undefined) {
    const content = [{ type: 'output_text', annotations: [], logprobs: [], text: answer.text }];
    items.push({
      id: idFrom('msg_', requestBody),
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content,
    });
  }
  for (const [i, call] of (answer.tool_calls ?? []).entries()) {
    const isCustom = typeof call.input === 'string';
    items.push({
      id: idFrom(isCustom ? 'ctc_' : 'fc_', requestBody, i),
      type: isCustom ? 'custom_tool_call' : 'function_call',
      status: 'completed',
      ...(isCustom ? { input: call.input } : { arguments: JSON.stringify(call.input) }),
      call_id: idFrom('call_', requestBody, i),
      name: call.name,
      ...(call.namespace === undefined ? {} : { namespace: call.namespace }),
    });
  }
  return items;
}

function itemEvents(item: JsonObject, output_index: number): JsonObject[] {
  const item_id = item.id;
  const at = { item_id, output_index };
  if (item.type === 'custom_tool_call') {
    const pieces = asString(item.input).match(/[\s\S]{1,9}/g) ?? [];
    return [
      {
        type: 'response.output_item.added',
        output_index,
        item: { ...item, status: 'in_progress', input: '' },
      },
      ...pieces.map((delta) => ({ type: 'response.custom_tool_call_input.delta', ...at, delta })),
      { type: 'response.custom_tool_call_input.done', ...at, input: item.input },
      { type: 'response.output_item.done', output_index, item },
    ];
  }
  if (item.type === 'function_call') {
    const pieces = asString(item.arguments).match(/[\s\S]{1,9}/g) ?? [];
    return [
      {
        type: 'response.output_item.added',
        output_index,
        item: { ...item, status: 'in_progress', arguments: '' },
      },
      ...pieces.map((delta) => ({ type: 'response.function_call_arguments.delta', ...at, delta })),
      { type: 'response.function_call_arguments.done', ...at, arguments: item.arguments },
      { type: 'response.output_item.done', output_index, item },
    ];
  }
  if (item.type === 'reasoning') {
    const part = asObjects(item.summary)[0]!;
    const text = asString(part.text);
    const inPart = { ...at, summary_index: 0 };
    return [
      { type: 'response.output_item.added', output_index, item: { ...item, summary: [] } },
      { type: 'response.reasoning_summary_part.added', ...inPart, part: { ...part, text: '' } },
      ...streamPieces(text).map((delta) => ({
        type: 'response.reasoning_summary_text.delta',
        ...inPart,
        delta,
      })),
      { type: 'response.reasoning_summary_text.done', ...inPart, text },
      { type: 'response.reasoning_summary_part.done', ...inPart, part },
      { type: 'response.output_item.done', output_index, item },
    ];
  }
  const part = asObjects(item.content)[0]!;
  const text = asString(part.text);
  const inPart = { ...at, content_index: 0 };
  return [
    {
      type: 'response.output_item.added',
      output_index,
      item: { ...item, status: 'in_progress', content: [] },
    },
    { type: 'response.content_part.added', ...inPart, part: { ...part, text: '' } },
    ...streamPieces(text).map((delta) => ({
      type: 'response.output_text.delta',
      ...inPart,
      logprobs: [],
      delta,
    })),
    { type: 'response.output_text.done', ...inPart, logprobs: [], text },
    { type: 'response.content_part.done', ...inPart, part },
    { type: 'response.output_item.done', output_index, item },
  ];
}

/** `POST /v1/responses`. */
export function answerResponses(
  answer: ScriptedAnswer,
  body: JsonObject,
  requestBody: Buffer,
): ProviderReply {
  if (answer.error !== undefined) return openaiError(answer.error, requestBody);
  const usage = usageOf(answer, requestBody);
  const output = outputItems(answer, requestBody);
  const completed = {
    id: idFrom('resp_', requestBody),
    object: 'response',
    created_at: CREATED_AT_S,
    status: 'completed',
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    model: asString(body.model),
    output,
    parallel_tool_calls: true,
    previous_response_id: body.previous_response_id ?? null,
    store: body.store ?? true,
    temperature: 1,
    tool_choice: 'auto',
    tools: body.tools ?? [],
    top_p: 1,
    truncation: 'disabled',
    usage: {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cache_read },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.input + usage.output,
    },
    metadata: {},
  };
  const headers: [string, string][] = [
    ['openai-version', '2020-10-01'],
    ['x-request-id', idFrom('req_', requestBody)],
  ];
  if (body.stream !== true) return jsonReply(200, completed, headers);
  const started = { ...completed, status: 'in_progress', output: [], usage: null };
  const events: JsonObject[] = [
    { type: 'response.created', response: started },
    { type: 'response.in_progress', response: started },
    ...output.flatMap((item, i) => itemEvents(item, i)),
  ];
  if (answer.stream_error === undefined) {
    events.push({ type: 'response.completed', response: completed });
  } else {
    const error = { code: 'server_error', message: answer.stream_error };
    events.push({ type: 'response.failed', response: { ...started, status: 'failed', error } });
  }
  const frames = events.map(
    (event, sequence_number) =>
      `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`,
  );
  return sseReply(frames, headers, answer.hold_after_frames);
}

/** `GET /v1/models`. */
export function listOpenaiModels(): ProviderReply {
  const model = (id: string): JsonObject => ({
    id,
    object: 'model',
    created: CREATED_AT_S,
    owned_by: 'demo',
  });
  return jsonReply(200, { object: 'list', data: [model('gpt-demo-large'), model('gpt-demo-small')] });
}
