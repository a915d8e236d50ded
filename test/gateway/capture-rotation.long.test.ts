/** Files that are sealed under traffic: nothing is lost, and other processes can read meanwhile. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { listSealed } from '../../src/storage/capture/layout.ts';
import { CliChild } from '../cli/child.ts';
import { flush, readStats, startGatewayProcess, stopGatewayProcess } from '../fixtures/capture-gateway.ts';
import {
  answerCall,
  driveRuns,
  makeCall,
  readTags,
  requestBody,
  responseBody,
} from '../fixtures/capture-traffic.ts';
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

it('rotation under load: nothing is lost, ids continue, sealed files are read-only; inspect reads meanwhile', async () => {
  upstream.script = { onRequest: answerCall };
  await using started = await startGatewayProcess(upstream.url, folder);
  const { url, port } = started;
  const { answered, end } = driveRuns(port, 'r', 8, 5);
  const sealed: string[] = [];
  for (let round = 1; round <= 3; round++) {
    const before = answered.size;
    while (answered.size < before + 25) await readStats(url);
    const rotated = (await (await fetch(`${url}/__gw/rotate`, { method: 'POST' })).json()) as Record<
      string,
      string
    >;
    expect(rotated).toEqual({ sealed: expect.stringMatching(/capture\.\d+-\d+\.mdb$/), opened: db });
    sealed.push(rotated.sealed!);
    expect(statSync(rotated.sealed!).mode & 0o777).toBe(0o400);
  }
  // Another process reads the file while it is written.
  await using inspect = new CliChild(['inspect', '--db', db, '--json']);
  const seen = await inspect.ended;
  expect(seen).toMatchObject({ code: 0, stderr: '' });
  expect((JSON.parse(seen.stdout) as { runs: unknown[] }).runs.length).toBeGreaterThan(0);
  await end();
  await makeCall(port, { run: 'last', seq: 2, stream: true });
  answered.add('last#2s');
  expect(await flush(url)).toBe(answered.size);
  const { db: state, exchanges } = await readStats(url);
  expect(state).toMatchObject({ path: db, sealed: 3 });
  expect(exchanges).toMatchObject({ captured: answered.size, dropped: 0, in_flight: 0 });

  expect(await readTags(db)).toEqual(answered);
  expect(listSealed(db).map(({ path }) => path)).toEqual(sealed);

  const last = { run: 'last', seq: 2, stream: true };
  for (const [side, bytes] of [
    ['request', requestBody(last)],
    ['response', responseBody(last)],
  ] as const) {
    await using raw = new CliChild([
      'inspect',
      '--db',
      db,
      '--exchange',
      String(answered.size),
      '--raw',
      side,
    ]);
    expect(await raw.ended).toMatchObject({ code: 0, stdout: bytes.toString() });
  }
  await using old = new CliChild(['inspect', '--db', sealed[0]!, '--exchange', '1', '--json']);
  expect(JSON.parse((await old.ended).stdout)).toMatchObject({ id: 1, status: 200, kind: 'turn' });
  expect(await stopGatewayProcess(started)).not.toContain('rror');
});
