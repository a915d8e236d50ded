/** Who ended an exchange, and why, is stored with it and shown by every reader. */
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { tellConversation } from '../../src/captures/conversation.ts';
import { summarizeRun } from '../../src/captures/inspect.ts';
import { END_CAUSES, findEndCause } from '../../src/domain/end-cause.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import {
  type CaptureGateway,
  flush,
  startCaptureGateway,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { chunkBytes, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream, UNREACHABLE } from '../fixtures/raw-upstream.ts';
import { longFrom } from '../long-parts.ts';
import { makeFolder } from '../storage/folder.ts';

const BODY = Buffer.from('{"model":"m","messages":[{"role":"user","content":"hello"}]}');
const REQUEST = messageBytes(
  'POST /v1/messages HTTP/1.1',
  [
    ['host', 'gw'],
    ['x-svc-run', 'r'],
  ],
  BODY,
);

let upstream: RawUpstream | null = null;
let gateway: CaptureGateway | null = null;
afterEach(async () => {
  await gateway?.close();
  await upstream?.close();
  gateway = null;
  upstream = null;
});

async function start(to: string): Promise<string> {
  const db = join(makeFolder(), 'capture.mdb');
  gateway = await startCaptureGateway({ upstream: to, db });
  return db;
}

/** The only stored exchange, as each reader shows it. */
async function readOne(db: string) {
  await waitForStats(gateway!.url, ({ exchanges }) => exchanges.in_flight === 0 && exchanges.captured === 1);
  await flush(gateway!.url);
  const reader = CaptureReader.open(db);
  const record = reader.exchange(1)!;
  const [told] = [...tellConversation(reader, 'r')];
  const run = summarizeRun(reader, 'r')!;
  await reader.close();
  return { record, told: told!, run };
}

it('the cause of an end is a refused connection, also in the 502', async () => {
  const db = await start(UNREACHABLE);
  const answer = await rawRequest(gateway!.port, REQUEST);
  expect(answer.status).toBe(502);
  expect(answer.body.toString()).toContain('the upstream refused the connection (ECONNREFUSED)');
  const { record, told, run } = await readOne(db);
  expect(record).toMatchObject({ status: 502, end_cause: 'upstream_refused' });
  expect(told).toMatchObject({
    end_cause: 'upstream_refused',
    end_words: 'the upstream refused the connection',
  });
  expect(run.errors).toBe(1);
});

const upstreamFaults = [
  ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', 'upstream_reset'],
  ['something else altogether\r\n\r\n', 'upstream_protocol'],
] as const;
for (const [at, [bytes, end_cause]] of upstreamFaults.entries())
  it(`the cause of an end is what the upstream did: ${JSON.stringify(bytes)}`, longFrom(at, 1), async () => {
    upstream = await startRawUpstream({
      onRequest: async (connection) => {
        await connection.write(bytes);
        connection.halfClose();
      },
    });
    const db = await start(upstream.url);
    const client = await openRawClient(gateway!.port);
    await client.write(REQUEST);
    await client.closed;
    expect((await readOne(db)).record).toMatchObject({ end_cause });
  });

it('the cause of an end is the upstream’s status if the upstream answers with an error', async () => {
  upstream = await startRawUpstream((connection) =>
    connection.write(messageBytes('HTTP/1.1 529 Overloaded', [], Buffer.from('{"type":"error"}'))),
  );
  const db = await start(upstream.url);
  await rawRequest(gateway!.port, REQUEST);
  expect((await readOne(db)).record.end_cause).toBe('upstream_status');
});

it('the cause of an end is the client that leaves during the answer, and the run counts an error', async () => {
  const begun = Promise.withResolvers<void>();
  upstream = await startRawUpstream({
    onRequest: async (connection) => {
      await connection.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      await connection.write(chunkBytes(Buffer.from('{"type":')));
      begun.resolve();
    },
  });
  const db = await start(upstream.url);
  const client = await openRawClient(gateway!.port);
  await client.write(REQUEST);
  await begun.promise;
  client.reset();
  const { record, told, run } = await readOne(db);
  expect(record).toMatchObject({ status: 200, aborted: true, end_cause: 'client_gone' });
  expect(told.end_words).toContain('the client closed the connection');
  expect(run).toMatchObject({ errors: 1, aborted: 1 });
});

it.each([
  ['ENOTFOUND', 'upstream_name'],
  ['EAI_AGAIN', 'upstream_name'],
  ['ETIMEDOUT', 'upstream_timeout'],
  ['EPIPE', 'upstream_reset'],
  ['EHOSTUNREACH', 'upstream_unreachable'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'upstream_tls'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'upstream_tls'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'upstream_tls'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'upstream_tls'],
  ['HPE_INVALID_CONSTANT', 'upstream_protocol'],
  ['CLOSED', 'gateway_stopped'],
  ['EWHATEVER', 'upstream_failed'],
  ['', 'upstream_failed'],
])('the cause of an end is found for the code %j', (code, cause) => {
  expect(findEndCause(code)).toBe(cause);
  expect(END_CAUSES).toContain(cause);
});
