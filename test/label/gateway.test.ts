/**
 * The shim with the official SDKs through a real gateway. With retries, streams, aborts and many simultaneous runs, the
 * capture has the requests of each run under its name, numbered without gaps.
 */

import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
} from '@aws-sdk/client-bedrock-runtime';
import { GoogleGenAI } from '@google/genai';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { echoScript, type Script } from '../../src/demo/script.ts';
import { install, installedTransports, labelAwsClient, runScope } from '../../src/label/label.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { runCli } from '../cli/child.ts';
import { CANARY_KEY, type ClientBench, collect, startClientBench } from '../clients/client-bench.ts';
import { startRecorder } from './recorder.ts';

const RUNS = 50;
const REGION = 'us-east-1';

/** Texts with `flaky` that were already sent; their first attempt fails. */
const asked = new Set<string>();
const script: Script = (request) => {
  if (request.text.includes('hold')) return { text: 'word '.repeat(200), hold_after_frames: 5 };
  if (request.text.includes('flaky') && !asked.has(request.text)) {
    asked.add(request.text);
    return { error: { status: 503, message: 'scripted', retry_after_s: 0 } };
  }
  return echoScript(request);
};

let bench: ClientBench;
let anthropic: Anthropic;
let openai: OpenAI;
let gemini: GoogleGenAI;
let bedrock: BedrockRuntimeClient;
beforeAll(async () => {
  bench = await startClientBench({}, script);
  const url = bench.gateway_url;
  anthropic = new Anthropic({ apiKey: CANARY_KEY, baseURL: url, maxRetries: 3 });
  openai = new OpenAI({ apiKey: CANARY_KEY, baseURL: `${url}/v1`, maxRetries: 3 });
  gemini = new GoogleGenAI({
    apiKey: CANARY_KEY,
    apiVersion: 'v1beta',
    httpOptions: { baseUrl: `${url}/gemini` },
  });
  bedrock = new BedrockRuntimeClient({
    region: REGION,
    endpoint: `${url}/bedrock/${REGION}`,
    token: { token: CANARY_KEY },
    authSchemePreference: ['httpBearerAuth'],
    requestHandler: new NodeHttpHandler(),
    maxAttempts: 4,
  });
  // Installed after the clients were imported, because the order must have no effect.
  expect(installedTransports()).toEqual([]);
  install();
  install();
});
afterAll(async () => {
  bedrock.destroy();
  await bench.close();
});

const CLAUDE = 'claude-demo-large';
const NOVA = 'us.demo.large-v1:0';
const claude = (content: string) => ({
  model: CLAUDE,
  max_tokens: 500,
  messages: [{ role: 'user' as const, content }],
});
const nova = (text: string) => ({
  modelId: NOVA,
  messages: [{ role: 'user' as const, content: [{ text }] }],
});

/** One call of each kind, with a text as argument. */
const CALLS: Record<string, (text: string) => Promise<unknown>> = {
  messages: (text) => anthropic.messages.create(claude(text)),
  'messages, streamed': (text) => anthropic.messages.stream(claude(text)).finalMessage(),
  chat: (text) =>
    openai.chat.completions.create({ model: 'gpt-demo', messages: [{ role: 'user', content: text }] }),
  'chat, streamed': async (text) =>
    collect(
      await openai.chat.completions.create({
        model: 'gpt-demo',
        messages: [{ role: 'user', content: text }],
        stream: true,
      }),
    ),
  responses: (text) => openai.responses.create({ model: 'gpt-demo', input: text }),
  gemini: (text) => gemini.models.generateContent({ model: 'gemini-demo', contents: text }),
  'gemini, streamed': async (text) =>
    collect(await gemini.models.generateContentStream({ model: 'gemini-demo', contents: text })),
  bedrock: (text) => bedrock.send(new ConverseCommand(nova(text))),
  'bedrock, streamed': async (text) =>
    collect((await bedrock.send(new ConverseStreamCommand(nova(text)))).stream!),
};
/** Clients whose own retries take seconds, so their calls are not made to fail. */
const RETRIES_SLOWLY = /^gemini/;

interface Captured {
  run_id: string;
  seq: number | null;
  status: number;
  path: string;
  body: string;
}

async function readCapture(): Promise<Captured[]> {
  await bench.waitForStats((stats) => stats.exchanges.in_flight === 0);
  await fetch(`${bench.gateway_url}/__gw/flush`);
  const reader = CaptureReader.open(bench.db);
  try {
    return [...reader.exchanges()].map(({ id, run_id, seq, status, path }) => ({
      run_id: run_id!,
      seq,
      status: status!,
      path,
      body: Buffer.from(reader.body(id, 'request')!).toString('utf8'),
    }));
  } finally {
    await reader.close();
  }
}

const numbersOf = (all: Captured[], run: string) =>
  all
    .filter((exchange) => exchange.run_id === run)
    .map((exchange) => exchange.seq!)
    .sort((a, b) => a - b);
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

describe('the SDKs in run scopes', () => {
  it('list the labelled transports', () => {
    expect(installedTransports()).toEqual(['fetch', 'undici', 'node:http', 'node:https']);
  });

  it(`number the calls of ${RUNS} simultaneous runs, with all their retries`, { tags: 'long' }, async () => {
    const calls = Object.entries(CALLS);
    const runs = Array.from({ length: RUNS }, (_, at) => `run ${at}, größer`);
    await Promise.all(
      runs.map((run, at) =>
        runScope(run, async () => {
          // Each run begins with another client, and makes half of its calls in sequence and half at once.
          const mine = calls.map((_, n) => calls[(at + n) % calls.length]!);
          const text = (name: string) =>
            `${RETRIES_SLOWLY.test(name) ? 'steady' : 'flaky'} ${name} of <${run}>`;
          for (const [name, call] of mine.slice(0, 4)) await call(text(name));
          await Promise.all(mine.slice(4).map(([name, call]) => call(text(name))));
        }),
      ),
    );
    const all = await readCapture();
    const retried = calls.filter(([name]) => !RETRIES_SLOWLY.test(name)).length;
    for (const run of runs) {
      expect(numbersOf(all, run)).toEqual(upTo(calls.length + retried));
      const mine = all.filter((exchange) => exchange.run_id === run);
      expect(mine.filter(({ status }) => status === 503)).toHaveLength(retried);
      for (const { body } of mine) expect(body).toContain(`<${run}>`);
    }
    // The SDKs' requests reached the provider without labels.
    for (const { raw_headers } of bench.provider.requests)
      expect(raw_headers.filter((name) => /^x-svc-/i.test(name))).toEqual([]);
  });

  it('make runs whose completeness is proved', { tags: 'long' }, async () => {
    const run = 'proved';
    await runScope(run, async () => {
      const messages: Anthropic.MessageParam[] = [];
      for (const content of ['flaky first', 'second', 'third']) {
        messages.push({ role: 'user', content });
        const answer = await anthropic.messages.create({ model: CLAUDE, max_tokens: 500, messages });
        messages.push({ role: 'assistant', content: answer.content });
      }
    });
    await readCapture();
    const traced = await runCli(['trace', '--db', bench.db, '--run', run]);
    const { provenance } = JSON.parse(traced.stdout.trim());
    expect(provenance).toMatchObject({
      exchanges: 4,
      first_seq: 1,
      last_seq: 4,
      gaps: [],
      complete: true,
      supports_universal_claims: true,
    });
  });

  it('number calls that were aborted in the middle, and continue after them', async () => {
    await runScope('given up', async () => {
      const stream = anthropic.messages.stream(claude('hold'));
      stream.on('text', () => stream.abort());
      await expect(stream.finalMessage()).rejects.toThrow(Anthropic.APIUserAbortError);
      const leave = new AbortController();
      const { stream: events } = await bedrock.send(new ConverseStreamCommand(nova('hold')), {
        abortSignal: leave.signal,
      });
      await expect(
        (async () => {
          for await (const event of events!) if (event.contentBlockDelta !== undefined) leave.abort();
        })(),
      ).rejects.toThrow();
      await CALLS.chat!('after all');
    });
    expect(numbersOf(await readCapture(), 'given up')).toEqual(upTo(3));
  });

  it('leave no gap if the gateway could not be reached', async () => {
    const closed = await startRecorder();
    await closed.close();
    const away = { baseURL: `http://127.0.0.1:${closed.port}`, apiKey: CANARY_KEY, maxRetries: 0 };
    await runScope('away', async () => {
      await CALLS.messages!('first');
      await Promise.all([
        expect(new Anthropic(away).messages.create(claude('x'))).rejects.toThrow(
          Anthropic.APIConnectionError,
        ),
        expect(
          new OpenAI(away).chat.completions.create({
            model: 'm',
            messages: [{ role: 'user', content: 'x' }],
          }),
        ).rejects.toThrow(OpenAI.APIConnectionError),
        expect(
          new BedrockRuntimeClient({
            region: REGION,
            endpoint: away.baseURL,
            token: { token: CANARY_KEY },
            authSchemePreference: ['httpBearerAuth'],
            requestHandler: new NodeHttpHandler(),
            maxAttempts: 1,
          }).send(new ConverseCommand(nova('x'))),
        ).rejects.toThrow('ECONNREFUSED'),
      ]);
      for (const call of ['messages', 'chat', 'bedrock']) await CALLS[call]!('again');
    });
    expect(numbersOf(await readCapture(), 'away')).toEqual(upTo(4));
  });

  it('do not affect calls outside, and nested scopes are separate', async () => {
    await runScope('outer', async () => {
      await CALLS.messages!('outer 1');
      await runScope('inner', async () => {
        await CALLS.messages!('inner 1');
        await CALLS.bedrock!('inner 2');
      });
      await CALLS.chat!('outer 2');
    });
    await CALLS.messages!('unlabelled 1');
    await CALLS.bedrock!('unlabelled 2');
    await runScope('outer', () => CALLS.messages!('outer 3'));
    const all = await readCapture();
    expect(numbersOf(all, 'outer')).toEqual(upTo(3));
    expect(numbersOf(all, 'inner')).toEqual(upTo(2));
    for (const exchange of all.filter(({ body }) => body.includes('unlabelled'))) {
      expect(exchange.run_id).toMatch(/^conv_/);
      expect(exchange.seq).toBeNull();
    }
  });

  it('label only model calls', async () => {
    await runScope('counting', async () => {
      await anthropic.messages.countTokens({ model: CLAUDE, messages: claude('counted').messages });
      await CALLS.messages!('counted');
    });
    const all = await readCapture();
    expect(numbersOf(all, 'counting')).toEqual([1]);
    expect(all.find(({ path }) => path === '/v1/messages/count_tokens')).toMatchObject({ seq: null });
  });
});

describe('a client of the AWS SDK', () => {
  const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'an example, no key' };

  it.each(['by node:http', 'by its middleware too'])(
    'is labelled after it has signed the request, %s',
    async (way) => {
      const recorder = await startRecorder();
      const endpoint = `http://127.0.0.1:${recorder.port}`;
      const signing = { region: REGION, endpoint, credentials, requestHandler: new NodeHttpHandler() };
      const client = new BedrockRuntimeClient({ ...signing, maxAttempts: 1 });
      if (way === 'by its middleware too') expect(labelAwsClient(labelAwsClient(client))).toBe(client);
      await runScope(`signed ${way}`, async () => {
        for (const text of ['a', 'b']) await client.send(new ConverseCommand(nova(text))).catch(() => {});
      });
      expect(recorder.requests).toHaveLength(2);
      for (const [at, { lines }] of recorder.requests.entries()) {
        expect(lines.filter((line) => /^x-svc-/i.test(line))).toEqual([
          `x-svc-run: signed ${way}`,
          `x-svc-seq: ${at + 1}`,
        ]);
        const authorization = lines.find((line) => /^authorization: AWS4-HMAC-SHA256 /i.test(line));
        expect(authorization).toMatch(/SignedHeaders=[^,]*host/);
        expect(authorization).not.toContain('x-svc');
      }
      client.destroy();
      await recorder.close();
    },
  );

  it('is labelled by its middleware if it does not use node:http, with a new number for each attempt', async () => {
    const heads: Record<string, unknown>[] = [];
    const server = createServer();
    server.on('stream', (stream, headers) => {
      heads.push(headers);
      stream.resume();
      stream.respond({ ':status': heads.length === 1 ? 503 : 200, 'content-type': 'application/json' });
      stream.end('{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"end_turn"}');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = labelAwsClient(
      new BedrockRuntimeClient({
        region: REGION,
        endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        credentials,
        maxAttempts: 2,
      }),
    );
    expect(installedTransports()).toContain('aws-sdk');
    await runScope('by HTTP/2', () => client.send(new ConverseCommand(nova('x'))));
    await client.send(new ConverseCommand(nova('in no scope')));
    expect(heads.map((head) => [head['x-svc-run'], head['x-svc-seq']])).toEqual([
      ['by HTTP/2', '1'],
      ['by HTTP/2', '2'],
      [undefined, undefined],
    ]);
    for (const head of heads) expect(head.authorization).not.toContain('x-svc');
    client.destroy();
    server.close();
  });
});

describe('the name of a run', () => {
  it.each(['', ' x', 'x ', 'a\r\nb', 'a\0', 'x'.repeat(1_025), 7 as never])(
    '%j is refused, because no header can contain it',
    (name) => {
      expect(() => runScope(name, () => 1)).toThrow(TypeError);
    },
  );

  it('that is valid does not change the result or the error of its scope', () => {
    expect(runScope('x'.repeat(1_024), () => 7)).toBe(7);
    expect(() =>
      runScope('x', () => {
        throw new RangeError('its own');
      }),
    ).toThrow(RangeError);
  });
});
