/**
 * The official generative-content SDK through the gateway's /gemini route: what it returns and throws, and what is
 * captured.
 */
import { ApiError, type FunctionDeclaration, GoogleGenAI, Type } from '@google/genai';
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

const client = (way: Way): GoogleGenAI =>
  new GoogleGenAI({
    apiKey: CANARY_KEY,
    apiVersion: 'v1beta',
    httpOptions: { baseUrl: bench.base(way, '/gemini'), retryOptions: { attempts: 1 } },
  });

const model = 'gemini-demo-large';
const TOOL: FunctionDeclaration = {
  name: 'look_up',
  parameters: { type: Type.OBJECT, properties: { query: { type: Type.STRING } } },
};

/** Removes the raw response, which the SDK keeps beside the answer, because its headers contain a date. */
function withoutTransport<T>(value: T): T {
  return JSON.parse(
    JSON.stringify(value, (key, part: unknown) => (key === 'sdkHttpResponse' ? undefined : part)),
  ) as T;
}

describe('the generative-content SDK', () => {
  it('receives a plain answer', async () => {
    const answer = await bench.compare(async (way) =>
      withoutTransport(await client(way).models.generateContent({ model, contents: 'think' })),
    );
    expect(answer.candidates![0]!.content!.parts!.at(-1)).toEqual({ text: 'Done thinking.' });
    await bench.expectCaptured([
      {
        provider: 'gemini',
        kind: 'turn',
        shape: 'gemini',
        path: `/gemini/v1beta/models/${model}:generateContent`,
        status: 200,
        model,
        stop_reason: 'STOP',
        undecodable: false,
        usage: {
          input_tokens: THINK_USAGE.input,
          output_tokens: THINK_USAGE.output,
          cache_read_tokens: THINK_USAGE.cache_read,
        },
      },
    ]);
  });

  it.each(['think', 'long'])('streams: %s', async (contents) => {
    const chunks = await bench.compare(async (way) =>
      withoutTransport(await collect(await client(way).models.generateContentStream({ model, contents }))),
    );
    const parts = chunks.flatMap((chunk) => chunk.candidates![0]!.content!.parts!);
    const text = parts.map((part) => (part.thought ? '' : part.text)).join('');
    expect(text).toBe(contents === 'long' ? LONG_TEXT : 'Done thinking.');
    await bench.expectCaptured([
      {
        kind: 'turn',
        path: `/gemini/v1beta/models/${model}:streamGenerateContent`,
        query: 'alt=sse',
        model,
        stop_reason: 'STOP',
        undecodable: false,
        usage: { output_tokens: chunks.at(-1)!.usageMetadata!.candidatesTokenCount },
      },
    ]);
  });

  it('calls functions, streamed and not', async () => {
    const answers = await bench.compare(async (way) => {
      const contents = [{ role: 'user', parts: [{ text: 'weather?' }] }] as object[];
      const params = { model, contents, config: { tools: [{ functionDeclarations: [TOOL] }] } };
      const first = await client(way).models.generateContent(params);
      const call = first.functionCalls![0]!;
      contents.push(first.candidates![0]!.content!, {
        role: 'user',
        parts: [{ functionResponse: { name: call.name!, response: { output: 'sunny' } } }],
      });
      const second = await collect(await client(way).models.generateContentStream(params));
      return [call, second.map((chunk) => chunk.text).join('')];
    });
    expect(answers).toEqual([
      { name: 'look_up', args: { query: 'weather?' } },
      'The tools said: {"output":"sunny"}',
    ]);
    await bench.expectCaptured([
      { kind: 'turn', model },
      { kind: 'turn', model },
    ]);
  });

  it.each([400, 401, 429, 503])('throws the typed error of a %i, streamed and not', async (status) => {
    const thrown = await bench.compare(async (way) => {
      const params = { model, contents: `fail ${status}` };
      const plain = await rejection(client(way).models.generateContent(params));
      const streamed = await rejection(client(way).models.generateContentStream(params));
      expect(plain).toBeInstanceOf(ApiError);
      expect(streamed).toBeInstanceOf(ApiError);
      return [describeError(plain), describeError(streamed)];
    });
    for (const error of thrown) expect(error).toMatchObject({ status });
    await bench.expectCaptured([
      { kind: 'turn', status, model },
      { kind: 'turn', status, model },
    ]);
  });

  it('throws the error that breaks a stream', async () => {
    const thrown = await bench.compare(async (way) =>
      describeError(
        await rejection(client(way).models.generateContentStream({ model, contents: 'break' }).then(collect)),
      ),
    );
    expect(String(thrown.message)).toContain('scripted break');
    // The exchange may count as aborted or not, depending on whether the client waited for the last chunk.
    await bench.expectCaptured([{ status: 200 }]);
  });

  it('disconnects during a stream, and the provider is notified', async () => {
    const leave = new AbortController();
    const config = { abortSignal: leave.signal };
    const stream = await client('gateway').models.generateContentStream({ model, contents: 'hold', config });
    const error = await rejection(
      (async () => {
        for await (const _ of stream) leave.abort();
      })(),
    );
    expect(error.name).toMatch(/Abort/);
    expect(await bench.provider.requests.at(-1)!.ended).toBe('aborted');
    await bench.expectCaptured([{ status: 200, aborted: true, model }]);
  });

  it('counts tokens, which is not a turn; a key in the query is not stored', async () => {
    await bench.compare(async (way) =>
      withoutTransport(await client(way).models.countTokens({ model, contents: 'x' })),
    );
    await bench.compare(async (way) => {
      const url = `${bench.base(way, '/gemini')}/v1beta/models/${model}:generateContent?%6bey=${CANARY_KEY}&alt=json`;
      const response = await fetch(url, { method: 'POST', body: JSON.stringify({ contents: [] }) });
      return [response.status, await response.text()];
    });
    await bench.expectCaptured([
      { kind: 'other', path: `/gemini/v1beta/models/${model}:countTokens` },
      { kind: 'turn', query: expect.stringMatching(/^%6bey=(?!sk-)[^&]*&alt=json$/) },
    ]);
  });

  it('leaves its key in no file', () => bench.expectNoCanary());
});
