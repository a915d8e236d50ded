/** The AI SDK, watched and alone: the real package, a fake provider and the real service, over sockets. */

import { createOpenAI } from '@ai-sdk/openai';
import {
  generateText,
  isStepCount,
  type LanguageModel,
  registerTelemetry,
  streamText,
  type Telemetry,
  type ToolSet,
  tool,
  wrapLanguageModel,
} from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Step } from '../../src/client/step.ts';
import { Understudy } from '../../src/client/understudy.ts';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import type { WatchedRun } from '../../src/integrations/agent-steps.ts';
import { understudyMiddleware, understudyTelemetry } from '../../src/integrations/ai-sdk.ts';
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

const search = tool({
  description: 'Searches.',
  inputSchema: z.object({ query: z.string() }),
  execute: ({ query }) => {
    if (query === 'bad') throw new TypeError('no such index');
    return `found ${query}`;
  },
});

function modelAt({ url, isWatched }: AgentPlace, api: 'chat' | 'responses'): LanguageModel {
  const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'provider-key' })[api]('gpt-demo-large');
  return isWatched ? wrapLanguageModel({ model, middleware: understudyMiddleware() }) : model;
}

/** The arguments of a generation. */
function settingsAt(place: AgentPlace, wire: 'chat' | 'responses' = 'chat', tools: ToolSet = { search }) {
  const integrations: Telemetry[] = place.isWatched ? [understudyTelemetry()] : [];
  return {
    model: modelAt(place, wire),
    tools,
    instructions: 'You look things up.',
    prompt: 'Where is it?',
    stopWhen: isStepCount(LOOP_CALLS + 2),
    maxRetries: 0,
    telemetry: { integrations },
  };
}

const tellResult = (result: { text: string; steps: { content: unknown; usage: unknown }[] }) => ({
  text: result.text,
  steps: result.steps.map(({ content, usage }) => JSON.parse(JSON.stringify({ content, usage }))),
});

const generate = async (place: AgentPlace) => tellResult(await generateText(settingsAt(place)));

async function stream(
  place: AgentPlace,
  signal?: AbortSignal,
  onPart: (part: { type: string }) => void = () => {},
) {
  const result = streamText({
    ...settingsAt(place),
    onError: () => {},
    ...(signal === undefined ? {} : { abortSignal: signal }),
  });
  const parts: unknown[] = [];
  for await (const part of result.fullStream) {
    onPart(part);
    parts.push(
      part.type === 'text-delta'
        ? part.text
        : part.type === 'error'
          ? { error: tellError(part.error) }
          : part.type,
    );
  }
  return parts;
}

describe.each([
  ['generateText', generate],
  ['streamText', (place: AgentPlace) => stream(place)],
])('%s', (_, run) => {
  it('answers', async () => {
    const { steps } = await expectNoDifference(api, () => ({ text: 'Here.' }), run);
    expect(steps).toMatchObject([{ action: 'respond', actionInput: 'Here.' }]);
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
        tokens: 120,
      },
      { action: 'search', actionInput: { query: 'b' }, thought: '', observation: 'found b', tokens: 0 },
      { action: 'respond', actionInput: 'It said: found a; found b' },
    ]);
  });

  it('continues after a failed tool, and learns of the failure', async () => {
    const { steps } = await expectNoDifference(api, searches('bad', 'b'), run);
    expect(steps).toHaveLength(3);
    expect(steps.find(({ isError }) => isError)).toMatchObject({
      action: 'search',
      actionInput: { query: 'bad' },
      observation: 'TypeError: no such index',
    });
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
    const { steps } = await expectNoDifference(api, script, run);
    expect(steps).toMatchObject([
      { action: 'search', actionInput: { query: 7 }, isError: true },
      { action: 'sing', actionInput: {}, isError: true },
      { action: 'respond', actionInput: 'So be it.' },
    ]);
    expect(steps[0]!.observation).toContain('Invalid input for tool search');
    expect(steps[1]!.observation).toContain("tried to call unavailable tool 'sing'");
  });

  it.each([
    ['refuses', { error: { status: 429, message: 'Too many.', retry_after_s: 1 } }],
    ['fails', { error: { status: 500, message: 'Out of order.' } }],
  ])('ends with the error of a provider that %s', async (_, answer) => {
    const { steps } = await expectNoDifference(api, () => answer, run);
    expect(steps).toEqual([]);
  });
});

it.each(['generateText', 'streamText'])('an agent is aborted during a tool call, by %s', async (way) => {
  const abortable = async (place: AgentPlace) => {
    const controller = new AbortController();
    const impatient = tool({
      description: 'Searches.',
      inputSchema: z.object({ query: z.string() }),
      execute: () => {
        controller.abort();
        return 'found';
      },
    });
    const settings = {
      ...settingsAt(place, 'chat', { search: impatient }),
      abortSignal: controller.signal,
      onError: () => {},
    };
    if (way === 'generateText') return (await generateText(settings)).text;
    const types = new Set<string>();
    for await (const { type } of streamText(settings).fullStream) types.add(type);
    return types.has('abort');
  };
  // The tool's result after the abort may or may not become a step, because the agent does not wait for it.
  const alone = await tryAlone(searches('a'), abortable);
  const watched = await tryWatched(searches('a'), abortable, api.url);
  expect(watched.outcome).toEqual(alone.outcome);
  expect(watched.requests).toEqual(alone.requests);
  expect(alone.requests).toHaveLength(1);
});

it('each step has its tokens if an agent is the tool of another', async () => {
  const { steps } = await expectNoDifference(api, nestedScript, async (place) => {
    const ask = tool({
      description: 'Asks another.',
      inputSchema: z.object({ question: z.string() }),
      execute: async ({ question: prompt }) =>
        (await generateText({ ...settingsAt(place, 'chat'), prompt })).text,
    });
    return tellResult(await generateText(settingsAt(place, 'chat', { ask })));
  });
  expect(steps).toMatchObject(NESTED_STEPS);
});

describe('streamText', () => {
  it('keeps its steps when it is read after its run', async () => {
    const steps = await expectLateSteps(
      api,
      searches('a', 'b'),
      (place) => streamText(settingsAt(place)),
      async (result) => {
        for await (const _ of result.textStream);
      },
    );
    expect(steps.map(({ action }) => action)).toEqual(['search', 'search', 'respond']);
  });

  it('is aborted during a stream', async () => {
    const script: Script = () => ({ text: 'one two three four', hold_after_frames: 3 });
    const { steps } = await expectNoDifference(api, script, async (place) => {
      const controller = new AbortController();
      let pieces = 0;
      return stream(place, controller.signal, ({ type }) => {
        pieces += type === 'text-delta' ? 1 : 0;
        if (pieces === 2) controller.abort();
      });
    });
    expect(steps).toEqual([]);
  });

  it('continues after the error of a stream as it would alone', async () => {
    await expectNoDifference(
      api,
      () => ({ text: 'one two', stream_error: 'It broke.' }),
      (place) => stream(place),
    );
  });

  it('belongs to the run in which it began, wherever it is read', async () => {
    // The answer is longer than the buffer of an unread stream.
    const text = 'word '.repeat(500);
    const provider = await startFakeProvider({ script: (request) => ({ ...searches('a')(request), text }) });
    await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
    const steps: Step[] = [];
    try {
      const place = { url: provider.url, isWatched: true, warned: () => Promise.resolve() };
      const result = await understudy.run({}, (run) => {
        watchRun(run, steps, []);
        return { read: streamText(settingsAt(place)) };
      });
      const others: Step[] = [];
      await understudy.run({}, async (run) => {
        watchRun(run, others, []);
        expect(await result.read.text).toBe(text);
      });
      expect(steps.map(({ action }) => action)).toEqual(['search', 'respond']);
      expect(others).toEqual([]);
    } finally {
      await provider.close();
    }
  });
});

describe.each(['chat', 'responses'] as const)('an agent in a loop, over %s', (wire) => {
  it.each(['generateText', 'streamText'])(
    'gets an intervention in a system message, once, by %s',
    async (way) => {
      const textsIn = (request: Record<string, unknown>) =>
        ((request.messages ?? request.input) as { role: string; content: string }[])
          .filter(({ role }) => role === 'system' || role === 'developer')
          .map(({ content }) => content);
      const { requests } = await expectIntervention(
        api,
        loopScript,
        async (place) => {
          let calls = 0;
          const patient = tool({
            description: 'Searches.',
            inputSchema: z.object({ query: z.string() }),
            execute: async () => {
              calls += 1;
              if (calls === LOOP_CALLS) await place.warned();
              return 'nothing found';
            },
          });
          const settings = settingsAt(place, wire, { search: patient });
          if (way === 'generateText') return (await generateText(settings)).text;
          return await streamText(settings).text;
        },
        (request, text) => textsIn(request).filter((content) => content === text).length,
      );
      for (const request of requests) expect(textsIn(request)[0]).toBe('You look things up.');
    },
  );
});

it('an intervention is repeated after a failed call, and not after a successful one', async () => {
  const provider = await startFakeProvider({
    script: ({ calls_before }) =>
      calls_before === 0 ? { error: { status: 500, message: 'Out of order.' } } : { text: 'Done.' },
  });
  const waiting = [{ text: 'Change course.', failureType: 'infinite_loop', level: 'nudge' as const }];
  const run: WatchedRun = { step: () => {}, intervention: () => waiting.shift() ?? null };
  const chat = createOpenAI({ baseURL: `${provider.url}/v1`, apiKey: 'provider-key' }).chat('gpt-demo-large');
  const model = wrapLanguageModel({ model: chat, middleware: understudyMiddleware({ run }) });
  try {
    await expect(generateText({ model, prompt: 'Go.', maxRetries: 0 })).rejects.toThrow('Out of order.');
    await generateText({ model, prompt: 'Go.' });
    await generateText({ model, prompt: 'Go.' });
    const told = provider.requests.map(({ body }) => body.includes('Change course.'));
    expect(told).toEqual([true, true, false]);
  } finally {
    await provider.close();
  }
});

it('simultaneous runs are separate, with one registration for all', async () => {
  const provider = await startFakeProvider({ script: searches('a', 'b') });
  await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
  registerTelemetry(understudyTelemetry());
  const place = { url: provider.url, isWatched: true, warned: () => Promise.resolve() };
  const { telemetry: _, ...settings } = settingsAt(place);
  try {
    const runs = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        understudy.run({ framework: 'ai-sdk' }, async (run) => {
          const steps: Step[] = [];
          watchRun(run, steps, []);
          if (i % 2 === 0) await generateText(settings);
          else await streamText(settings).text;
          return steps.map(({ action, thought }) => `${action} ${thought}`);
        }),
      ),
    );
    for (const steps of runs) expect(steps).toEqual(['search Let me look.', 'search ', 'respond ']);
  } finally {
    globalThis.AI_SDK_TELEMETRY_INTEGRATIONS = undefined;
    await provider.close();
  }
});

it('an agent works as usual outside a run', async () => {
  const provider = await startFakeProvider({ script: searches('a') });
  try {
    const { text } = await generate({ url: provider.url, isWatched: true, warned: () => Promise.resolve() });
    expect(text).toBe('It said: found a');
  } finally {
    await provider.close();
  }
});
