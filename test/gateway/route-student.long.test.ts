/**
 * A student under prefixes of GW_ROUTES, in a real process: agents of two routes that differ only in their upstream
 * are learnt and served separately, and a client that the upstream would refuse gets no answer from the student.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { answerBasket, BasketRun } from '../fixtures/basket-agent.ts';
import { flush } from '../fixtures/capture-gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'understudy-route-student-'));
const directory = join(folder, 'student');
const db = join(folder, 'capture.mdb');
const ROUTE_KEY = 'an-operators-key-0123456789';
const RUNS = 40;

/** The name of the upstream that refuses every key; '' for none. */
let locked = '';
const settledBy =
  (name: string): Script =>
  (request) => {
    if (locked === name) return { error: { status: 401, message: 'no' } };
    const { text, tool_calls } = answerBasket(request);
    return text === undefined ? { tool_calls: tool_calls! } : { text: `${text} Thus speaks ${name}.` };
  };

let upstreams: Record<'main' | 'blue' | 'green', FakeProvider>;
let child: CliChild;
let url = '';

beforeAll(async () => {
  mkdirSync(directory);
  const [main, blue, green] = await Promise.all(
    ['main', 'blue', 'green'].map((name) => startFakeProvider({ script: settledBy(name) })),
  );
  upstreams = { main: main!, blue: blue!, green: green! };
  const routes = join(folder, 'routes.json');
  writeFileSync(
    routes,
    JSON.stringify({
      '/blue': { base: upstreams.blue.url, provider: 'vllm' },
      '/green': { base: upstreams.green.url, provider: 'vllm', headers: { 'x-api-key': ROUTE_KEY } },
    }),
  );
  child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: {
      GW_UPSTREAM_BASE: upstreams.main.url,
      GW_ROUTES: routes,
      DATA_DIR: folder,
      SVC_DISTILL_DIR: directory,
      GW_RELEGATION_AUDIT: '0',
      // Each thread remembers credentials separately.
      SERVER_THREADS: '1',
      GW_STUDENT_TIMEOUT_MS: '60000',
    },
  });
  [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
  for (let at = 0; at < RUNS; at++)
    for (const prefix of ['/blue', '/green']) expect((await run(prefix, at)).by).not.toContain('student');
  await flush(url);
  const round = await runHere(['loop', '--once', '--db', db, '--out', directory], {
    DATA_DIR: folder,
    EMBED_MODEL: 'off',
  });
  report = round.stdout + round.stderr;
  expect(round.code, report).toBe(0);
  for (let isReady = false; !isReady; ) isReady = (await relegation()).student === 'exemplar';
});
afterAll(async () => {
  await child[Symbol.asyncDispose]();
  await Promise.all(Object.values(upstreams).map((upstream) => upstream.close()));
  rmSync(folder, { recursive: true, force: true });
});
let report = '';

async function relegation() {
  const stats = (await (await fetch(`${url}/__gw/stats`)).json()) as {
    relegation: { student: string | null; served: number; fallbacks: Record<string, number> };
  };
  return stats.relegation;
}

async function ask(prefix: string, body: object, headers: Record<string, string>) {
  const reply = await fetch(`${url}${prefix}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01', ...headers },
    body: JSON.stringify(body),
  });
  const { content } = (await reply.json()) as { content?: { type: string; text?: string }[] };
  return { status: reply.status, by: reply.headers.get('x-svc-served-by') ?? 'upstream', content };
}

/** Makes one run as its client would. @returns who served each step, and the last words */
async function run(
  prefix: string,
  at: number,
  headers: Record<string, string> = { 'x-api-key': 'a-client' },
) {
  const basket = new BasketRun(at);
  const by: string[] = [];
  for (;;) {
    const answer = await ask(prefix, basket.body(), headers);
    if (answer.content === undefined) return { by, status: answer.status, last: '' };
    by.push(answer.by);
    if (basket.take(answer.content as never))
      return { by, status: 200, last: answer.content.map(({ text }) => text).join('') };
  }
}

it('the student serves the agents of each route by the golden runs of that route', async () => {
  for (const name of ['blue', 'green'] as const) {
    expect(report).toContain(`(at vllm /${name})`);
    // No golden step contains the code that the second step needs.
    const { by, last } = await run(`/${name}`, 1_000);
    expect(by).toEqual(['student', 'upstream', 'student']);
    expect(last).toBe(`The basket is settled. Thus speaks ${name}.`);
  }
});

it('the student does not serve agents of other routes or other paths by these golden runs', async () => {
  const before = await relegation();
  const { by, last } = await run('', 1_001);
  expect(by).toEqual(['upstream', 'upstream', 'upstream']);
  expect(last).toContain('Thus speaks main.');
  const { by: again } = await run('', 1_002);
  expect(again).not.toContain('student');
  const { fallbacks, served } = await relegation();
  expect(served).toBe(before.served);
  expect(fallbacks.unknown_agent!).toBeGreaterThan(before.fallbacks.unknown_agent ?? 0);
  const { by: deeper } = await run('/blue/more', 1_003);
  expect(deeper).not.toContain('student');
});

it('the student checks the route’s credential if the route adds one, and otherwise the client’s', async () => {
  const body = new BasketRun(1_004).body();
  // The client's key is unknown to the first route. At the second route, the gateway sends the operator's key.
  expect(await ask('/blue', body, { 'x-api-key': 'a-stranger' })).toMatchObject({ by: 'upstream' });
  expect(await ask('/green', body, { 'x-api-key': 'a-stranger' })).toMatchObject({ by: 'student' });
  expect(await ask('/green', body, {})).toMatchObject({ by: 'student' });
  const none = (await relegation()).fallbacks.no_credential ?? 0;
  expect(await ask('/blue', body, {})).toMatchObject({ status: 401, by: 'upstream' });
  expect((await relegation()).fallbacks.no_credential).toBe(none + 1);
  // The route's key is revoked. The next step to the upstream reveals that, and from then on no client is served.
  locked = 'green';
  const basket = new BasketRun(1_005);
  const first = await ask('/green', basket.body(), {});
  expect(first.by).toBe('student');
  basket.take(first.content as never);
  expect(await ask('/green', basket.body(), {})).toMatchObject({ status: 401, by: 'upstream' });
  expect(await ask('/green', body, {})).toMatchObject({ status: 401, by: 'upstream' });
  expect(await ask('/blue', body, { 'x-api-key': 'a-client' })).toMatchObject({ by: 'student' });
});
