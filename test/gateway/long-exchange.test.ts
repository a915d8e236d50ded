/**
 * Exchanges that take longer than 10 seconds, after which the parser would close a silent connection. The server's
 * sweep restarts that timeout, so the exchanges continue and their connection serves later requests. The test
 * triggers the sweep. Test thread, gateway included.
 */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { openRawClient } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

/** Longer than the time between two sweeps. */
const A_WHILE_MS = 9_000;

const OK = messageBytes('HTTP/1.1 200 OK', [], Buffer.from('ok'));
const POST = messageBytes('POST /v1/messages HTTP/1.1', [['host', 'gw']], Buffer.from('hello'));

let upstream: RawUpstream;
let gateway: TestGateway;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  upstream = await startRawUpstream({});
  gateway = await startTestGateway(upstream.url);
});
afterEach(async () => {
  vi.useRealTimers();
  await gateway.close();
  await upstream.close();
});

it('a connection serves the next request after an answer that took long', async () => {
  const client = await openRawClient(gateway.port);
  for (let time = 1; time <= 3; time += 1) {
    await client.write(POST);
    await upstream.waitForRequests(time);
    vi.advanceTimersByTime(A_WHILE_MS);
    await upstream.connections[0]!.write(OK);
    expect((await client.readAnswer()).body.toString()).toBe('ok');
  }
  client.socket.destroy();
});

it('an upload that pauses in the middle arrives in full', async () => {
  upstream.script = { onRequest: (connection) => connection.write(OK) };
  const client = await openRawClient(gateway.port);
  await client.write(POST.subarray(0, -2));
  const connection = await upstream.waitForConnections(1);
  await connection.waitForMatch(/\r\n\r\nhel$/);
  vi.advanceTimersByTime(A_WHILE_MS);
  await client.write(POST.subarray(-2));
  expect((await client.readAnswer()).body.toString()).toBe('ok');
  expect(upstream.requests[0]!.body.toString()).toBe('hello');
  client.socket.destroy();
});
