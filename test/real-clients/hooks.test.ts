/**
 * The real Claude Code and Codex with the hooks that `understudy hooks` installs: what the service learns about a
 * session, and what the agent receives. The model is a fake, the service is real.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { runHere } from '../cli/here.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { ClientHome } from './client-session.ts';
import { claudeCode, codex, type KnownClient } from './known-client.ts';

const service = new ApiChild();
beforeAll(() => service.start());
afterAll(() => service[Symbol.asyncDispose]());

async function provider(script: Script) {
  const started = await startFakeProvider({ script });
  onTestFinished(() => started.close());
  return started;
}

function makeHome(): ClientHome {
  const home = new ClientHome();
  onTestFinished(() => home[Symbol.dispose]());
  return home;
}

/**
 * Installs the hooks as users do, but with a longer timeout, because a hook on a busy machine may take longer than an
 * agent would wait.
 */
async function installHooks(client: KnownClient, home: ClientHome): Promise<void> {
  const file = client.settings(home);
  const written = await runHere(['hooks', client.name, '--write', '--file', file], { HOME: home.home });
  expect(written).toMatchObject({ code: 0 });
  const patient = readFileSync(file, 'utf8')
    .replaceAll(` hook ${client.name}"`, ` hook ${client.name} --timeout-ms ${PATIENCE_MS}"`)
    .replaceAll('"timeout": 5', `"timeout": ${(2 * PATIENCE_MS) / 1_000}`);
  expect(patient).toContain('--timeout-ms');
  writeFileSync(file, patient);
}

const watched = () => ({ SVC_API_KEY: CHILD_KEY, SVC_BASE_URL: service.url });

async function read(path: string) {
  const { status, body } = await service.get(path);
  expect(status).toBe(200);
  return body;
}

for (const client of await Promise.all([claudeCode(), codex()])) {
  const calls =
    (count: number, command: string): Script =>
    ({ calls_before }) =>
      calls_before < count
        ? { text: 'Let me look.', tool_calls: [client.shell(command)] }
        : { text: 'It is here.' };

  describe.skipIf(client.installed.entry === null)(`${client.name} ${client.installed.needed}`, () => {
    it('has its tool calls as the steps of a run, which ends with the session', async () => {
      const home = makeHome();
      await installHooks(client, home);
      const { url } = await provider(calls(2, 'echo found'));
      const session = await client.ask(home, 'Where is it?', url, watched());
      expect(session).toMatchObject({ code: 0, answer: 'It is here.' });
      const { steps } = await read(`/v1/monitor/runs/${session.id}/steps`);
      const call = {
        action: 'Bash',
        action_input: expect.stringContaining('"command":"echo found"'),
        observation: expect.stringMatching(/^found\n?$/),
        is_error: false,
      };
      expect(steps).toMatchObject([call, call, { action: 'answer', thought: 'It is here.' }]);
      expect(await read(`/v1/monitor/runs/${session.id}`)).toMatchObject({
        agent_name: client.name,
        framework: client.name,
        task: 'Where is it?',
        status: 'finished',
        outcome: 'ended: other',
      });
    });

    it('has a step for each parallel call', async () => {
      const home = makeHome();
      await installHooks(client, home);
      const { url } = await provider(({ calls_before }) =>
        calls_before === 0
          ? { tool_calls: ['a', 'b', 'c'].map((word) => client.shell(`echo ${word}`)) }
          : { text: 'It is here.' },
      );
      const session = await client.ask(home, 'Where is it?', url, watched());
      const { steps } = await read(`/v1/monitor/runs/${session.id}/steps`);
      const observed = steps.map(({ observation }: { observation: string }) => observation.trim());
      expect(observed.slice(0, 3).sort()).toEqual(['a', 'b', 'c']);
      expect(steps).toHaveLength(4);
    });

    it('reads the interventions when it loops, each once', async () => {
      const home = makeHome();
      await installHooks(client, home);
      const { url, requests } = await provider(calls(6, 'echo 1 failed'));
      const session = await client.ask(home, 'Mend the tests.', url, watched());
      expect(session).toMatchObject({ code: 0, answer: 'It is here.' });
      const { steps } = await read(`/v1/monitor/runs/${session.id}/steps`);
      const begun = steps.findIndex(({ intervention }: { intervention: unknown }) => intervention !== null);
      // The first request after that step contains the intervention's text, which then stays in the conversation.
      const told = requests.map(({ body }) => body.toString().split('Run monitor: infinite_loop').length - 1);
      expect(begun).toBeGreaterThan(0);
      expect(told.slice(0, begun + 1)).toEqual(Array(begun + 1).fill(0));
      expect(told[begun + 1]).toBe(1);
      expect(told.at(-1)).toBeLessThanOrEqual(2);
    });

    it('behaves as without hooks if the service is down, and after the hooks are removed', async () => {
      const home = makeHome();
      const script = calls(2, 'echo found');
      const go = async (env: Record<string, string>) => {
        const { url, requests } = await provider(script);
        const { code, answer } = await client.ask(home, 'Where is it?', url, env);
        return { code, answer, requests: requests.length };
      };
      const alone = await go({});
      await installHooks(client, home);
      expect(await go({ ...watched(), SVC_BASE_URL: 'http://127.0.0.1:9' })).toEqual(alone);
      expect(await go({})).toEqual(alone);
      const before = await read('/v1/monitor/runs?limit=1');
      const file = client.settings(home);
      await runHere(['hooks', client.name, '--remove', '--file', file], { HOME: home.home });
      expect(await go(watched())).toEqual(alone);
      expect(await read('/v1/monitor/runs?limit=1')).toEqual(before);
    });
  });
}

const claude = await claudeCode();
describe.skipIf(claude.installed.entry === null)(`claude-code ${claude.installed.needed}`, () => {
  it('reports a failed command as a failed step', async () => {
    const home = makeHome();
    await installHooks(claude, home);
    const { url } = await provider(({ calls_before }) =>
      calls_before === 0 ? { tool_calls: [claude.shell('echo broken >&2; exit 3')] } : { text: 'So be it.' },
    );
    const session = await claude.ask(home, 'Where is it?', url, watched());
    expect((await read(`/v1/monitor/runs/${session.id}/steps`)).steps).toMatchObject([
      { action: 'Bash', observation: expect.stringContaining('broken'), is_error: true },
      { action: 'answer', thought: 'So be it.' },
    ]);
  });

  it('reports the work of a sub-agent as a separate run', async () => {
    const home = makeHome();
    await installHooks(claude, home);
    const agent = { description: 'Looks', prompt: 'Look for it.', subagent_type: 'general-purpose' };
    // The second call of the model belongs to the sub-agent.
    const asked = [
      { name: 'Agent', input: { ...agent, run_in_background: false } },
      claude.shell('echo found'),
    ];
    const { url } = await provider(({ calls_before }) => {
      const call = asked[calls_before];
      return call === undefined ? { text: 'It is here.' } : { tool_calls: [call] };
    });
    const session = await claude.ask(home, 'Where is it?', url, watched());
    const { runs } = await read('/v1/monitor/runs');
    const own = runs.filter(({ run_id }: { run_id: string }) => run_id.startsWith(session.id));
    expect(own).toHaveLength(2);
    const [{ run_id }] = own.filter(({ run_id }: { run_id: string }) => run_id !== session.id);
    expect(run_id).toMatch(/:\w+$/);
    expect((await read(`/v1/monitor/runs/${encodeURIComponent(run_id)}/steps`)).steps).toMatchObject([
      { action: 'Bash', observation: 'found' },
    ]);
  });
});
