/**
 * Header values with bytes above 127, which the library cuts at both ends, arrive whole: in any pieces, several
 * requests at once, on several connections. Raw sockets. Test thread, server included.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { socketEngine } from '../../native/socket-engine.ts';
import { raiseParserHeadLimit } from '../../src/config.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import { loadServer, startServer } from '../../src/http/server.ts';
import { tlsOptions } from '../fixtures/certificate.ts';
import { openRawClient, type RawClient } from '../fixtures/raw-client.ts';

raiseParserHeadLimit();

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
    ...tlsOptions(),
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

/** One byte per character, most of them above 127 or blank. */
const byte = fc.oneof(fc.integer({ min: 0x80, max: 0xff }), fc.constantFrom(0x20, 0x09, 0x61, 0x3a));
const value = fc.array(byte, { maxLength: 6 }).map((bytes) => String.fromCharCode(...bytes));
const request = fc.record({
  lines: fc.array(fc.tuple(fc.constantFrom('x-a', 'X-B', 'x-svc-run'), value), { maxLength: 3 }),
  body: fc.constantFrom('', 'body', '\xe9: \xe9\r\n\r\n'),
});

function makeRequest(path: string, { lines, body }: { lines: [string, string][]; body: string }): string {
  const text = lines.map(([name, content]) => `${name}:${content}\r\n`).join('');
  const length = body === '' ? '' : `content-length: ${body.length}\r\n`;
  return `${body === '' ? 'GET' : 'POST'} ${path} HTTP/1.1\r\nhost: a\r\n${text}${length}\r\n${body}`;
}

describe.skipIf(!isWatched)('header values', () => {
  it('keep bytes above 127 at their ends', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { minLength: 1, maxLength: 4 }),
        fc.array(fc.nat(300), { maxLength: 3 }),
        async (requests, cuts) => {
          const client = await open();
          passed.length = 0;
          const texts = requests.map((asked, at) => makeRequest(`/${at}`, asked));
          const bytes = Buffer.from(texts.join(''), 'latin1');
          const places = [...new Set(cuts.map((cut) => cut % bytes.length))].sort((a, b) => a - b);
          const pieces = [0, ...places].map((from, at) => bytes.subarray(from, places[at]));
          await client.writePieces(pieces.filter((piece) => piece.length > 0));
          for (const _request of requests) expect((await client.readAnswer()).status).toBe(200);
          const wanted = requests.map(({ lines, body }, at) => [
            ...[`/${at}`, 'host', 'a'],
            ...lines.flatMap(([name, content]) => [
              name.toLowerCase(),
              content.replace(/^[ \t]+|[ \t]+$/g, ''),
            ]),
            ...(body === '' ? [] : ['content-length', String(body.length)]),
          ]);
          expect(passed).toEqual(wanted);
          client.reset();
        },
      ),
      { numRuns: 150 },
    );
  });

  it('of a repeated name may be any bytes', async () => {
    const client = await open();
    passed.length = 0;
    client.write(Buffer.from('GET / HTTP/1.1\r\nhost: a\r\nx: \xff\r\nx: a\xffb\r\n\r\n', 'latin1'));
    expect((await client.readAnswer()).status).toBe(200);
    expect(passed).toEqual([['/', 'host', 'a', 'x', '\xff', 'x', 'a\xffb']]);
  });
});
