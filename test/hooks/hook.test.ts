/**
 * The hooks of Claude Code and Codex as these clients call them: the real command, recorded inputs, a real or a broken
 * service.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { longFrom } from '../long-parts.ts';

const ENTRY = fileURLToPath(new URL('../../src/cli/understudy.mjs', import.meta.url));

type Input = Record<string, unknown>;

/** The inputs that a client of the named version sent to its hooks in one session. */
function recorded(name: string): Input[] {
  const text = readFileSync(new URL(`../fixtures/hooks/${name}.jsonl`, import.meta.url), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Input);
}

const CLAUDE = recorded('claude-code-2.1.330');
const CODEX = recorded('codex-0.169.0');
const eventOf = (inputs: Input[], name: string): Input =>
  inputs.find((input) => input.hook_event_name === name)!;

const service = new ApiChild();
let home: string;
beforeAll(() => service.start());
afterAll(() => service[Symbol.asyncDispose]());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'understudy-hooks-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
});

interface Said {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A long time limit for a busy machine, because these tests do not measure time. */
const PATIENT = ['--timeout-ms', String(PATIENCE_MS)];

/** Calls the hook as a client does: it starts the command with one JSON object on standard input. */
async function hook(
  client: string,
  input: Input | string,
  env: Record<string, string> = {},
  flags: string[] = PATIENT,
): Promise<Said> {
  const child = spawn(process.execPath, [ENTRY, 'hook', client, ...flags], {
    env: { PATH: process.env.PATH, HOME: home, SVC_API_KEY: CHILD_KEY, SVC_BASE_URL: service.url, ...env },
    stdio: 'pipe',
  });
  const said = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text));
  // The hook may end before it has read everything.
  child.stdin.on('error', () => {});
  child.stdin.end(typeof input === 'string' ? input : JSON.stringify(input));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...said };
}

const SILENCE: Said = { code: 0, stdout: '', stderr: '' };

/** The service's counts of a run with this outcome. */
async function finished(run_id: string, outcome: string) {
  const { status, body } = await service.post(`/v1/monitor/runs/${encodeURIComponent(run_id)}/finish`, {
    outcome,
  });
  return { status, steps: body.steps as number, fired: body.fired as Record<string, number> };
}

/** A step of a separate session. */
const call = (session_id: string, tool_use_id: string, change: Input = {}): Input => ({
  ...eventOf(CLAUDE, 'PostToolUse'),
  session_id,
  tool_use_id,
  ...change,
});

describe('a recorded session', () => {
  it.each([
    ['claude-code', CLAUDE, 4],
    ['codex', CODEX, 3],
  ] as const)(
    'of %s becomes a run, and the agent is told nothing',
    { tags: 'long' },
    async (client, inputs, steps) => {
      for (const input of inputs) expect(await hook(client, input)).toEqual(SILENCE);
      const { session_id } = inputs[0] as { session_id: string };
      expect(await finished(session_id, 'ended: other')).toMatchObject({ status: 200, steps });
      expect(statSync(join(home, '.local/state/understudy/hooks')).mode & 0o777).toBe(0o700);
      // None of the session's texts are stored there.
      const [name = ''] = readdirSync(join(home, '.local/state/understudy/hooks'));
      const kept = readFileSync(join(home, '.local/state/understudy/hooks', name), 'utf8');
      expect(kept).not.toMatch(/hello|echo|Bash/);
    },
  );
});

describe('a session that loops', () => {
  it.each([
    ['claude-code', 'PostToolUse', { tool_response: { stdout: '1 failed', stderr: '' } }],
    ['claude-code', 'PostToolUseFailure', { tool_response: undefined, error: 'Exit code 1\n1 failed' }],
    ['codex', 'PostToolUse', { tool_response: '1 failed' }],
  ])('of %s gets an intervention, by %s', { tags: 'long' }, async (client, hook_event_name, change) => {
    const session_id = `circle-${client}-${hook_event_name}`;
    await hook(client, { ...eventOf(CLAUDE, 'UserPromptSubmit'), session_id, prompt: 'fix the date parser' });
    const told: string[] = [];
    for (let at = 0; at < 5; at++) {
      const input = call(session_id, `t${at}`, {
        hook_event_name,
        tool_input: { command: 'npm test' },
        ...change,
      });
      const said = await hook(client, input);
      expect(said).toMatchObject({ code: 0, stderr: '' });
      if (said.stdout !== '') told.push(said.stdout);
    }
    expect(told.length).toBeGreaterThan(0);
    const { hookSpecificOutput, ...others } = JSON.parse(told[0]!);
    expect(others).toEqual({});
    expect(hookSpecificOutput).toEqual({
      hookEventName: hook_event_name,
      additionalContext: expect.stringMatching(/^Run monitor: .*npm test/s),
    });
  });
});

describe('steps', () => {
  it('of parallel tool calls have different indices', { tags: 'long' }, async () => {
    const session_id = 'parallel';
    const calls = Array.from({ length: 8 }, (_, at) =>
      call(session_id, `t${at}`, { tool_input: { command: `echo ${at}` } }),
    );
    const said = await Promise.all(calls.map((input) => hook('claude-code', input)));
    for (const { code } of said) expect(code).toBe(0);
    expect(await finished(session_id, 'success')).toMatchObject({ status: 200, steps: 8 });
  });

  it('that arrive twice count once', async () => {
    const session_id = 'twice';
    // A client calls the hooks of all its settings at once.
    const both = [1, 2].map(() => hook('claude-code', call(session_id, 'same')));
    expect(await Promise.all(both)).toEqual([SILENCE, SILENCE]);
    expect(await finished(session_id, 'success')).toMatchObject({ steps: 1 });
  });

  it.each([
    ['one id for all calls', (_turn: number) => 'same'],
    ['ids that begin anew each turn', (turn: number) => `call:${turn % 2}`],
    ['no ids', () => undefined],
  ])('of calls with %s are all stored', { tags: 'long' }, async (name, idOf) => {
    const session_id = `ids ${name}`;
    for (let turn = 0; turn < 4; turn++) {
      const change = {
        prompt_id: `turn-${turn >> 1}`,
        tool_use_id: idOf(turn),
        tool_input: { n: turn },
        tool_response: { stdout: `result ${turn}`, stderr: '' },
      };
      expect(await hook('claude-code', call(session_id, 'x', change))).toEqual(SILENCE);
    }
    const { body } = await service.get(`/v1/monitor/runs/${encodeURIComponent(session_id)}/steps`);
    expect(body.steps.map(({ observation }: Input) => observation)).toEqual(
      [0, 1, 2, 3].map((turn) => `result ${turn}`),
    );
  });

  it('that the client reports only in part have unknown contents, and raise no alarm', {
    tags: 'long',
  }, async () => {
    const session_id = 'untold';
    for (let at = 0; at < 5; at++) {
      const change = { tool_input: undefined, tool_response: undefined };
      expect(await hook('codex', call(session_id, `t${at}`, change))).toEqual(SILENCE);
    }
    const { body } = await service.get(`/v1/monitor/runs/${session_id}/steps`);
    expect(body.steps).toHaveLength(5);
    expect(body.steps[4]).toMatchObject({ action_input: null, observation: null, fired: [] });
  });

  it('keep the digits of numbers', async () => {
    const input = JSON.stringify(call('digits', 'a', { tool_input: { id: 'BIG' } }));
    expect(await hook('codex', input.replace('"BIG"', '2512292042121000001'))).toEqual(SILENCE);
    const { body } = await service.get('/v1/monitor/runs/digits/steps');
    expect(body.steps).toMatchObject([{ action_input: '{"id":2512292042121000001}' }]);
  });

  it('of a sub-agent are a separate run, which ends with it', {
    tags: 'long',
  }, async () => {
    const session_id = 'with-an-agent';
    const agent = { agent_id: 'a1', agent_type: 'Explore' };
    await hook('claude-code', call(session_id, 'own'));
    await hook('claude-code', call(session_id, 'theirs', agent));
    await hook('claude-code', { ...call(session_id, 'x'), ...agent, hook_event_name: 'SubagentStop' });
    expect(await finished(`${session_id}:a1`, 'success')).toMatchObject({ status: 200, steps: 1 });
    expect(await finished(session_id, 'success')).toMatchObject({ status: 200, steps: 1 });
  });

  it('of a session that is resumed after its end are a second run', { tags: 'long' }, async () => {
    const session_id = 'resumed';
    const end = { ...eventOf(CLAUDE, 'SessionEnd'), session_id };
    await hook('claude-code', call(session_id, 'a'));
    await hook('claude-code', end);
    await hook('claude-code', { ...eventOf(CLAUDE, 'SessionStart'), session_id, source: 'resume' });
    await hook('claude-code', call(session_id, 'b'));
    await hook('claude-code', end);
    expect(await finished(session_id, 'ended: other')).toMatchObject({ steps: 1 });
    expect(await finished(`${session_id}~2`, 'ended: other')).toMatchObject({ status: 200, steps: 1 });
  });

  it.each([
    [
      'claude-code',
      [
        { type: 'text', text: 'found' },
        { type: 'image', data: 'AAAA' },
      ],
    ],
    [
      'codex',
      {
        content: [
          { type: 'text', text: 'found' },
          { type: 'image', data: 'AAAA' },
        ],
        isError: false,
      },
    ],
  ])('of a tool of a server have the text of its parts, from %s', async (client, tool_response) => {
    const session_id = `parts-${client}`;
    expect(
      await hook(client, call(session_id, 'a', { tool_name: 'mcp__shop__find', tool_response })),
    ).toEqual(SILENCE);
    const { body } = await service.get(`/v1/monitor/runs/${session_id}/steps`);
    expect(body.steps).toMatchObject([
      { action: 'mcp__shop__find', observation: 'found\n[image]', is_error: false },
    ]);
  });

  it('larger than the service accepts are cut', { tags: 'long' }, async () => {
    const said = await hook('codex', call('large', 'a', { tool_response: 'x'.repeat(10_000_000) }));
    expect(said).toEqual(SILENCE);
    expect(await finished('large', 'success')).toMatchObject({ status: 200, steps: 1 });
  });
});

/** Listens until the end of the test. */
async function listen(handle: RequestListener): Promise<{ url: string; server: Server }> {
  const server = createServer(handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

describe('an agent continues if its service', () => {
  it('is down, and the hook does not try again at once', { tags: 'long' }, async () => {
    const { url, server } = await listen(() => {});
    server.close();
    await once(server, 'close');
    const env = { SVC_BASE_URL: url };
    expect(await hook('claude-code', call('down', 'a'), env)).toEqual(SILENCE);
    const again = await hook('claude-code', call('down', 'b'), env, [...PATIENT, '--verbose']);
    expect(again).toEqual({
      code: 0,
      stdout: '',
      stderr: 'understudy hook: the service did not answer a moment ago\n',
    });
    // The next session tries again.
    await hook('claude-code', { ...eventOf(CLAUDE, 'SessionStart'), session_id: 'down' });
    expect(await hook('claude-code', call('down', 'c'))).toEqual(SILENCE);
    expect(await finished('down', 'success')).toMatchObject({ status: 200, steps: 1 });
  });

  it('never answers, after one short wait', { tags: 'long' }, async () => {
    let asked = 0;
    const { url } = await listen(() => void asked++);
    const env = { SVC_BASE_URL: url };
    expect(await hook('claude-code', call('silent', 'a'), env, ['--timeout-ms', '1000'])).toEqual(SILENCE);
    const again = await hook('claude-code', call('silent', 'b'), env, [...PATIENT, '--verbose']);
    expect(again).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('did not answer a moment ago'),
    });
    expect(asked).toBeLessThanOrEqual(1);
  });

  const answers = [
    ['fails', 500, '{"detail":"Internal Server Error"}'],
    ['refuses the key', 401, '{"detail":"Invalid or missing credentials"}'],
    ['has had enough', 429, '{"detail":"Too many requests"}'],
    ['is something else', 200, '<html>'],
    ['answers in another shape', 200, 'null'],
    ['knows no such path', 404, ''],
    ['leads elsewhere', 302, ''],
  ] as const;
  for (const [at, [does, status, body]] of answers.entries())
    it(`${does}`, longFrom(at, 1), async () => {
      const { url } = await listen((request, response) => {
        request.resume();
        response.writeHead(status, { location: '/elsewhere' }).end(body);
      });
      expect(await hook('claude-code', call('bad', 'a'), { SVC_BASE_URL: url })).toEqual(SILENCE);
      expect(await hook('codex', { ...eventOf(CODEX, 'SessionEnd') }, { SVC_BASE_URL: url })).toEqual(
        SILENCE,
      );
    });

  it('refuses one step, and the next step is sent', async () => {
    const asked: string[] = [];
    const { url } = await listen((request, response) => {
      request.resume();
      asked.push(request.url!.split('/').at(-1)!);
      const isRefused = asked.filter((name) => name === 'steps').length === 1 && asked.at(-1) === 'steps';
      response.writeHead(isRefused ? 413 : 200).end(JSON.stringify({ fired: [] }));
    });
    const env = { SVC_BASE_URL: url };
    const refused = await hook('claude-code', call('refused', 'a'), env, [...PATIENT, '--verbose']);
    expect(refused).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('HTTP 413') });
    expect(await hook('claude-code', call('refused', 'b'), env, [...PATIENT, '--verbose'])).toEqual(SILENCE);
    expect(asked).toEqual(['runs', 'steps', 'steps']);
  });

  it('has no key or no address', { tags: 'long' }, async () => {
    expect(await hook('claude-code', call('a', 'a'), { SVC_API_KEY: '' })).toEqual(SILENCE);
    expect(await hook('claude-code', call('a', 'a'), { SVC_BASE_URL: 'no address' })).toEqual(SILENCE);
    expect(await hook('claude-code', call('a', 'a'), { HOME: '/proc/no-home' })).toEqual(SILENCE);
  });
});

describe('a client gets no error if it sends', () => {
  const inputs: readonly (readonly [string, string | Input])[] = [
    ['no JSON', '{"session_id":'],
    ['a session with a path for a name', { ...call('../../../../etc/passwd', 'b') }],
    ['an event of another version', { ...call('a', 'b'), hook_event_name: 'PostEverything' }],
    ['nothing', ''],
    ['a list', '[]'],
    ['null', 'null'],
    ['no session', { ...call('a', 'b'), session_id: undefined }],
    ['a session that is no text', { ...call('a', 'b'), session_id: { $ne: 1 } }],
    ['no tool', { ...call('a', 'b'), tool_name: undefined }],
    ['a session that is too long', { ...call('a', 'b'), session_id: 'x'.repeat(1_000) }],
  ];
  for (const [at, [what, input]] of inputs.entries())
    it(`${what}`, longFrom(at, 3), async () => {
      expect(await hook('claude-code', input)).toEqual(SILENCE);
      expect(readdirSync(home).filter((name) => name !== '.local')).toEqual([]);
    });

  it('the name of an unknown client', { tags: 'long' }, async () => {
    expect(await hook('claude-kode', call('a', 'b'))).toEqual(SILENCE);
  });
});
