/**
 * A disk that is really full: readers are not affected, writers get the reason, and everything continues when there is
 * space.
 */
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { flush, readStats, waitForStats } from '../fixtures/capture-gateway.ts';
import { answerCall, makeCall } from '../fixtures/capture-traffic.ts';
import { SECRET, signToken } from '../fixtures/control-plane.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import { canMount, SmallDisk } from '../fixtures/small-disk.ts';

it.skipIf(!canMount)('the whole service survives a full disk', async () => {
  using disk = new SmallDisk('24m');
  const upstream = await startRawUpstream({});
  onTestFinished(() => upstream.close());
  upstream.script = { onRequest: answerCall };
  await using child = new CliChild(['up', '--port', '0'], {
    env: {
      DATA_DIR: join(disk.place, 'data'),
      PORT: '0',
      SVC_KEYS: 'key',
      AUTH_DB_URL: 'embedded:',
      AUTH_JWT_SECRET: SECRET,
      SERVER_THREADS: '3',
      GW_UPSTREAM_BASE: upstream.url,
    },
  });
  await child.waitForOutput(/inspect --db .*\n/);
  const [, url = ''] = /^ {2}Gateway +(http:\/\/\S+) {2}->/m.exec(child.stdout)!;
  const [, api = ''] = /^ {2}API +(http:\/\/\S+)/m.exec(child.stdout)!;
  const port = Number(new URL(url).port);
  const ask = async (method: string, path: string, body?: object): Promise<[number, string]> => {
    const response = await fetch(`${api}${path}`, {
      method,
      headers: { authorization: 'Bearer key', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return [response.status, await response.text()];
  };
  const ann = await signToken('ann');
  const signIn = async () => {
    const answer = await fetch(`${api}/organizations/`, { headers: { authorization: `Bearer ${ann}` } });
    return [answer.status, await answer.text()];
  };
  const note = (content: string) =>
    ask('POST', '/v1/findings/code', { org_id: 'o', content, file_path: 'a.ts', finding_type: 'bug' });
  const listNotes = () => ask('GET', '/v1/findings/code?org_id=o');
  let calls = 0;
  const call = async () => {
    await makeCall(port, { run: `run-${calls}`, seq: 1, stream: false });
    calls++;
  };
  expect((await note('first'))[0]).toBe(200);
  await call();
  await flush(url);

  disk.fill();
  await expect.poll(async () => (await note('more'))[0]).toBe(503);
  // Some pages of the file are free, so several exchanges fit before one does not.
  await expect
    .poll(async () => {
      for (let at = 0; at < 10; at++) await call();
      return (await readStats(url)).reasons.map(({ reason }) => reason);
    })
    .toEqual(['disk_full']);
  for (let at = 0; at < 20; at++) {
    const [status, text] = await listNotes();
    expect([status, text]).toEqual([200, expect.stringContaining('first')]);
    expect((await note('again'))[0]).toBe(503);
    expect(await signIn()).toEqual([503, '{"detail":"The disk of the service is full"}']);
    expect(await ask('GET', '/ready')).toEqual([503, expect.stringContaining('storage (the disk is full)')]);
    expect((await ask('GET', '/health'))[0]).toBe(200);
    const gateway = await fetch(`${url}/__gw/ready`);
    expect([gateway.status, await gateway.json()]).toEqual([200, { status: 'ready', capture: 'degraded' }]);
  }
  // The answers come at once, before the time limit. Each request has its own connection, so that each thread gets one.
  for (let at = 0; at < 12; at++) {
    for (const path of ['/__gw/flush', '/__gw/rotate']) {
      const { status, body } = await rawRequest(
        port,
        `POST ${path} HTTP/1.1\r\nhost: gw\r\ncontent-length: 0\r\n\r\n`,
      );
      expect([path, status, body.toString()]).toEqual([
        path,
        503,
        expect.stringContaining('the disk is full'),
      ]);
    }
  }
  expect((await readStats(url)).exchanges.dropped).toBe(0);

  disk.free();
  expect((await ask('GET', '/ready'))[0]).toBe(200);
  await waitForStats(url, ({ status, exchanges }) => status === 'ok' && exchanges.in_flight === 0);
  await call();
  expect(await flush(url)).toBe(calls);
  expect((await note('last'))[0]).toBe(200);
  expect((await signIn())[0]).toBe(200);
  const sealed = (await (await fetch(`${url}/__gw/rotate`, { method: 'POST' })).json()) as { sealed: string };
  expect(sealed.sealed).toContain(`capture.1-${calls}.mdb`);
  child.process.kill('SIGTERM');
  const { code, stderr } = await child.ended;
  expect(code).toBe(0);
  expect(stderr).not.toContain('an actor thread ended');
});
