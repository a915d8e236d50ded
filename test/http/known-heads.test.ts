/**
 * The headers of requests whose heads the addon knows are those that were sent, whatever came before on the same
 * connection and on others. Raw sockets. Test thread, server included.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { PASSED_HEAD, socketEngine, UNKNOWN_HEAD } from '../../native/socket-engine.ts';
import { raiseParserHeadLimit } from '../../src/config.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import { loadServer, startServer } from '../../src/http/server.ts';
import { openRawClient, type RawClient } from '../fixtures/raw-client.ts';

raiseParserHeadLimit();

type Line = readonly [name: string, value: string];
interface Asked {
  lines: readonly Line[];
  /** '' for a GET. */
  body: string;
}

/** Names of headers whose values vary, and of headers whose values do not, in upper and lower case. */
const NAMES = ['X-Api-Key', 'x-api-key', 'Accept', 'x-svc-seq', 'X-Svc-Run', 'x-svc-run', 'Traceparent', 'x'];
/** Values with one byte per character. One value is UTF-8. */
const VALUES = [
  '',
  'a',
  'b',
  '12',
  '13',
  'a longer value',
  '  in blanks ',
  'a\xc3\xa4a',
  ':',
  'x-svc-seq: 3',
];

const isWatched = (await loadServer()) === 'uwebsockets' && socketEngine.watchConnections() !== '';

let server: HttpServer;
/** The path and the headers of each request, as the server passed them on. */
const passed: string[][] = [];
const clients: RawClient[] = [];

beforeAll(async () => {
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    describeError: (status, message) => `${status} ${message}`,
    onStream: (stream) => {
      passed.push([stream.head.path, ...stream.head.headers]);
      stream.reply(200, '', 'ok');
    },
  });
});
afterAll(async () => {
  for (const client of clients) client.reset();
  await server.drain(1_000);
});

async function open(): Promise<RawClient> {
  const client = await openRawClient(server.port);
  clients.push(client);
  return client;
}

function makeRequest(path: string, { lines, body }: Asked): string {
  const text = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`;
  return `${body === '' ? 'GET' : 'POST'} ${path} HTTP/1.1\r\nHost: a\r\n${text}${length}\r\n${body}`;
}

function listExpected(path: string, { lines, body }: Asked): string[] {
  const pairs = lines.flatMap(([name, value]) => [name.toLowerCase(), value.replace(/^[ \t]+|[ \t]+$/g, '')]);
  return [path, 'host', 'a', ...pairs, ...(body === '' ? [] : ['content-length', String(body.length)])];
}

async function ask(client: RawClient, text: string, answers = 1): Promise<void> {
  client.write(Buffer.from(text, 'latin1'));
  for (let n = 0; n < answers; n++) expect((await client.readAnswer()).status).toBe(200);
}

const asked = fc.record({
  lines: fc.array(fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom(...VALUES)), { maxLength: 4 }),
  body: fc.constantFrom('', 'body', 'a longer body'),
});

describe('headers', () => {
  it('are those that were sent, after any other requests of this and another connection', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(asked, { minLength: 1, maxLength: 3 }),
        fc.array(
          fc.record({ pick: fc.nat(2), client: fc.nat(1), pipelined: fc.nat(2), number: fc.nat(99) }),
          {
            minLength: 1,
            maxLength: 25,
          },
        ),
        async (heads, picks) => {
          const both = [await open(), await open()];
          passed.length = 0;
          const wanted: string[][] = [];
          for (const { pick, client, pipelined, number } of picks) {
            const { lines, body } = heads[pick % heads.length]!;
            const texts: string[] = [];
            for (let n = 0; n <= pipelined; n++) {
              const path = `/${wanted.length}?n=${number}`;
              const changed: Line[] = lines.map(([name, value]) =>
                /svc|trace/i.test(name) && number % 3 > 0 ? [name, `${value}${number}`] : [name, value],
              );
              texts.push(makeRequest(path, { lines: changed, body }));
              wanted.push(listExpected(path.replace(/\?.*/, ''), { lines: changed, body }));
            }
            await ask(both[client]!, texts.join(''), texts.length);
          }
          expect(passed).toEqual(wanted);
          for (const client of both) client.reset();
        },
      ),
      { numRuns: 60 },
    );
  });

  it('are distinguished if one byte differs or a line is missing', async () => {
    const client = await open();
    const base: Line[] = [
      ['x-api-key', 'key-1'],
      ['x-svc-seq', '1'],
      ['accept', 'any'],
    ];
    const heads: Line[][] = [base];
    for (const at of base.keys()) {
      heads.push(base.with(at, [base[at]![0], `${base[at]![1].slice(0, -1)}7`]));
      heads.push(base.with(at, [`${base[at]![0]}s`, base[at]![1]]));
      heads.push(base.toSpliced(at, 1));
      heads.push(base.toSpliced(at, 0, base[at]!));
      heads.push(base.with(at, [base[at]![0], `${base[at]![1]}\xe9\xff7`]));
    }
    passed.length = 0;
    for (const lines of heads) {
      // The base head is sent twice, so that the addon knows it before each other head.
      for (const sent of [base, base, lines, lines])
        await ask(client, makeRequest('/', { lines: sent, body: '' }));
      expect(passed.splice(0)).toEqual(
        [base, base, lines, lines].map((sent) => listExpected('/', { lines: sent, body: '' })),
      );
    }
  });

  it.runIf(isWatched)(
    'are known from the second time on, and not remembered on connections whose heads always differ',
    async () => {
      const taken = vi.spyOn(socketEngine, 'takeHead');
      const slots = () => taken.mock.results.splice(0).map(({ value }) => value as number);
      const client = await open();
      const send = (key: string, seq: number, body = 'text') =>
        ask(
          client,
          makeRequest('/', {
            lines: [
              ['x-api-key', key],
              ['x-svc-seq', String(seq)],
            ],
            body,
          }),
        );
      try {
        await send('one', 1);
        await send('one', 200);
        await send('one', 3, 'another length');
        const [first, second, third] = slots();
        expect(first).toBe(UNKNOWN_HEAD);
        expect(second).toBeGreaterThanOrEqual(0);
        expect(third).toBe(second);
        for (let n = 0; n < 12; n++) await send(`never the same ${n}`, n);
        expect(slots().slice(-4)).toEqual(Array(4).fill(PASSED_HEAD));
        await send('one', 4);
        expect(passed.at(-1)).toEqual([
          '/',
          'host',
          'a',
          'x-api-key',
          'one',
          'x-svc-seq',
          '4',
          'content-length',
          '4',
        ]);
      } finally {
        taken.mockRestore();
      }
    },
  );

  it('of a request that is refused are not those of the next', async () => {
    const client = await open();
    passed.length = 0;
    await ask(client, makeRequest('/', { lines: [['x-api-key', 'one']], body: '' }));
    client.write(Buffer.from('GET /two HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n', 'latin1'));
    expect((await client.readAnswer()).status).toBe(400);
    const other = await open();
    await ask(other, makeRequest('/', { lines: [['x-api-key', 'two']], body: '' }));
    expect(passed).toEqual(['one', 'two'].map((key) => ['/', 'host', 'a', 'x-api-key', key]));
  });
});
