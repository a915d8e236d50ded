/**
 * A hostile client at routes with secret headers: requests hidden in others, upgrades of other protocols, upgrades with
 * bodies, targets in other forms, dots and encoded slashes. The upstream sees only what it should, and the secret is in
 * no error, log or capture. The gateway is a separate process.
 */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { socketEngine } from '../../native/socket-engine.ts';
import { loadServer } from '../../src/http/server.ts';
import { CliChild } from '../cli/child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { openRawClient } from '../fixtures/raw-client.ts';

const isWatched = (await loadServer()) === 'uwebsockets' && socketEngine.watchConnections() !== '';

const SECRET = 'operators-own-secret-0123456789abcdef';
const folder = mkdtempSync(join(tmpdir(), 'understudy-hostile-'));
const db = join(folder, 'capture.mdb');
/** Everything that arrived at the upstream. */
let came = '';
const sockets = new Set<Socket>();
const bare = createServer((socket) => {
  sockets.add(socket);
  let own = '';
  let answered = 0;
  socket.on('error', () => {});
  socket.on('data', (bytes: Buffer) => {
    came += bytes.toString('latin1');
    own += bytes.toString('latin1');
    // Answers each head like a server that trusts every byte.
    const heads = own.split('\r\n\r\n').length - 1;
    for (; answered < heads; answered++) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  });
});
const echo = new WebSocketServer({ noServer: true });
let child: CliChild;
let url: string;
let port: number;
let closeEcho = () => {};

beforeAll(async () => {
  await once(bare.listen(0, '127.0.0.1'), 'listening');
  const { createServer: createHttp } = await import('node:http');
  const http = createHttp();
  http.on('upgrade', (request, socket, head) => {
    echo.handleUpgrade(request, socket, head, (accepted) => {
      accepted.send(`you are ${request.headers.authorization}`);
      accepted.on('message', () => accepted.close(1000, `bye ${request.headers.authorization}`));
    });
  });
  await once(http.listen(0, '127.0.0.1'), 'listening');
  closeEcho = () => http.close();
  const base = `http://127.0.0.1:${(bare.address() as AddressInfo).port}`;
  const headers = { authorization: `Bearer ${SECRET}`, 'x-team-key': SECRET };
  child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: {
      ...{ DATA_DIR: folder, GW_UPSTREAM_BASE: `${base}/default` },
      GW_ROUTES: JSON.stringify({
        '/secret': { base: `${base}/secret`, provider: 'secret', headers },
        '/gone': { base: 'http://127.0.0.1:1', provider: 'gone', headers },
        '/echo': { base: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, headers },
      }),
    },
  });
  [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
  port = Number(new URL(url).port);
});
afterAll(async () => {
  await child[Symbol.asyncDispose]();
  for (const socket of sockets) socket.destroy();
  bare.close();
  closeEcho();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  came = '';
});

const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n';
const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: gw\r\n\r\n';
/** The bytes to send, the permitted answers, and the first line that the upstream may see; null: no line. */
const CASES: [string, string, RegExp, string | null][] = [
  [
    'a length and chunks',
    `POST /secret/a HTTP/1.1\r\nHost: gw\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
    /^400$/,
    null,
  ],
  [
    'an upgrade with a length',
    `POST /secret/a HTTP/1.1\r\nHost: gw\r\n${UPGRADE}Content-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
    /^426$/,
    null,
  ],
  [
    'an upgrade with chunks',
    `POST /secret/a HTTP/1.1\r\nHost: gw\r\n${UPGRADE}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    /^426$/,
    null,
  ],
  [
    'an upgrade with two lengths of nothing',
    `GET /secret/a HTTP/1.1\r\nHost: gw\r\n${UPGRADE}Content-Length: 0\r\nContent-Length: 0\r\n\r\n${HIDDEN}`,
    /^400$/,
    null,
  ],
  [
    'h2c',
    'GET /secret/a HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n',
    /^200$/,
    'GET /secret/a HTTP/1.1',
  ],
  [
    'h2c beside WebSocket',
    'GET /secret/a HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n',
    /^200$/,
    'GET /secret/a HTTP/1.1',
  ],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /^(400|505)$/, null],
  ['an absolute target', `GET http://evil.example/secret/a HTTP/1.1\r\nHost: gw\r\n\r\n`, /^505$/, null],
  ['a tunnel to elsewhere', 'CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: gw\r\n\r\n', /^(400|405|505)$/, null],
  [
    'a target with a host in its path',
    'GET //evil.example/secret/a HTTP/1.1\r\nHost: gw\r\n\r\n',
    /^200$/,
    'GET /default//evil.example/secret/a HTTP/1.1',
  ],
  [
    'an at sign behind the prefix',
    'GET /secret@evil.example/ HTTP/1.1\r\nHost: gw\r\n\r\n',
    /^200$/,
    'GET /default/secret@evil.example/ HTTP/1.1',
  ],
  [
    'an encoded slash behind the prefix',
    'GET /secret%2fa HTTP/1.1\r\nHost: gw\r\n\r\n',
    /^200$/,
    'GET /default/secret%2fa HTTP/1.1',
  ],
  [
    'a backslash behind the prefix',
    'GET /secret\\a HTTP/1.1\r\nHost: gw\r\n\r\n',
    /^(200|400)$/,
    'GET /default/secret\\a HTTP/1.1',
  ],
  [
    'dots behind a prefix, as they are',
    'GET /secret/../default/x HTTP/1.1\r\nHost: gw\r\n\r\n',
    /^200$/,
    'GET /secret/../default/x HTTP/1.1',
  ],
  [
    'dots in front of a prefix, with the default’s headers',
    'GET /x/../secret/a HTTP/1.1\r\nHost: gw\r\n\r\n',
    /^200$/,
    'GET /default/x/../secret/a HTTP/1.1',
  ],
  ['another case', 'GET /Secret/a HTTP/1.1\r\nHost: gw\r\n\r\n', /^200$/, 'GET /default/Secret/a HTTP/1.1'],
  [
    'trailers',
    'POST /secret/a HTTP/1.1\r\nHost: gw\r\nTrailer: authorization\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nauthorization: mine\r\n\r\n',
    /^400$/,
    'POST /secret/a HTTP/1.1',
  ],
  [
    'an unknown expectation',
    'POST /secret/a HTTP/1.1\r\nHost: gw\r\nExpect: 200-maybe\r\nContent-Length: 1\r\n\r\nx',
    /^200$/,
    'POST /secret/a HTTP/1.1',
  ],
  [
    'a nominated secret',
    'GET /secret/a HTTP/1.1\r\nHost: gw\r\nConnection: authorization, x-team-key\r\nauthorization: mine\r\n\r\n',
    /^200$/,
    'GET /secret/a HTTP/1.1',
  ],
  [
    'the secret’s name in other letters, twice',
    'GET /secret/a HTTP/1.1\r\nHost: gw\r\nAUTHORIZATION: mine\r\nX-Team-Key: mine\r\nx-TEAM-key: mine\r\n\r\n',
    /^200$/,
    'GET /secret/a HTTP/1.1',
  ],
  ['an upstream that is not there', 'GET /gone/a HTTP/1.1\r\nHost: gw\r\n\r\n', /^502$/, null],
  ['a handshake to a dead upstream', `GET /gone/a HTTP/1.1\r\nHost: gw\r\n${UPGRADE}\r\n`, /^502$/, null],
  [
    'a handshake to what is no WebSocket',
    `GET /secret/a HTTP/1.1\r\nHost: gw\r\n${UPGRADE}\r\n${HIDDEN}`,
    /^200$/,
    'GET /secret/a HTTP/1.1',
  ],
  [
    'a handshake at the gateway’s own',
    `GET /__gw/routes HTTP/1.1\r\nHost: 127.0.0.1\r\n${UPGRADE}\r\n`,
    /^200$/,
    null,
  ],
];

describe.runIf(isWatched)('a route with secret headers', () => {
  it.each(CASES)('shows its upstream no more than it should: %s', async (_name, sent, status, line) => {
    const client = await openRawClient(port);
    await client.write(sent);
    const answer = await client.readAnswer();
    expect(String(answer.status)).toMatch(status);
    client.socket.destroy();
    expect(answer.wire.includes(SECRET)).toBe(false);
    if (line === null || (answer.status >= 400 && came === '')) {
      expect(came).toBe('');
      return;
    }
    expect(came.split('\r\n')[0]).toBe(line);
    expect(came.match(/^(GET|POST|PRI|CONNECT) /gm)).toHaveLength(1);
    const head = came.split('\r\n\r\n')[0]!.toLowerCase();
    const isSecret = line.split(' ')[1]!.startsWith('/secret');
    expect(head.match(/^authorization: .*$/gm)).toEqual(
      isSecret ? [`authorization: bearer ${SECRET}`] : null,
    );
    expect(head.match(/^x-team-key: .*$/gm)).toEqual(isSecret ? [`x-team-key: ${SECRET}`] : null);
    if (!/websocket/i.test(sent) || /h2c/.test(sent)) expect(head).not.toMatch(/^(upgrade|http2-settings):/m);
  });

  it('adds them to a tunnel, and masks their echoes in captures', async () => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/echo/v1/realtime`, {
      headers: { authorization: 'Bearer mine', 'x-svc-run': 'echoing' },
    });
    const [said] = (await once(socket, 'message')) as [Buffer];
    expect(String(said)).toBe(`you are Bearer ${SECRET}`);
    socket.send('go');
    await once(socket, 'close');
    await expect
      .poll(
        async () => {
          await flush(url);
          return (await readCaptured(db)).filter(({ record }) => record.run_id === 'echoing').length;
        },
        { timeout: PATIENCE_MS },
      )
      .toBe(1);
  });

  it('writes the secret to no file and to no line of the log', async () => {
    await flush(url);
    const stored = await readCaptured(db);
    expect(stored.length).toBeGreaterThan(10);
    for (const { record, request, response } of stored)
      expect(`${JSON.stringify(record)}${request}${response}`).not.toContain(SECRET);
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      expect(readFileSync(path).includes(SECRET), path).toBe(false);
    }
    expect(`${child.stdout}${child.stderr}`).not.toContain(SECRET);
  });
});
