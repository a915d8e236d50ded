/**
 * `examples/`, each as a separate process, as a reader would start it: its output, and what the service learns about
 * it.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { CLAUDE_SETTINGS, ClientHome, clientEnvironment } from '../real-clients/client-session.ts';
import { type InstalledClient, installClient } from '../real-clients/installed-client.ts';

const folder = fileURLToPath(new URL('../../examples/', import.meta.url));
const root = fileURLToPath(new URL('../../', import.meta.url));
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
const sdk = await installClient('claude-agent-sdk');
/** Facts about each example: the client that it needs, and whether it reports tokens. */
const EXAMPLES: Record<string, { client?: InstalledClient; tells_tokens: boolean }> = {
  'ai-sdk.ts': { tells_tokens: true },
  'anthropic.ts': { tells_tokens: true },
  'claude-agent-sdk.ts': { client: sdk, tells_tokens: false },
  'langchain.ts': { tells_tokens: true },
  'openai-agents.ts': { tells_tokens: true },
};

const api = new ApiChild();
let provider: FakeProvider;
/** A relay between an example and the service that records the example's requests. */
let relay: Server;
let said: { path: string; body: Record<string, unknown>; status: number }[] = [];

beforeAll(async () => {
  await api.start();
  provider = await startFakeProvider();
  relay = createServer(async (request, response) => {
    const path = request.url ?? '';
    const body = await text(request);
    const answer = await api.post(path, body);
    said.push({ path, body: JSON.parse(body), status: answer.status });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.text);
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
});

afterAll(async () => {
  relay.close();
  relay.closeAllConnections();
  await provider.close();
  await api[Symbol.asyncDispose]();
});

/** Runs an example. @returns its output */
async function runExample(name: string, baseUrl: string, client?: InstalledClient) {
  said = [];
  const home = new ClientHome();
  onTestFinished(() => home[Symbol.dispose]());
  const imports =
    client === undefined ? [] : [`--import=${new URL('../real-clients/as-installed.mjs', import.meta.url)}`];
  const forClient =
    client === undefined
      ? {}
      : {
          ...clientEnvironment(home),
          ...CLAUDE_SETTINGS,
          // The provider calls the first offered tool. Without this variable, that would be a tool that searches for
          // tools.
          ENABLE_TOOL_SEARCH: 'false',
          CLIENT_PACKAGE: client.package_name,
          CLIENT_ENTRY: client.entry!,
        };
  const child = spawn(process.execPath, ['--conditions=understudy-source', ...imports, `${folder}${name}`], {
    cwd: home.work,
    env: {
      PATH: process.env.PATH,
      SVC_API_KEY: CHILD_KEY,
      SVC_BASE_URL: baseUrl,
      OPENAI_API_KEY: 'provider-key',
      OPENAI_BASE_URL: `${provider.url}/v1`,
      // Without this variable, the SDK would send its traces to its maker.
      OPENAI_AGENTS_DISABLE_TRACING: '1',
      ANTHROPIC_API_KEY: 'provider-key',
      ANTHROPIC_BASE_URL: provider.url,
      ...forClient,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [[code], stdout, stderr] = await Promise.all([
    once(child, 'close'),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, stdout, stderr };
}

const relayUrl = () => `http://127.0.0.1:${(relay.address() as AddressInfo).port}`;

// Excluded are the tutorial (test/demo/tutorial.test.ts) and the Python examples (clients/python/tests).
it('the tests know all examples', () =>
  expect(
    readdirSync(folder)
      .filter((name) => name !== 'tutorial' && name !== 'python')
      .sort(),
  ).toEqual(Object.keys(EXAMPLES).sort()));

describe.each(Object.keys(EXAMPLES))('examples/%s', (name) => {
  const { client, tells_tokens } = EXAMPLES[name]!;
  const whereInstalled = it.skipIf(client?.entry === null);
  const needed = client === undefined ? '' : ` ${client.needed}`;

  it('has at most 15 lines', () => {
    expect(readFileSync(`${folder}${name}`, 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(15);
  });

  whereInstalled(
    `prints what the model says in the end, and the service has the run with its steps${needed}`,
    async () => {
      expect(await runExample(name, relayUrl(), client)).toEqual({
        code: 0,
        stdout: expect.stringContaining('The tools said: Nothing about'),
        stderr: '',
      });
      for (const { status } of said) expect(status).toBe(200);
      const bodies = said.filter(({ path }) => path.startsWith('/v1/monitor/runs')).map(({ body }) => body);
      expect(bodies).toMatchObject([
        { task: 'Find Ada', framework: expect.not.stringMatching(/^(custom)?$/) },
        {
          step_index: 0,
          action: expect.stringMatching(/^(mcp__finder__)?search$/),
          observation: expect.stringContaining('Nothing about'),
          is_error: false,
        },
        { step_index: 1, action: 'respond', action_input: expect.stringContaining('The tools said:') },
        { outcome: 'success' },
      ]);
      if (tells_tokens) expect(bodies[1]!.tokens).toBeGreaterThan(0);
    },
  );

  whereInstalled(`prints the same where there is no service${needed}`, async () => {
    const { code, stdout } = await runExample(name, 'http://127.0.0.1:9', client);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringContaining('The tools said: Nothing about'),
    });
  });
});

// The types of the other examples are checked together with all sources.
it.skipIf(sdk.entry === null)(`examples/claude-agent-sdk.ts has correct types ${sdk.needed}`, () => {
  const place = mkdtempSync(join(tmpdir(), 'understudy-types-'));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  const config = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      paths: { [sdk.package_name]: [join(dirname(sdk.entry!), 'sdk.d.ts')] },
      typeRoots: [join(root, 'node_modules/@types')],
    },
    include: [],
    files: [`${folder}claude-agent-sdk.ts`],
  };
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify(config));
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', place], { encoding: 'utf8' });
  expect({ stdout, status }).toEqual({ stdout: '', status: 0 });
});
