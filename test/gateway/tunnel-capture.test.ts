/**
 * What is kept of WebSocket connections: turns of the Responses protocol with their runs, frames of everything else, and no
 * credential of a handshake or a frame. The gateway is a process of its own, with its real database.
 */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { socketEngine } from '../../native/socket-engine.ts';
import { loadServer } from '../../src/http/server.ts';
import { CliChild } from '../cli/child.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

await loadServer();
const canTunnel = socketEngine.watchConnections() !== '';

const KEY = 'sk-proj-canary0123456789abcdefghijklmnopqrstuvwxyz';
const folder = mkdtempSync(join(tmpdir(), 'understudy-tunnel-'));
const db = join(folder, 'capture.mdb');
const http = createServer();
const upstream = new WebSocketServer({ server: http, perMessageDeflate: { threshold: 0 } });
let child: CliChild;
let url: string;

interface Asked {
  type: string;
  stream_id?: string;
  input: string;
}

/** As a provider of the Responses protocol answers: a few events, the last with the whole answer. */
function answer(socket: WebSocket, { stream_id, input }: Asked): void {
  const own = stream_id === undefined ? {} : { stream_id };
  const send = (event: object) => socket.send(JSON.stringify({ ...event, ...own }));
  if (input === 'break') {
    send({ type: 'error', status: 400, error: { type: 'invalid_request_error', message: 'no' } });
    return;
  }
  const id = `resp_${input.replace(/\W/g, '_')}`;
  const output = [
    {
      type: 'message',
      id: 'm',
      role: 'assistant',
      content: [{ type: 'output_text', text: `You said: ${input}` }],
    },
  ];
  send({ type: 'response.created', response: { id, status: 'in_progress', model: 'gpt-demo', output: [] } });
  send({ type: 'response.output_text.delta', item_id: 'm', delta: `You said: ${input}` });
  if (input === 'never ends') return;
  const usage = { input_tokens: 3, output_tokens: 5 };
  send({
    type: 'response.completed',
    response: { id, status: 'completed', model: 'gpt-demo', output, usage },
  });
}

beforeAll(async () => {
  upstream.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => {
      if (isBinary) return void socket.send(data);
      const event = JSON.parse(data.toString()) as Asked;
      if (event.type === 'response.create' && event.input !== undefined) answer(socket, event);
      else socket.send(JSON.stringify({ type: 'echo', of: event }));
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: { GW_UPSTREAM_BASE: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, DATA_DIR: folder },
  });
  [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
}, 60_000);
afterAll(async () => {
  for (const socket of upstream.clients) socket.terminate();
  await child[Symbol.asyncDispose]();
  http.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(path: string, headers: Record<string, string> = {}): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}${path}`, {
    headers: { authorization: `Bearer ${KEY}`, ...headers },
  });
  await once(socket, 'open');
  return socket;
}

async function ask(
  socket: WebSocket,
  event: object,
  last = /"(response\.completed|error|echo)"/,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const onMessage = (data: Buffer) => {
    if (last.test(data.toString())) resolve();
  };
  socket.on('message', onMessage);
  socket.send(JSON.stringify(event));
  await promise;
  socket.off('message', onMessage);
}

async function close(socket: WebSocket): Promise<void> {
  socket.close();
  await once(socket, 'close');
}

async function countCaptured(): Promise<number> {
  await flush(url);
  const stats = (await (await fetch(`${url}/__gw/stats`)).json()) as {
    exchanges: { captured: number; in_flight: number };
  };
  return stats.exchanges.in_flight === 0 ? stats.exchanges.captured : -1;
}

describe.runIf(canTunnel)('what is kept of a connection', () => {
  it('of the Responses protocol: its turns, by stream, with what each asked and got', async () => {
    const socket = await open('/v1/responses', { 'x-svc-run': 'sockets' });
    await ask(socket, { type: 'response.create', model: 'gpt-demo', input: 'one' });
    await ask(socket, {
      ...{ type: 'response.create', model: 'gpt-demo', input: 'two', previous_response_id: 'resp_one' },
    });
    const both = Promise.all([
      ask(
        socket,
        { type: 'response.create', model: 'gpt-demo', input: 'left', stream_id: 'a' },
        /completed.*"a"/,
      ),
      ask(
        socket,
        { type: 'response.create', model: 'gpt-demo', input: 'right', stream_id: 'b' },
        /completed.*"b"/,
      ),
    ]);
    await both;
    await ask(socket, { type: 'response.create', model: 'gpt-demo', input: 'break' });
    await ask(socket, { type: 'response.create', model: 'gpt-demo', input: 'never ends' }, /delta/);
    await close(socket);
    await expect.poll(countCaptured, { timeout: PATIENCE_MS }).toBe(6);

    const turns = (await readCaptured(db)).map(({ record, request, response }) => ({
      ...{
        kind: record.kind,
        shape: record.shape,
        run: record.run_id,
        status: record.status,
        aborted: record.aborted,
      },
      asked: (JSON.parse(request.toString()) as Asked).input,
      events: [...response.toString().matchAll(/^event: (.*)$/gm)].map(([, type]) => type),
    }));
    const turn = { kind: 'turn', shape: 'responses', run: 'sockets', status: 200, aborted: false };
    const whole = ['response.created', 'response.output_text.delta', 'response.completed'];
    expect(turns).toHaveLength(6);
    expect(turns).toEqual(
      expect.arrayContaining([
        ...['one', 'two', 'left', 'right'].map((asked) => ({ ...turn, asked, events: whole })),
        { ...turn, status: 400, asked: 'break', events: ['error'] },
        { ...turn, aborted: true, asked: 'never ends', events: whole.slice(0, 2) },
      ]),
    );
  });

  it('of any other: its frames', async () => {
    const before = await countCaptured();
    const socket = await open('/v1/realtime?model=gpt-realtime');
    await ask(socket, { type: 'session.update', session: { instructions: `use ${KEY}` } });
    socket.send(Buffer.from([1, 2, 3]));
    await once(socket, 'message');
    await close(socket);
    await expect.poll(countCaptured, { timeout: PATIENCE_MS }).toBe(before + 1);
    const { record, request, response } = (await readCaptured(db)).at(-1)!;
    expect([record.kind, record.status, record.path]).toEqual(['other', 101, '/v1/realtime']);
    const lines = (bytes: Uint8Array) =>
      Buffer.from(bytes)
        .toString()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    const at_ms = expect.any(Number);
    expect(lines(request)).toEqual([
      { at_ms, text: expect.stringContaining('session.update') },
      { at_ms, binary: 'AQID' },
      { at_ms, close: 1005, reason: '' },
    ]);
    expect(lines(response)[0]).toEqual({ at_ms, text: expect.stringContaining('"echo"') });
  });

  it('holds no credential, neither of the handshake nor of a frame', async () => {
    await flush(url);
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const file = join(folder, name);
      const bytes = readFileSync(file, { flag: 'r' });
      expect(bytes.includes(KEY), name).toBe(false);
    }
    for (const { request, response } of await readCaptured(db)) {
      expect(Buffer.from(request).includes(KEY)).toBe(false);
      expect(Buffer.from(response).includes(KEY)).toBe(false);
    }
  });
});
