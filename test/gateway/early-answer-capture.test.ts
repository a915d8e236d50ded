/**
 * Captures of uploads that an upstream answers early and then breaks off: each is counted once, and the stored answer
 * is the one that the client got. Test thread, writer on an actor thread.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readCaptured } from '../fixtures/capture-files.ts';
import {
  type CaptureGateway,
  flush,
  readStats,
  startCaptureGateway,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { openRawClient } from '../fixtures/raw-client.ts';
import { chunkBytes, headBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

let folder: string;
let upstream: RawUpstream;
let gateway: CaptureGateway;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-early-'));
  upstream = await startRawUpstream({});
  gateway = await startCaptureGateway({ upstream: upstream.url, db: join(folder, 'capture.mdb') });
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

const PIECE = chunkBytes(Buffer.alloc(64 * 1024, 'x'));
/** Complete answers, answers whose body is cut off, and answers after an informational one. */
const ANSWERS: [string, boolean][] = [
  ['HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno', true],
  ['HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\n\r\nno', false],
  ['HTTP/1.1 413 Too Large\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n', true],
  ['HTTP/1.1 413 Too Large\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n', false],
  ['HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno', true],
];

it('uploads answered early are counted once each, with the answer that the client received', async () => {
  for (const [answer] of ANSWERS) {
    upstream.script.onHead = (connection) => {
      connection.pause();
      void connection.write(answer);
      connection.socket.destroy();
    };
    const client = await openRawClient(gateway.port);
    const over = Promise.withResolvers<void>();
    const answered = client.readAnswer().finally(over.resolve);
    await client.write(
      headBytes('POST /v1/messages HTTP/1.1', [
        ['host', 'gw'],
        ['transfer-encoding', 'chunked'],
      ]),
    );
    for (let at = 0; at < 16; at++) await client.write(PIECE);
    await over.promise;
    expect(await answered).toMatchObject({ status: 413, body: Buffer.from('no') });
    client.socket.destroy();
  }
  await waitForStats(
    gateway.url,
    ({ exchanges }) => exchanges.attempted === ANSWERS.length && exchanges.in_flight === 0,
  );
  await flush(gateway.url);
  expect((await readStats(gateway.url)).exchanges).toMatchObject({
    attempted: ANSWERS.length,
    captured: ANSWERS.length,
    dropped: 0,
    in_flight: 0,
  });
  const stored = await readCaptured(join(folder, 'capture.mdb'));
  expect(stored.map(({ record, response }) => [record.status, response.toString(), record.aborted])).toEqual(
    ANSWERS.map(([, isWhole]) => [413, 'no', !isWhole]),
  );
});
