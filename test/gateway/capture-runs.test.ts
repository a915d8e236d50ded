/** What is stored of traffic without failures: runs, labels, flags and attachments. */
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, startGatewayProcess, waitForStats } from '../fixtures/capture-gateway.ts';
import { openRawClient, rawRequest } from '../fixtures/raw-client.ts';
import { chunkBytes, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { makeFolder } from '../storage/folder.ts';

let upstream: RawUpstream;
let folder: string;
let db: string;
beforeAll(async () => {
  upstream = await startRawUpstream({});
  upstream.keep_requests = false;
});
afterAll(() => upstream.close());
beforeEach(() => {
  // Removed after the test's gateway has ended, because the gateway recreates missing files.
  folder = makeFolder();
  db = join(folder, 'capture.mdb');
});

async function start(...flags: string[]) {
  const started = await startGatewayProcess(upstream.url, folder, flags);
  onTestFinished(() => started[Symbol.asyncDispose]());
  return started;
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const post = (path: string, body: Buffer, headers: [string, string][] = []): Buffer =>
  messageBytes(`POST ${path} HTTP/1.1`, [['Host', 'gw'], ...headers], body);

it('the capture contains labels, conversations without a label, the note, providers, turns and flags', {
  tags: 'long',
}, async () => {
  const { url, port } = await start('--note', 'before the change');
  const said = (text: string): object => ({
    type: 'message',
    role: 'assistant',
    model: 'm',
    stop_reason: 'end_turn',
    content: [{ type: 'text', text }],
    usage: { input_tokens: 7, output_tokens: 3 },
  });
  upstream.script = {
    onRequest: async (connection, request) => {
      if (request.start_line.includes('/endless')) {
        await connection.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        await connection.write(chunkBytes(Buffer.from('begun')));
      } else if (request.start_line.includes('/broken')) {
        await connection.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
        connection.reset();
      } else {
        await connection.write(messageBytes('HTTP/1.1 200 OK', [], json(said('fine'))));
      }
    },
  };
  // Two conversations without a label, with interleaved turns.
  const talk = (topic: string, turns: number): Buffer =>
    json({
      model: 'm',
      messages: Array.from({ length: turns }, (_, i) => [
        ...(i === 0 ? [] : [{ role: 'assistant', content: [{ type: 'text', text: 'fine' }] }]),
        { role: 'user', content: `${topic} ${i}` },
      ]).flat(),
    });
  for (let turns = 1; turns <= 3; turns++) {
    for (const topic of ['apples', 'pears']) await rawRequest(port, post('/v1/messages', talk(topic, turns)));
  }
  const labels: [string, string][] = [
    ['X-Svc-Run', 'mine'],
    ['X-Svc-Seq', '41'],
  ];
  await rawRequest(port, post('/v1/messages', talk('apples', 4), labels));
  await rawRequest(port, post('/v1/messages/count_tokens', talk('apples', 4), [['X-Svc-Run', 'mine']]));
  await rawRequest(port, post('/gemini/v1beta/models/gemini-x:generateContent', json({ contents: [] })));
  await rawRequest(port, post('/gemini/v1beta/models/gemini-x:countTokens', json({ contents: [] })));
  await rawRequest(port, post('/bedrock/eu-west-1/model/some.model/converse', json({ messages: [] })));

  const gone = await openRawClient(port);
  await gone.write(post('/v1/endless', json({})));
  await gone.waitForMatch(/begun/);
  gone.reset();
  await waitForStats(url, ({ exchanges }) => exchanges.aborted === 1 || exchanges.captured === 12);
  expect((await rawRequest(port, post('/v1/broken', json({})))).complete).toBe(false);

  const { exchanges } = await waitForStats(url, (stats) => stats.exchanges.in_flight === 0);
  expect(exchanges).toMatchObject({
    attempted: 13,
    captured: 13,
    dropped: 0,
    turns: 9,
    aborted: 2,
    by_provider: {
      anthropic: { captured: 10, turns: 7 },
      gemini: { captured: 2, turns: 1 },
      bedrock: { captured: 1, turns: 1 },
    },
  });
  expect(await flush(url)).toBe(13);
  const records = (await readCaptured(db)).map(({ record }) => record);
  expect(new Set(records.map(({ note }) => note))).toEqual(new Set(['before the change']));
  const [apples, pears] = [records[0]!.run_id, records[1]!.run_id];
  expect([typeof apples, typeof pears]).toEqual(['string', 'string']);
  expect(apples).not.toBe(pears);
  expect(records.slice(0, 6).map(({ run_id }) => run_id)).toEqual([
    apples,
    pears,
    apples,
    pears,
    apples,
    pears,
  ]);
  expect(records[6]).toMatchObject({
    run_id: 'mine',
    seq: 41,
    kind: 'turn',
    model: 'm',
    stop_reason: 'end_turn',
  });
  expect(records[6]!.usage).toMatchObject({ input_tokens: 7, output_tokens: 3 });
  expect(records[7]).toMatchObject({ run_id: 'mine', seq: null, kind: 'other' });
  expect(records.slice(8, 11)).toMatchObject([
    {
      provider: 'gemini',
      kind: 'turn',
      model: 'gemini-x',
      path: '/gemini/v1beta/models/gemini-x:generateContent',
    },
    { provider: 'gemini', kind: 'other', path: '/gemini/v1beta/models/gemini-x:countTokens' },
    {
      provider: 'bedrock',
      kind: 'turn',
      model: 'some.model',
      path: '/bedrock/eu-west-1/model/some.model/converse',
    },
  ]);
  expect(records.slice(11).map(({ aborted, status, path }) => [aborted, status, path])).toEqual([
    [true, 200, '/v1/endless'],
    [true, 200, '/v1/broken'],
  ]);
});

it('attachments from 1 KiB on are stored once beside the database; bodies come back byte for byte', async () => {
  const { url, port } = await start();
  upstream.script = {
    onRequest: (connection) => connection.write(messageBytes('HTTP/1.1 200 OK', [], json({ ok: true }))),
  };
  const small = randomBytes(1_023);
  const files = [randomBytes(1_024), randomBytes(40_000), randomBytes(1_025)];
  const image = (bytes: Buffer): object => ({
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: bytes.toString('base64') },
  });
  const sent: Buffer[] = [];
  for (let turns = 1; turns <= 4; turns++) {
    const messages = [small, ...files]
      .slice(0, turns)
      .map((bytes, i) => ({ role: 'user', content: [{ type: 'text', text: `see ${i}` }, image(bytes)] }));
    sent.push(json({ model: 'm', messages: [...messages, ...messages.slice(0, 1)] }));
  }
  sent.push(json({ messages: [{ role: 'user', content: files.map(image) }], other: 'conversation' }));
  for (const body of sent) await rawRequest(port, post('/v1/messages', body));
  expect(await flush(url)).toBe(sent.length);
  const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
  expect(readdirSync(`${db}.files`).sort()).toEqual(files.map(sha256).sort());
  for (const bytes of files)
    expect(readFileSync(join(`${db}.files`, sha256(bytes))).equals(bytes)).toBe(true);
  const stored = await readCaptured(db);
  expect(stored.map(({ request }) => sha256(request))).toEqual(sent.map(sha256));
});
