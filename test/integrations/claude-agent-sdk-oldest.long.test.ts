/**
 * The oldest Claude Agent SDK that the integration supports, watched and alone: the real package with its client, a
 * fake provider and the real service, over sockets. The tests of the newest one have the other cases.
 */

import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Script } from '../../src/demo/script.ts';
import { type UnderstudyHooks, understudyHooks } from '../../src/integrations/claude-agent-sdk.ts';
import { type AgentPlace, expectNoDifference } from '../fixtures/agent-trial.ts';
import { ApiChild } from '../fixtures/api-child.ts';
import { CLAUDE_SETTINGS, ClientHome, clientEnvironment } from '../real-clients/client-session.ts';
import { installClient } from '../real-clients/installed-client.ts';

const installed = await installClient('claude-agent-sdk-oldest');

interface Message {
  type: string;
  result?: string;
}

/** The part of the SDK that is used; its types are not a dependency. */
interface Sdk {
  query(asked: {
    prompt: string;
    options: { hooks?: UnderstudyHooks; [name: string]: unknown };
  }): AsyncIterable<Message>;
}

describe.skipIf(installed.entry === null)(`the oldest SDK ${installed.needed}`, () => {
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

  async function ask({ url, isWatched }: AgentPlace): Promise<string[]> {
    const session = sdk.query({
      prompt: 'Where is it?',
      options: {
        cwd: home.work,
        env: {
          ...clientEnvironment(home),
          ...CLAUDE_SETTINGS,
          ANTHROPIC_BASE_URL: url,
          ANTHROPIC_API_KEY: 'provider-key',
        },
        model: 'claude-demo-large',
        allowedTools: ['Bash'],
        settingSources: [],
        ...(isWatched ? { hooks: understudyHooks() } : {}),
      },
    });
    const results: string[] = [];
    for await (const { type, result = '' } of session) if (type === 'result') results.push(result);
    return results;
  }

  /** The roles in the model's conversation; its words differ by day and folder. */
  const tellRequest = (request: Record<string, unknown>) =>
    (request.messages as { role: string }[]).map(({ role }) => role);

  it('logs commands, of which one fails', async () => {
    const commands = ['echo found', 'echo broken >&2; exit 3'];
    const script: Script = ({ calls_before }) => {
      const command = commands[calls_before];
      return command === undefined
        ? { text: 'It is here.' }
        : { tool_calls: [{ name: 'Bash', input: { command } }] };
    };
    const { steps, outcome } = await expectNoDifference(api, script, ask, tellRequest);
    expect(outcome).toEqual({ value: ['It is here.'] });
    expect(steps).toMatchObject([
      { action: 'Bash', actionInput: { command: commands[0] }, observation: 'found', isError: false },
      { action: 'Bash', observation: expect.stringContaining('broken'), isError: true },
      { action: 'respond', actionInput: 'It is here.' },
    ]);
  });
});
