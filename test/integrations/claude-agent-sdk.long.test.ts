/** The hooks of the Claude Agent SDK, with recorded inputs from Claude Code, and with the real service. */

import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Step } from '../../src/client/step.ts';
import { Understudy } from '../../src/client/understudy.ts';
import type { WatchedRun } from '../../src/integrations/agent-steps.ts';
import { type UnderstudyHooks, understudyHooks } from '../../src/integrations/claude-agent-sdk.ts';
import { watchRun } from '../fixtures/agent-trial.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const recorded = readFileSync(new URL('../fixtures/hooks/claude-code-2.1.330.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as { hook_event_name: string });

/** Like the SDK: calls the hooks of the event, one after another. */
async function call(hooks: UnderstudyHooks, input: { hook_event_name: string }): Promise<unknown[]> {
  const said: unknown[] = [];
  const matchers = hooks[input.hook_event_name as keyof UnderstudyHooks] ?? [];
  for (const { hooks: called } of matchers) for (const hook of called) said.push(await hook(input));
  return said;
}

function makeRun(...texts: string[]) {
  const steps: Step[] = [];
  const waiting = texts.map((text) => ({ text, failureType: 'infinite_loop', level: 'nudge' as const }));
  const run: WatchedRun = {
    step: (step) => void steps.push(step),
    intervention: () => waiting.shift() ?? null,
  };
  return { run, steps };
}

it('the recorded events of a session are logged, without messages to the agent', async () => {
  const { run, steps } = makeRun();
  const hooks = understudyHooks({ run });
  for (const input of recorded) for (const said of await call(hooks, input)) expect(said).toEqual({});
  expect(steps).toMatchObject([
    {
      action: 'Bash',
      actionInput: { command: 'echo hello from the tool' },
      observation: 'hello from the tool',
      isError: false,
    },
    { action: 'Bash', observation: 'Exit code 3\nbroken', isError: true },
    { action: 'Read', observation: expect.stringContaining('File does not exist.'), isError: true },
    { action: 'respond', actionInput: 'All done.' },
  ]);
  expect(steps).toHaveLength(4);
});

it('an intervention reaches the agent beside an ended or failed tool, once each, and never at a stop', async () => {
  const { run } = makeRun('One.', 'Two.', 'Three.');
  const hooks = understudyHooks({ run });
  const said = [];
  for (const input of recorded.filter(({ hook_event_name }) => hook_event_name !== 'Stop').slice(0, 6))
    said.push(...(await call(hooks, input)));
  expect(said).toEqual([
    { hookSpecificOutput: { hookEventName: 'PostToolUse', additionalContext: 'One.' } },
    { hookSpecificOutput: { hookEventName: 'PostToolUseFailure', additionalContext: 'Two.' } },
  ]);
  expect(await call(hooks, recorded.find(({ hook_event_name }) => hook_event_name === 'Stop')!)).toEqual([
    {},
  ]);
});

it('the last message of another agent is logged, and a tool whose server reports a failure', async () => {
  const { run, steps } = makeRun();
  const hooks = understudyHooks({ run });
  const failed = { tool_name: 'mcp__shop__find', tool_use_id: 't', tool_response: { isError: true } };
  await call(hooks, { hook_event_name: 'PostToolUse', ...failed } as never);
  await call(hooks, { hook_event_name: 'SubagentStop', last_assistant_message: 'Found.' } as never);
  expect(steps).toMatchObject([
    { action: 'mcp__shop__find', isError: true },
    { action: 'respond', actionInput: 'Found.' },
  ]);
});

it('events without the expected fields cause no error, in a run and outside one', async () => {
  const { run } = makeRun();
  for (const hooks of [understudyHooks({ run }), understudyHooks()])
    for (const [event, matchers] of Object.entries(hooks))
      for (const { hooks: called } of matchers)
        for (const input of [{ hook_event_name: event }, { hook_event_name: event, tool_response: 7 }])
          expect(await called[0]!(input)).toEqual({});
});

it('hooks belong to the run in which they were made, and deliver its interventions', async () => {
  await using understudy = new Understudy({ apiKey: CHILD_KEY, baseUrl: api.url, orgId: 'integrations' });
  const failure = recorded.find(({ hook_event_name }) => hook_event_name === 'PostToolUseFailure')!;
  const steps: Step[] = [];
  const said: unknown[] = [];
  // The run continues until the hooks have been called, outside of it.
  const made = Promise.withResolvers<UnderstudyHooks>();
  const done = Promise.withResolvers<void>();
  const run = understudy.run({ framework: 'claude-agent-sdk' }, async (run) => {
    watchRun(run, steps, []);
    made.resolve(understudyHooks());
    await done.promise;
  });
  const hooks = await made.promise;
  for (let i = 0; i < 8; i += 1) said.push(...(await call(hooks, failure)));
  await expect.poll(() => understudy.stats().interventions.received).toBeGreaterThan(0);
  said.push(...(await call(hooks, failure)));
  done.resolve();
  await run;
  expect(steps).toHaveLength(9);
  expect(said.filter((output) => JSON.stringify(output) !== '{}').length).toBeGreaterThan(0);
  for (const output of said)
    if (JSON.stringify(output) !== '{}')
      expect(output).toEqual({
        hookSpecificOutput: {
          hookEventName: 'PostToolUseFailure',
          additionalContext: expect.stringMatching(/./),
        },
      });
});
