/** The addon's socket functions on real sockets. Test thread. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { getSystemErrorName } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SEND_HEAD_BYTES, socketEngine } from '../../native/socket-engine.ts';

/** Our end of a connection, and the other end. */
let socket: Socket;
let peer: Socket;
let server: Server;

beforeEach(async () => {
  server = createServer({ pauseOnConnect: true });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  socket = connect(port, '127.0.0.1');
  await new Promise((resolve) => socket.once('connect', resolve));
  peer = await accepted;
  // A test may close `socket` before `peer` has read everything. The error of `peer` must not fail the test.
  peer.on('error', () => undefined);
});

afterEach(async () => {
  socket.destroy();
  peer.destroy();
  await new Promise((resolve) => server.close(resolve));
});

function descriptorOf(of: Socket): number {
  return (of as unknown as { _handle: { fd: number } })._handle.fd;
}

/** Reads this many bytes. */
async function read(from: Socket, bytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  from.resume();
  for await (const part of from as AsyncIterable<Buffer>) {
    parts.push(part);
    length += part.length;
    if (length >= bytes) break;
  }
  return Buffer.concat(parts);
}

// Without the addon, `sendNow` sends nothing, and the stream sends all bytes.
const isNative = socketEngine.sendNow.toString().includes('native code');

describe.runIf(isNative)('sendNow', () => {
  it('sends a head and the following bytes, one byte for each character', async () => {
    const body = Buffer.from('body \0\xff', 'latin1');
    expect(socketEngine.sendNow(descriptorOf(socket), 'head \xe9\r\n', body)).toBe(8 + body.length);
    expect(socketEngine.sendNow(descriptorOf(socket), '', body)).toBe(body.length);
    expect(socketEngine.sendNow(descriptorOf(socket), 'head', Buffer.alloc(0))).toBe(4);
    const got = await read(peer, 8 + 2 * body.length + 4);
    expect(got.toString('latin1')).toBe(`head \xe9\r\n${body.toString('latin1').repeat(2)}head`);
  });

  it('sends no more than the system accepts, and nothing when its buffer is full', async () => {
    const body = Buffer.alloc(64 << 20, 'abcdefghijklm');
    const head = 'h'.repeat(SEND_HEAD_BYTES);
    const first = socketEngine.sendNow(descriptorOf(socket), head, body);
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(head.length + body.length);
    // The system makes the buffers a little larger as bytes arrive.
    let taken = first;
    for (let more = -1; more !== 0 && taken < head.length + body.length; taken += more)
      more = socketEngine.sendNow(descriptorOf(socket), '', body.subarray(taken - head.length));
    expect(taken).toBeLessThan(head.length + body.length);
    const sent = Buffer.concat([Buffer.from(head), body.subarray(0, taken - head.length)]);
    expect((await read(peer, taken)).equals(sent)).toBe(true);
  });

  it('returns the error of a failed connection, and does not end the process', async () => {
    const descriptor = descriptorOf(socket);
    const send = () => socketEngine.sendNow(descriptor, 'head', Buffer.from('body'));
    peer.resetAndDestroy();
    expect(getSystemErrorName(send())).toBe('ECONNRESET');
    expect(getSystemErrorName(send())).toBe('EPIPE');
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.destroy();
    await closed;
    expect(getSystemErrorName(send())).toBe('EBADF');
  });

  it('refuses an invalid descriptor, and a head that is too long', () => {
    const none = Buffer.alloc(0);
    expect(() => socketEngine.sendNow(-1, 'head', none)).toThrow(RangeError);
    expect(() => socketEngine.sendNow(2 ** 31, 'head', none)).toThrow(RangeError);
    const long = 'h'.repeat(SEND_HEAD_BYTES + 1);
    expect(() => socketEngine.sendNow(descriptorOf(socket), long, none)).toThrow(RangeError);
  });
});
