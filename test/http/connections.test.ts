/**
 * Who may connect, how many connections, and how slowly a body may come, over real sockets. The test that uses up the
 * descriptors runs a separate process. Test thread, servers included.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { socketEngine } from '../../native/socket-engine.ts';
import { raiseParserHeadLimit } from '../../src/config.ts';
import { errorOfStatus, toApiBody } from '../../src/errors.ts';
import { ConnectionWatch } from '../../src/http/connection-watch.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import type { UploadPace } from '../../src/http/open-streams.ts';
import { loadServer, startServer } from '../../src/http/server.ts';
import { CliChild } from '../cli/child.ts';
import { startTestGateway } from '../fixtures/gateway.ts';
import { openRawClient, type RawClient } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';

raiseParserHeadLimit();
/** Whether the addon watches connections. It does so with uWebSockets.js, on a supported system. */
const isWatched = (await loadServer()) === 'uwebsockets' && socketEngine.watchConnections() !== '';
const GET = 'GET /a HTTP/1.1\r\nhost: x\r\n\r\n';

async function startEcho(pace?: UploadPace): Promise<HttpServer> {
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    onStream: (stream) => {
      if (stream.bodyComplete) stream.reply(200, '', stream.head.path);
      else stream.events.onBody = (_chunk, isLast) => isLast && stream.reply(200, '', stream.head.path);
    },
    describeError: (status, message) => JSON.stringify(toApiBody(errorOfStatus(status, message))),
    ...(pace === undefined ? {} : { pace }),
  });
  onTestFinished(() => server.drain(0));
  return server;
}

/** Sends a request as soon as the connection is open. */
async function ask(port: number): Promise<RawClient> {
  const client = await openRawClient(port);
  onTestFinished(() => void client.socket.destroy());
  await client.write(GET);
  return client;
}

async function expectTaken(client: RawClient): Promise<void> {
  expect((await client.readAnswer()).status).toBe(200);
}

async function expectTooMany(client: RawClient): Promise<void> {
  const answer = await client.readAnswer();
  expect(answer.status).toBe(503);
  expect(JSON.parse(answer.body.toString())).toEqual({
    detail: expect.stringContaining('Too many connections'),
  });
  await client.waitUntil(() => client.closed_how !== null, 'the end of the connection');
}

describe.runIf(isWatched)('a cap on connections', () => {
  const lines: { message: string; fields: object }[] = [];
  const log = { warn: (fields: object, message: string) => void lines.push({ message, fields }) };
  afterEach(() => {
    socketEngine.capConnections(0, 0, 0);
    lines.length = 0;
  });

  it('applies to all ports together: a further connection gets an error, and a closed one makes room', async () => {
    const [server, other] = [await startEcho(), await startEcho()];
    const watch = new ConnectionWatch({ total: 4, by_address: 0 }, log);
    onTestFinished(() => watch.stop());
    const before = watch.counts();
    const taken = await Promise.all([server, other, server, other].map(({ port }) => ask(port)));
    for (const client of taken) await expectTaken(client);
    for (let more = 0; more < 40; more++)
      await expectTooMany(await ask(more % 2 === 0 ? server.port : other.port));
    expect(watch.counts()).toMatchObject({ open: 4, max: 4, refused: { total: before.refused.total + 40 } });
    // Existing connections continue.
    await taken[3]!.write(GET);
    await expectTaken(taken[3]!);
    taken[0]!.socket.destroy();
    await expect.poll(() => watch.counts().open).toBe(3);
    await expectTaken(await ask(server.port));
    // The refusals are logged once, however many there were.
    await expect.poll(() => lines.length).toBe(1);
    expect(lines[0]!.message).toContain('MAX_CONNECTIONS');
    expect(lines[0]!.fields).toMatchObject({ max: 4 });
  });

  it('applies to one address: another one is accepted', async () => {
    const server = await startEcho();
    const watch = new ConnectionWatch({ total: 0, by_address: 2 }, log);
    onTestFinished(() => watch.stop());
    const first = [await ask(server.port), await ask(server.port)];
    for (const client of first) await expectTaken(client);
    await expectTooMany(await ask(server.port));
    expect(watch.counts()).toMatchObject({ max: 0, max_per_address: 2 });
    const other = await openRawClient(server.port, '127.0.0.1', '127.0.0.2');
    onTestFinished(() => void other.socket.destroy());
    await other.write(GET);
    await expectTaken(other);
    first[0]!.socket.destroy();
    await expect.poll(() => watch.counts().open).toBe(2);
    await expectTaken(await ask(server.port));
    await expect
      .poll(() => lines.map(({ message }) => message))
      .toEqual([expect.stringContaining('PER_ADDRESS')]);
  });

  it('applies by default only to public addresses, and in total by the limit of descriptors', async () => {
    const server = await startEcho();
    const watch = new ConnectionWatch({ total: null, by_address: null }, log);
    onTestFinished(() => watch.stop());
    const { max, max_per_address } = watch.counts();
    expect(max).toBe(Math.min(100_000, Math.floor((socketEngine.readDescriptorLimit() - 256) / 2)));
    expect(max_per_address).toBe(1_000);
    socketEngine.capConnections(max, 2, 0);
    const clients = await Promise.all(Array.from({ length: 20 }, () => ask(server.port)));
    for (const client of clients) await expectTaken(client);
  });
});

describe.runIf(isWatched)('a process at the limit of descriptors', () => {
  let upstream: RawUpstream;
  let folder: string;
  beforeAll(async () => {
    upstream = await startRawUpstream((c) => c.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('ok'))));
    folder = mkdtempSync(join(tmpdir(), 'understudy-descriptors-'));
  });
  afterAll(async () => {
    await upstream.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('waits without polling, says so in one line, and accepts clients once descriptors are free', {
    tags: 'long',
  }, async () => {
    await using child = new CliChild(['gateway', '--port', '0'], {
      descriptors_max: 100,
      env: {
        DATA_DIR: folder,
        GW_CAPTURE: 'off',
        GW_UPSTREAM_BASE: upstream.url,
        MAX_CONNECTIONS: '0',
        LOG_LEVEL: 'warn',
      },
    });
    const port = Number((await child.waitForOutput(/http:\/\/127\.0\.0\.1:(\d+)/))[1]);
    const clients = await Promise.all(Array.from({ length: 140 }, () => openRawClient(port)));
    await expect.poll(() => child.stderr).toContain('ulimit -n is 100');
    const usedTicks = (): number => {
      const [, rest = ''] = readFileSync(`/proc/${child.process.pid}/stat`, 'latin1').split(') ');
      return Number(rest.split(' ')[11]) + Number(rest.split(' ')[12]);
    };
    // A process that polls without a pause would use 150 ticks in this time.
    const before = usedTicks();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(usedTicks() - before).toBeLessThan(75);
    const last = clients.pop()!;
    for (const client of clients) client.socket.destroy();
    await last.write(GET);
    expect((await last.readAnswer()).status).toBe(200);
    last.socket.destroy();
    expect(child.stderr.match(/ulimit -n is/g)).toHaveLength(1);
    const stats = (await (await fetch(`http://127.0.0.1:${port}/__gw/stats`)).json()) as {
      connections: { accept_pauses: number };
    };
    expect(stats.connections.accept_pauses).toBeGreaterThan(0);
    child.process.kill('SIGTERM');
    expect((await child.ended).code).toBe(0);
  });
});

describe('the pace of an upload', () => {
  const PACE = { bytes_per_sec: 1_000, window_ms: 200 };
  const HEAD = 'POST /a HTTP/1.1\r\nhost: x\r\n';
  const counters = new Float64Array(6);
  const countSlow = (): number => {
    socketEngine.countConnections(counters);
    return counters[5]!;
  };

  it.each([
    ['a body with a length that stops', `${HEAD}content-length: 100000\r\n\r\nabc`],
    ['one that never begins', `${HEAD}content-length: 100000\r\n\r\n`],
    ['chunks that stop', `${HEAD}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`],
    ['chunks that never begin', `${HEAD}transfer-encoding: chunked\r\n\r\n`],
  ])('%s: 408, and the connection ends', async (_name, bytes) => {
    const server = await startEcho(PACE);
    const before = countSlow();
    const client = await openRawClient(server.port);
    await client.write(bytes);
    const answer = await client.readAnswer();
    expect(answer.status).toBe(408);
    expect(JSON.parse(answer.body.toString())).toEqual({ detail: 'The request body came too slowly' });
    await client.waitUntil(() => client.closed_how !== null, 'the end of the connection');
    expect(server.open).toBe(0);
    if (isWatched) expect(countSlow()).toBe(before + 1);
  });

  it('ends an upload below the minimum pace, and not one at the minimum pace', async () => {
    const server = await startEcho(PACE);
    const [drip, flow] = [await openRawClient(server.port), await openRawClient(server.port)];
    await drip.write(`${HEAD}content-length: 100000\r\n\r\n`);
    await flow.write(`${HEAD}content-length: 1000000\r\n\r\n`);
    let sent = 0;
    // A hundred times the lowest permitted pace, which leaves room for a slow machine.
    const timer = setInterval(() => {
      void drip.write('a');
      if (sent < 900_000) void flow.write('a'.repeat(5_000)).then(() => (sent += 5_000));
    }, 20);
    onTestFinished(() => clearInterval(timer));
    expect((await drip.readAnswer()).status).toBe(408);
    clearInterval(timer);
    expect(flow.closed_how).toBeNull();
    await flow.write('a'.repeat(1_000_000 - sent));
    flow.socket.end();
    expect(flow.messages).toHaveLength(0);
    flow.socket.destroy();
  });

  it('frees the upstream connection of a slow body through the gateway', async () => {
    const upstream = await startRawUpstream({});
    const gateway = await startTestGateway(upstream.url, null, undefined, '', null, PACE);
    onTestFinished(async () => {
      await gateway.close();
      await upstream.close();
    });
    const client = await openRawClient(gateway.port);
    await client.write(`${HEAD}content-length: 100000\r\n\r\nabc`);
    const connection = await upstream.waitForConnections(1);
    expect((await client.readAnswer()).status).toBe(408);
    await connection.closed;
    expect(upstream.requests).toHaveLength(0);
  });

  it('does not count the time in which a body waits for the upstream', { tags: 'long' }, async () => {
    const upstream = await startRawUpstream({ onConnection: (connection) => connection.pause() });
    const gateway = await startTestGateway(upstream.url, null, undefined, '', null, PACE);
    onTestFinished(async () => {
      await gateway.close();
      await upstream.close();
    });
    const client = await openRawClient(gateway.port);
    const slow = await openRawClient(gateway.port);
    onTestFinished(() => void client.socket.destroy());
    void client.write(
      Buffer.concat([Buffer.from(`${HEAD}content-length: 60000000\r\n\r\n`), Buffer.alloc(60_000_000)]),
    );
    const connection = await upstream.waitForConnections(1);
    // Wait until three other uploads, one after the other, are refused because they are below the pace.
    for (let times = 0; times < 3; times++) {
      const other = times === 0 ? slow : await openRawClient(gateway.port);
      await other.write(`${HEAD}content-length: 100000\r\n\r\n`);
      expect((await other.readAnswer()).status).toBe(408);
    }
    expect(client.closed_how).toBeNull();
    upstream.script = { onRequest: (c) => c.write(messageBytes('HTTP/1.1 200 OK', [], Buffer.from('ok'))) };
    connection.resume();
    expect((await client.readAnswer()).status).toBe(200);
  });
});
