/**
 * The official model-runtime SDK through the gateway's /bedrock/{region} route with a bearer token: what it returns and
 * throws, and what is captured. The SDK's default handler always uses HTTP/2. The gateway uses HTTP/1.1, so a client
 * must configure the HTTP/1.1 handler.
 */
import {
  BedrockRuntimeClient,
  ConverseCommand,
  type ConverseCommandInput,
  ConverseStreamCommand,
  CountTokensCommand,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand,
  type Message,
  ModelStreamErrorException,
  ServiceUnavailableException,
  ThrottlingException,
  ValidationException,
} from '@aws-sdk/client-bedrock-runtime';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  CANARY_KEY,
  type ClientBench,
  collect,
  describeError,
  rejection,
  startClientBench,
  type Way,
} from './client-bench.ts';
import { LONG_TEXT, THINK_USAGE } from './script.ts';

const REGION = 'us-east-1';
const clients: BedrockRuntimeClient[] = [];
let bench: ClientBench;
beforeAll(async () => {
  bench = await startClientBench();
});
afterAll(async () => {
  for (const client of clients) client.destroy();
  await bench.close();
});

function client(way: Way): BedrockRuntimeClient {
  const made = new BedrockRuntimeClient({
    region: REGION,
    endpoint: bench.base(way, `/bedrock/${REGION}`),
    token: { token: CANARY_KEY },
    authSchemePreference: ['httpBearerAuth'],
    requestHandler: new NodeHttpHandler(),
    maxAttempts: 1,
  });
  clients.push(made);
  return made;
}

const modelId = 'us.demo.large-v1:0';
const path = (operation: string) => `/bedrock/${REGION}/model/us.demo.large-v1%3A0/${operation}`;
const ask = (text: string): ConverseCommandInput => ({
  modelId,
  messages: [{ role: 'user', content: [{ text }] }],
});
const TOOL_CONFIG: NonNullable<ConverseCommandInput['toolConfig']> = {
  tools: [{ toolSpec: { name: 'look_up', inputSchema: { json: { type: 'object' } } } }],
};
const USAGE = {
  input_tokens: THINK_USAGE.input,
  output_tokens: THINK_USAGE.output,
  cache_read_tokens: THINK_USAGE.cache_read,
  cache_write_tokens: THINK_USAGE.cache_write,
};
const invokeBody = (content: string) =>
  JSON.stringify({
    anthropic_version: 'bedrock-2023-05-31',
    max_tokens: 100,
    messages: [{ role: 'user', content }],
  });

describe('the model-runtime SDK', () => {
  it('converses', async () => {
    const answer = await bench.compare((way) => client(way).send(new ConverseCommand(ask('think'))));
    expect(answer.output!.message!.content!.at(-1)).toEqual({ text: 'Done thinking.' });
    await bench.expectCaptured([
      {
        provider: 'bedrock',
        kind: 'turn',
        shape: 'bedrock_converse',
        method: 'POST',
        path: path('converse'),
        status: 200,
        model: modelId,
        stop_reason: 'end_turn',
        usage: USAGE,
        undecodable: false,
      },
    ]);
  });

  it.each(['think', 'long'])('streams: %s', async (text) => {
    const events = await bench.compare(async (way) =>
      collect((await client(way).send(new ConverseStreamCommand(ask(text)))).stream!),
    );
    const said = events.map((event) => event.contentBlockDelta?.delta?.text ?? '').join('');
    expect(said).toBe(text === 'long' ? LONG_TEXT : 'Done thinking.');
    const { inputTokens, outputTokens } = events.at(-1)!.metadata!.usage!;
    await bench.expectCaptured([
      {
        kind: 'turn',
        path: path('converse-stream'),
        model: modelId,
        stop_reason: 'end_turn',
        usage: { input_tokens: inputTokens, output_tokens: outputTokens },
        undecodable: false,
      },
    ]);
  });

  it('calls tools, streamed and not', async () => {
    const outcome = await bench.compare(async (way) => {
      const messages: Message[] = [{ role: 'user', content: [{ text: 'weather?' }] }];
      const params = { modelId, messages, toolConfig: TOOL_CONFIG };
      const first = await client(way).send(new ConverseCommand(params));
      const { content } = first.output!.message!;
      const { toolUseId } = content!.find((block) => block.toolUse !== undefined)!.toolUse!;
      messages.push(
        { role: 'assistant', content },
        { role: 'user', content: [{ toolResult: { toolUseId, content: [{ text: 'sunny' }] } }] },
      );
      const second = await client(way).send(new ConverseStreamCommand(params));
      return [first.stopReason, await collect(second.stream!)];
    });
    expect(outcome[0]).toBe('tool_use');
    await bench.expectCaptured([{ stop_reason: 'tool_use' }, { stop_reason: 'end_turn' }]);
  });

  it('invokes, streamed and not', async () => {
    const plain = await bench.compare(async (way) => {
      const answer = await client(way).send(new InvokeModelCommand({ modelId, body: invokeBody('think') }));
      return answer.body.transformToString();
    });
    expect(JSON.parse(plain)).toMatchObject({ type: 'message', stop_reason: 'end_turn' });
    const events = await bench.compare(async (way) => {
      const command = new InvokeModelWithResponseStreamCommand({ modelId, body: invokeBody('think') });
      const parts = await collect((await client(way).send(command)).body!);
      return parts.map(
        (part) => JSON.parse(Buffer.from(part.chunk!.bytes!).toString('utf8')) as { type: string },
      );
    });
    expect(events.at(-1)).toMatchObject({ type: 'message_stop' });
    const turn = {
      kind: 'turn',
      shape: 'bedrock_invoke',
      model: modelId,
      stop_reason: 'end_turn',
      undecodable: false,
    };
    const usage = { input_tokens: THINK_USAGE.input, output_tokens: THINK_USAGE.output };
    await bench.expectCaptured([
      { ...turn, path: path('invoke'), usage },
      { ...turn, path: path('invoke-with-response-stream'), usage },
    ]);
  });

  it.each([
    [400, ValidationException],
    [429, ThrottlingException],
    [503, ServiceUnavailableException],
  ])('throws the typed error of a %i', async (status, type) => {
    await bench.compare(async (way) => {
      const plain = await rejection(client(way).send(new ConverseCommand(ask(`fail ${status}`))));
      const streamed = await rejection(client(way).send(new ConverseStreamCommand(ask(`fail ${status}`))));
      expect(plain).toBeInstanceOf(type);
      expect(streamed).toBeInstanceOf(type);
      return [describeError(plain), describeError(streamed)];
    });
    const turn = { kind: 'turn', status, model: modelId, stop_reason: null };
    await bench.expectCaptured([turn, turn]);
  });

  it('throws the error that breaks a stream', async () => {
    await bench.compare(async (way) => {
      const { stream } = await client(way).send(new ConverseStreamCommand(ask('break')));
      const error = await rejection(collect(stream!));
      expect(error).toBeInstanceOf(ModelStreamErrorException);
      return describeError(error);
    });
    // The exchange may count as aborted or not, depending on whether the client waited for the last chunk.
    await bench.expectCaptured([{ status: 200 }]);
  });

  it('disconnects during a stream, and the provider is notified', async () => {
    const leave = new AbortController();
    const { stream } = await client('gateway').send(new ConverseStreamCommand(ask('hold')), {
      abortSignal: leave.signal,
    });
    await rejection(
      (async () => {
        for await (const event of stream!) if (event.contentBlockDelta !== undefined) leave.abort();
      })(),
    );
    // The error has no special type, so only the effect on the provider is checked.
    expect(await bench.provider.requests.at(-1)!.ended).toBe('aborted');
    await bench.expectCaptured([{ status: 200, aborted: true, model: modelId }]);
  });

  it('counts tokens, which is not a turn', async () => {
    const input = { converse: { messages: ask('x').messages } };
    await bench.compare((way) => client(way).send(new CountTokensCommand({ modelId, input })));
    await bench.expectCaptured([{ kind: 'other', path: path('count-tokens') }]);
  });

  it('fails at once, not after a timeout, with the default handler, which uses HTTP/2', async () => {
    const speaksHttp2 = new BedrockRuntimeClient({
      region: REGION,
      endpoint: bench.base('gateway', `/bedrock/${REGION}`),
      token: { token: CANARY_KEY },
      authSchemePreference: ['httpBearerAuth'],
      maxAttempts: 1,
    });
    clients.push(speaksHttp2);
    const error = await rejection(speaksHttp2.send(new ConverseCommand(ask('x'))));
    expect(error.message).toMatch(/protocol error/i);
    await bench.expectCaptured([]);
  });

  it('leaves its key in no file', () => bench.expectNoCanary());
});
