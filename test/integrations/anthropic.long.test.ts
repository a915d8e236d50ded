/** The Anthropic SDK, watched and alone: the real package, a fake provider and the real service, over sockets. */

import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Step } from '../../src/client/step.ts';
import { Understudy } from '../../src/client/understudy.ts';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import type { WatchedRun } from '../../src/integrations/agent-steps.ts';
import { understudyMiddleware } from '../../src/integrations/anthropic.ts';
import {
  type AgentPlace,
  expectIntervention,
  expectLateSteps,
  expectNoDifference,
  LOOP_CALLS,
  loopScript,
  searches,
  tellError,
  watchRun,
} from '../fixtures/agent-trial.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

function clientAt({ url, isWatched }: AgentPlace): Anthropic {
  const middleware = isWatched ? [understudyMiddleware()] : [];
  return new Anthropic({ baseURL: url, apiKey: 'provider-key', authToken: null, maxRetries: 0, middleware });
}

const PARAMS = {
  model: 'claude-demo-large',
  max_tokens: 1024,
  system: 'You look things up.',
  tools: [
    {
      name: 'search',
      input_schema: {
        type: 'object' as const,
        properties: { query: { type: 'string' as const } },
        required: ['query'],
      },
    },
  ],
};
const QUESTION: Anthropic.MessageParam = { role: 'user', content: 'Where is it?' };

function search(input: unknown): string {
  const { query } = input as { query: string };
  if (query === 'bad') throw new TypeError('no such index');
  return `found ${query}`;
}

type Ask = (client: Anthropic, messages: Anthropic.MessageParam[]) => Promise<Anthropic.Message>;

/** An agent: requests answers and carries out their calls until an answer has no call. */
async function loop(place: AgentPlace, ask: Ask): Promise<unknown> {
  const client = clientAt(place);
  const messages = [QUESTION];
  for (;;) {
    const { content } = await ask(client, messages);
    const results: Anthropic.ToolResultBlockParam[] = [];
    for (const block of content) {
      if (block.type !== 'tool_use') continue;
      const result = { type: 'tool_result' as const, tool_use_id: block.id };
      try {
        results.push({ ...result, content: search(block.input) });
      } catch (thrown) {
        results.push({ ...result, content: [{ type: 'text', text: String(thrown) }], is_error: true });
      }
    }
    messages.push({ role: 'assistant', content });
    if (results.length === 0) return messages;
    messages.push({ role: 'user', content: results });
  }
}

/** Every way to get a message from the SDK. */
const ways: [name: string, ask: Ask][] = [
  ['create', (client, messages) => client.messages.create({ ...PARAMS, messages })],
  [
    'create().withResponse',
    async (client, messages) => {
      const { data, response, request_id } = await client.messages
        .create({ ...PARAMS, messages })
        .withResponse();
      expect([response.status, response.url.endsWith('/v1/messages')]).toEqual([200, true]);
      expect(request_id).toMatch(/^req_/);
      return data;
    },
  ],
  [
    'create().asResponse',
    async (client, messages) => {
      const response = await client.messages.create({ ...PARAMS, messages }).asResponse();
      return (await response.json()) as Anthropic.Message;
    },
  ],
  [
    'stream().finalMessage',
    (client, messages) => client.messages.stream({ ...PARAMS, messages }).finalMessage(),
  ],
  [
    'stream().withResponse',
    async (client, messages) => {
      const { data } = await client.messages.stream({ ...PARAMS, messages }).withResponse();
      return data.finalMessage();
    },
  ],
  [
    'create({ stream: true })',
    async (client, messages) => {
      const events: Anthropic.RawMessageStreamEvent[] = [];
      for await (const event of await client.messages.create({ ...PARAMS, messages, stream: true }))
        events.push(event);
      expect(events.map(({ type }) => type)).toContain('message_stop');
      const blocks = events
        .filter((event) => event.type === 'content_block_start')
        .map((event) => event.content_block);
      // A text answer is returned as it is.
      if (!blocks.some(({ type }) => type === 'tool_use'))
        return { content: [{ type: 'text', text: JSON.stringify(events) }] } as Anthropic.Message;
      return client.messages.stream({ ...PARAMS, messages }).finalMessage();
    },
  ],
];

describe.each(ways)('%s', (way, ask) => {
  const run = (place: AgentPlace) => loop(place, ask);
  const asks = way.startsWith('create({') ? 2 : 1;

  it('answers', async () => {
    const script: Script = () => ({
      thinking: 'It is here.',
      text: 'Here.',
      usage: { input: 7, output: 3, cache_read: 5 },
    });
    const { steps } = await expectNoDifference(api, script, run);
    expect(steps).toEqual([{ action: 'respond', actionInput: 'Here.', thought: 'It is here.', tokens: 15 }]);
  });

  it('calls tools in parallel', async () => {
    const { steps } = await expectNoDifference(api, searches('a', 'b'), run);
    expect(steps).toHaveLength(3);
    expect(steps).toMatchObject([
      {
        action: 'search',
        actionInput: { query: 'a' },
        thought: 'Let me look.',
        observation: 'found a',
        tokens: 120 * asks,
      },
      { action: 'search', actionInput: { query: 'b' }, thought: '', observation: 'found b', tokens: 0 },
      { action: 'respond', actionInput: 'It said: found a; found b' },
    ]);
  });

  it('continues after a failed tool, and learns of the failure', async () => {
    const { steps } = await expectNoDifference(api, searches('bad', 'b'), run);
    expect(steps).toMatchObject([
      { actionInput: { query: 'bad' }, observation: 'TypeError: no such index', isError: true },
      { actionInput: { query: 'b' }, isError: false },
      { action: 'respond' },
    ]);
  });

  it.each([
    ['refuses', { error: { status: 429, message: 'Too many.', retry_after_s: 1 } }],
    ['fails', { error: { status: 529, message: 'Overloaded.' } }],
  ])('ends with the error of a provider that %s', async (_, answer) => {
    const { steps, outcome } = await expectNoDifference(api, () => answer, run);
    if (way !== 'create().asResponse') expect(outcome).toHaveProperty('error.status', answer.error.status);
    expect(steps).toEqual([]);
  });
});

describe('a stream', () => {
  it.each([
    [
      'create',
      (place: AgentPlace) =>
        clientAt(place).messages.create({ ...PARAMS, messages: [QUESTION], stream: true }),
    ],
    ['stream', (place: AgentPlace) => clientAt(place).messages.stream({ ...PARAMS, messages: [QUESTION] })],
  ] as [string, (place: AgentPlace) => AsyncIterable<unknown>][])(
    'keeps its step when it is read after its run, by %s',
    async (_, begin) => {
      const steps = await expectLateSteps(
        api,
        () => ({ text: 'Here.' }),
        begin,
        async (stream) => {
          for await (const _ of stream);
        },
      );
      expect(steps).toMatchObject([{ action: 'respond', actionInput: 'Here.' }]);
    },
  );

  it.each(['asResponse', 'withResponse'] as const)('is read by create().%s, byte for byte', async (way) => {
    const script: Script = () => ({ thinking: 'It is here.', text: 'Here it is.' });
    const { steps, outcome } = await expectNoDifference(api, script, async (place) => {
      const asked = clientAt(place).messages.create({ ...PARAMS, messages: [QUESTION], stream: true });
      if (way === 'asResponse') {
        const response = await asked.asResponse();
        return [response.status, response.headers.get('content-type'), await response.text()];
      }
      const { data, response, request_id } = await asked.withResponse();
      const events: unknown[] = [];
      for await (const event of data) events.push(event);
      return [response.status, request_id, events];
    });
    expect(JSON.stringify(outcome)).toContain('message_stop');
    expect(steps).toMatchObject([{ action: 'respond', actionInput: 'Here it is.', thought: 'It is here.' }]);
  });

  it('is read through its events in the same order', async () => {
    const script: Script = () => ({ thinking: 'It is here.', text: 'Here it is.' });
    const { outcome } = await expectNoDifference(api, script, async (place) => {
      const told: unknown[] = [];
      const stream = clientAt(place).messages.stream({ ...PARAMS, messages: [QUESTION] });
      for (const name of ['connect', 'text', 'thinking', 'contentBlock', 'message', 'end'] as const)
        stream.on(name, (first?: unknown) => void told.push([name, first]));
      await stream.done();
      return told;
    });
    expect(outcome).toHaveProperty('value.0.0', 'connect');
    expect(JSON.stringify(outcome)).toContain('"contentBlock"');
  });

  it('is aborted in the middle', async () => {
    const script: Script = () => ({ text: 'one two three four', hold_after_frames: 4 });
    const { steps, outcome } = await expectNoDifference(api, script, async (place) => {
      const stream = clientAt(place).messages.stream({ ...PARAMS, messages: [QUESTION] });
      stream.on('text', () => stream.abort());
      return stream.finalMessage();
    });
    expect(outcome).toHaveProperty('error.name', 'APIUserAbortError');
    expect(steps).toEqual([]);
  });

  it('is left in the middle', async () => {
    const script: Script = () => ({ text: 'one two three four', hold_after_frames: 4 });
    const { steps } = await expectNoDifference(api, script, async (place) => {
      const types: string[] = [];
      const stream = await clientAt(place).messages.create({ ...PARAMS, messages: [QUESTION], stream: true });
      for await (const { type } of stream) {
        types.push(type);
        if (type === 'content_block_delta') break;
      }
      return types;
    });
    expect(steps).toEqual([]);
  });

  it('ends with the error that the provider sends', async () => {
    const script: Script = () => ({ text: 'one two', stream_error: 'Overloaded.' });
    const { outcome } = await expectNoDifference(api, script, (place) =>
      clientAt(place)
        .messages.stream({ ...PARAMS, messages: [QUESTION] })
        .finalMessage(),
    );
    expect(JSON.stringify(outcome)).toContain('Overloaded.');
  });
});

function runnerTool(run: (input: unknown) => string | Promise<string>) {
  return betaTool({
    name: 'search',
    description: 'Searches.',
    inputSchema: PARAMS.tools[0]!.input_schema,
    run,
  });
}

it.each([false, true])('the tool runner is watched, stream: %s', async (stream) => {
  const { steps } = await expectNoDifference(api, searches('a', 'bad'), async (place) => {
    const runner = clientAt(place).beta.messages.toolRunner({
      ...PARAMS,
      messages: [{ role: 'user', content: 'Where is it?' }],
      tools: [runnerTool(search)],
      stream,
    });
    return (await runner.runUntilDone()).content;
  });
  expect(steps).toMatchObject([
    { actionInput: { query: 'a' }, observation: 'found a', isError: false },
    { actionInput: { query: 'bad' }, observation: expect.stringContaining('no such index'), isError: true },
    { action: 'respond' },
  ]);
});

it.each([false, true])('the tool runner is aborted during a tool call, stream: %s', async (stream) => {
  const { steps, requests, outcome } = await expectNoDifference(api, searches('a'), async (place) => {
    const controller = new AbortController();
    const tool = runnerTool(() => {
      controller.abort();
      return 'found';
    });
    const params = {
      ...PARAMS,
      messages: [{ role: 'user' as const, content: 'Where?' }],
      tools: [tool],
      stream,
    };
    const runner = clientAt(place).beta.messages.toolRunner(params, { signal: controller.signal });
    return (await runner.runUntilDone()).content;
  });
  expect(outcome).toHaveProperty('error.name', 'APIUserAbortError');
  expect(requests).toHaveLength(1);
  // A result becomes a step with the request that sends it to the model, and this request is never sent.
  expect(steps.every(({ action }) => action === 'search')).toBe(true);
});

it('token counts and model lists are not affected', async () => {
  const { steps, requests } = await expectNoDifference(
    api,
    () => ({}),
    async (place) => {
      const client = clientAt(place);
      const { input_tokens } = await client.messages.countTokens({
        model: 'claude-demo-large',
        messages: [QUESTION],
      });
      return [input_tokens, (await client.models.list()).data.length];
    },
  );
  expect([steps, requests.length]).toEqual([[], 2]);
});

describe('an agent in a loop', () => {
  /** Searches until it is stopped, with the tool runner. */
  const searchOn =
    (settings: { system?: Anthropic.TextBlockParam[] | string; stream: boolean; thread?: false }) =>
    async (place: AgentPlace) => {
      let calls = 0;
      const { system: _, ...params } = PARAMS;
      const runner = clientAt(place).beta.messages.toolRunner({
        ...params,
        ...settings,
        messages: [{ role: 'user', content: 'Where is it?' }],
        tools: [
          runnerTool(async () => {
            calls += 1;
            if (calls === LOOP_CALLS) await place.warned();
            return 'nothing found';
          }),
        ],
      });
      return (await runner.runUntilDone()).content;
    };
  const joined = (said: unknown) =>
    typeof said === 'string'
      ? said
      : ((said ?? []) as { text?: string }[]).map(({ text }) => text).join('\n\n');

  it.each([
    ['a text', 'You look things up.', false],
    ['blocks', [{ type: 'text' as const, text: 'You look things up.' }], true],
  ])('gets an intervention beside a system prompt that is %s, once', async (_, system, stream) => {
    const { requests } = await expectIntervention(
      api,
      loopScript,
      searchOn({ system, stream, thread: false }),
      (request, text) => joined(request.system).split(text).length - 1,
    );
    for (const { system } of requests) expect(joined(system)).toMatch(/^You look things up\.(\n\n|$)/);
  });

  it('gets an intervention in a new system prompt, once', async () => {
    await expectIntervention(
      api,
      loopScript,
      searchOn({ stream: false, thread: false }),
      ({ system }, text) => (system === text ? 1 : 0),
    );
  });

  it('gets an intervention once, in its own turn if the server stores the conversation', async () => {
    await expectIntervention(api, loopScript, searchOn({ stream: false }), (request, text) => {
      const [turn] = request.messages as { content: unknown }[];
      return joined(turn!.content).split(text).length - 1;
    });
  });
});

it('an intervention is repeated after a failed attempt, and not after a successful one', async () => {
  const provider = await startFakeProvider({
    script: ({ calls_before }) =>
      calls_before === 0 ? { error: { status: 500, message: 'Out of order.' } } : { text: 'Done.' },
  });
  const waiting = [{ text: 'Change course.', failureType: 'infinite_loop', level: 'nudge' as const }];
  const run: WatchedRun = { step: () => {}, intervention: () => waiting.shift() ?? null };
  const middleware = [understudyMiddleware({ run })];
  const client = new Anthropic({
    baseURL: provider.url,
    apiKey: 'provider-key',
    authToken: null,
    middleware,
  });
  try {
    for (let i = 0; i < 2; i += 1) await client.messages.create({ ...PARAMS, messages: [QUESTION] });
    const told = provider.requests.map(({ body }) => body.includes('Change course.'));
    expect(told).toEqual([true, true, false]);
  } finally {
    await provider.close();
  }
});

it('simultaneous runs are separate', async () => {
  const provider = await startFakeProvider({ script: searches('a', 'b') });
  await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
  const place = { url: provider.url, isWatched: true, warned: () => Promise.resolve() };
  try {
    const runs = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        understudy.run({ framework: 'claude-messages' }, async (run) => {
          const steps: Step[] = [];
          watchRun(run, steps, []);
          await loop(place, ways[i % ways.length]![1]);
          return steps.map(({ action, thought }) => `${action} ${thought}`);
        }),
      ),
    );
    for (const steps of runs) expect(steps).toEqual(['search Let me look.', 'search ', 'respond ']);
  } finally {
    await provider.close();
  }
});

it('an agent works as usual outside a run', async () => {
  const provider = await startFakeProvider({ script: searches('a') });
  const place = { url: provider.url, isWatched: true, warned: () => Promise.resolve() };
  try {
    expect(await loop(place, ways[0]![1]).catch(tellError)).toHaveLength(4);
  } finally {
    await provider.close();
  }
});
