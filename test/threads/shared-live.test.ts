/**
 * The live stream, stream tickets and rate limits of boxes that share a database: readers see the same events in the
 * same order on each box, even if a box ends. Own processes.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import type { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { StreamReader } from '../fixtures/stream-reader.ts';
import { SharedBoxes } from './shared-boxes.ts';

const STREAM = { AUTH_DB_CONN_URL: 'embedded:' };
const AUTH = { authorization: `Bearer ${CHILD_KEY}` };

let boxes: SharedBoxes;
let a: ControlPlaneChild;
let b: ControlPlaneChild;
beforeAll(async () => {
  boxes = await SharedBoxes.start();
  [a, b] = await Promise.all([boxes.open(STREAM), boxes.open({ ...STREAM, SERVER_THREADS: '2' })]);
});
afterAll(() => boxes[Symbol.asyncDispose]());

const until = (check: () => void) => vi.waitFor(check, { timeout: PATIENCE_MS, interval: 20 });

async function join(box: ControlPlaneChild, org: string, lastId?: string): Promise<StreamReader> {
  const headers = lastId === undefined ? AUTH : { ...AUTH, 'last-event-id': lastId };
  const url = `${box.url}/v1/monitor/stream?org_id=${org}`;
  const reader =
    lastId === undefined ? await StreamReader.join(url, headers) : await StreamReader.open(url, headers);
  onTestFinished(() => reader.close());
  return reader;
}

/** Starts a run, which is one event. */
async function startRun(box: ControlPlaneChild, org_id: string, run_id: string): Promise<void> {
  const { status, text } = await box.post('/v1/monitor/runs', { org_id, run_id, task: 't' });
  expect(status, text).toBe(200);
}

const runsOf = (reader: StreamReader) => reader.events.map(({ data }) => data.run_id);
const idsOf = (reader: StreamReader) => reader.events.map(({ id }) => Number(id));

describe('the live stream of several boxes', () => {
  it('has the events of all of them, in the same order for all readers', async () => {
    const readers = [await join(a, 'order'), await join(b, 'order'), await join(b, 'order')];
    const others = await join(b, 'others');
    const runs = Array.from({ length: 20 }, (_, at) => `r${at}`);
    await Promise.all(runs.map((run, at) => startRun(at % 2 === 0 ? a : b, 'order', run)));
    for (const reader of readers) await until(() => expect(reader.events).toHaveLength(runs.length));
    const [first, ...rest] = readers as [StreamReader, ...StreamReader[]];
    expect([...runsOf(first)].sort()).toEqual([...runs].sort());
    expect(idsOf(first)).toEqual([...idsOf(first)].sort((x, y) => x - y));
    for (const reader of rest) expect(reader.events).toEqual(first.events);
    expect(others.events).toEqual([]);
  });

  it('continues at another box after a kill, without loss or repetition', async () => {
    const c = await boxes.open(STREAM);
    const reader = await join(c, 'kill');
    for (const run of ['r0', 'r1']) await startRun(a, 'kill', run);
    await until(() => expect(runsOf(reader)).toEqual(['r0', 'r1']));
    await c.kill();
    await until(() => expect(reader.is_over).toBe(true));
    // From here on, the organization has no readers.
    for (const run of ['r2', 'r3']) await startRun(a, 'kill', run);
    await startRun(b, 'kill', 'r4');
    const resumed = await join(b, 'kill', reader.events.at(-1)!.id!);
    await until(() => expect([...runsOf(resumed)].sort()).toEqual(['r2', 'r3', 'r4']));
    // Reads from the beginning again, so that the box needs events that are older than those in its memory.
    const [first] = reader.events;
    const whole = await join(b, 'kill', first!.id!);
    await until(() => expect(whole.events).toEqual([reader.events[1], ...resumed.events]));
    await startRun(a, 'kill', 'r5');
    for (const reading of [resumed, whole]) await until(() => expect(runsOf(reading).at(-1)).toBe('r5'));
    expect(whole.names).not.toContain('reset');
  });

  it('tells a reader that returns with an unknown event id that it may have missed events', async () => {
    const reader = await join(a, 'unknown', '999999999');
    await until(() => expect(reader.names).toEqual(['reset']));
    await startRun(b, 'unknown', 'r');
    await until(() => expect(reader.names).toEqual(['reset', 'run_start']));
  });

  it('forgets a deleted run on every box', async () => {
    const watching = await join(b, 'deletion');
    for (const run of ['gone', 'kept']) await startRun(a, 'deletion', run);
    await until(() => expect(watching.events).toHaveLength(2));
    const [, kept] = watching.events;
    expect((await a.call(CHILD_KEY, 'DELETE', '/v1/monitor/runs/gone?org_id=deletion')).status).toBeLessThan(
      300,
    );
    await startRun(a, 'deletion', 'last');
    await until(() => expect(runsOf(watching)).toEqual(['gone', 'kept', 'last']));
    const before = String(Number(watching.events[0]!.id) - 1);
    const resumed = await join(b, 'deletion', before);
    await until(() => expect(resumed.events).toEqual([kept, watching.events[2]]));
  });

  it('opens on one box with the ticket of another', async () => {
    const ann = await a.person('ann');
    const { raw_key: key } = (await a.call(ann.token, 'POST', '/api-keys/', { name: 'ci' })).body;
    const made = await a.call(key, 'POST', '/v1/monitor/stream/tickets', {});
    expect(made.status, made.text).toBe(200);
    await reach(async () => (await b.call(key, 'GET', '/v1/findings')).status, 200);
    const reader = await StreamReader.join(`${b.url}/v1/monitor/stream?ticket=${made.body.ticket}`, {});
    onTestFinished(() => reader.close());
    await a.call(key, 'POST', '/v1/monitor/runs', { run_id: 'r', task: 't' });
    await until(() => expect(runsOf(reader)).toEqual(['r']));
  });

  it('continues after the database was unreachable, and says that events may be missing', async () => {
    if (!boxes.server.isOurs) return;
    const readers = [await join(a, 'away'), await join(b, 'away')];
    const after = { org_id: 'away', run_id: 'after', task: 't' };
    await startRun(a, 'away', 'before');
    for (const reader of readers) await until(() => expect(runsOf(reader)).toEqual(['before']));
    await boxes.server.kill();
    await a.post('/v1/monitor/runs', { org_id: 'away', run_id: 'meanwhile', task: 't' });
    await boxes.server.resume();
    for (const reader of readers) await until(() => expect(reader.names).toContain('reset'));
    await reach(async () => (await b.post('/v1/monitor/runs', after)).status, 200);
    for (const reader of readers) await until(() => expect(runsOf(reader)).toContain('after'));
  });
});

describe('limits of boxes that share a database', () => {
  it('are divided among the boxes that are running', { tags: 'long' }, async () => {
    const own = await SharedBoxes.start();
    onTestFinished(() => own[Symbol.asyncDispose]());
    const env = { RATE_LIMIT_PER_SEC: '1', RATE_LIMIT_BURST: '90' };
    const [first, second] = await Promise.all([own.open(env), own.open(env)]);
    const policy = async (box: ControlPlaneChild) =>
      (await box.call(CHILD_KEY, 'GET', '/v1/findings?org_id=x')).headers.get('ratelimit-policy');
    const readMetrics = (box: ControlPlaneChild) =>
      fetch(`${box.url}/metrics`, { headers: AUTH }).then((answer) => answer.text());
    // Requests with the key would move its rate to the box that gets them. So the test waits until the metrics of
    // both boxes count two boxes.
    const boxCount = async (box: ControlPlaneChild) =>
      /^understudy_shared_boxes (\d+)$/m.exec(await readMetrics(box))?.[1];
    for (const box of [first, second]) await reach(() => boxCount(box), '2');
    const equal = '"default";q=45;w=90';
    expect(await Promise.all([policy(first), policy(second)])).toEqual([equal, equal]);
    const metrics = await readMetrics(first);
    expect(metrics).toMatch(/^understudy_shared_rate_share 0\.5$/m);
    for (const counter of ['conflicts', 'take_overs', 'lost_commits', 'run_commits', 'live_losses'])
      expect(metrics).toMatch(new RegExp(`^understudy_shared_${counter}_total \\d+$`, 'm'));
    await second.stop();
    await reach(() => policy(first), '"default";q=90;w=90');
  });

  it('follow the requests of a key that reach one box only', { tags: 'long' }, async () => {
    const own = await SharedBoxes.start();
    onTestFinished(() => own[Symbol.asyncDispose]());
    const env = { RATE_LIMIT_PER_SEC: '20', RATE_LIMIT_BURST: '100' };
    const [first, second] = await Promise.all([own.open(env), own.open(env)]);
    const ask = (box: ControlPlaneChild) => box.call(CHILD_KEY, 'GET', '/v1/findings?org_id=x');
    const policy = async (box: ControlPlaneChild) => (await ask(box)).headers.get('ratelimit-policy');
    const askMuch = async () => {
      await Promise.all(Array.from({ length: 60 }, () => ask(first)));
      return policy(first);
    };
    await reach(() => policy(first), '"default";q=50;w=5');
    await reach(askMuch, '"default";q=95;w=5');
    expect(await policy(second)).toBe('"default";q=5;w=5');
  });
});

function reach(ask: () => Promise<unknown>, expected: unknown): Promise<void> {
  return expect.poll(ask, { timeout: PATIENCE_MS, interval: 500 }).toEqual(expected) as Promise<void>;
}
