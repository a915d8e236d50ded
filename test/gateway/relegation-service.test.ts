/**
 * A student of kind `http`: the requests to its service, the answers that are accepted, and what never reaches the
 * service.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { STUDENT_SERVICE_ANSWER_BYTES } from '../../src/student/serving/student-service.ts';
import { readStats } from '../fixtures/capture-gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  LOOK,
  type RelegatedGateway,
  serverOf,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';

const KEY = 'student-key-5f1c';
const CLIENT_CANARY = 'canary-of-the-client-93b1';

interface Asked {
  url: string;
  headers: IncomingMessage['headers'];
  body: Record<string, unknown>;
}

let service: Server;
let asked: Asked[] = [];
let answer: (response: ServerResponse, body: Record<string, unknown>) => void;
let upstream: RawUpstream;
let folder: string;
let gateway: RelegatedGateway;
beforeAll(async () => {
  service = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
      asked.push({ url: request.url!, headers: request.headers, body });
      answer(response, body);
    });
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  upstream = await startRawUpstream((connection) =>
    connection.write(
      messageBytes('HTTP/1.1 200 OK', [['Content-Type', 'application/json']], Buffer.from('{"upstream":1}')),
    ),
  );
});
afterAll(async () => {
  service.closeAllConnections();
  service.close();
  await upstream.close();
});
afterEach(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(
  style: 'messages' | 'chat_completions',
  timeoutMs = 30_000,
  sticky = true,
): Promise<void> {
  asked = [];
  folder = mkdtempSync(join(tmpdir(), 'understudy-service-'));
  gateway = await startRelegatedGateway({
    upstream: upstream.url,
    folder,
    key: KEY,
    timeout_ms: timeoutMs,
    // If not sticky, a late answer does not move the run to the upstream.
    sticky,
    wires: ['messages', 'chat_completions', 'responses'],
    prices: { 'claude-demo': { input: 3, output: 15 }, cheap: { input: 1, output: 2 } },
    student: {
      kind: 'http',
      endpoint: `http://127.0.0.1:${(service.address() as AddressInfo).port}/base`,
      model: 'cheap-1',
      style,
    },
  });
}

const reply =
  (body: unknown, status = 200) =>
  (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
const message = (content: unknown[], stop_reason = 'end_turn', more: object = {}) => ({
  type: 'message',
  role: 'assistant',
  content,
  stop_reason,
  usage: { input_tokens: 70, cache_read_input_tokens: 30, output_tokens: 20 },
  ...more,
});
const chat = (said: object, finish_reason = 'stop', more: object = {}) => ({
  choices: [{ index: 0, finish_reason, message: { role: 'assistant', content: null, ...said } }],
  usage: { prompt_tokens: 100, completion_tokens: 20 },
  ...more,
});

const CONVERSATION = [
  {
    role: 'user',
    content: [
      { type: 'text', text: 'serve', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'it' },
    ],
  },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'hidden', signature: 'sig' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 'a' } },
      { type: 'tool_use', id: 'toolu_2', name: 'look', input: { at: 'b' } },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'seen' }] },
      { type: 'tool_result', tool_use_id: 'toolu_2', content: 'broken', is_error: true },
      { type: 'text', text: 'serve on' },
    ],
  },
];
const SETTINGS = {
  system: [
    { type: 'text', text: 'Be brief.' },
    { type: 'text', text: 'Be kind.' },
  ],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
  temperature: 0.5,
  metadata: { user_id: CLIENT_CANARY },
};

/** Sends a step. @returns who served it, and the answer's parsed body */
async function send(body: object, more: [string, string][] = []) {
  const result = await rawRequest(gateway.port, stepBytes(body, more));
  return { by: serverOf(result), body: JSON.parse(result.body.toString()) as Record<string, unknown> };
}

/**
 * Lets the student answer the first message of CONVERSATION, because it continues only runs whose calls it made.
 * @param first the service's answer
 * @returns all messages of CONVERSATION, with the call ids that the gateway assigned
 */
async function converse(first: (response: ServerResponse) => void): Promise<unknown[]> {
  answer = first;
  const opened = await send(stepBody([CONVERSATION[0]!], { system: SETTINGS.system }));
  expect(opened.by).toBe('student');
  const ids = (opened.body.content as { id?: string }[]).flatMap(({ id }) => (id === undefined ? [] : [id]));
  const text = JSON.stringify(CONVERSATION).replaceAll('toolu_1', ids[0]!).replaceAll('toolu_2', ids[1]!);
  return JSON.parse(text) as unknown[];
}

describe('a service that uses the Messages API', () => {
  it('is asked for covered steps under its own model name, and answers under the client’s', async () => {
    await open('messages');
    const messages = await converse(
      reply(
        message(
          [
            { type: 'thinking', thinking: 'cheap', signature: 's' },
            { type: 'text', text: 'I look.' },
            { type: 'tool_use', id: 'x', name: 'look', input: { at: 'a' } },
            { type: 'tool_use', id: 'y', name: 'look', input: { at: 'b' } },
          ],
          'tool_use',
        ),
      ),
    );
    answer = reply(message([{ type: 'tool_use', id: 'z', name: 'look', input: { at: 'c' } }], 'tool_use'));
    const result = await send(stepBody(messages as never, SETTINGS), [
      ['authorization', `Bearer ${CLIENT_CANARY}`],
    ]);
    expect(result.by).toBe('student');
    expect(result.body).toMatchObject({
      model: 'claude-demo-large',
      content: [
        { type: 'tool_use', id: expect.stringMatching(/^toolu_01/), name: 'look', input: { at: 'c' } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 100, output_tokens: 20 },
    });
    const { url, headers, body } = asked[1]!;
    expect(url).toBe('/base/v1/messages');
    expect(headers).toMatchObject({ 'x-api-key': KEY, 'anthropic-version': '2023-06-01' });
    expect(headers.authorization).toBeUndefined();
    const [, second, third] = messages as { content: { id?: string; tool_use_id?: string }[] }[];
    expect(body).toEqual({
      model: 'cheap-1',
      max_tokens: 4_000,
      stream: false,
      temperature: 0.5,
      stop_sequences: ['STOP'],
      system: 'Be brief.\n\nBe kind.',
      tools: [LOOK],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'serve' },
            { type: 'text', text: 'it' },
          ],
        },
        { role: 'assistant', content: second!.content.slice(1) },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: third!.content[0]!.tool_use_id, content: 'seen' },
            {
              type: 'tool_result',
              tool_use_id: third!.content[1]!.tool_use_id,
              content: 'broken',
              is_error: true,
            },
            { type: 'text', text: 'serve on' },
          ],
        },
      ],
    });
    const { money_saved_usd, tokens_saved } = (await readStats(gateway.url)).relegation;
    expect(tokens_saved).toEqual({ input: 200, output: 40 });
    // Twice the upstream's price, minus the cost of the service.
    const [upstreamCost, serviceCost] = [100 * 3 + 20 * 15, 100 * 1 + 20 * 2];
    expect(money_saved_usd).toBeCloseTo((2 * (upstreamCost - serviceCost)) / 1e6, 9);
  });

  const wrong: [string, string, (response: ServerResponse) => void][] = [
    ['an error', 'failed', reply({ error: 'no' }, 500)],
    ['too many requests', 'failed', reply({ error: 'later' }, 429)],
    ['no message', 'failed', reply({ hello: 1 })],
    [
      'an unknown tool',
      'failed',
      reply(message([{ type: 'tool_use', id: 'z', name: 'rm', input: {} }], 'tool_use')),
    ],
    [
      'a wrong input',
      'failed',
      reply(message([{ type: 'tool_use', id: 'z', name: 'look', input: { at: 1 } }], 'tool_use')),
    ],
    ['a cut answer', 'failed', reply(message([{ type: 'text', text: 'half' }], 'max_tokens'))],
    ['another block', 'failed', reply(message([{ type: 'image' }]))],
    ['nothing', 'failed', reply(message([]))],
    ['a stop that does not fit', 'failed', reply(message([{ type: 'text', text: 'a' }], 'tool_use'))],
    ['no JSON', 'failed', (response) => response.end('<html>')],
    [
      'half a body',
      'failed',
      (response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{"type"');
        setImmediate(() => response.destroy());
      },
    ],
    [
      'a redirect',
      'failed',
      (response) => {
        response.writeHead(307, { location: '/elsewhere' });
        response.end();
      },
    ],
    [
      'more than is read',
      'failed',
      (response) => {
        response.end(
          JSON.stringify(message([{ type: 'text', text: 'x'.repeat(STUDENT_SERVICE_ANSWER_BYTES) }])),
        );
      },
    ],
  ];
  it('is replaced by the upstream if anything is wrong with its answer', async () => {
    await open('messages');
    for (const [what, reason, act] of wrong) {
      answer = act;
      const before = gateway.counts();
      expect((await send(stepBody('serve this'))).body, what).toEqual({ upstream: 1 });
      const after = gateway.counts();
      expect(after.fallbacks[reason as 'failed'], what).toBe((before.fallbacks[reason as 'failed'] ?? 0) + 1);
      expect(after.errors, what).toBe(before.errors + 1);
    }
    expect(asked.map(({ url }) => url)).toEqual(wrong.map(() => '/base/v1/messages'));
    answer = reply(message([{ type: 'text', text: 'fine' }]));
    expect((await send(stepBody('serve this'))).by).toBe('student');
  });

  it('is asked for many steps at once', { tags: 'long' }, async () => {
    await open('messages');
    const waiting: ServerResponse[] = [];
    answer = (response) => {
      waiting.push(response);
      if (waiting.length === 12)
        for (const response of waiting) reply(message([{ type: 'text', text: 'all' }]))(response);
    };
    const results = await Promise.all(Array.from({ length: 12 }, () => send(stepBody('serve this'))));
    expect(results.map(({ by }) => by)).toEqual(Array.from({ length: 12 }, () => 'student'));
  });

  it('is replaced by the upstream if it is too slow, and its late answer has no effect', {
    tags: 'long',
  }, async () => {
    await open('messages', 300);
    const { promise: isGone, resolve: onGone } = Promise.withResolvers<void>();
    answer = (response) => response.on('close', onGone);
    // On a busy machine, the time may be over before the service is asked at all.
    let tries = 0;
    while (asked.length === 0) {
      const run: [string, string] = ['x-svc-run', `slow ${++tries}`];
      expect((await send(stepBody('serve this'), [run])).body).toEqual({ upstream: 1 });
    }
    expect(gateway.counts().fallbacks).toEqual({ timeout: tries });
    // The service is told that its answer is no longer needed.
    await isGone;
    answer = reply(message([{ type: 'text', text: 'quick' }]));
    expect((await send(stepBody('serve this'), [['x-svc-run', 'slow 1']])).by).toBe('upstream');
  });

  it('is not asked for steps that are not covered or that the request cannot express', {
    tags: 'long',
  }, async () => {
    await open('messages');
    answer = reply(message([{ type: 'text', text: 'fine' }]));
    expect((await send(stepBody('decline this'))).by).toBe('upstream');
    const schema = { type: 'json_schema', schema: { type: 'object' } };
    const bodies = [
      stepBody('serve this', { output_config: { format: schema } }),
      stepBody('serve this', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }),
      stepBody([
        {
          role: 'user',
          content: [
            { type: 'text', text: 'serve this' },
            { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' } },
          ],
        },
      ]),
    ];
    for (const body of bodies) expect((await send(body)).by).toBe('upstream');
    expect(gateway.counts().fallbacks).toEqual({ too_far: 1, untranslatable: 3 });
    expect(asked).toEqual([]);
  });
});

describe('a service that uses chat-completions', () => {
  it('is asked in its format, and its answer is translated', async () => {
    await open('chat_completions');
    const call = (at: string, id: string) => ({
      id,
      type: 'function',
      function: { name: 'look', arguments: JSON.stringify({ at }) },
    });
    const messages = await converse(
      reply(chat({ content: 'I look.', tool_calls: [call('a', 'x'), call('b', 'y')] }, 'tool_calls')),
    );
    answer = reply(chat({ tool_calls: [call('c', 'z')] }, 'stop'));
    const result = await send(stepBody(messages as never, SETTINGS));
    expect(result.by).toBe('student');
    expect(result.body).toMatchObject({
      content: [{ type: 'tool_use', name: 'look', input: { at: 'c' } }],
      stop_reason: 'tool_use',
      usage: { input_tokens: 100, output_tokens: 20 },
    });
    const { url, headers, body } = asked[1]!;
    expect(url).toBe('/base/v1/chat/completions');
    expect(headers.authorization).toBe(`Bearer ${KEY}`);
    expect(headers['x-api-key']).toBeUndefined();
    const ids = (messages as { content: { id?: string }[] }[])[1]!.content.flatMap(({ id }) => id ?? []);
    const { name, description, input_schema } = LOOK;
    expect(body).toEqual({
      model: 'cheap-1',
      max_tokens: 4_000,
      stream: false,
      temperature: 0.5,
      stop: ['STOP'],
      tools: [{ type: 'function', function: { name, description, parameters: input_schema } }],
      tool_choice: 'required',
      parallel_tool_calls: false,
      messages: [
        { role: 'system', content: 'Be brief.\n\nBe kind.' },
        { role: 'user', content: 'serve\n\nit' },
        { role: 'assistant', content: 'I look.', tool_calls: [call('a', ids[0]!), call('b', ids[1]!)] },
        { role: 'tool', tool_call_id: ids[0], content: 'seen' },
        { role: 'tool', tool_call_id: ids[1], content: 'Error: broken' },
        { role: 'user', content: 'serve on' },
      ],
    });
    expect(JSON.stringify(asked)).not.toContain(CLIENT_CANARY);
  });

  it('is replaced by the upstream if its answer is invalid, and is not asked for steps that its format cannot express', {
    tags: 'long',
  }, async () => {
    await open('chat_completions');
    const wrong = [
      chat({ content: 'half' }, 'length'),
      chat({ content: 'no' }, 'content_filter'),
      chat({ content: null, refusal: 'I may not' }),
      chat({ content: 'calls?' }, 'tool_calls'),
      chat(
        { tool_calls: [{ type: 'function', function: { name: 'look', arguments: '{"at":' } }] },
        'tool_calls',
      ),
      chat({ tool_calls: [{ type: 'function', function: { name: 'look', arguments: '[]' } }] }, 'tool_calls'),
      chat({ tool_calls: [{ type: 'custom', custom: { name: 'look', input: 'a' } }] }, 'tool_calls'),
      chat({ content: '' }),
      { choices: [] },
      {},
    ];
    for (const body of wrong) {
      answer = reply(body);
      expect((await send(stepBody('serve this'))).body, JSON.stringify(body)).toEqual({ upstream: 1 });
    }
    expect(gateway.counts().fallbacks).toEqual({ failed: wrong.length });
    const untold = [
      stepBody('serve this', { top_k: 5 }),
      stepBody('serve this', { stop_sequences: ['a', 'b', 'c', 'd', 'e'] }),
    ];
    for (const body of untold) expect((await send(body)).by).toBe('upstream');
    expect(gateway.counts().fallbacks.untranslatable).toBe(untold.length);
  });
});

describe.each(['messages', 'chat_completions'] as const)(
  'agents of other wires, with a model of %s',
  (style) => {
    const parameters = LOOK.input_schema;
    const steps = {
      chat_completions: (words: string, more: object) => ({
        model: 'gpt-demo',
        tools: [{ type: 'function', function: { name: 'look', parameters } }],
        messages: [{ role: 'user', content: words }],
        ...more,
      }),
      responses: (words: string, more: object) => ({
        model: 'gpt-demo',
        store: false,
        tools: [{ type: 'function', name: 'look', parameters, strict: false }],
        input: [{ role: 'user', content: words }],
        ...more,
      }),
    };
    const bytesOf = (wire: keyof typeof steps, words: string, more: object = {}): Buffer => {
      const path = wire === 'responses' ? '/v1/responses' : '/v1/chat/completions';
      const headers: [string, string][] = [
        ['Host', 'gw'],
        ['Content-Type', 'application/json'],
        ['authorization', 'Bearer sk-ant-a-clients-key'],
      ];
      const body = Buffer.from(JSON.stringify(steps[wire](words, more)));
      return messageBytes(`POST ${path} HTTP/1.1`, headers, body, { framing: 'length' });
    };
    /** The model calls `look`. */
    const calls = (at: string) =>
      style === 'messages'
        ? reply(message([{ type: 'tool_use', id: 'z', name: 'look', input: { at } }], 'tool_use'))
        : reply(
            chat(
              {
                tool_calls: [
                  {
                    id: 'z',
                    type: 'function',
                    function: { name: 'look', arguments: JSON.stringify({ at }) },
                  },
                ],
              },
              'tool_calls',
            ),
          );
    const wires = ['chat_completions', 'responses'] as const;

    it('are answered in their own format, whole and streamed', { tags: 'long' }, async () => {
      await open(style, 30_000, false);
      for (const wire of wires)
        for (const stream of [false, true]) {
          answer = calls('a door');
          const result = await rawRequest(gateway.port, bytesOf(wire, 'serve it', { stream }));
          expect(serverOf(result)).toBe('student');
          const text = result.body.toString();
          expect(text).toContain('a door');
          expect(text).toContain(wire === 'responses' ? '"type":"function_call"' : '"tool_calls"');
          expect(text.startsWith(stream ? (wire === 'responses' ? 'event:' : 'data:') : '{')).toBe(true);
        }
    });

    it('receive only the upstream’s answer if the model is late', {
      tags: 'long',
    }, async () => {
      await open(style, 300, false);
      for (const wire of wires) {
        const late: ServerResponse[] = [];
        answer = (response) => void late.push(response);
        const result = await rawRequest(gateway.port, bytesOf(wire, 'serve it', { stream: true }));
        expect(result.body.toString()).toBe('{"upstream":1}');
        for (const response of late) calls('too late')(response);
      }
      expect(gateway.counts().fallbacks).toEqual({ timeout: 2 });
      expect(gateway.counts().served).toBe(0);
    });

    it('that leave while the model answers end its request, and count neither as served nor as an error', {
      tags: 'long',
    }, async () => {
      await open(style, 30_000, false);
      for (const wire of wires) {
        const { promise: isGone, resolve: onGone } = Promise.withResolvers<void>();
        const { promise: isAsked, resolve: onAsked } = Promise.withResolvers<void>();
        answer = (response) => {
          response.on('close', onGone);
          onAsked();
        };
        const client = await openRawClient(gateway.port);
        await client.write(bytesOf(wire, 'serve it', { stream: true }));
        await isAsked;
        client.socket.destroy();
        await isGone;
      }
      const { served, fallback, errors } = gateway.counts();
      expect({ served, fallback, errors }).toEqual({ served: 0, fallback: 0, errors: 0 });
      // The aborted request is no fault of the model, so the next step is sent to the model at once.
      answer = calls('b');
      expect(serverOf(await rawRequest(gateway.port, bytesOf('responses', 'serve it')))).toBe('student');
    });

    it('get no unacceptable answer: no arguments without an end, no text with the key', {
      tags: 'long',
    }, async () => {
      await open(style, 30_000, false);
      const { length } = upstream.requests;
      for (const wire of wires) {
        for (const at of ['x'.repeat(100_000), 'x'.repeat(1_000_000), `I am ${KEY}.`]) {
          answer = calls(at);
          const result = await rawRequest(gateway.port, bytesOf(wire, 'serve it'));
          expect(result.body.toString()).toBe('{"upstream":1}');
        }
      }
      expect(gateway.counts().fallbacks).toEqual({ failed: 6 });
      expect(upstream.requests.length).toBe(length + 6);
      expect(gateway.logged.join()).not.toContain(KEY);
    });
  },
);

describe('a credential', () => {
  it('of a client reaches neither the service nor the stats, the log or the disk', {
    tags: 'long',
  }, async () => {
    await open('messages');
    answer = reply(message([{ type: 'text', text: 'fine' }]));
    const headers: [string, string][] = [
      ['authorization', `Bearer ${CLIENT_CANARY}`],
      ['cookie', CLIENT_CANARY],
    ];
    expect((await send(stepBody('serve this'), headers)).by).toBe('student');
    expect((await send(stepBody('decline'), headers)).by).toBe('upstream');
    expect(asked).toHaveLength(1);
    expect(JSON.stringify(asked)).not.toContain(CLIENT_CANARY);
    expect(JSON.stringify(await readStats(gateway.url))).not.toContain(CLIENT_CANARY);
    expect(gateway.logged.join()).not.toContain(CLIENT_CANARY);
    await fetch(`${gateway.url}/__gw/flush`);
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const bytes = readFileSync(join(entry.parentPath, entry.name));
      for (const secret of [CLIENT_CANARY, KEY]) expect(bytes.includes(secret), entry.name).toBe(false);
    }
  });
});
