/** The OpenAI Agents SDK, watched and alone: the real package, a fake provider and the real service, over sockets. */

import {
  Agent,
  type AgentOptions,
  type CallModelInputFilter,
  OpenAIProvider,
  Runner,
  setTraceProcessors,
  setTracingDisabled,
  type TracingProcessor,
  tool,
} from '@openai/agents';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Step } from '../../src/client/step.ts';
import { Understudy } from '../../src/client/understudy.ts';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import type { WatchedRun } from '../../src/integrations/agent-steps.ts';
import { understudyInputFilter, watchRunner } from '../../src/integrations/openai-agents.ts';
import {
  type AgentPlace,
  expectIntervention,
  expectLateSteps,
  expectNoDifference,
  LOOP_CALLS,
  loopScript,
  searches,
  watchRun,
} from '../fixtures/agent-trial.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

/** A user's own trace processor. The SDK's processor would send traces to its maker. */
let traced: string[] = [];
const processor: TracingProcessor = {
  onTraceStart: async () => {},
  onTraceEnd: async () => {},
  onSpanStart: async () => {},
  onSpanEnd: async ({ spanData }) => void traced.push(spanData.type),
  shutdown: async () => {},
  forceFlush: async () => {},
};
setTraceProcessors([processor]);
// Without this call, tracing would be off, because NODE_ENV is `test`.
setTracingDisabled(false);
afterEach(() => {
  traced = [];
});

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const parameters = z.object({ query: z.string() });
const search = tool({
  name: 'search',
  description: 'Searches.',
  parameters,
  execute: ({ query }) => {
    if (query === 'bad') throw new TypeError('no such index');
    return `found ${query}`;
  },
});

type Settings = Partial<ConstructorParameters<typeof Runner>[0]> & { wire?: 'chat' | 'responses' };

function runnerAt({ url, isWatched }: AgentPlace, { wire = 'responses', ...config }: Settings = {}): Runner {
  const openAIClient = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'provider-key', maxRetries: 0 });
  const modelProvider = new OpenAIProvider({ openAIClient, useResponses: wire === 'responses' });
  const runner = new Runner({ modelProvider, ...config });
  return isWatched ? watchRunner(runner) : runner;
}

const agentWith = (settings: Partial<AgentOptions<unknown, 'text'>> = {}) =>
  new Agent<unknown, 'text'>({
    name: 'Finder',
    instructions: 'You look things up.',
    model: 'gpt-demo-large',
    tools: [search],
    ...settings,
  });

/** The result of a run, without random parts. */
const tell = (result: { finalOutput?: unknown; history: unknown; rawResponses: { usage: unknown }[] }) => ({
  output: result.finalOutput,
  history: result.history,
  usage: result.rawResponses.map(({ usage }) => usage),
});

type Way = (place: AgentPlace, agent?: Agent, signal?: AbortSignal) => Promise<unknown>;

const optionsOf = (signal: AbortSignal | undefined) => (signal === undefined ? {} : { signal });

const ask =
  (settings: Settings): Way =>
  async (place, agent = agentWith(), signal) =>
    tell(await runnerAt(place, settings).run(agent, 'Where is it?', optionsOf(signal)));

const stream =
  (settings: Settings): Way =>
  async (place, agent = agentWith(), signal) => {
    const runner = runnerAt(place, settings);
    const result = await runner.run(agent, 'Where is it?', { stream: true, ...optionsOf(signal) });
    const events: string[] = [];
    for await (const event of result)
      events.push(event.type === 'run_item_stream_event' ? event.name : event.type);
    await result.completed;
    return { events, ...(result.cancelled ? { history: result.history } : tell(result)) };
  };

const ways: [name: string, way: Way, settings: Settings][] = (['responses', 'chat'] as const).flatMap(
  (wire): [string, Way, Settings][] => [
    [`run, over ${wire}`, ask({ wire }), { wire }],
    [`a streamed run, over ${wire}`, stream({ wire }), { wire }],
    [`run without tracing, over ${wire}`, ask({ wire, tracingDisabled: true }), { wire }],
  ],
);

describe.each(ways)('%s', (name, run) => {
  it('answers', async () => {
    const { steps, requests } = await expectNoDifference(
      api,
      () => ({ text: 'Here.' }),
      (place) => run(place),
    );
    expect(steps).toMatchObject([{ action: 'respond', actionInput: 'Here.' }]);
    expect(steps[0]!.tokens).toBeGreaterThan(0);
    expect(requests).toHaveLength(1);
    // A user's processor gets the same traces as without Understudy.
    const spans = traced.filter((type) => type === 'response' || type === 'generation');
    expect(spans).toHaveLength(name.includes('without') ? 0 : 3);
  });

  it('calls tools in parallel', async () => {
    const { steps } = await expectNoDifference(api, searches('a', 'b'), (place) => run(place));
    expect(steps).toMatchObject([
      {
        action: 'search',
        actionInput: { query: 'a' },
        thought: 'Let me look.',
        observation: 'found a',
        isError: false,
        tokens: 120,
      },
      { action: 'search', actionInput: { query: 'b' }, thought: '', observation: 'found b', tokens: 0 },
      { action: 'respond', actionInput: 'It said: found a; found b' },
    ]);
    expect(steps).toHaveLength(3);
  });

  it('continues after a failed tool, and learns of the failure', async () => {
    const { steps } = await expectNoDifference(api, searches('bad', 'b'), (place) => run(place));
    expect(steps).toHaveLength(3);
    expect(steps.find(({ isError }) => isError)).toMatchObject({
      action: 'search',
      actionInput: { query: 'bad' },
      observation: 'An error occurred while running the tool. Please try again.',
    });
  });

  it('returns wrong arguments to the model, and they are a failed step', async () => {
    const { steps } = await expectNoDifference(api, searches(7), (place) => run(place));
    expect(steps).toMatchObject([
      { action: 'search', actionInput: { query: 7 }, isError: true },
      { action: 'respond' },
    ]);
  });

  it.each([
    ['refuses', { error: { status: 429, message: 'Too many.', retry_after_s: 1 } }],
    ['fails', { error: { status: 500, message: 'Out of order.' } }],
  ])('ends with the error of a provider that %s', async (_, answer) => {
    const { steps, outcome } = await expectNoDifference(
      api,
      () => answer,
      (place) => run(place),
    );
    expect(outcome).toHaveProperty('error.status', answer.error.status);
    expect(steps).toEqual([]);
  });

  it('is aborted during a tool call', async () => {
    const { steps, requests } = await expectNoDifference(api, searches('a'), (place) => {
      const controller = new AbortController();
      const execute = () => {
        controller.abort();
        return 'found';
      };
      const impatient = tool({ name: 'search', description: 'Searches.', parameters, execute });
      return run(place, agentWith({ tools: [impatient] }), controller.signal);
    });
    expect(requests).toHaveLength(1);
    // No request sends the result to a model, so there is no step.
    expect(steps).toEqual([]);
  });
});

it('the steps of a stream are kept if it is read after its run', async () => {
  const steps = await expectLateSteps(
    api,
    searches('a', 'b'),
    (place) => runnerAt(place).run(agentWith(), 'Where is it?', { stream: true }),
    async (result) => {
      for await (const _ of result);
      await result.completed;
    },
  );
  expect(steps.map(({ action }) => action)).toEqual(['search', 'search', 'respond']);
});

it('a run is aborted during a stream', async () => {
  const script: Script = () => ({ text: 'one two three four', hold_after_frames: 5 });
  const { steps } = await expectNoDifference(api, script, async (place) => {
    const controller = new AbortController();
    const options = { stream: true as const, signal: controller.signal };
    const result = await runnerAt(place).run(agentWith(), 'Where is it?', options);
    const types: string[] = [];
    for await (const event of result) {
      if (event.type !== 'raw_model_stream_event') continue;
      types.push(event.data.type);
      if (event.data.type === 'output_text_delta') controller.abort();
    }
    return types.includes('output_text_delta');
  });
  expect(steps).toEqual([]);
});

it('a run continues after the error of a stream as it would alone', async () => {
  const script: Script = () => ({ text: 'one two', stream_error: 'It broke.' });
  const { outcome } = await expectNoDifference(api, script, (place) => stream({})(place));
  expect(outcome).toHaveProperty('error');
});

it('an error of a tool with its own text is recognized by the span', async () => {
  const own = tool({
    name: 'search',
    description: 'Searches.',
    parameters,
    execute: () => {
      throw new TypeError('no such index');
    },
    errorFunction: (_, error) => `It did not work: ${(error as Error).message}`,
  });
  const { steps } = await expectNoDifference(api, searches('a'), (place) =>
    ask({})(place, agentWith({ tools: [own] })),
  );
  expect(steps[0]).toMatchObject({ observation: 'It did not work: no such index', isError: true });
});

it('a tool that ends the run is logged, without an answer of a model', async () => {
  const { steps } = await expectNoDifference(api, searches('a'), (place) =>
    ask({})(place, agentWith({ toolUseBehavior: 'stop_on_first_tool' })),
  );
  expect(steps).toMatchObject([{ action: 'search', observation: 'found a', isError: false, tokens: 120 }]);
});

it('a hand-over to another agent is followed', async () => {
  const script: Script = (request) =>
    request.tools.includes('transfer_to_Finder')
      ? { text: 'Not me.', tool_calls: [{ name: 'transfer_to_Finder', input: {} }] }
      : searches('a')({
          ...request,
          tool_results: request.tool_results.filter((result) => result.startsWith('found')),
        });
  const { steps } = await expectNoDifference(api, script, (place) =>
    ask({})(place, Agent.create({ name: 'Desk', model: 'gpt-demo-large', handoffs: [agentWith()] })),
  );
  expect(steps).toMatchObject([
    {
      action: 'transfer_to_Finder',
      thought: 'Not me.',
      observation: '{"assistant":"Finder"}',
      isError: false,
    },
    { action: 'search', thought: 'Let me look.', observation: 'found a' },
    { action: 'respond', actionInput: 'It said: found a' },
  ]);
});

it('calls of unknown tools are returned to the model if the runner does so, and they are failed steps', async () => {
  const script: Script = ({ tool_results }) =>
    tool_results.length > 0
      ? { text: 'So be it.' }
      : {
          tool_calls: [
            { name: 'sing', input: { song: 'x' } },
            { name: 'search', input: { query: 'a' } },
          ],
        };
  const { steps } = await expectNoDifference(api, script, (place) =>
    ask({ toolNotFoundBehavior: 'return_error_to_model' })(place),
  );
  expect(steps).toHaveLength(3);
  expect(steps).toMatchObject([
    { action: 'search', observation: 'found a', isError: false },
    { action: 'sing', actionInput: { song: 'x' }, isError: true },
    { action: 'respond', actionInput: 'So be it.' },
  ]);
});

it('an agent that is a tool is logged as one step', async () => {
  const script: Script = (request) =>
    request.tools.includes('find')
      ? request.tool_results.length > 0
        ? { text: 'There.' }
        : { text: 'I ask.', tool_calls: [{ name: 'find', input: { input: 'Where?' } }] }
      : searches('a')(request);
  const { steps, requests } = await expectNoDifference(api, script, (place) => {
    const find = agentWith().asTool({ toolName: 'find', toolDescription: 'Finds.' });
    return ask({})(place, agentWith({ name: 'Desk', tools: [find] }));
  });
  expect(requests).toHaveLength(4);
  expect(steps).toMatchObject([
    { action: 'find', thought: 'I ask.', observation: 'It said: found a', isError: false },
    { action: 'respond', actionInput: 'There.' },
  ]);
});

it('the conversation in the input is not logged', async () => {
  const { steps } = await expectNoDifference(
    api,
    () => ({ text: 'Here.' }),
    async (place) => {
      const call = {
        type: 'function_call' as const,
        callId: 'call_1',
        name: 'search',
        arguments: '{"query":"a"}',
      };
      const output = { type: 'text' as const, text: 'found a' };
      const result = await runnerAt(place).run(agentWith(), [
        { role: 'user', content: 'Where is it?' },
        { ...call, status: 'completed' },
        { type: 'function_call_result', callId: 'call_1', name: 'search', status: 'completed', output },
      ]);
      return tell(result);
    },
  );
  expect(steps).toMatchObject([{ action: 'respond' }]);
});

describe('an agent in a loop', () => {
  const own: CallModelInputFilter = ({ modelData }) => ({
    input: modelData.input,
    instructions: `${modelData.instructions} Be brief.`,
  });
  const searchOn =
    (prepare: (place: AgentPlace) => (agent: Agent) => Promise<{ finalOutput?: unknown }>) =>
    async (place: AgentPlace) => {
      let calls = 0;
      const patient = tool({
        name: 'search',
        description: 'Searches.',
        parameters,
        execute: async () => {
          calls += 1;
          if (calls === LOOP_CALLS) await place.warned();
          return 'nothing found';
        },
      });
      return (await prepare(place)(agentWith({ tools: [patient] }))).finalOutput;
    };
  const maxTurns = LOOP_CALLS + 2;

  it.each<[string, (place: AgentPlace) => (agent: Agent) => Promise<{ finalOutput?: unknown }>]>([
    [
      'of the runner',
      (place) => (agent) => runnerAt(place, { callModelInputFilter: own }).run(agent, 'Go.', { maxTurns }),
    ],
    [
      'of one run',
      (place) => (agent) =>
        runnerAt(place).run(agent, 'Go.', {
          maxTurns,
          callModelInputFilter: understudyInputFilter({}, own),
        }),
    ],
  ])('is told so once beside a filter %s', async (_, prepare) => {
    const { requests } = await expectIntervention(
      api,
      loopScript,
      searchOn(prepare),
      ({ instructions }, text) => String(instructions).split(text).length - 1,
    );
    for (const { instructions } of requests)
      expect(instructions).toMatch(/^You look things up\. Be brief\.(\n\n|$)/);
  });

  it.each(ways)('gets an intervention in its instructions, once, by %s', async (name, _, { wire }) => {
    const settings = { wire: wire!, tracingDisabled: name.includes('without') };
    const systemOf = (request: Record<string, unknown>) =>
      wire === 'responses'
        ? String(request.instructions)
        : String((request.messages as { content: string }[])[0]!.content);
    await expectIntervention(
      api,
      loopScript,
      searchOn((place) => async (agent) => {
        if (!name.includes('streamed')) return runnerAt(place, settings).run(agent, 'Go.', { maxTurns });
        const result = await runnerAt(place, settings).run(agent, 'Go.', { maxTurns, stream: true });
        await result.completed;
        return result;
      }),
      (request, text) => systemOf(request).split(text).length - 1,
    );
  });
});

it.each([false, true])(
  'an intervention is repeated after a failed call, and not after a successful one, stream: %s',
  async (streamed) => {
    const provider = await startFakeProvider({
      script: ({ calls_before }) =>
        calls_before === 0 ? { error: { status: 500, message: 'Out of order.' } } : { text: 'Done.' },
    });
    const waiting = [{ text: 'Change course.', failureType: 'infinite_loop', level: 'nudge' as const }];
    const run: WatchedRun = { step: () => {}, intervention: () => waiting.shift() ?? null };
    const place = { url: provider.url, isWatched: false, warned: () => Promise.resolve() };
    const runner = watchRunner(runnerAt(place), { run });
    const go = async () => {
      if (!streamed) return runner.run(agentWith(), 'Go.');
      const result = await runner.run(agentWith(), 'Go.', { stream: true });
      await result.completed;
      return result;
    };
    try {
      await expect(go()).rejects.toThrow('Out of order.');
      await go();
      await go();
      const told = provider.requests.map(({ body }) => body.includes('Change course.'));
      expect(told).toEqual([true, true, false]);
    } finally {
      await provider.close();
    }
  },
);

it('simultaneous runs are separate, with one runner for all', async () => {
  const provider = await startFakeProvider({ script: searches('a', 'b') });
  await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
  const runner = runnerAt({ url: provider.url, isWatched: true, warned: () => Promise.resolve() });
  const agent = agentWith();
  try {
    const runs = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        understudy.run({ framework: 'openai-agents' }, async (run) => {
          const steps: Step[] = [];
          watchRun(run, steps, []);
          if (i % 2 === 0) await runner.run(agent, 'Where is it?');
          else await (await runner.run(agent, 'Where is it?', { stream: true })).completed;
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
    const place = { url: provider.url, isWatched: true, warned: () => Promise.resolve() };
    expect(await ask({})(place)).toHaveProperty('output', 'It said: found a');
  } finally {
    await provider.close();
  }
});
