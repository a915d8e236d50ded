/** The official messages-API SDK through the gateway: what it returns and throws, and what is captured. */
import Anthropic, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  RateLimitError,
} from '@anthropic-ai/sdk';
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
  bench = await startClientBench();
});
afterAll(() => bench.close());

const client = (way: Way, options: ConstructorParameters<typeof Anthropic>[0] = {}): Anthropic =>
  new Anthropic({ apiKey: CANARY_KEY, baseURL: bench.base(way), maxRetries: 0, ...options });

const MODEL = 'claude-demo-large';
const ask = (content: string) => ({
  model: MODEL,
  max_tokens: 1000,
  messages: [{ role: 'user' as const, content }],
});
const TOOL: Anthropic.Tool = {
  name: 'look_up',
  description: 'Looks something up',
  input_schema: { type: 'object', properties: { query: { type: 'string' } } },
};

describe('the messages-API SDK', () => {
  it('receives a plain answer', async () => {
    const message = await bench.compare((way) => client(way).messages.create(ask('think')));
    expect(message.content.map((block) => block.type)).toEqual(['thinking', 'text']);
    await bench.expectCaptured([
      {
        provider: 'anthropic',
        kind: 'turn',
        shape: 'messages',
        method: 'POST',
        path: '/v1/messages',
        status: 200,
        aborted: false,
        truncated: false,
        undecodable: false,
        served_by: 'upstream',
        model: MODEL,
        stop_reason: 'end_turn',
        usage: {
          input_tokens: THINK_USAGE.input,
          output_tokens: THINK_USAGE.output,
          cache_read_tokens: THINK_USAGE.cache_read,
          cache_write_tokens: THINK_USAGE.cache_write,
        },
      },
    ]);
  });

  it('receives the same headers, compressed or not', async () => {
    for (const encoding of ['gzip', 'identity']) {
      const headers = await bench.compare(async (way) => {
        const asked = client(way).messages.create(ask('long'), { headers: { 'accept-encoding': encoding } });
        const { data, response } = await asked.withResponse();
        expect(data.content).toEqual([{ type: 'text', text: LONG_TEXT }]);
        return [...response.headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name));
      });
      expect(new Map(headers).get('content-encoding') ?? 'identity').toBe(encoding);
    }
    const whole = { undecodable: false, model: MODEL };
    await bench.expectCaptured([whole, whole]);
  });

  it.each(['think', 'long'])('streams: %s', async (text) => {
    const { events, final } = await bench.compare(async (way) => {
      const stream = client(way).messages.stream(ask(text));
      return { events: await collect(stream), final: await stream.finalMessage() };
    });
    expect(events[0]!.type).toBe('message_start');
    expect(events.at(-1)!.type).toBe('message_stop');
    const { output_tokens } = final.usage;
    await bench.expectCaptured([
      {
        kind: 'turn',
        model: MODEL,
        stop_reason: 'end_turn',
        undecodable: false,
        usage: { output_tokens },
        first_byte_ms: expect.any(Number),
      },
    ]);
  });

  it('calls tools, streamed and not, in one labelled run', async () => {
    const headers = (seq: number) => ({ headers: { 'x-svc-run': 'tool-run', 'x-svc-seq': String(seq) } });
    const turns = await bench.compare(async (way) => {
      const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'weather?' }];
      const params = { model: MODEL, max_tokens: 1000, tools: [TOOL], messages };
      const first = await client(way).messages.create(params, headers(1));
      const call = first.content.find((block) => block.type === 'tool_use')!;
      messages.push(
        { role: 'assistant', content: first.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }] },
      );
      const second = await client(way).messages.stream(params, headers(2)).finalMessage();
      messages.push({ role: 'assistant', content: second.content }, { role: 'user', content: 'and now?' });
      const third = await client(way).messages.stream(params, headers(3)).finalMessage();
      return [first, second, third];
    });
    expect(turns[0]!.stop_reason).toBe('tool_use');
    expect(turns[1]!.content).toEqual([{ type: 'text', text: 'The tools said: sunny' }]);
    expect(turns[2]!.content.at(-1)).toMatchObject({ type: 'tool_use', input: { query: 'and now?' } });
    await bench.expectCaptured([
      { run_id: 'tool-run', seq: 1, stop_reason: 'tool_use' },
      { run_id: 'tool-run', seq: 2, stop_reason: 'end_turn' },
      { run_id: 'tool-run', seq: 3, stop_reason: 'tool_use' },
    ]);
  });

  it.each([
    [400, BadRequestError],
    [429, RateLimitError],
    [529, InternalServerError],
  ])('throws the typed error of a %i', async (status, type) => {
    const text = `fail ${status}`;
    const thrown = await bench.compare(async (way) => {
      const error = await rejection(client(way).messages.create(ask(text)));
      expect(error).toBeInstanceOf(type);
      const { headers } = error as InstanceType<typeof RateLimitError>;
      return {
        ...describeError(error),
        retry_after: headers?.get('retry-after'),
        id: headers?.get('request-id'),
      };
    });
    expect(thrown).toMatchObject({ status, retry_after: { 400: null, 429: '7', 529: '0' }[status] });
    await bench.expectCaptured([{ kind: 'turn', status, stop_reason: null }]);
  });

  it('throws the typed error of a refused credential', async () => {
    const thrown = await bench.compare(async (way) => {
      const error = await rejection(
        client(way).messages.create(ask('fail 401'), { headers: { authorization: `Bearer ${CANARY_KEY}` } }),
      );
      expect(error).toBeInstanceOf(AuthenticationError);
      return describeError(error);
    });
    expect(thrown).toMatchObject({ status: 401, type: 'authentication_error' });
    await bench.expectCaptured([{ status: 401 }]);
  });

  it('throws the error that breaks a stream', async () => {
    const thrown = await bench.compare(async (way) =>
      describeError(await rejection(client(way).messages.stream(ask('break')).finalMessage())),
    );
    expect(String(thrown.message)).toContain('scripted break');
    // The exchange may count as aborted or not, depending on whether the client waited for the last chunk.
    await bench.expectCaptured([{ status: 200, stop_reason: null }]);
  });

  it('disconnects during a stream, and the provider is notified', async () => {
    const stream = client('gateway').messages.stream(ask('hold'));
    const seen: string[] = [];
    const error = await rejection(
      (async () => {
        for await (const event of stream) {
          seen.push(event.type);
          if (event.type === 'content_block_delta') stream.abort();
        }
      })(),
    );
    expect(error).toBeInstanceOf(APIUserAbortError);
    expect(await bench.provider.requests.at(-1)!.ended).toBe('aborted');
    await bench.expectCaptured([{ status: 200, aborted: true, model: MODEL, stop_reason: null }]);
  });

  it('retries by itself, and both attempts are captured', { tags: 'long' }, async () => {
    const message = await bench.compare(async (way) => {
      const error = await rejection(
        client(way, { maxRetries: 1 }).messages.create(ask('fail 529'), {
          headers: { 'x-svc-run': 'retry' },
        }),
      );
      return describeError(error);
    });
    expect(message.status).toBe(529);
    await bench.expectCaptured([
      { run_id: 'retry', status: 529 },
      { run_id: 'retry', status: 529 },
    ]);
  });

  it('counts tokens and lists models, which are not turns', async () => {
    await bench.compare((way) =>
      client(way).messages.countTokens({ model: MODEL, messages: ask('x').messages }),
    );
    await bench.compare(async (way) => (await client(way).models.list()).data);
    await bench.expectCaptured([
      { kind: 'other', method: 'POST', path: '/v1/messages/count_tokens' },
      { kind: 'other', method: 'GET', path: '/v1/models' },
    ]);
  });

  it('leaves its key in no file', () => bench.expectNoCanary());
});
