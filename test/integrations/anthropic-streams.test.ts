/**
 * The real SDK with the middleware reads streams in the forms of providers and proxies of the Messages API. Steps and
 * tokens match the answer.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Step } from '../../src/client/step.ts';
import { writeJson } from '../../src/client/wire-json.ts';
import type { WatchedRun } from '../../src/integrations/agent-steps.ts';
import { understudyMiddleware } from '../../src/integrations/anthropic.ts';

/** A provider that answers its requests in turn with these bytes. */
async function startProvider(answers: readonly { type: string; bytes: Buffer; size?: number }[]) {
  const left = [...answers];
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    asked.push(Buffer.concat(await request.toArray()).toString());
    const { type, bytes, size = bytes.length } = left.shift()!;
    response.writeHead(200, { 'content-type': type });
    for (let at = 0; at < bytes.length; at += size) response.write(bytes.subarray(at, at + size));
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const START = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null };

interface Usages {
  start?: object;
  delta?: object;
  again?: object;
}

/** The events of an answer that says hello, or calls a tool with that input. */
function eventsOf(
  { start = { input_tokens: 10, output_tokens: 1 }, delta = { output_tokens: 5 }, again }: Usages,
  input?: string,
) {
  const block =
    input === undefined
      ? [
          { type: 'text', text: '' },
          { type: 'text_delta', text: 'Hello.' },
        ]
      : [
          { type: 'tool_use', id: 't', name: 'search', input: {} },
          { type: 'input_json_delta', partial_json: input },
        ];
  const stop = { stop_reason: input === undefined ? 'end_turn' : 'tool_use', stop_sequence: null };
  return [
    { type: 'message_start', message: { ...START, usage: start } },
    { type: 'content_block_start', index: 0, content_block: block[0] },
    { type: 'content_block_delta', index: 0, delta: block[1] },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: stop, usage: delta },
    ...(again === undefined ? [] : [{ type: 'message_delta', delta: stop, usage: again }]),
    { type: 'message_stop' },
  ];
}

const linesOf = (events: readonly { type: string }[], end = '\n') =>
  events.map((event) => `event: ${event.type}${end}data: ${JSON.stringify(event)}${end}${end}`).join('');

/** @returns the steps of one streamed answer */
async function stepsOf(text: string, size?: number, read = readAll): Promise<Step[]> {
  const { url } = await startProvider([
    { type: 'text/event-stream', bytes: Buffer.from(text), ...(size === undefined ? {} : { size }) },
  ]);
  const steps: Step[] = [];
  const run: WatchedRun = { step: (step) => void steps.push(step), intervention: () => null };
  const client = new Anthropic({
    baseURL: url,
    apiKey: 'k',
    maxRetries: 0,
    middleware: [understudyMiddleware({ run: run as never })],
  });
  await read(client);
  return steps;
}

const PARAMS = { model: 'm', max_tokens: 10, messages: [{ role: 'user' as const, content: 'Hello?' }] };

async function readAll(client: Anthropic): Promise<void> {
  const stream = await client.messages.create({ ...PARAMS, stream: true });
  for await (const _event of stream);
}

/** Reads only the bytes, because the SDK itself cannot read such a stream. */
async function readBytes(client: Anthropic): Promise<void> {
  await (await client.messages.create({ ...PARAMS, stream: true }).asResponse()).text();
}

describe('the forms of a stream', () => {
  const plain = linesOf(eventsOf({}));
  it.each([
    ['LF', plain],
    ['CR LF', linesOf(eventsOf({}), '\r\n')],
    ['CR alone', linesOf(eventsOf({}), '\r')],
    ['a byte order mark and no space', `\ufeff${plain.replaceAll('data: ', 'data:')}`],
    [
      'empty data and comments between',
      `: ping\n\ndata:\n\n${plain.replaceAll('\n\n', '\n\ndata:\n\n: keep-alive\n\n')}`,
    ],
    ['[DONE] at the end', `${plain}data: [DONE]\n\n`],
    ['an event over several lines', plain.replaceAll('"index":0,', '"index":0,\ndata: ')],
    [
      'something that is no JSON between',
      plain.replace('event: content_block_stop', 'data: {half\n\nevent: content_block_stop'),
    ],
  ])('%s, however it is cut', async (_name, text) => {
    for (const size of [undefined, 7, 1])
      expect(await stepsOf(text, size, readBytes)).toEqual([
        { action: 'respond', actionInput: 'Hello.', thought: '', tokens: 15 },
      ]);
  });

  it('are read by the SDK itself, too', async () => {
    expect(await stepsOf(linesOf(eventsOf({}), '\r\n'), 3)).toMatchObject([{ actionInput: 'Hello.' }]);
  });

  it('that are cut off before their end leave no step', async () => {
    const text = linesOf(eventsOf({}).slice(0, 4));
    expect(await stepsOf(text, undefined, readBytes)).toEqual([]);
  });

  it('that end without message_stop, or are left before it, leave their step', async () => {
    const text = linesOf(eventsOf({}).slice(0, -1));
    expect(await stepsOf(text, undefined, readBytes)).toMatchObject([{ tokens: 15 }]);
    const leave = async (client: Anthropic) => {
      for await (const { type } of await client.messages.create({ ...PARAMS, stream: true }))
        if (type === 'message_delta') break;
    };
    expect(await stepsOf(linesOf(eventsOf({})), undefined, leave)).toMatchObject([{ tokens: 15 }]);
  });
});

describe('the tokens of a stream', () => {
  it.each<[string, Usages, number]>([
    [
      'told at the end',
      {
        start: { input_tokens: 0, output_tokens: 0 },
        delta: { input_tokens: 12_345, output_tokens: 45, cache_read_input_tokens: 500 },
      },
      12_890,
    ],
    [
      'with zeros at the end that mean nothing',
      {
        start: { input_tokens: 15_000, cache_read_input_tokens: 7_000, output_tokens: 1 },
        delta: { input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 300 },
      },
      22_300,
    ],
    ['with null at the end', { delta: { input_tokens: null, output_tokens: 5 } }, 15],
    ['told twice', { delta: { output_tokens: 5 }, again: { output_tokens: 9 } }, 19],
    [
      'of an answer that was compacted on its way',
      {
        delta: {
          input_tokens: 23_000,
          output_tokens: 1_000,
          iterations: [
            { input_tokens: 180_000, output_tokens: 3_500 },
            { input_tokens: 23_000, output_tokens: 1_000 },
          ],
        },
      },
      207_500,
    ],
  ])('%s', async (_name, usages, tokens) => {
    expect(await stepsOf(linesOf(eventsOf(usages)))).toMatchObject([{ tokens }]);
  });
});

it.each(['whole', 'streamed as text', 'streamed as a value'])(
  'the numbers of a call keep their digits, also on the way back, %s',
  async (form) => {
    const isStream = form !== 'whole';
    const big = '2512292042121000001';
    const whole = JSON.stringify({
      ...START,
      content: [{ type: 'tool_use', id: 't', name: 'search', input: 'INPUT' }],
      stop_reason: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 1 },
    }).replace('"INPUT"', `{"id":${big}}`);
    const asText = linesOf(eventsOf({}, `{"id": ${big}}`));
    const asValue = asText.replace(/(?<="partial_json":)"(?:[^"\\]|\\.)*"/, `{"id": ${big}}`);
    const call = isStream
      ? { type: 'text/event-stream', bytes: Buffer.from(form === 'streamed as text' ? asText : asValue) }
      : { type: 'application/json', bytes: Buffer.from(whole) };
    const { url, asked } = await startProvider([
      call,
      { type: 'application/json', bytes: Buffer.from(whole) },
    ]);
    const steps: Step[] = [];
    const said = [{ text: 'Stop.', failureType: 'infinite_loop', level: 'nudge' }];
    const run = {
      step: (step: Step) => void steps.push(step),
      intervention: () => (steps.length > 0 ? (said.shift() ?? null) : null),
    };
    const client = new Anthropic({
      baseURL: url,
      apiKey: 'k',
      maxRetries: 0,
      middleware: [understudyMiddleware({ run: run as never })],
    });
    await client.messages
      .create({ ...PARAMS, stream: isStream })
      .asResponse()
      .then((response) => response.text());
    const input = (JSON as unknown as { rawJSON(text: string): object }).rawJSON(big);
    await client.messages.create({
      ...PARAMS,
      messages: [
        ...PARAMS.messages,
        { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'search', input: { id: input } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'ok' }] },
      ],
    });
    expect(steps.map(({ actionInput }) => writeJson(actionInput))).toEqual([`{"id":${big}}`]);
    expect(asked[1]).toContain(`{"id":${big}}`);
    expect(asked[1]).toContain('Stop.');
  },
);
