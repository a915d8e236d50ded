/**
 * Answers that end before the upload does. The gateway has stopped reading the upload, because the upstream accepts
 * no more of it. After the answer, nothing needs the rest of the upload. The connection of the client must still
 * accept that rest, and then serve the next request. Test thread, gateway included.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BodyPieces } from '../../src/http/body-pieces.ts';
import { HttpStream } from '../../src/http/http-stream.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { openRawClient, type RawClient } from '../fixtures/raw-client.ts';
import { chunkBytes, headBytes, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream, type UpstreamConnection } from '../fixtures/raw-upstream.ts';

/** More than all buffers between the client and an upstream that does not read. */
const UPLOAD_BYTES = 48 * 1024 * 1024;

let upstream: RawUpstream;
let gateway: TestGateway;
beforeEach(async () => {
  upstream = await startRawUpstream({});
  gateway = await startTestGateway(upstream.url);
});
afterEach(async () => {
  vi.restoreAllMocks();
  await gateway.close();
  await upstream.close();
});

const answers: [string, (connection: UpstreamConnection) => unknown, number][] = [
  ['with a length', (c) => c.write(messageBytes('HTTP/1.1 413 Too Large', [], Buffer.from('no'))), 413],
  [
    'in chunks',
    (c) => c.write('HTTP/1.1 413 Too Large\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n'),
    413,
  ],
  ['without a body', (c) => c.write('HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n'), 413],
  [
    'that ends with its connection',
    (c) => {
      void c.write('HTTP/1.1 413 Too Large\r\n\r\nno');
      c.halfClose();
    },
    413,
  ],
  ['by a reset', (c) => c.reset(), 502],
];

/** Sends an upload to an upstream that does not read, and waits until the gateway stops reading, too. */
async function beginUpload(
  fields: [string, string][],
): Promise<{ client: RawClient; upload: Promise<void> }> {
  const paused = new Promise<void>((resolve) => {
    const pauseBody = HttpStream.prototype.pauseBody;
    vi.spyOn(HttpStream.prototype, 'pauseBody').mockImplementation(function (this: HttpStream) {
      pauseBody.call(this);
      // A pause while the connection to the upstream is being established does not count.
      if (upstream.connections.length > 0) resolve();
    });
  });
  upstream.script.onHead = (connection) => connection.pause();
  const client = await openRawClient(gateway.port);
  const upload = client.write(
    Buffer.concat([
      headBytes('POST /v1/messages HTTP/1.1', [
        ['host', 'gw'],
        ['content-length', String(UPLOAD_BYTES)],
        ...fields,
      ]),
      Buffer.alloc(UPLOAD_BYTES, 'x'),
    ]),
  );
  await paused;
  return { client, upload };
}

it.each(answers)(
  'an answer %s while the upload waits: the connection remains usable',
  async (_name, answer, status) => {
    const { client, upload } = await beginUpload([]);
    await answer(upstream.connections[0]!);
    const answered = await client.readAnswer();
    expect([answered.status, answered.complete]).toEqual([status, true]);
    upstream.script = { onRequest: (c) => c.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('next'))) };
    const keep = vi.spyOn(BodyPieces.prototype, 'keep');
    await upload;
    await client.write(messageBytes('POST /v1/messages HTTP/1.1', [['host', 'gw']], Buffer.from('hello')));
    expect((await client.readAnswer()).body.toString()).toBe('next');
    // The rest of the upload is not needed and not copied.
    expect(keep.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0)).toBe(
      'hello'.length,
    );
    client.socket.destroy();
  },
);

it.each(answers)(
  'an answer %s while the upload waits, to a client that closes: it arrives before the reset',
  async (_name, answer, status) => {
    const { client } = await beginUpload([['connection', 'close']]);
    await answer(upstream.connections[0]!);
    const answered = await client.readAnswer();
    expect([answered.status, answered.complete]).toEqual([status, true]);
    await client.closed;
  },
);

const ROUNDS = 5;
const PIECE = Buffer.alloc(64 * 1024, 'x');
const framings: [string, [string, string], Buffer][] = [
  ['with a length', ['content-length', String(UPLOAD_BYTES)], PIECE],
  ['in chunks', ['transfer-encoding', 'chunked'], chunkBytes(PIECE)],
];
const refusals: [string, string][] = [
  ['with a length', 'HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno'],
  ['that closes', 'HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno'],
  ['in chunks', 'HTTP/1.1 413 Too Large\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n'],
];
const endings: [string, (connection: UpstreamConnection) => void][] = [
  ['ends', (c) => c.halfClose()],
  // Closes with unread bytes, which makes the system reset the connection.
  ['closes', (c) => void c.socket.destroy()],
];

describe.each(framings)('an upload %s that continues', (_framing, header, piece) => {
  it.each(refusals.flatMap(([how, answer]) => endings.map(([end, close]) => ({ how, end, answer, close }))))(
    'receives the answer $how of an upstream that then $end',
    async ({ answer, close }) => {
      upstream.script.onHead = (connection) => {
        connection.pause();
        void connection.write(answer);
        close(connection);
      };
      for (let round = 0; round < ROUNDS; round++) {
        const client = await openRawClient(gateway.port);
        await client.write(headBytes('POST /v1/messages HTTP/1.1', [['host', 'gw'], header]));
        const answered = client.readAnswer();
        let isAnswered = false;
        const over = answered.finally(() => {
          isAnswered = true;
        });
        for (let sent = 0; !isAnswered && sent < UPLOAD_BYTES / 2; sent += PIECE.length) {
          await client.write(piece);
          await nextTick();
        }
        const { status, body, complete } = await over;
        expect({ status, body: body.toString(), complete }).toEqual({
          status: 413,
          body: 'no',
          complete: true,
        });
        client.socket.destroy();
      }
    },
  );
});
