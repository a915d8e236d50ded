/** `examples/`, each as a process of its own as a reader would start it: what it prints, and what the service gets to know of it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const folder = fileURLToPath(new URL('../../examples/', import.meta.url));
const names = readdirSync(folder);

const api = new ApiChild();
let provider: FakeProvider;
/** Between an example and the service: keeps what the example says. */
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

/** @returns what it printed */
async function runExample(name: string, baseUrl: string) {
  said = [];
  const child = spawn(process.execPath, ['--conditions=understudy-source', `${folder}${name}`], {
    env: {
      PATH: process.env.PATH,
      SVC_API_KEY: CHILD_KEY,
      SVC_BASE_URL: baseUrl,
      OPENAI_API_KEY: 'provider-key',
      OPENAI_BASE_URL: `${provider.url}/v1`,
      // It would send what it traces to its maker.
      OPENAI_AGENTS_DISABLE_TRACING: '1',
      ANTHROPIC_API_KEY: 'provider-key',
      ANTHROPIC_BASE_URL: provider.url,
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

describe.each(names)('examples/%s', (name) => {
  it('has at most 15 lines', () => {
    expect(readFileSync(`${folder}${name}`, 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(15);
  });

  it('prints what the model says in the end, and the service has the run with its steps', async () => {
    expect(await runExample(name, relayUrl())).toEqual({
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
        action: 'search',
        observation: expect.stringContaining('Nothing about'),
        is_error: false,
      },
      { step_index: 1, action: 'respond', action_input: expect.stringContaining('The tools said:') },
      { outcome: 'success' },
    ]);
    expect(bodies[1]!.tokens).toBeGreaterThan(0);
  });

  it('prints the same where there is no service', async () => {
    const { code, stdout } = await runExample(name, 'http://127.0.0.1:9');
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringContaining('The tools said: Nothing about'),
    });
  });
});
