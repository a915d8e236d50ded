/**
 * LangChain.js and LangGraph, watched and alone: the real packages, a fake provider and the real service, over sockets.
 */

import type { BaseMessage } from '@langchain/core/messages';
import type { StructuredToolInterface } from '@langchain/core/tools';
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent, createMiddleware, tool } from 'langchain';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Understudy } from '../../src/client/understudy.ts';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import type { WatchedRun } from '../../src/integrations/agent-steps.ts';
import { UnderstudyHandler, withIntervention } from '../../src/integrations/langchain.ts';
import { understudyMiddleware } from '../../src/integrations/langchain-middleware.ts';
import {
  type AgentPlace,
  expectIntervention,
  expectLateSteps,
  expectNoDifference,
  LOOP_CALLS,
  loopScript,
  NESTED_STEPS,
  nestedScript,
  searches,
  tellError,
  tryAlone,
  tryWatched,
  watchRun,
} from '../fixtures/agent-trial.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const search = tool(
  ({ query }) => {
    if (query === 'bad') throw new TypeError('no such index');
    return `found ${query}`;
  },
  { name: 'search', description: 'Searches.', schema: z.object({ query: z.string() }) },
);

function modelAt(url: string): ChatOpenAI {
  return new ChatOpenAI({
    model: 'gpt-demo-large',
    apiKey: 'provider-key',
    maxRetries: 0,
    configuration: { baseURL: `${url}/v1` },
  });
}

function agentAt({ url, isWatched }: AgentPlace, tools: StructuredToolInterface[] = [search]) {
  return createAgent({
    model: modelAt(url),
    tools,
    systemPrompt: 'You look things up.',
    middleware: isWatched ? [understudyMiddleware()] : [],
  });
}

const input = { messages: [{ role: 'user', content: 'Where is it?' }] };
const callbacksOf = ({ isWatched }: AgentPlace) => (isWatched ? [new UnderstudyHandler()] : []);

const tellMessages = (messages: { type: string; content: unknown }[]) =>
  messages.map(({ type, content }) => ({ type, content }));

async function invoke(place: AgentPlace) {
  const { messages } = await agentAt(place).invoke(input, { callbacks: callbacksOf(place) });
  return tellMessages(messages);
}

describe('an agent of createAgent', () => {
  it('answers', async () => {
    const { steps } = await expectNoDifference(api, () => ({ text: 'Here.' }), invoke);
    expect(steps).toMatchObject([{ action: 'respond', actionInput: 'Here.' }]);
  });

  it('calls tools in parallel', async () => {
    const { steps } = await expectNoDifference(api, searches('a', 'b'), invoke);
    expect(steps).toHaveLength(3);
    expect(steps).toMatchObject([
      {
        action: 'search',
        actionInput: { query: 'a' },
        thought: 'Let me look.',
        observation: 'found a',
        tokens: 120,
      },
      { action: 'search', actionInput: { query: 'b' }, thought: '', observation: 'found b', tokens: 0 },
      { action: 'respond', actionInput: 'It said: found a; found b' },
    ]);
  });

  it('continues after a failed tool, and learns of the failure', async () => {
    const { steps } = await expectNoDifference(api, searches('bad', 'b'), invoke);
    expect(steps.find(({ isError }) => isError)).toMatchObject({
      action: 'search',
      actionInput: { query: 'bad' },
      observation: 'TypeError: no such index',
    });
    expect(steps).toHaveLength(3);
  });

  it('returns wrong arguments and unknown tools to the model, and both are steps', async () => {
    const script: Script = ({ tool_results }) =>
      tool_results.length > 0
        ? { text: 'So be it.' }
        : {
            tool_calls: [
              { name: 'search', input: { query: 7 } },
              { name: 'sing', input: {} },
            ],
          };
    const { steps } = await expectNoDifference(api, script, invoke);
    expect(steps).toMatchObject([
      { action: 'search', actionInput: { query: 7 }, isError: true },
      { action: 'sing', actionInput: {}, isError: true },
      { action: 'respond', actionInput: 'So be it.' },
    ]);
    expect(steps[0]!.observation).toContain('did not match expected schema');
    expect(steps[1]!.observation).toContain('sing is not a valid tool');
  });

  it('streams', async () => {
    const { steps } = await expectNoDifference(api, searches('a', 'b'), async (place) => {
      const stream = await agentAt(place).stream(input, {
        callbacks: callbacksOf(place),
        streamMode: 'messages',
      });
      const pieces: unknown[] = [];
      for await (const [piece] of stream) pieces.push({ type: piece.type, content: piece.content });
      return pieces;
    });
    expect(steps.map(({ action }) => action)).toEqual(['search', 'search', 'respond']);
    expect(steps[0]!.tokens).toBe(120);
  });

  it('sends all steps of a stream that is read after the end of its run', async () => {
    const steps = await expectLateSteps(
      api,
      searches('a', 'b'),
      (place) => agentAt(place).stream(input, { callbacks: callbacksOf(place), streamMode: 'messages' }),
      async (stream) => {
        for await (const _ of stream);
      },
    );
    expect(steps.map(({ action }) => action)).toEqual(['search', 'search', 'respond']);
  });

  it('gives each step its tokens if an agent is the tool of another', async () => {
    const { steps } = await expectNoDifference(api, nestedScript, async (place) => {
      const ask = tool(
        async ({ question }) => {
          const messages = [{ role: 'user', content: question }];
          const answer = await agentAt(place).invoke({ messages });
          return answer.messages.at(-1)!.text;
        },
        { name: 'ask', description: 'Asks another.', schema: z.object({ question: z.string() }) },
      );
      const { messages } = await agentAt(place, [ask]).invoke(input, { callbacks: callbacksOf(place) });
      return tellMessages(messages);
    });
    expect(steps).toMatchObject(NESTED_STEPS);
  });

  it('is aborted during a stream', async () => {
    const script: Script = () => ({ text: 'one two three four', hold_after_frames: 3 });
    const { steps } = await expectNoDifference(api, script, async (place) => {
      const controller = new AbortController();
      const stream = await agentAt(place).stream(input, {
        callbacks: callbacksOf(place),
        signal: controller.signal,
        streamMode: 'messages',
      });
      const pieces: unknown[] = [];
      const read = async () => {
        for await (const [piece] of stream) {
          pieces.push(piece.content);
          if (piece.content === ' two') controller.abort();
        }
      };
      return { thrown: await read().catch(tellError), pieces };
    });
    expect(steps).toEqual([]);
  });

  it.each([
    ['refuses', { error: { status: 429, message: 'Too many.', retry_after_s: 1 } }],
    ['fails', { error: { status: 500, message: 'Out of order.' } }],
  ])('ends with the error of a provider that %s', async (_, answer) => {
    const { steps } = await expectNoDifference(api, () => answer, invoke);
    expect(steps).toEqual([]);
  });

  it('ends with the same error object that its model throws', async () => {
    class Refused extends Error {
      readonly detail = { code: 7 };
    }
    const thrown = new Refused('not today');
    class RefusingModel extends ChatOpenAI {
      override invoke(): never {
        throw thrown;
      }
      override bindTools(): this {
        return this;
      }
    }
    const model = new RefusingModel({ model: 'gpt-demo-large', apiKey: 'provider-key' });
    const agent = createAgent({ model, tools: [search], middleware: [understudyMiddleware()] });
    expect(await agent.invoke(input).catch((error: unknown) => error)).toBe(thrown);
    expect(thrown.message).toBe('not today');
    expect(thrown).not.toHaveProperty('is_bubble_up');
  });

  it('ends with the error of a stream', async () => {
    await expectNoDifference(
      api,
      () => ({ text: 'one two', stream_error: 'It broke.' }),
      async (place) => {
        const stream = await agentAt(place).stream(input, {
          callbacks: callbacksOf(place),
          streamMode: 'messages',
        });
        const pieces: unknown[] = [];
        for await (const [piece] of stream) pieces.push(piece.content);
        return pieces;
      },
    );
  });
});

it('a custom graph is streamed with parallel tools, of which one fails', async () => {
  const { steps } = await expectNoDifference(api, searches('a', 'bad'), async (place) => {
    const model = modelAt(place.url).bindTools([search]);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('model', async ({ messages }) => ({
        messages: [await model.invoke(place.isWatched ? withIntervention(messages) : messages)],
      }))
      .addNode('tools', new ToolNode([search]))
      .addEdge(START, 'model')
      .addConditionalEdges('model', toolsCondition)
      .addEdge('tools', 'model')
      .compile();
    const updates: unknown[] = [];
    for await (const update of await graph.stream(input, {
      callbacks: callbacksOf(place),
      streamMode: 'updates',
    }))
      for (const [node, { messages }] of Object.entries(update))
        updates.push([node, tellMessages(messages as BaseMessage[])]);
    return updates;
  });
  expect(steps).toHaveLength(3);
  expect(steps.find(({ isError }) => isError)).toMatchObject({
    action: 'search',
    actionInput: { query: 'bad' },
    observation: expect.stringContaining('no such index'),
  });
  expect(steps.at(-1)).toMatchObject({ action: 'respond' });
});

it.each(['invoke', 'stream'] as const)('an agent is aborted during a tool call, by %s', async (way) => {
  const abortable = async (place: AgentPlace) => {
    const controller = new AbortController();
    const impatient = tool(
      () => {
        controller.abort();
        return 'found';
      },
      { name: 'search', description: 'Searches.', schema: z.object({ query: z.string() }) },
    );
    const config = { callbacks: callbacksOf(place), signal: controller.signal };
    const agent = agentAt(place, [impatient]);
    if (way === 'invoke') return agent.invoke(input, config);
    for await (const _ of await agent.stream(input, { ...config, streamMode: 'values' }));
    return 'done';
  };
  // The tool's result after the abort may or may not become a step, because the agent does not wait for it.
  const alone = await tryAlone(searches('a'), abortable);
  const watched = await tryWatched(searches('a'), abortable, api.url);
  expect(watched.outcome).toEqual(alone.outcome);
  expect(watched.requests).toEqual(alone.requests);
  expect(alone.outcome).toHaveProperty('error');
  expect(alone.requests).toHaveLength(1);
});

describe('an agent in a loop', () => {
  /** At the last call, the tool waits until the service has returned an intervention. */
  const patientTool = ({ warned }: AgentPlace) => {
    let calls = 0;
    return tool(
      async () => {
        calls += 1;
        if (calls === LOOP_CALLS) await warned();
        return 'nothing found';
      },
      { name: 'search', description: 'Searches.', schema: z.object({ query: z.string() }) },
    );
  };
  type Content = string | { text: string }[];
  const systemOf = (request: Record<string, unknown>) =>
    (request.messages as { role: string; content: Content }[])
      .filter(({ role }) => role === 'system')
      .map(({ content }) =>
        typeof content === 'string' ? content : content.map(({ text }) => text).join('\n\n'),
      )
      .join('\n\n');
  const countIn = (request: Record<string, unknown>, text: string) =>
    systemOf(request).split(text).length - 1;

  it('gets an intervention in the system prompt, once', async () => {
    const { requests } = await expectIntervention(
      api,
      loopScript,
      async (place) => {
        const { messages } = await agentAt(place, [patientTool(place)]).invoke(input, {
          callbacks: callbacksOf(place),
        });
        return messages.length;
      },
      countIn,
    );
    for (const request of requests) expect(systemOf(request)).toMatch(/^You look things up\.(\n\n|$)/);
  });

  it('gets an intervention in a custom graph', async () => {
    await expectIntervention(
      api,
      loopScript,
      async (place) => {
        const tools = [patientTool(place)];
        const model = modelAt(place.url).bindTools(tools);
        const graph = new StateGraph(MessagesAnnotation)
          .addNode('model', async ({ messages }) => ({
            messages: [await model.invoke(place.isWatched ? withIntervention(messages) : messages)],
          }))
          .addNode('tools', new ToolNode(tools))
          .addEdge(START, 'model')
          .addConditionalEdges('model', toolsCondition)
          .addEdge('tools', 'model')
          .compile();
        const { messages } = await graph.invoke(input, { callbacks: callbacksOf(place) });
        return messages.length;
      },
      countIn,
    );
  });
});

it('an intervention is repeated after a failed call, and not after a successful one', async () => {
  const provider = await startFakeProvider({
    script: ({ calls_before }) =>
      calls_before === 0 ? { error: { status: 500, message: 'Out of order.' } } : { text: 'Done.' },
  });
  const waiting = [{ text: 'Change course.', failureType: 'infinite_loop', level: 'nudge' as const }];
  const run: WatchedRun = { step: () => {}, intervention: () => waiting.shift() ?? null };
  const twice = createMiddleware({
    name: 'twice',
    wrapModelCall: async (request, handler) => {
      try {
        return await handler(request);
      } catch {
        return handler(request);
      }
    },
  });
  const agent = createAgent({
    model: modelAt(provider.url),
    tools: [],
    middleware: [twice, understudyMiddleware({ run })],
  });
  try {
    await agent.invoke(input);
    await agent.invoke(input);
    const told = provider.requests.map(({ body }) => body.includes('Change course.'));
    expect(told).toEqual([true, true, false]);
  } finally {
    await provider.close();
  }
});

it('simultaneous runs are separate', async () => {
  const provider = await startFakeProvider({ script: searches('a', 'b') });
  await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
  const agent = agentAt({ url: provider.url, isWatched: true, warned: () => Promise.resolve() });
  const handler = new UnderstudyHandler();
  try {
    const runs = await Promise.all(
      Array.from({ length: 8 }, () =>
        understudy.run({ framework: 'langchain' }, async (run) => {
          const steps: Parameters<typeof watchRun>[1] = [];
          watchRun(run, steps, []);
          await agent.invoke(input, { callbacks: [handler] });
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
  try {
    expect(
      await invoke({ url: provider.url, isWatched: true, warned: () => Promise.resolve() }),
    ).toHaveLength(4);
  } finally {
    await provider.close();
  }
});
