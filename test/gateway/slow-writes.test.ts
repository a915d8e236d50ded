/**
 * Requests of which the system at first accepts nothing or a part, and the rest in the loop's next turn: each arrives
 * complete and with its own bytes. Test thread, gateway included.
 */
import { Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { socketEngine } from '../../native/socket-engine.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { headerValue, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

let upstream: RawUpstream;
let gateway: TestGateway;
beforeEach(async () => {
  upstream = await startRawUpstream({});
  upstream.script = { onRequest: (c) => c.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('ok'))) };
  gateway = await startTestGateway(upstream.url);
});
afterEach(async () => {
  vi.restoreAllMocks();
  await gateway.close();
  await upstream.close();
});

const NOTHING = Buffer.alloc(0);

it.each([
  ['nothing', () => 0],
  ['a byte', () => 1],
  ['half of the head', (head: number) => head >> 1],
  ['the head', (head: number) => head],
  ['all but a byte', (head: number, body: number) => head + body - 1],
])('forty simultaneous requests arrive complete if the system first accepts %s', async (_what, share) => {
  let held = 0;
  const write = Socket.prototype.write;
  vi.spyOn(Socket.prototype, 'write').mockImplementation(function (this: Socket, ...args: unknown[]) {
    // Simulates a system that accepts nothing before the loop's next turn.
    this.cork();
    setImmediate(() => this.uncork());
    const flows = write.apply(this, args as Parameters<typeof write>);
    if (this.remotePort === upstream.port && this.writableLength > 0) held++;
    return flows;
  });
  const send = socketEngine.sendNow;
  vi.spyOn(socketEngine, 'sendNow').mockImplementation((descriptor, head, body) => {
    const room = share(head.length, body.length);
    const part = body.subarray(0, Math.max(room - head.length, 0));
    return room === 0 ? 0 : send(descriptor, head.slice(0, room), part.length === 0 ? NOTHING : part);
  });
  const numbers = Array.from({ length: 40 }, (_, number) => number);
  for (const round of [1, 2]) {
    upstream.requests.length = 0;
    const answers = await Promise.all(
      numbers.map((number) => {
        const body = Buffer.alloc(500 + 1_100 * number, number + round);
        return rawRequest(
          gateway.port,
          messageBytes(
            'POST /v1/messages HTTP/1.1',
            [
              ['host', 'gw'],
              ['x-number', String(number)],
            ],
            body,
          ),
        );
      }),
    );
    expect(answers.map((answer) => answer.status)).toEqual(numbers.map(() => 200));
    const seen = upstream.requests.map((request) => Number(headerValue(request, 'x-number')));
    expect(seen.toSorted((a, b) => a - b)).toEqual(numbers);
    for (const [at, { body }] of upstream.requests.entries()) {
      const number = seen[at]!;
      expect(body.equals(Buffer.alloc(500 + 1_100 * number, number + round)), `request ${number}`).toBe(true);
    }
  }
  expect(held).toBeGreaterThanOrEqual(80);
});
