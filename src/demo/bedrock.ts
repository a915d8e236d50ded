/**
 * The cloud model-runtime API of the fake provider: Converse, ConverseStream, InvokeModel and
 * InvokeModelWithResponseStream (bodies of both are in the messages format), CountTokens, errors. Streams are real
 * event-stream frames with their checksums, made by the SDK's own codec. Pure.
 */
import { EventStreamCodec } from '@smithy/core/event-streams';
import { messageEvents, messageOf, readMessages } from './messages.ts';
import {
  asObject,
  asObjects,
  asString,
  idFrom,
  type JsonObject,
  jsonPieces,
  jsonReply,
  type ProviderReply,
  type ScriptedAnswer,
  type ScriptedError,
  type ScriptRequest,
  streamPieces,
  usageOf,
} from './script.ts';

/** Which operation a path names. */
export type BedrockOperation =
  | 'converse'
  | 'converse-stream'
  | 'invoke'
  | 'invoke-with-response-stream'
  | 'count-tokens';

const EXCEPTIONS: Record<number, string> = {
  400: 'ValidationException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  424: 'ModelErrorException',
  429: 'ThrottlingException',
  500: 'InternalServerException',
  503: 'ServiceUnavailableException',
};

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString('utf8'),
  (text) => Buffer.from(text, 'utf8'),
);

function frame(headers: Record<string, string>, body: unknown): Buffer {
  return Buffer.from(
    codec.encode({
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }]),
      ),
      body: Buffer.from(JSON.stringify(body)),
    }),
  );
}

function eventFrame(type: string, body: unknown): Buffer {
  return frame({ ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' }, body);
}

function exceptionFrame(type: string, message: string): Buffer {
  return frame(
    { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' },
    { message },
  );
}

/**
 * The padding that the service adds to its events. It depends only on the position, so that the same request gets the
 * same bytes.
 */
function padding(position: number): string {
  return 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'.slice(0, 4 + ((position * 7) % 40));
}

/** Extracts from a request what a script needs. Model and operation are in the path, so the caller passes both. */
export function readBedrock(
  body: JsonObject,
  model: string,
  operation: BedrockOperation,
): Omit<ScriptRequest, 'calls_before'> {
  if (operation === 'invoke' || operation === 'invoke-with-response-stream') {
    const streaming = operation === 'invoke-with-response-stream';
    return { ...readMessages(body), shape: 'bedrock_invoke', model, streaming };
  }
  const messages = asObjects(body.messages);
  const blocks = asObjects(messages.at(-1)?.content);
  return {
    shape: 'bedrock_converse',
    model,
    streaming: operation === 'converse-stream',
    tools: asObjects(asObject(body.toolConfig).tools).map((tool) => asString(asObject(tool.toolSpec).name)),
    text: blocks.map((block) => asString(block.text)).join(''),
    tool_results: blocks
      .filter((block) => block.toolResult !== undefined)
      .map((block) =>
        asObjects(asObject(block.toolResult).content)
          .map((part) => asString(part.text))
          .join(''),
      ),
    messages: messages.length,
  };
}

/** An error in the form of this API. */
export function bedrockError(error: ScriptedError, requestBody: Buffer): ProviderReply {
  return jsonReply(error.status, { message: error.message }, [
    ['x-amzn-requestid', idFrom('', requestBody)],
    ['x-amzn-errortype', EXCEPTIONS[error.status] ?? 'InternalServerException'],
  ]);
}

function converseUsage(answer: ScriptedAnswer, requestBody: Buffer): JsonObject {
  const usage = usageOf(answer, requestBody);
  return {
    inputTokens: usage.input,
    outputTokens: usage.output,
    totalTokens: usage.input + usage.output,
    cacheReadInputTokens: usage.cache_read,
    cacheWriteInputTokens: usage.cache_write,
  };
}

function converse(answer: ScriptedAnswer, requestBody: Buffer): ProviderReply {
  const signature = Buffer.from(idFrom('', requestBody, 99)).toString('base64');
  const content: JsonObject[] = [
    ...(answer.thinking === undefined
      ? []
      : [{ reasoningContent: { reasoningText: { text: answer.thinking, signature } } }]),
    ...(answer.text === undefined ? [] : [{ text: answer.text }]),
    ...(answer.tool_calls ?? []).map((call, i) => ({
      toolUse: { toolUseId: idFrom('tooluse_', requestBody, i), name: call.name, input: call.input },
    })),
  ];
  return jsonReply(
    200,
    {
      metrics: { latencyMs: 189 },
      output: { message: { content, role: 'assistant' } },
      stopReason: answer.tool_calls?.length ? 'tool_use' : 'end_turn',
      usage: converseUsage(answer, requestBody),
    },
    [['x-amzn-requestid', idFrom('', requestBody)]],
  );
}

function streamReply(frames: Buffer[], answer: ScriptedAnswer, requestBody: Buffer): ProviderReply {
  return {
    status: 200,
    headers: [
      ['x-amzn-requestid', idFrom('', requestBody)],
      ['content-type', 'application/vnd.amazon.eventstream'],
    ],
    frames,
    ...(answer.hold_after_frames === undefined ? {} : { hold_after_frames: answer.hold_after_frames }),
  };
}

function converseStream(answer: ScriptedAnswer, requestBody: Buffer): ProviderReply {
  const frames: Buffer[] = [];
  const push = (type: string, body: JsonObject): void => {
    frames.push(eventFrame(type, { ...body, p: padding(frames.length) }));
  };
  push('messageStart', { role: 'assistant' });
  let contentBlockIndex = 0;
  const block = (deltas: JsonObject[], start?: JsonObject): void => {
    if (start !== undefined) push('contentBlockStart', { contentBlockIndex, start });
    for (const delta of deltas) push('contentBlockDelta', { contentBlockIndex, delta });
    push('contentBlockStop', { contentBlockIndex });
    contentBlockIndex += 1;
  };
  if (answer.thinking !== undefined) {
    const signature = Buffer.from(idFrom('', requestBody, 99)).toString('base64');
    const deltas: JsonObject[] = streamPieces(answer.thinking).map((text) => ({
      reasoningContent: { text },
    }));
    block([...deltas, { reasoningContent: { signature } }]);
  }
  if (answer.text !== undefined) block(streamPieces(answer.text).map((text) => ({ text })));
  for (const [i, call] of (answer.tool_calls ?? []).entries()) {
    const toolUse = { toolUseId: idFrom('tooluse_', requestBody, i), name: call.name };
    block(
      jsonPieces(call.input).map((input) => ({ toolUse: { input } })),
      { toolUse },
    );
  }
  if (answer.stream_error !== undefined) {
    frames.push(exceptionFrame('modelStreamErrorException', answer.stream_error));
  } else {
    push('messageStop', { stopReason: answer.tool_calls?.length ? 'tool_use' : 'end_turn' });
    push('metadata', { metrics: { latencyMs: 189 }, usage: converseUsage(answer, requestBody) });
  }
  return streamReply(frames, answer, requestBody);
}

function invokeStream(answer: ScriptedAnswer, model: string, requestBody: Buffer): ProviderReply {
  const usage = usageOf(answer, requestBody);
  const { stream_error, ...whole } = answer;
  const events = messageEvents(whole, model, requestBody);
  const frames = events.map((event, i) => {
    const metrics = {
      inputTokenCount: usage.input,
      outputTokenCount: usage.output,
      invocationLatency: 189,
      firstByteLatency: 50,
    };
    const full =
      event.type === 'message_stop' ? { ...event, 'amazon-bedrock-invocationMetrics': metrics } : event;
    return eventFrame('chunk', {
      bytes: Buffer.from(JSON.stringify(full)).toString('base64'),
      p: padding(i),
    });
  });
  if (stream_error !== undefined) {
    frames.splice(-2, 2, exceptionFrame('modelStreamErrorException', stream_error));
  }
  return streamReply(frames, answer, requestBody);
}

/** `POST /model/{model}/{operation}`. */
export function answerBedrock(
  answer: ScriptedAnswer,
  model: string,
  operation: BedrockOperation,
  requestBody: Buffer,
): ProviderReply {
  if (answer.error !== undefined) return bedrockError(answer.error, requestBody);
  switch (operation) {
    case 'converse':
      return converse(answer, requestBody);
    case 'converse-stream':
      return converseStream(answer, requestBody);
    case 'invoke':
      return jsonReply(200, messageOf(answer, model, requestBody), [
        ['x-amzn-requestid', idFrom('', requestBody)],
        ['x-amzn-bedrock-input-token-count', String(usageOf(answer, requestBody).input)],
        ['x-amzn-bedrock-output-token-count', String(usageOf(answer, requestBody).output)],
      ]);
    case 'invoke-with-response-stream':
      return invokeStream(answer, model, requestBody);
    case 'count-tokens':
      return jsonReply(200, { inputTokens: Math.ceil(requestBody.length / 4) });
  }
}
