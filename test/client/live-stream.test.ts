/** The live stream as the client reads it: from the real service, and from a scripted one over a real socket. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Caller } from '../../src/client/api-client.ts';
import { EVENT_UNITS_MAX, EventLines } from '../../src/client/event-lines.ts';
import { type LiveEvent, readLiveEvents, type SubscribeOptions } from '../../src/client/live-stream.ts';
import { Understudy, type UnderstudyOptions } from '../../src/client/understudy.ts';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { readCases } from './client-cases.ts';

const EVENTS = { 'content-type': 'text/event-stream' };

/** @returns the first events, as many as requested */
async function hear(events: AsyncIterable<LiveEvent>, wanted: number): Promise<LiveEvent[]> {
  const heard: LiveEvent[] = [];
  for await (const event of events) {
    heard.push(event);
    if (heard.length === wanted) break;
  }
  return heard;
}

/** A service that answers the n-th request with the n-th function, and all further ones with the last function. */
async function serve(...answers: ((response: ServerResponse) => void)[]) {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    asked.push(request);
    answers[Math.min(asked.length, answers.length) - 1]!(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const connect = (baseUrl: string, options: UnderstudyOptions = {}) =>
  new Understudy({ apiKey: 'k', baseUrl, timeoutMs: PATIENCE_MS, ...options });

/** An event as the text of the stream. Its `retry` makes the reader connect again after 1 ms. */
const eventText = (id: number) =>
  `retry: 1\nid: ${id}\nevent: step\ndata: {"run_id":"r","step_index":${id}}\n\n`;
const tell = (text: string) => (response: ServerResponse) => void response.writeHead(200, EVENTS).write(text);
const tellAndEnd = (text: string) => (response: ServerResponse) =>
  void response.writeHead(200, EVENTS).end(text);
const refuse = (status: number) => (response: ServerResponse) =>
  void response.writeHead(status).end('{"detail":"as the test says"}');

describe('the lines of a stream', () => {
  interface StreamCase {
    name: string;
    text: string;
    events: { kind: string; id: string; data: object }[];
    last_id: string;
  }
  it.each(readCases<StreamCase[]>('event-streams'))(
    'contain $name, however their bytes are divided',
    async (testCase) => {
      const bytes = Buffer.from(testCase.text);
      for (const size of [bytes.length, 7, 1]) {
        const lines = new EventLines();
        for (let at = 0; at < bytes.length; at += size) [...lines.read(bytes.subarray(at, at + size))];
        expect(lines.lastId).toBe(testCase.last_id);
        const { url } = await serve((response) => {
          response.writeHead(200, EVENTS).write('retry: 1\n\n');
          for (let at = 0; at < bytes.length; at += size) response.write(bytes.subarray(at, at + size));
          response.end();
        }, tell('id: last\nevent: the_end\ndata: {}\n\n'));
        const heard = await hear(connect(url).subscribe(), testCase.events.length + 1);
        expect(heard).toEqual([...testCase.events, { kind: 'the_end', id: 'last', data: {} }]);
      }
    },
  );

  it('give an error if an event never ends', () => {
    const read = () => [...new EventLines().read(Buffer.from(`data: ${'x'.repeat(EVENT_UNITS_MAX)}`))];
    expect(read).toThrow('An event of the stream is longer than');
  });
});

describe('a subscription', () => {
  let service: ClientService;
  let understudy: Understudy;
  beforeAll(async () => {
    service = await ClientService.start();
    understudy = connect(service.url, { apiKey: CLIENT_KEY });
  });
  afterAll(async () => {
    await understudy.close();
    await service.stop();
  });

  it('receives the organization’s runs, and continues after the last event received', async () => {
    await understudy.run({ runId: 'heard', projectId: 'p' } as never, (run) => {
      run.step({ action: 'look', thought: 'this stays private', tokens: 3 });
    });
    expect(await understudy.flush({ timeoutMs: PATIENCE_MS })).toBe(true);
    const heard = await hear(understudy.subscribe({ lastEventId: '0' }), 3);
    expect(heard.map(({ kind }) => kind)).toEqual(['run_start', 'step', 'run_finish']);
    expect(heard[1]).toMatchObject({ data: { run_id: 'heard', step_index: 0, action: 'look', tokens: 3 } });
    expect(JSON.stringify(heard)).not.toContain('stays private');
    const behind = understudy.subscribe({ lastEventId: heard[0]!.id });
    expect(await hear(behind, 2)).toEqual(heard.slice(1));
  });

  it('is told that it missed events', async () => {
    await understudy.run({ runId: 'missed' }, () => {});
    expect(await understudy.flush({ timeoutMs: PATIENCE_MS })).toBe(true);
    const [first, second] = await hear(understudy.subscribe({ lastEventId: 'of another service' }), 2);
    expect([first!.kind, second!.kind]).toEqual(['reset', 'run_start']);
  });

  it('continues when other subscriptions end, and ends with its client', async () => {
    const other = connect(service.url, { apiKey: CLIENT_KEY, liveStreamingEnabled: false });
    const kept: LiveEvent[] = [];
    const last = await hear(understudy.subscribe({ lastEventId: '0' }), 1);
    const reading = (async () => {
      for await (const event of other.subscribe({ lastEventId: last[0]!.id })) {
        kept.push(event);
        if (event.kind === 'run_finish' && event.data.run_id === 'live') await other.close();
      }
    })();
    await understudy.run({ runId: 'live' }, (run) => run.step({ action: 'a' }));
    await reading;
    const own = kept.filter(({ data }) => 'run_id' in data && data.run_id === 'live');
    expect(own.map(({ kind }) => kind)).toEqual(['run_start', 'step', 'run_finish']);
    expect(await hear(other.subscribe(), 1)).toEqual([]);
  });
});

describe('a subscription whose stream fails', () => {
  it('reconnects after an end or a break, from the last whole event', {
    tags: 'long',
  }, async () => {
    const { url, asked } = await serve(
      tellAndEnd(eventText(1)),
      (response) => {
        response.writeHead(200, EVENTS);
        response.write(`${eventText(2)}id: 3\nevent: step\ndata: {}\n`, () => response.destroy());
      },
      refuse(500),
      (response) => response.destroy(),
      refuse(503),
      tell(eventText(3)),
    );
    const heard = await hear(connect(url).subscribe(), 3);
    expect(heard.map(({ id }) => id)).toEqual(['1', '2', '3']);
    const ids = asked.map(({ headers }) => headers['last-event-id']);
    expect(ids).toEqual([undefined, '1', '2', '2', '2', '2']);
    expect(asked[0]!.headers).toMatchObject({ accept: 'text/event-stream', authorization: 'Bearer k' });
  });

  it('reconnects after silence', async () => {
    const { url, asked } = await serve(tell(eventText(1)), tell(eventText(2)));
    const settings = { baseUrl: new URL(url), apiKey: 'k', timeoutMs: PATIENCE_MS, userAgent: 'test' };
    const pace = { timeoutMs: PATIENCE_MS, silenceMs: 200 };
    const caller = new Caller({ ...settings, orgId: 'acme' });
    const events = readLiveEvents(caller, { projectId: 'p' }, new AbortController().signal, pace);
    expect((await hear(events, 2)).map(({ id }) => id)).toEqual(['1', '2']);
    expect(asked[1]!.url).toBe('/v1/monitor/stream?org_id=acme&project_id=p');
  });

  it.each([
    ['the key is refused', refuse(401), 'AuthenticationError'],
    ['the request is refused', refuse(422), 'ValidationError'],
    ['there is no stream', refuse(503), 'ServerError'],
    [
      'something else answers',
      (response: ServerResponse) => void response.end('<h1>'),
      'UnexpectedAnswerError',
    ],
    ['a file answers', tellAndEnd('x'.repeat(EVENT_UNITS_MAX + 1)), 'UnexpectedAnswerError'],
  ])('ends with an error if %s', async (_, answer, name) => {
    const { url } = await serve(answer);
    await expect(hear(connect(url).subscribe(), 1)).rejects.toMatchObject({ name });
  });

  it('ends with the reason of its signal: before, during and between connections', async () => {
    const reason = new Error('enough');
    const before = AbortSignal.abort(reason);
    const { url, asked } = await serve(tell(eventText(1)));
    const listen = (options: SubscribeOptions) => hear(connect(url).subscribe(options), 2);
    await expect(listen({ signal: before })).rejects.toBe(reason);
    expect(asked).toEqual([]);
    const within = new AbortController();
    const reading = (async () => {
      for await (const _ of connect(url).subscribe({ signal: within.signal })) within.abort(reason);
    })();
    await expect(reading).rejects.toBe(reason);
    const { url: ended } = await serve(tellAndEnd('retry: 30000\n\n'));
    const between = new AbortController();
    const waiting = hear(connect(ended).subscribe({ signal: between.signal }), 1);
    between.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });
});
