/**
 * The listener on node:http: its differences from the one on uWebSockets.js, and behaviour that the other listener's
 * tests check together with its addon (refusals, caps of connections, other protocols). Real sockets.
 * `*-over-node.long.test.ts` run the other listener's suites over this one.
 */
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { ConnectionWatch } from '../../src/http/connection-watch.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import { plainConnections } from '../../src/http/plain-connections.ts';
import { loadServer, startServer } from '../../src/http/server.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { openRawClient } from '../fixtures/raw-client.ts';

let server: HttpServer;
const served: string[] = [];

beforeAll(async () => {
  expect(await loadServer('node')).toBe('node');
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    switches_protocols: true,
    onStream: (stream) => {
      served.push(`${stream.head.method} ${stream.head.path}`);
      const answer = () => stream.reply(200, '', 'ok');
      if (stream.is_switch) {
        stream.events.onBody = (chunk) => {
          stream.write(chunk);
          stream.flush();
        };
        stream.writeSwitch('upgrade: websocket\r\nconnection: Upgrade\r\n');
        stream.flush();
      } else if (stream.bodyComplete) answer();
      else stream.events.onBody = (_chunk, isLast) => isLast && answer();
    },
    describeError: (status, message) => JSON.stringify({ status, message }),
  });
});
afterAll(() => server.drain(0));
beforeEach(() => {
  served.length = 0;
});

const HOST = 'host: x\r\n';
const BEHIND = `GET /behind HTTP/1.1\r\n${HOST}\r\n`;
const post = (headers: string, body: string) => `POST /refused HTTP/1.1\r\n${HOST}${headers}\r\n\r\n${body}`;

it.each([
  ['two lengths', post('content-length: 3\r\ncontent-length: 3', 'abc'), 400],
  ['a length that is no number', post('content-length: 0x3', 'abc'), 400],
  ['a signed length', post('content-length: +3', 'abc'), 400],
  ['both framings', post('content-length: 3\r\ntransfer-encoding: chunked', '0\r\n\r\n'), 400],
  ['another coding', post('transfer-encoding: gzip, chunked', '0\r\n\r\n'), 400],
  ['two codings', post('transfer-encoding: chunked\r\ntransfer-encoding: chunked', '0\r\n\r\n'), 400],
  ['a coding in upper case', post('transfer-encoding: CHUNKED', '0\r\n\r\n'), 400],
  ['a chunk size that is no number', post('transfer-encoding: chunked', 'zz\r\nabc\r\n0\r\n\r\n'), 400],
  ['a chunk that is longer than it says', post('transfer-encoding: chunked', '1\r\nabc\r\n0\r\n\r\n'), 400],
  ['trailers', post('transfer-encoding: chunked', '1\r\na\r\n0\r\nx-a: 1\r\n\r\n'), 400],
  ['a blank in front of a colon', `GET / HTTP/1.1\r\n${HOST}x-a : 1\r\n\r\n`, 400],
  ['a folded line', `GET / HTTP/1.1\r\n${HOST}x-a: 1\r\n 2\r\n\r\n`, 400],
  ['a NUL in a value', `GET / HTTP/1.1\r\n${HOST}x-a: a\0b\r\n\r\n`, 400],
  ['a line that ends with a bare LF', `GET / HTTP/1.1\r\n${HOST}x-a: 1\nx-b: 2\r\n\r\n`, 400],
  ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
  ['two Hosts', `GET / HTTP/1.1\r\n${HOST}${HOST}\r\n`, 400],
  ['a byte above 127 in the target', `GET /\xe9 HTTP/1.1\r\n${HOST}\r\n`, 400],
  ['a method that Node does not know', `get / HTTP/1.1\r\n${HOST}\r\n`, 400],
  ['a long head', `GET / HTTP/1.1\r\n${HOST}x-a: ${'a'.repeat(70_000)}\r\n\r\n`, 431],
  ['another version', `GET / HTTP/1.0\r\n${HOST}\r\n`, 505],
  ['a target with a host', `GET http://y/ HTTP/1.1\r\n${HOST}\r\n`, 505],
  ['CONNECT', `CONNECT y:443 HTTP/1.1\r\n${HOST}\r\n`, 505],
])('%s is refused, and nothing behind it is served', async (_name, bytes, status) => {
  const client = await openRawClient(server.port);
  onTestFinished(() => void client.socket.destroy());
  await client.write(bytes + BEHIND);
  const answer = await client.readAnswer();
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.body.toString())).toMatchObject({ status, message: expect.stringMatching(/./) });
  await client.waitUntil(() => client.closed_how !== null, 'the end of the connection');
  expect(served.filter((line) => line !== 'POST /refused')).toEqual([]);
});

it('pipelined requests are served in order, and a bad one after them is refused', async () => {
  const client = await openRawClient(server.port);
  onTestFinished(() => void client.socket.destroy());
  const get = (path: string) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`;
  await client.write(`${get('/1')}${get('/2')}${get('/3')}bad\r\n\r\n${BEHIND}`);
  for (const _ of [1, 2, 3]) expect((await client.readAnswer()).status).toBe(200);
  expect((await client.readAnswer()).status).toBe(400);
  await client.waitUntil(() => client.closed_how !== null, 'the end of the connection');
  expect(served).toEqual(['GET /1', 'GET /2', 'GET /3']);
});

it('chunk extensions are skipped', async () => {
  const client = await openRawClient(server.port);
  onTestFinished(() => void client.socket.destroy());
  await client.write(post('transfer-encoding: chunked', '3;a=b\r\nabc\r\n0\r\n\r\n'));
  expect((await client.readAnswer()).status).toBe(200);
});

it('an HTTP/2 upgrade request with a body is treated as an ordinary one, as Java sends it', async () => {
  const client = await openRawClient(server.port);
  onTestFinished(() => void client.socket.destroy());
  const asks = 'connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB';
  for (const _ of [1, 2]) {
    await client.write(post(`${asks}\r\ncontent-length: 3`, 'abc'));
    expect((await client.readAnswer()).status).toBe(200);
  }
});

it('a WebSocket request is passed on with its socket', async () => {
  const client = await openRawClient(server.port);
  onTestFinished(() => void client.socket.destroy());
  await client.write(`GET /ws HTTP/1.1\r\n${HOST}connection: Upgrade\r\nupgrade: websocket\r\n\r\nfirst`);
  await client.waitUntil(() => client.received.toString('latin1').endsWith('\r\n\r\nfirst'), 'the echo');
  expect(client.received.toString('latin1')).toMatch(/^HTTP\/1\.1 101 Switching Protocols\r\n/);
  await client.write(' and more');
  await client.waitUntil(() => client.received.toString('latin1').endsWith('first and more'), 'the echo');
});

it('connections beyond the caps get 503, and are counted', async () => {
  // Waits until the connections of earlier tests are closed.
  await vi.waitFor(() => expect(plainConnections.counts.open).toBe(0), { timeout: PATIENCE_MS });
  const log = { warn: () => {} };
  const watch = new ConnectionWatch({ total: 0, by_address: 1 }, log);
  onTestFinished(() => {
    watch.stop();
    plainConnections.cap(0, 0, false);
  });
  const first = await openRawClient(server.port);
  onTestFinished(() => void first.socket.destroy());
  await first.write(BEHIND);
  expect((await first.readAnswer()).status).toBe(200);
  const before = watch.counts().refused.per_address;
  const second = await openRawClient(server.port);
  onTestFinished(() => void second.socket.destroy());
  const answer = await second.readAnswer();
  expect(answer.status).toBe(503);
  await second.waitUntil(() => second.closed_how !== null, 'the end of the connection');
  expect(watch.counts().refused.per_address).toBe(before + 1);
  expect(watch.counts().open).toBeGreaterThanOrEqual(1);
});
