/** What the client sends in the background: in order, bounded, and how it handles refusals. Over real sockets. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { type ClientWarning, Understudy, type UnderstudyOptions } from '../../src/client/understudy.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const LONG = { timeoutMs: PATIENCE_MS };
const ENDS = { run_start: '/v1/monitor/runs', run_finish: '/finish' };

interface Asked {
  path: string;
  body: Record<string, unknown>;
}

const servers: Server[] = [];
const clients: Understudy[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
  for (const client of clients.splice(0)) await client.close({ timeoutMs: 1 });
});

/** A service that answers each request with the status that `answer` returns. null: it does not answer yet. */
async function serve(
  answer: (asked: Asked, count: number) => number | null,
  headers: Record<string, string> = {},
): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (part) => (text += part));
    request.on('end', () => {
      const received = { path: request.url!, body: JSON.parse(text) };
      asked.push(received);
      const status = answer(received, asked.length);
      if (status !== null)
        response.writeHead(status, headers).end('{"fired":[],"detail":"as the test says"}');
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

function connect(
  baseUrl: string,
  options: UnderstudyOptions = {},
): { client: Understudy; warned: ClientWarning[] } {
  const warned: ClientWarning[] = [];
  const onWarning = (warning: ClientWarning) => warned.push(warning);
  const client = new Understudy({ apiKey: 'k', baseUrl, ...LONG, onWarning, ...options });
  clients.push(client);
  return { client, warned };
}

describe('the sender', () => {
  it('keeps the order of each run, however many run at once', async () => {
    const { url, asked } = await serve(() => 200);
    const { client } = connect(url);
    const names = Array.from({ length: 12 }, (_, at) => `run-${at}`);
    const work = names.map((runId) =>
      client.run({ runId }, async (run) => {
        for (let at = 0; at < 20; at++) {
          run.step({ action: String(at) });
          if (at % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
        }
      }),
    );
    await Promise.all(work);
    expect(await client.flush(LONG)).toBe(true);
    for (const name of names) {
      const own = asked.filter(({ path, body }) => body.run_id === name || path.includes(`/${name}/`));
      expect(own[0]!.path).toBe(ENDS.run_start);
      expect(own.at(-1)!.path.endsWith(ENDS.run_finish)).toBe(true);
      const indexes = own.slice(1, -1).map(({ body }) => body.step_index);
      expect(indexes).toEqual(Array.from({ length: 20 }, (_, at) => at));
    }
    expect(client.stats().steps).toMatchObject({ sent: 240, queued: 0, dropped: 0, queuedBytes: 0 });
  });

  it('sends steps of each run in turn, however many the other runs have', { tags: 'long' }, async () => {
    const { url, asked } = await serve(() => 200);
    const { client } = connect(url);
    const floods = Array.from({ length: 12 }, (_, at) => client.start({ runId: `flood-${at}` }));
    for (const run of floods) for (let at = 0; at < 100; at++) run.step({ action: 'a' });
    await client.run({ runId: 'small' }, (run) => run.step({ action: 'b' }));
    for (const run of floods) run.finish();
    expect(await client.flush(LONG)).toBe(true);
    expect(client.stats().steps).toMatchObject({ sent: 1_201, dropped: 0 });
    const ends = asked.map(({ path }) => path).filter((path) => path.endsWith(ENDS.run_finish));
    expect(ends[0]).toContain('/small/');
  });

  it('holds a limited number of steps and bytes, drops the rest, and warns once', async () => {
    const { url } = await serve(() => null);
    const { client, warned } = connect(url, { maxQueuedSteps: 10, maxQueuedBytes: 20_000 });
    const run = client.start();
    for (let at = 0; at < 50; at++) run.step({ action: 'a' });
    expect(client.stats().steps).toMatchObject({ logged: 50, queued: 10, dropped: 40 });
    const { client: other } = connect(url, { maxQueuedBytes: 20_000 });
    const long = other.start();
    for (let at = 0; at < 50; at++) long.step({ observation: 'x'.repeat(4_000) });
    expect(other.stats().steps).toMatchObject({ logged: 50, queued: 2, dropped: 48 });
    expect(other.stats().steps.queuedBytes).toBeLessThanOrEqual(20_000);
    expect(warned.map(({ cause }) => cause)).toEqual(['queue_full']);
    expect(await client.close({ timeoutMs: 1 })).toBe(false);
    expect(client.stats().steps).toMatchObject({ logged: 50, sent: 0, queued: 0, dropped: 50 });
    run.step({ action: 'late' });
    expect(client.stats().steps).toMatchObject({ logged: 51, dropped: 51 });
  });

  it('starts a run again once if the service no longer knows it', async () => {
    let isForgotten = true;
    const { url, asked } = await serve(({ path }) => {
      if (path === ENDS.run_start) isForgotten = asked.length === 1;
      return path !== ENDS.run_start && isForgotten ? 404 : 200;
    });
    const { client } = connect(url);
    await client.run({ runId: 'r' }, (run) => run.step({ action: 'a' }));
    expect(await client.flush(LONG)).toBe(true);
    const paths = asked.map(({ path }) => path.split('/').at(-1));
    expect(paths).toEqual(['runs', 'steps', 'runs', 'steps', 'finish']);
    expect(client.stats().steps).toMatchObject({ sent: 1, dropped: 0 });

    const { url: amnesiac } = await serve(({ path }) => (path === ENDS.run_start ? 200 : 404));
    const { client: other, warned } = connect(amnesiac);
    await other.run({ runId: 'r' }, (run) => run.step({ action: 'a' }));
    expect(await other.flush(LONG)).toBe(true);
    expect(other.stats().steps).toMatchObject({ sent: 0, dropped: 1 });
    expect(warned).toEqual([{ cause: 'refused', message: expect.stringContaining('as the test says') }]);
  });

  it('sends marks after the steps, waiting marks as one, also after the end', async () => {
    const { url, asked } = await serve(() => 200);
    const { client } = connect(url);
    const run = client.start({ runId: 'r' });
    run.mark('bad', { tags: ['a'], note: 'first' });
    run.step({ action: 'act' });
    run.mark({ mark: 'good', tags: ['b', 'a'] });
    run.finish();
    expect(await client.flush(LONG)).toBe(true);
    run.mark('bad');
    expect(await client.flush(LONG)).toBe(true);
    expect(asked.slice(1).map(({ path, body }) => [path.split('/').at(-1), body])).toEqual([
      ['steps', expect.objectContaining({ action: 'act' })],
      ['marks', { mark: 'good', note: 'first', add_tags: ['a', 'b'] }],
      ['finish', { outcome: 'success' }],
      ['marks', { mark: 'bad' }],
    ]);
    expect(client.stats().marks).toEqual({ said: 3, sent: 3, dropped: 0 });
  });

  it('sends further marks while others are being sent, and delays no later step', async () => {
    let say = () => {};
    const { url, asked } = await serve(({ path }) => {
      if (path.endsWith('/marks')) say();
      return 200;
    });
    const { client } = connect(url);
    const run = client.start({ runId: 'r' });
    say = () => {
      say = () => {};
      run.mark({ note: 'meanwhile' });
      run.step({ action: 'meanwhile' });
    };
    run.mark('good');
    expect(await client.flush(LONG)).toBe(true);
    expect(asked.slice(1).map(({ path, body }) => [path.split('/').at(-1), body])).toEqual([
      ['marks', { mark: 'good' }],
      ['steps', expect.objectContaining({ action: 'meanwhile' })],
      ['marks', { mark: 'good', note: 'meanwhile' }],
    ]);
    expect(client.stats().marks).toEqual({ said: 2, sent: 2, dropped: 0 });
  });

  it('limits the tags of a run, however often it is marked', async () => {
    const { url, asked } = await serve(() => 200);
    const { client, warned } = connect(url);
    const run = client.start({ runId: 'r' });
    for (let at = 0; at < 40; at++) run.mark({ tags: [`t${at}`] });
    expect(await client.flush(LONG)).toBe(true);
    expect(asked[1]!.body.add_tags).toEqual(Array.from({ length: 32 }, (_, at) => `t${at}`));
    expect(warned.map(({ cause }) => cause)).toEqual(['unfit_mark']);
  });

  it('does not recreate a deleted run to mark it', async () => {
    const { url, asked } = await serve(({ path }) => (path.endsWith('/marks') ? 404 : 200));
    const { client, warned } = connect(url);
    const run = await client.run({ runId: 'r' }, (started) => started);
    expect(await client.flush(LONG)).toBe(true);
    run.mark('good');
    expect(await client.flush(LONG)).toBe(true);
    run.mark('bad');
    expect(await client.flush(LONG)).toBe(true);
    expect(asked.map(({ path }) => path.split('/').at(-1))).toEqual(['runs', 'finish', 'marks']);
    expect(client.stats().marks).toEqual({ said: 2, sent: 0, dropped: 2 });
    expect(warned.map(({ cause }) => cause)).toEqual(['refused']);
  });

  it('drops refused marks, and those of a closed client, and continues', async () => {
    const { url, asked } = await serve(({ path }) => (path.endsWith('/marks') ? 422 : 200));
    const { client, warned } = connect(url);
    const run = await client.run({ runId: 'r' }, (started) => {
      started.mark('good');
      started.step({ action: 'a' });
      return started;
    });
    expect(await client.close(LONG)).toBe(true);
    run.mark('bad');
    expect(asked.at(-1)!.path.endsWith(ENDS.run_finish)).toBe(true);
    expect(client.stats()).toMatchObject({ steps: { sent: 1 }, marks: { said: 2, sent: 0, dropped: 2 } });
    expect(warned.map(({ cause }) => cause)).toEqual(['refused']);
  });

  it('drops a step that the service refuses, and continues', async () => {
    const { url } = await serve(({ body }) => (body.action === 'bad' ? 422 : 200));
    const { client, warned } = connect(url);
    await client.run({}, (run) => {
      for (const action of ['a', 'bad', 'b', 'bad']) run.step({ action });
    });
    expect(await client.flush(LONG)).toBe(true);
    expect(client.stats().steps).toMatchObject({ sent: 2, dropped: 2 });
    expect(warned.map(({ cause }) => cause)).toEqual(['refused']);
  });

  it('drops a run whose name is taken, and no other', async () => {
    const { url } = await serve(({ body }) => (body.run_id === 'taken' ? 409 : 200));
    const { client } = connect(url);
    await client.run({ runId: 'taken' }, (run) => run.step({ action: 'a' }));
    await client.run({ runId: 'free' }, (run) => run.step({ action: 'a' }));
    expect(await client.flush(LONG)).toBe(true);
    expect(client.stats().steps).toMatchObject({ sent: 1, dropped: 1 });
  });

  it('warns of a refused key once, even if a step is logged after the end of its run', async () => {
    const { url } = await serve(() => 401);
    const { client, warned } = connect(url);
    const run = await client.run({ runId: 'r' }, (run) => {
      run.step({ action: 'a' });
      return run;
    });
    expect(await client.flush(LONG)).toBe(false);
    run.step({ action: 'late' });
    expect(warned.map(({ cause }) => cause)).toEqual(['unauthorized']);
    expect(client.stats().steps).toMatchObject({ logged: 2, sent: 0, dropped: 2 });
  });

  it('sends again after the service failed', async () => {
    const { url, asked } = await serve((_, count) => (count % 2 === 1 ? 500 : 200));
    const { client } = connect(url);
    await client.run({ runId: 'r' }, (run) => {
      for (let at = 0; at < 3; at++) run.step({ action: String(at) });
    });
    expect(await client.flush(LONG)).toBe(true);
    expect(asked).toHaveLength(10);
    expect(client.stats().steps).toMatchObject({ sent: 3, dropped: 0 });
  });

  it('sends nothing and causes no warning while it waits for a service that asks for a year', async () => {
    const warned: Error[] = [];
    const note = (warning: Error) => warned.push(warning);
    process.on('warning', note);
    onTestFinished(() => void process.off('warning', note));
    const { url, asked } = await serve(() => 429, { 'retry-after': '31536000' });
    const { client } = connect(url);
    client.start({ runId: 'r' });
    expect(await client.flush({ timeoutMs: 300 })).toBe(false);
    expect(asked.length).toBeLessThanOrEqual(1);
    // A timer whose delay is too long would fire at once and cause a warning.
    expect(warned.map(({ name }) => name)).toEqual([]);
  });

  it('accepts any timeout for a flush, also an infinite one', async () => {
    const { url } = await serve(() => 200);
    const { client } = connect(url);
    client.start({ runId: 'r' });
    expect(await client.flush({ timeoutMs: Number.POSITIVE_INFINITY })).toBe(true);
  });

  it('sends nothing if streaming is off', async () => {
    const { url, asked } = await serve(() => 200);
    const { client } = connect(url, { liveStreamingEnabled: false });
    await client.run({}, (run) => run.step({ action: 'a', tokens: 3 }));
    expect(await client.flush(LONG)).toBe(true);
    expect(asked).toEqual([]);
    expect(client.stats().steps).toMatchObject({ logged: 1, sent: 0, dropped: 0 });
  });

  it('accepts any value as a step', async () => {
    const { url, asked } = await serve(() => 200);
    const { client, warned } = connect(url);
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    const hostile = new Proxy({}, { get: () => expect.unreachable });
    await client.run({}, (run) => {
      run.step({ actionInput: circle, observation: 7n, tokens: Number.NaN });
      run.step({ action: 'half \ud800', observation: null });
      run.step(null as never);
      run.step({ action: hostile } as never);
    });
    expect(await client.flush(LONG)).toBe(true);
    const steps = asked.filter(({ path }) => path.endsWith('/steps')).map(({ body }) => body);
    expect(steps[0]).toMatchObject({ action_input: '[object Object]', observation: '7', tokens: 0 });
    expect(steps[1]).toMatchObject({ action: 'half \ufffd', observation: '' });
    const { logged, sent, dropped } = client.stats().steps;
    expect(sent + dropped).toBe(logged);
    expect(warned.every(({ cause }) => cause === 'failed')).toBe(true);
  });
});
