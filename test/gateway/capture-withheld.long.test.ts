/**
 * Bodies that could stop or delay capture, through a gateway and over sockets: each affects at most its own exchange,
 * and is counted.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { WITHHELD_CAUSES } from '../../src/domain/exchange.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import {
  type CaptureGateway,
  flush,
  readStats,
  startCaptureGateway,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { headerValue, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

type Pair = [name: string, value: string];

let folder: string;
let upstream: RawUpstream;
let gateway: CaptureGateway;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-withheld-'));
  upstream = await startRawUpstream({});
  upstream.keep_requests = false;
  gateway = await startCaptureGateway({ upstream: upstream.url, db: join(folder, 'capture.mdb') });
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

it('bodies that cannot be masked are forwarded, and stored or withheld with the cause; others are stored', async () => {
  const ordinary = Buffer.from('{"text":"an ordinary answer"}');
  const run = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9'.repeat(170_000);
  const bomb = brotliCompressSync(Buffer.alloc(60 << 20));
  const cases: [name: string, answer: Buffer, headers: Pair[]][] = [
    ['one token of six megabytes', Buffer.from(`{"text":"${run}"}`), []],
    [
      'the same in a stream',
      Buffer.from(`data: {"text":"${run}"}\n\n`),
      [['Content-Type', 'text/event-stream']],
    ],
    ['an unknown encoding', Buffer.from([0, 1, 2, 3, 0xff]), [['Content-Encoding', 'x-acme']]],
    ['more masks than a body may have', Buffer.from('sk-ant-api03-abcdefgh '.repeat(110_000)), []],
    ...Array.from({ length: 40 }, (): [string, Buffer, Pair[]] => [
      'a bomb',
      bomb,
      [['Content-Encoding', 'br']],
    ]),
  ];
  upstream.script = {
    onRequest: (connection, request) => {
      const at = headerValue(request, 'x-case');
      const [, body, headers] = at ? cases[Number(at)]! : ['', ordinary, []];
      connection.write(messageBytes('HTTP/1.1 200 OK', headers as Pair[], body as Buffer));
    },
  };
  const send = (headers: Pair[]) =>
    rawRequest(
      gateway.port,
      messageBytes('POST /v1/messages HTTP/1.1', [['host', 'gw'], ...headers], Buffer.from('{}')),
    );
  for (const at of cases.keys()) {
    const answer = await send([['x-case', String(at)]]);
    expect(answer.body.length).toBe(cases[at]![1].length);
    if (at < 6) await send([]);
  }
  await waitForStats(gateway.url, (stats) => stats.exchanges.in_flight === 0);
  await flush(gateway.url);
  const { exchanges, writer, status } = await readStats(gateway.url);
  expect(exchanges).toMatchObject({ attempted: cases.length + 6, captured: cases.length + 6, dropped: 0 });
  expect(writer.errors).toBe(0);
  expect(status).toBe('ok');
  expect(Object.keys(exchanges.withheld_by_cause)).toEqual([...WITHHELD_CAUSES]);
  expect(exchanges.withheld_by_cause).toMatchObject({ undecodable: 1, redaction_budget: 1, failed: 0 });

  const stored = await readCaptured(join(folder, 'capture.mdb'));
  const caseOf = (record: (typeof stored)[number]['record']): string | undefined =>
    record.request.headers.find(([name]) => name === 'x-case')?.[1];
  const whole = stored.filter(({ record }) => caseOf(record) === undefined);
  expect(whole).toHaveLength(6);
  for (const { record, response } of whole) {
    expect(record.truncated).toBe(false);
    expect(response).toEqual(ordinary);
  }
  const byCase = new Map(stored.map((exchange) => [caseOf(exchange.record), exchange]));
  expect(byCase.get('0')!.response.equals(cases[0]![1])).toBe(true);
  expect(byCase.get('1')!.response.equals(cases[1]![1])).toBe(true);
  expect(byCase.get('2')!.record.response.withheld).toBe('undecodable');
  expect(byCase.get('3')!.record.response.withheld).toBe('redaction_budget');
});
