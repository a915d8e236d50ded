/** What is kept of traffic that goes well: runs, labels, flags, attachments, sealed files; and reading it meanwhile. */
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CliChild } from '../cli/child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, readStats, waitForStats } from '../fixtures/capture-gateway.ts';
import {
  answerCall,
  driveRuns,
  findCall,
  makeCall,
  requestBody,
  responseBody,
  tagOf,
} from '../fixtures/capture-traffic.ts';
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
  // Removed after the gateway of the test has ended, which makes its files anew where they are missing.
  folder = makeFolder();
  db = join(folder, 'capture.mdb');
});

/** A gateway of its own process. */
async function start(...flags: string[]): Promise<{ child: CliChild; url: string; port: number }> {
  const child = new CliChild(['gateway', '--port', '0', '--db', db, ...flags], {
    env: {
      GW_UPSTREAM_BASE: upstream.url,
      GW_GEMINI_BASE: upstream.url,
      GW_BEDROCK_BASE: `${upstream.url}/{region}`,
      DATA_DIR: folder,
    },
  });
  onTestFinished(() => child[Symbol.asyncDispose]());
  const [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
  return { child, url, port: Number(new URL(url).port) };
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const post = (path: string, body: Buffer, headers: [string, string][] = []): Buffer =>
  messageBytes(`POST ${path} HTTP/1.1`, [['Host', 'gw'], ...headers], body);

it('labels, conversations without a label, the note, providers, turns, flags', async () => {
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
  // Two conversations without a label, their turns in between each other.
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

it('attachments from 1 KiB on lie beside the database once, and bodies come back to the byte', async () => {
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

it('rotation under load: nothing lost, ids go on, sealed files read-only; inspect reads meanwhile', async () => {
  upstream.script = { onRequest: answerCall };
  const { child, url, port } = await start();
  const done: string[] = [];
  let isOver = false;
  const load = driveRuns(
    port,
    'r',
    8,
    5,
    () => isOver,
    (call) => done.push(tagOf(call)),
  );
  const sealed: string[] = [];
  for (let round = 1; round <= 3; round++) {
    const before = done.length;
    while (done.length < before + 25) await readStats(url);
    const rotated = (await (await fetch(`${url}/__gw/rotate`, { method: 'POST' })).json()) as Record<
      string,
      string
    >;
    expect(rotated).toEqual({ sealed: expect.stringMatching(/capture\.\d+-\d+\.mdb$/), opened: db });
    sealed.push(rotated.sealed!);
    expect(statSync(rotated.sealed!).mode & 0o777).toBe(0o400);
  }
  // While it is written to, another process reads it.
  await using inspect = new CliChild(['inspect', '--db', db, '--json']);
  const seen = await inspect.ended;
  expect(seen).toMatchObject({ code: 0, stderr: '' });
  expect((JSON.parse(seen.stdout) as { runs: unknown[] }).runs.length).toBeGreaterThan(0);
  isOver = true;
  await load;
  await makeCall(port, { run: 'last', seq: 2, stream: true });
  done.push('last#2s');
  expect(await flush(url)).toBe(done.length);
  const { db: state, exchanges } = await readStats(url);
  expect(state).toMatchObject({ path: db, sealed: 3 });
  expect(exchanges).toMatchObject({ captured: done.length, dropped: 0, in_flight: 0 });

  const stored = await readCaptured(db);
  expect(stored.map(({ record }) => record.id)).toEqual(done.map((_, at) => at + 1));
  const tags = stored.map(({ request, response }) => {
    const call = findCall(request)!;
    expect(request.equals(requestBody(call)) && response.equals(responseBody(call)), tagOf(call)).toBe(true);
    return tagOf(call);
  });
  expect(tags.sort()).toEqual(done.sort());
  expect(listSealed(db).map(({ path }) => path)).toEqual(sealed);

  const last = { run: 'last', seq: 2, stream: true };
  for (const [side, bytes] of [
    ['request', requestBody(last)],
    ['response', responseBody(last)],
  ] as const) {
    await using raw = new CliChild(['inspect', '--db', db, '--exchange', String(done.length), '--raw', side]);
    expect(await raw.ended).toMatchObject({ code: 0, stdout: bytes.toString() });
  }
  await using old = new CliChild(['inspect', '--db', sealed[0]!, '--exchange', '1', '--json']);
  expect(JSON.parse((await old.ended).stdout)).toMatchObject({ id: 1, status: 200, kind: 'turn' });
  child.process.kill('SIGTERM');
  expect(await child.ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining('rror') });
});
