/**
 * A student and agents that use the proxy: it serves agents of the default upstream's host like those that use the base
 * URL, streamed or not. Agents of another host always get that host's answers.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { ProxyAgent, fetch as undiciFetch } from 'undici';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeOrder, OrderRun, orderScript, publishOrderStudent } from '../../bench/order-agent.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import { createPrng } from '../../src/std/prng.ts';
import { readStats } from '../fixtures/capture-gateway.ts';
import { openSecureUpstream, ProxiedService, type SecureUpstream } from '../fixtures/proxied-service.ts';

const KEY = 'sk-ant-api03-proxied-agent-0123456789';
const directory = mkdtempSync(join(tmpdir(), 'understudy-proxied-student-'));
const service = new ProxiedService();
const prng = createPrng(5);
let provider: FakeProvider;
let own: SecureUpstream;
let other: SecureUpstream;

/** Forwards a request from the upstream behind TLS to the scripted provider. */
async function passOn(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const reply = await fetch(provider.url + request.url, {
    method: request.method!,
    headers: { 'content-type': 'application/json', 'x-api-key': String(request.headers['x-api-key']) },
    body: Buffer.concat(chunks),
  });
  response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type')! });
  response.end(Buffer.from(await reply.arrayBuffer()));
}

beforeAll(async () => {
  await publishOrderStudent(directory);
  provider = await startFakeProvider({ script: orderScript });
  [own, other] = await Promise.all([openSecureUpstream(passOn), openSecureUpstream(passOn)]);
  await service.start(`localhost:${own.port},localhost:${other.port}`, {
    GW_UPSTREAM_BASE: `https://localhost:${own.port}`,
    SVC_DISTILL_DIR: directory,
    SVC_STUDENT_KEYS: KEY,
    GW_RELEGATION_AUDIT: '0',
    GW_STUDENT_TIMEOUT_MS: '60000',
  });
  for (let isReady = false; !isReady; )
    isReady = (await readStats(service.gateway)).relegation.student === 'exemplar';
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  own.close();
  other.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A whole run of the agent. @returns who served each step */
async function run(baseURL: string, isProxied: boolean, isStream: boolean): Promise<string[]> {
  const dispatcher = new ProxyAgent({ uri: service.url, requestTls: { ca: service.ca } });
  const fetch = ((url: string, init: object) => undiciFetch(url, { ...init, dispatcher })) as never;
  const client = new Anthropic({ apiKey: KEY, baseURL, maxRetries: 0, ...(isProxied ? { fetch } : {}) });
  const order = new OrderRun(makeOrder(prng, 'shipped'));
  const by: string[] = [];
  for (let isOver = false; !isOver; ) {
    const body = order.body() as unknown as Anthropic.MessageCreateParamsNonStreaming;
    const { data, response } = isStream
      ? await client.messages
          .stream(body)
          .withResponse()
          .then(async ({ data: stream, response }) => ({ data: await stream.finalMessage(), response }))
      : await client.messages.create(body).withResponse();
    by.push(response.headers.get('x-svc-served-by') ?? 'upstream');
    isOver = order.take(data.content as never);
  }
  await dispatcher.close();
  return by;
}

const ALL = (by: string) => [by, by, by];

it('agents of the default upstream’s host are served through the proxy like those by base URL', async () => {
  for (const isStream of [false, true]) {
    expect(await run(`https://localhost:${own.port}`, true, isStream)).toEqual(ALL('student'));
    expect(await run(service.gateway, false, isStream)).toEqual(ALL('student'));
  }
  expect(provider.requests).toHaveLength(0);
});

it('agents of another host go to that host', async () => {
  const { served } = (await readStats(service.gateway)).relegation;
  expect(await run(`https://localhost:${other.port}`, true, false)).toEqual(ALL('upstream'));
  expect(provider.requests).toHaveLength(3);
  const after = (await readStats(service.gateway)).relegation;
  expect(after.served).toBe(served);
});
