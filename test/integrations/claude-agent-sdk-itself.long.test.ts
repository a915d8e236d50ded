/**
 * The Claude Agent SDK itself, watched and alone: the real package with its client, a fake provider and the real
 * service, over sockets.
 */

import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Step } from '../../src/client/step.ts';
import { Understudy } from '../../src/client/understudy.ts';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { type UnderstudyHooks, understudyHooks } from '../../src/integrations/claude-agent-sdk.ts';
import {
  type AgentPlace,
  expectNoDifference,
  LOOP_CALLS,
  tryWatched,
  watchRun,
} from '../fixtures/agent-trial.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { CLAUDE_SETTINGS, ClientHome, clientEnvironment } from '../real-clients/client-session.ts';
import { installClient } from '../real-clients/installed-client.ts';

const installed = await installClient('claude-agent-sdk');

interface Message {
  type: string;
  subtype?: string;
  message?: { content: string | Record<string, unknown>[] };
  event?: { type: string };
  result?: string;
  is_error?: boolean;
}

interface Options {
  env: Record<string, string>;
  cwd: string;
  hooks?: UnderstudyHooks;
  [name: string]: unknown;
}

/**
 * The part of the SDK that is used. Its types are not a dependency; examples.long.test.ts checks an example against
 * them.
 */
interface Sdk {
  query(asked: { prompt: string; options: Options }): AsyncIterable<Message>;
  tool(
    name: string,
    about: string,
    schema: object,
    run: (input: { query: string }) => Promise<object>,
    more: object,
  ): object;
  createSdkMcpServer(server: { name: string; tools: object[] }): object;
}

describe.skipIf(installed.entry === null)(`the SDK ${installed.needed}`, () => {
  const api = new ApiChild();
  const home = new ClientHome();
  let sdk: Sdk;
  beforeAll(async () => {
    sdk = await import(pathToFileURL(installed.entry!).href);
    await api.start();
  });
  afterAll(async () => {
    await api[Symbol.asyncDispose]();
    home[Symbol.dispose]();
  });

  const SEARCH = 'mcp__finder__search';
  const search = async (query: string) => {
    if (query === 'bad') throw new TypeError('no such index');
    return `found ${query}`;
  };

  function ask({ url, isWatched }: AgentPlace, settings: Record<string, unknown> = {}, find = search) {
    const run = async ({ query }: { query: string }) => ({
      content: [{ type: 'text', text: await find(query) }],
    });
    // Tools that only read are called concurrently.
    const annotations = { readOnlyHint: true };
    const tool = sdk.tool('search', 'Searches.', { query: z.string() }, run, { annotations });
    return sdk.query({
      prompt: 'Where is it?',
      options: {
        cwd: home.work,
        env: {
          ...clientEnvironment(home),
          ...CLAUDE_SETTINGS,
          CLAUDE_CODE_MAX_RETRIES: '0',
          ANTHROPIC_BASE_URL: url,
          ANTHROPIC_API_KEY: 'provider-key',
        },
        model: 'claude-demo-large',
        systemPrompt: 'You look things up.',
        mcpServers: { finder: sdk.createSdkMcpServer({ name: 'finder', tools: [tool] }) },
        tools: ['Bash'],
        allowedTools: [SEARCH, 'Bash'],
        settingSources: [],
        ...settings,
        ...(isWatched ? { hooks: understudyHooks() } : {}),
      },
    });
  }

  /** Content without random parts, and with concurrent results in a fixed order. */
  function tellContent(content: unknown): unknown {
    if (!Array.isArray(content)) return content;
    const told = content.map(({ type, text, name, input, content, is_error }) =>
      JSON.stringify({ type, text, name, input, content, is_error }),
    );
    return told.sort();
  }

  /** The conversation that a program gets, and the stream events that it gets in addition. */
  function tellMessages(messages: Message[]) {
    const said = messages
      .filter(({ type }) => type === 'assistant' || type === 'user' || type === 'result')
      .map(({ type, subtype, message, result, is_error }) => ({
        type,
        subtype,
        content: tellContent(message?.content),
        result,
        is_error,
      }));
    // Results of concurrent tools come in the order in which the tools end.
    const results = said.filter(({ type }) => type === 'user').map((message) => JSON.stringify(message));
    return {
      said: said.filter(({ type }) => type !== 'user'),
      results: results.sort(),
      pieces: messages.flatMap(({ event }) => (event === undefined ? [] : [event.type])),
    };
  }

  /** The conversation that the model gets. */
  const tellRequest = (request: Record<string, unknown>) =>
    (request.messages as { role: string; content: unknown }[]).map(({ role, content }) => ({
      role,
      content: tellContent(content),
    }));

  async function read(session: AsyncIterable<Message>) {
    const messages: Message[] = [];
    try {
      for await (const message of session) messages.push(message);
    } catch (thrown) {
      // The message contains the provider's address, which differs between the compared runs.
      throw new Error((thrown as Error).message.replace(/127\.0\.0\.1:\d+/, 'it'));
    }
    return tellMessages(messages);
  }

  // For concurrent tools, the client calls the hooks in the order in which the tools end.
  const expectSame = (script: Script, settings?: Record<string, unknown>) =>
    expectNoDifference(api, script, (place) => read(ask(place, settings)), tellRequest, bySearch);

  const searches =
    (...queries: unknown[]): Script =>
    ({ calls_before }) =>
      calls_before > 0
        ? { text: 'It is here.' }
        : { text: 'Let me look.', tool_calls: queries.map((query) => ({ name: SEARCH, input: { query } })) };
  const bySearch = (steps: Step[]) =>
    steps.toSorted((a, b) => (JSON.stringify(a.actionInput) < JSON.stringify(b.actionInput) ? -1 : 1));

  it.each([
    ['whole messages', {}],
    ['partial messages', { includePartialMessages: true }],
  ])('answers with %s', async (_, settings) => {
    const { steps, outcome } = await expectSame(() => ({ text: 'Here.' }), settings);
    expect(steps).toEqual([{ action: 'respond', actionInput: 'Here.', thought: '', tokens: 0 }]);
    const { said, pieces } = (outcome as { value: ReturnType<typeof tellMessages> }).value;
    expect(said.at(-1)).toMatchObject({ type: 'result', result: 'Here.' });
    expect(pieces.includes('content_block_delta')).toBe('includePartialMessages' in settings);
  });

  it.each([
    ['whole messages', {}],
    ['partial messages', { includePartialMessages: true }],
  ])('calls tools in parallel, of which some fail, with %s', async (_, settings) => {
    const { steps } = await expectSame(searches('a', 'bad', 7), settings);
    expect(steps.at(-1)).toMatchObject({ action: 'respond', actionInput: 'It is here.' });
    expect(bySearch(steps.slice(0, -1))).toMatchObject([
      { action: SEARCH, actionInput: { query: 'a' }, observation: 'found a', isError: false },
      { action: SEARCH, actionInput: { query: 'bad' }, observation: 'no such index', isError: true },
      {
        action: SEARCH,
        actionInput: { query: 7 },
        observation: expect.stringContaining('expected string'),
        isError: true,
      },
    ]);
  });

  it('runs commands, of which one fails', async () => {
    const commands = ['echo found', 'echo broken >&2; exit 3'];
    const script: Script = ({ calls_before }) => {
      const command = commands[calls_before];
      return command === undefined
        ? { text: 'It is here.' }
        : { tool_calls: [{ name: 'Bash', input: { command } }] };
    };
    const { steps } = await expectSame(script);
    expect(steps).toMatchObject([
      { action: 'Bash', actionInput: { command: commands[0] }, observation: 'found', isError: false },
      { action: 'Bash', observation: expect.stringContaining('broken'), isError: true },
      { action: 'respond' },
    ]);
  });

  it.each([
    ['refuses', { status: 400, message: 'No.' }],
    ['fails', { status: 529, message: 'Overloaded.' }],
  ])('ends with the error of a provider that %s', async (_, error) => {
    const { steps, outcome } = await expectSame(() => ({ error }));
    expect(outcome).toHaveProperty('error.message', expect.stringContaining(error.message));
    expect(steps).toEqual([]);
  });

  it('is aborted during a stream', async () => {
    const script: Script = () => ({ text: 'one two three four', hold_after_frames: 5 });
    const { steps, outcome } = await expectNoDifference(
      api,
      script,
      async (place) => {
        const abortController = new AbortController();
        for await (const { event } of ask(place, { abortController, includePartialMessages: true }))
          if (event?.type === 'content_block_delta') abortController.abort();
      },
      tellRequest,
    );
    expect(outcome).toHaveProperty('error');
    expect(steps).toEqual([]);
  });

  it('delivers interventions to an agent in a loop beside a tool’s result, each once', async () => {
    const script: Script = ({ calls_before }) =>
      calls_before >= LOOP_CALLS
        ? { text: 'I give up.' }
        : { tool_calls: [{ name: SEARCH, input: { query: 'x' } }] };
    const { outcome, told, requests } = await tryWatched(
      script,
      async (place) => {
        let calls = 0;
        return read(
          ask(place, {}, async () => {
            calls += 1;
            if (calls === LOOP_CALLS) await place.warned();
            return 'nothing found';
          }),
        );
      },
      api.url,
    );
    expect(outcome).toHaveProperty('value');
    expect(told.length).toBeGreaterThan(0);
    for (const { text } of told) {
      const escaped = JSON.stringify(text).slice(1, -1);
      const places = requests.map((request) => JSON.stringify(request).split(escaped).length - 1);
      // Hooks can only add to a conversation, so every later request contains the text as well.
      const first = places.indexOf(1);
      expect(first).toBeGreaterThan(0);
      expect(places).toEqual(requests.map((_, at) => (at < first ? 0 : 1)));
    }
  });

  it('separates simultaneous runs', async () => {
    const provider = await startFakeProvider({
      script: ({ text, messages }) =>
        messages > 2 || text.includes('result')
          ? { text: 'It is here.' }
          : { tool_calls: [{ name: SEARCH, input: { query: 'a' } }] },
    });
    await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
    const place = { url: provider.url, isWatched: true, warned: () => Promise.resolve() };
    try {
      const runs = await Promise.all(
        [0, 1].map(() =>
          understudy.run({ framework: 'claude-agent-sdk' }, async (run) => {
            const steps: Step[] = [];
            watchRun(run, steps, []);
            await read(ask(place));
            return steps.map(({ action }) => action);
          }),
        ),
      );
      for (const steps of runs) expect(steps).toEqual([SEARCH, 'respond']);
    } finally {
      await provider.close();
    }
  });
});
