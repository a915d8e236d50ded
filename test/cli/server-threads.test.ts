/** Two server threads on one port: both serve, and share counts, flush, rotation and the kill switch. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadConfig, raiseParserHeadLimit } from '../../src/config.ts';
import type { RunningUnderstudy } from '../../src/main.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

let folder: string;
let upstream: RawUpstream;
let running: RunningUnderstudy;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-servers-'));
  upstream = await startRawUpstream((c) => c.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('{}'))));
  raiseParserHeadLimit();
  const { startUnderstudy } = await import('../../src/main.ts');
  running = await startUnderstudy(
    loadConfig(
      { listener: 'gateway', port: '0' },
      {
        DATA_DIR: folder,
        SERVER_THREADS: '2',
        ACTOR_THREADS: '2',
        GW_UPSTREAM_BASE: upstream.url,
        PORT: '0',
      },
    ),
    { api: true, gateway: true },
  );
});
afterAll(async () => {
  await running.stop();
  await upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

const EXCHANGES = 200;

it('two server threads both serve, and count as one', async () => {
  const port = Number(new URL(running.gateway_url!).port);
  const body = Buffer.from('{"model":"m","messages":[{"role":"user","content":"hello"}]}');
  const request = messageBytes('POST /v1/messages HTTP/1.1', [['host', 'gw']], body);
  // Each request has a new connection, and the kernel spreads connections over the server threads.
  await Promise.all(Array.from({ length: EXCHANGES }, () => rawRequest(port, request)));
  const admin = async (path: string, method = 'GET') =>
    (await (
      await fetch(`${running.gateway_url}${path}`, { method, headers: { connection: 'close' } })
    ).json()) as never;
  // The figures are those of both server threads, whichever one answers.
  for (let i = 0; i < 8; i++) {
    expect(await admin('/__gw/flush')).toEqual({ flushed: true, written: EXCHANGES });
    expect(await admin('/__gw/stats')).toMatchObject({
      writer: { alive: true, queue_depth: 0, dropped: 0, written: EXCHANGES },
      exchanges: { attempted: EXCHANGES, captured: EXCHANGES, in_flight: 0, turns: EXCHANGES },
    });
  }
  const reader = CaptureReader.open(join(folder, 'capture.mdb'));
  expect([...reader.exchanges()].map((exchange) => exchange.id)).toEqual(
    Array.from({ length: EXCHANGES }, (_, at) => at + 1),
  );
  reader.close();
  for (let i = 0; i < 8; i++) {
    expect((await fetch(`${running.api_url}/ready`, { headers: { connection: 'close' } })).status).toBe(200);
  }
  expect(await admin('/__gw/writer/kill', 'POST')).toEqual({ alive: false });
  for (let i = 0; i < 8; i++) {
    expect(await admin('/__gw/flush')).toMatchObject({ type: 'error' });
    await rawRequest(port, request);
  }
  expect(await admin('/__gw/stats')).toMatchObject({
    writer: { alive: false },
    exchanges: { attempted: EXCHANGES + 8, captured: EXCHANGES, dropped: 8, in_flight: 0 },
  });
});
