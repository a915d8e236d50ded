/**
 * The official chat-completions and responses SDK through the gateway: what it returns and throws, and what is
 * captured.
 */
import OpenAI, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  RateLimitError,
} from 'openai';
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

let bench: ClientBench;
beforeAll(async () => {
  bench = await startClientBench({ GW_PROVIDER: 'openai' });
});
afterAll(() => bench.close());

const client = (way: Way): OpenAI =>
  new OpenAI({
    apiKey: CANARY_KEY,
    baseURL: `${bench.base(way)}/v1`,
    maxRetries: 0,
    organization: null,
    project: null,
  });

const MODEL = 'gpt-demo-large';
const ask = (content: string) => ({ model: MODEL, messages: [{ role: 'user' as const, content }] });
const USAGE = {
  input_tokens: THINK_USAGE.input,
  output_tokens: THINK_USAGE.output,
  cache_read_tokens: THINK_USAGE.cache_read,
};
const PARAMETERS = { type: 'object', properties: { query: { type: 'string' } } };
const ERRORS = [
  [400, BadRequestError],
  [401, AuthenticationError],
  [429, RateLimitError],
  [500, InternalServerError],
] as const;

describe('the chat-completions SDK', () => {
  const TOOL = { type: 'function' as const, function: { name: 'look_up', parameters: PARAMETERS } };

  it('receives a plain answer', async () => {
    const completion = await bench.compare((way) => client(way).chat.completions.create(ask('think')));
    expect(completion.choices[0]!.message.content).toBe('Done thinking.');
    await bench.expectCaptured([
      {
        provider: 'openai',
        kind: 'turn',
        shape: 'chat_completions',
        path: '/v1/chat/completions',
        status: 200,
        aborted: false,
        undecodable: false,
        model: MODEL,
        stop_reason: 'stop',
        usage: USAGE,
      },
    ]);
  });

  it.each([true, false])('streams, usage chunk: %s', async (include_usage) => {
    const params = { ...ask('think'), stream: true as const, stream_options: { include_usage } };
    const chunks = await bench.compare(async (way) =>
      collect(await client(way).chat.completions.create(params)),
    );
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Done thinking.');
    // The answer reports no counts, so they are estimated from the texts and marked.
    const estimate = { input_tokens: expect.any(Number), output_tokens: expect.any(Number), estimated: true };
    await bench.expectCaptured([
      {
        kind: 'turn',
        model: MODEL,
        stop_reason: 'stop',
        undecodable: false,
        usage: include_usage ? USAGE : estimate,
      },
    ]);
  });

  it('calls tools, streamed and not', async () => {
    const turns = await bench.compare(async (way) => {
      const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'weather?' }];
      const params = { model: MODEL, messages, tools: [TOOL] };
      const first = (await client(way).chat.completions.create(params)).choices[0]!;
      const call = first.message.tool_calls![0]!;
      messages.push(first.message, { role: 'tool', tool_call_id: call.id, content: 'sunny' });
      const second = await client(way).chat.completions.stream(params).finalChatCompletion();
      messages.push(second.choices[0]!.message, { role: 'user', content: 'and now?' });
      const third = await client(way).chat.completions.stream(params).finalChatCompletion();
      return [first, second.choices[0]!, third.choices[0]!];
    });
    expect(turns.map((turn) => turn.finish_reason)).toEqual(['tool_calls', 'stop', 'tool_calls']);
    expect(turns[1]!.message.content).toBe('The tools said: sunny');
    await bench.expectCaptured([
      { stop_reason: 'tool_calls' },
      { stop_reason: 'stop' },
      { stop_reason: 'tool_calls' },
    ]);
  });

  it.each(ERRORS)('throws the typed error of a %i', async (status, type) => {
    const thrown = await bench.compare(async (way) => {
      const error = await rejection(client(way).chat.completions.create(ask(`fail ${status}`)));
      expect(error).toBeInstanceOf(type);
      return {
        ...describeError(error),
        retry: (error as InstanceType<typeof RateLimitError>).headers?.get('retry-after'),
      };
    });
    expect(thrown).toMatchObject({ status, retry: status === 429 ? '7' : null });
    await bench.expectCaptured([{ kind: 'turn', status, stop_reason: null }]);
  });

  it('throws the error that breaks a stream', async () => {
    const params = { ...ask('break'), stream: true as const };
    const thrown = await bench.compare(async (way) =>
      describeError(await rejection(client(way).chat.completions.create(params).then(collect))),
    );
    expect(String(thrown.message)).toContain('scripted break');
    // The exchange may count as aborted or not, depending on whether the client waited for the last chunk.
    await bench.expectCaptured([{ status: 200 }]);
  });

  it('disconnects during a stream, and the provider is notified', async () => {
    const stream = await client('gateway').chat.completions.create({ ...ask('hold'), stream: true });
    let chunks = 0;
    for await (const _ of stream) {
      chunks += 1;
      if (chunks === 3) stream.controller.abort();
    }
    expect(chunks).toBe(3);
    expect(await bench.provider.requests.at(-1)!.ended).toBe('aborted');
    await bench.expectCaptured([{ status: 200, aborted: true, model: MODEL }]);
  });
});

describe('the responses SDK', () => {
  const TOOL = { type: 'function' as const, name: 'look_up', parameters: PARAMETERS, strict: false };

  it('receives a plain answer', async () => {
    const response = await bench.compare((way) =>
      client(way).responses.create({ model: MODEL, input: 'think' }),
    );
    expect(response.output.map((item) => item.type)).toEqual(['reasoning', 'message']);
    await bench.expectCaptured([
      {
        kind: 'turn',
        shape: 'responses',
        path: '/v1/responses',
        status: 200,
        model: MODEL,
        usage: USAGE,
        undecodable: false,
      },
    ]);
  });

  it.each(['think', 'long'])('streams: %s', async (input) => {
    const { events, final } = await bench.compare(async (way) => {
      const stream = client(way).responses.stream({ model: MODEL, input });
      return { events: await collect(stream), final: await stream.finalResponse() };
    });
    expect(events.at(-1)!.type).toBe('response.completed');
    expect(final.output_text).toBe(input === 'long' ? LONG_TEXT : 'Done thinking.');
    const { input_tokens, output_tokens } = final.usage!;
    await bench.expectCaptured([
      { kind: 'turn', model: MODEL, undecodable: false, usage: { input_tokens, output_tokens } },
    ]);
  });

  it('calls tools, streamed and not', async () => {
    const outputs = await bench.compare(async (way) => {
      const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'weather?' }];
      const params = { model: MODEL, input, tools: [TOOL] };
      const first = await client(way).responses.create(params);
      const call = first.output.find((item) => item.type === 'function_call')!;
      input.push(...(first.output as OpenAI.Responses.ResponseInputItem[]), {
        type: 'function_call_output',
        call_id: call.call_id,
        output: 'sunny',
      });
      const second = await client(way).responses.stream(params).finalResponse();
      return [first.output, second.output_text];
    });
    expect(outputs[1]).toBe('The tools said: sunny');
    await bench.expectCaptured([{ kind: 'turn' }, { kind: 'turn' }]);
  });

  it.each(ERRORS)('throws the typed error of a %i', async (status, type) => {
    await bench.compare(async (way) => {
      const error = await rejection(client(way).responses.create({ model: MODEL, input: `fail ${status}` }));
      expect(error).toBeInstanceOf(type);
      return describeError(error);
    });
    await bench.expectCaptured([{ kind: 'turn', status }]);
  });

  it('reports a stream that broke', async () => {
    const events = await bench.compare(async (way) =>
      collect(await client(way).responses.create({ model: MODEL, input: 'break', stream: true })),
    );
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { error: { message: 'scripted break' } },
    });
    await bench.expectCaptured([{ status: 200, aborted: false }]);
  });

  it('disconnects during a stream, and the provider is notified', async () => {
    const stream = client('gateway').responses.stream({ model: MODEL, input: 'hold' });
    const error = await rejection(
      (async () => {
        for await (const event of stream) if (event.type === 'response.output_text.delta') stream.abort();
      })(),
    );
    expect(error).toBeInstanceOf(APIUserAbortError);
    expect(await bench.provider.requests.at(-1)!.ended).toBe('aborted');
    await bench.expectCaptured([{ status: 200, aborted: true, model: MODEL }]);
  });

  it('lists models, which is not a turn', async () => {
    await bench.compare(async (way) => (await client(way).models.list()).data);
    await bench.expectCaptured([{ kind: 'other', method: 'GET', path: '/v1/models' }]);
  });

  it('leaves its key in no file', () => bench.expectNoCanary());
});
