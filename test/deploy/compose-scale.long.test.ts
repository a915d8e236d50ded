/**
 * The services of deploy/compose-scale.yaml as processes, with the commands, variables and rights of that file: two
 * gateways, two API boxes, PostgreSQL, S3, and Caddy if it is installed.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { SECRET, signToken } from '../fixtures/control-plane.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { PostgresServer } from '../fixtures/postgres-server.ts';
import { BALANCERS, hasBalancer, PUBLIC_NAME, RunningBalancer } from './balancers.ts';
import { ComposeTopology, openModel } from './compose-topology.ts';

const KEY = 'static-key-of-the-operator';
const caddy = BALANCERS.find(({ name }) => name === 'Caddy')!;
const hasCaddy = hasBalancer(caddy);

let folder: string;
let upstream: Server;
let postgres: PostgresServer;
let topology: ComposeTopology;
let balancer: RunningBalancer | null = null;
let dispatcher: Agent;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'compose-'));
  dispatcher = new Agent({ connect: { servername: PUBLIC_NAME, rejectUnauthorized: false } });
  upstream = await openModel();
  postgres = await PostgresServer.start();
  if (!postgres.isOurs) return;
  const env = {
    SVC_KEYS: KEY,
    AUTH_JWT_SECRET: SECRET,
    GW_UPSTREAM_BASE: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    // High limits, because all requests of a test have the same key and come from the same address.
    RATE_LIMIT_PER_SEC: '100000',
    RATE_LIMIT_BURST: '100000',
  };
  topology = await ComposeTopology.start('compose-scale.yaml', folder, env, postgres);
  if (hasCaddy) balancer = await RunningBalancer.start(caddy, join(folder, 'caddy'), topology.ports);
  const bothUp = async () => {
    expect((await call('', 'GET', '/ready')).status).toBe(200);
    expect((await callModel('warm', 'hello')).status).toBe(200);
  };
  await vi.waitFor(bothUp, { timeout: PATIENCE_MS });
});
afterAll(async () => {
  await balancer?.stop();
  await topology?.[Symbol.asyncDispose]();
  await postgres?.stop();
  await dispatcher.close();
  upstream.closeAllConnections();
  upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

let turns = 0;
/** The address for the next request to the API: Caddy, or without Caddy each box in turn. */
const nextApi = () =>
  balancer === null ? topology.urlOf(`api-${(turns++ % 2) + 1}`) : `https://127.0.0.1:${balancer.api_port}`;
const nextGateway = () =>
  balancer === null
    ? topology.urlOf(`gateway-${(turns++ % 2) + 1}`)
    : `http://127.0.0.1:${balancer.gateway_port}`;

let position = '';
/** Sends a request with the highest position seen so far, as a client does. */
async function call(credential: string, method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) {
  const answer = await request(nextApi() + path, {
    dispatcher,
    method,
    headers: {
      host: PUBLIC_NAME,
      ...(credential === '' ? {} : { authorization: `Bearer ${credential}` }),
      ...(position === '' ? {} : { 'x-svc-position': position }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const seen = answer.headers['x-svc-position'];
  if (typeof seen === 'string' && Number(seen) > Number(position)) position = seen;
  const text = await answer.body.text();
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  return { status: answer.statusCode, body: (text === '' ? null : JSON.parse(text)) as any };
}

async function callModel(run: string, content: string) {
  const response = await fetch(`${nextGateway()}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'none', 'x-svc-run': run },
    body: JSON.stringify({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content }] }),
  });
  await response.arrayBuffer();
  return response;
}

/** @returns the key of a new user */
async function makeKey(name: string): Promise<string> {
  const token = await signToken(name);
  expect((await call(token, 'GET', '/auth/me')).status).toBe(200);
  const made = await call(token, 'POST', '/api-keys/', { name: 'ci' });
  expect(made.status).toBeLessThan(300);
  return made.body.raw_key;
}

it('an account, its key and its findings are the same on every box', async () => {
  if (!postgres.isOurs) return;
  const key = await makeKey('ann');
  for (let at = 0; at < 10; at++) {
    const finding = { finding_type: 'architecture', content: `finding ${at}`, file_paths: ['a.ts'] };
    expect((await call(key, 'POST', '/v1/findings/code', finding)).status).toBeLessThan(300);
    const { body } = await call(key, 'GET', '/v1/findings/code');
    expect(body.findings).toHaveLength(at + 1);
  }
});

it('both API boxes show the captures of both gateways', async () => {
  if (!postgres.isOurs) return;
  for (let at = 0; at < 8; at++) expect((await callModel(`run-${at}`, `the word ${at}`)).status).toBe(200);
  await topology.expectCaptured(
    Array.from({ length: 8 }, (_, at) => `run-${at}`),
    KEY,
  );
});

it.skipIf(!hasCaddy)('no request fails while a box is stopped and started again', async () => {
  if (!postgres.isOurs) return;
  const keys = [await makeKey('bob'), await makeKey('eve'), await makeKey('ivy')];
  const key = keys[0]!;
  expect(
    (await call(key, 'POST', '/v1/monitor/runs', { run_id: 'long', agent_name: 'a', task: 't' })).status,
  ).toBe(200);
  let isOver = false;
  const found = new Map<number, number>();
  const clients = keys.map(async (key, client) => {
    for (let at = 0; !isOver; at++) {
      const { status } = await call(key, 'POST', '/v1/findings/code', {
        finding_type: 'architecture',
        content: `finding ${client} ${at}`,
        file_paths: ['a.ts'],
      });
      found.set(status, (found.get(status) ?? 0) + 1);
      const model = await callModel(`steady-${client}-${at}`, 'go on');
      found.set(model.status, (found.get(model.status) ?? 0) + 1);
    }
  });
  let steps = 0;
  const agent = (async () => {
    while (!isOver) {
      const step = { step_index: steps, action: 'read_file', action_input: `${steps}`, observation: 'text' };
      const { status } = await call(key, 'POST', '/v1/monitor/runs/long/steps', step);
      found.set(status, (found.get(status) ?? 0) + 1);
      if (status === 200) steps += 1;
    }
  })();
  try {
    for (const name of ['api-1', 'gateway-1', 'api-2', 'gateway-2']) {
      expect(await topology.stop(name), name).toBe(0);
      await topology.startAgain(name);
      const path = name.startsWith('api') ? '/ready' : '/__gw/ready';
      await expect.poll(async () => (await fetch(topology.urlOf(name) + path)).status).toBe(200);
    }
  } finally {
    isOver = true;
    await Promise.all([...clients, agent]);
  }
  expect([...found.keys()].filter((status) => status >= 300)).toEqual([]);
  // The run moved from box to box with all of its steps.
  expect(steps).toBeGreaterThan(10);
  for (const name of ['api-1', 'api-2']) {
    const headers = { authorization: `Bearer ${key}`, 'x-svc-position': position };
    const response = await fetch(`${topology.urlOf(name)}/v1/monitor/runs/long`, { headers });
    expect(await response.json()).toMatchObject({ steps });
  }
});
