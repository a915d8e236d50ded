/**
 * Captures of WebSocket connections contain turns of the Responses protocol with their runs, frames of other protocols,
 * and no credential of a handshake or a frame. The gateway is a separate process with a real database.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
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
import { readAllFiles } from '../storage/captured.ts';

const canTunnel = (await loadServer()) === 'node' || socketEngine.watchConnections() !== '';

const KEY = 'sk-proj-canary0123456789abcdefghijklmnopqrstuvwxyz';
const folder = mkdtempSync(join(tmpdir(), 'understudy-tunnel-'));
const db = join(folder, 'capture.mdb');
/** The provider. Over HTTP it gives the same answers in one piece. It refuses handshakes under `/refused/STATUS`. */
const http = createServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const { input } = JSON.parse(Buffer.concat(pieces).toString()) as Asked;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(makeResponse(input)));
  });
});
const upstream = new WebSocketServer({
  noServer: true,
  perMessageDeflate: { threshold: 0, clientMaxWindowBits: 10 },
});
http.on('upgrade', (request, socket, head) => {
  const [, how] = /^\/refused\/(.*)$/.exec(request.url!) ?? [];
  if (how === undefined) {
    upstream.handleUpgrade(request, socket, head, (accepted) => upstream.emit('connection', accepted));
  } else if (how === 'mute') {
    socket.on('error', () => {});
    mute.resolve();
  } else if (how === 'gone') socket.destroy();
  else {
    const body = `{"error":{"message":"${how}"}}`;
    socket.end(
      `HTTP/1.1 ${how} Not Now\r\ncontent-type: application/json\r\nretry-after: 7\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  }
});
/** A handshake has arrived and is not answered yet. */
const mute = Promise.withResolvers<void>();
let child: CliChild;
let url: string;

interface Asked {
  type: string;
  stream_id?: string;
  input: string;
}

/** Answers like a provider of the Responses protocol: a few events, the last with the whole answer. */
function answer(socket: WebSocket, { stream_id, input }: Asked): void {
  const own = stream_id === undefined ? {} : { stream_id };
  const send = (event: object) => socket.send(JSON.stringify({ ...event, ...own }));
  if (input === 'break') {
    send({ type: 'error', status: 400, error: { type: 'invalid_request_error', message: 'no' } });
    return;
  }
  const response = makeResponse(input);
  const { id } = response;
  send({ type: 'response.created', response: { id, status: 'in_progress', model: 'gpt-demo', output: [] } });
  send({ type: 'response.output_text.delta', item_id: 'm', delta: `You said: ${input}` });
  if (input === 'never ends') return;
  send({ type: 'response.completed', response });
}

function makeResponse(input: string) {
  const output = [
    {
      type: 'message',
      id: 'm',
      role: 'assistant',
      content: [{ type: 'output_text', text: `You said: ${input}` }],
    },
  ];
  const id = `resp_${input.replace(/\W/g, '_')}`;
  const usage = { input_tokens: 3, output_tokens: 5 };
  return { id, status: 'completed', model: 'gpt-demo', output, usage };
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

describe.runIf(canTunnel)('the capture of a WebSocket connection', () => {
  it('of the Responses protocol holds its turns by stream, each with request and answer', async () => {
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

  it('of another protocol holds its frames', async () => {
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

  it('whose requests name the id of an earlier answer belongs to that run, over any connection and over HTTP', async () => {
    const before = await countCaptured();
    const create = (input: string, previous_response_id?: string) => ({
      ...{ type: 'response.create', model: 'gpt-demo', input },
      ...(previous_response_id === undefined ? {} : { previous_response_id }),
    });
    const post = async (body: object) => {
      const answer = await fetch(`${url}/v1/responses`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}` },
        body: JSON.stringify(body),
      });
      await answer.arrayBuffer();
    };
    const first = await open('/v1/responses');
    await ask(first, create('a1'));
    await ask(first, create('a2', 'resp_a1'));
    // Another conversation on the same connection.
    await ask(first, create('b1'));
    await close(first);
    await post(create('a3', 'resp_a2'));
    const second = await open('/v1/responses');
    await ask(second, create('a4', 'resp_a3'));
    await ask(second, create('b2', 'resp_b1'));
    await close(second);
    await post(create('c1'));
    await post(create('c2', 'resp_c1'));
    await expect.poll(countCaptured, { timeout: PATIENCE_MS }).toBe(before + 8);
    const runs = new Map<string, string | null>();
    for (const { record, request } of await readCaptured(db)) {
      const { input } = JSON.parse(request.toString().split('\n')[0]!) as Asked;
      if (/^[abc]\d$/.test(input)) runs.set(input, record.run_id);
    }
    const [a, b, c] = ['a1', 'b1', 'c1'].map((input) => runs.get(input)!);
    expect(new Set([a, b, c]).size).toBe(3);
    expect(Object.fromEntries(runs)).toEqual({
      ...{ a1: a, a2: a, a3: a, a4: a, b1: b, b2: b, c1: c, c2: c },
    });
  });

  it('that the upstream refused holds the upstream’s answer', async () => {
    const before = await countCaptured();
    for (const status of ['401', '404', '429', 'gone']) {
      const socket = new WebSocket(`${url.replace('http', 'ws')}/refused/${status}`, {
        headers: { authorization: `Bearer ${KEY}`, 'x-svc-run': 'refused' },
      });
      await new Promise((resolve) => socket.on('error', resolve));
    }
    const waiting = new WebSocket(`${url.replace('http', 'ws')}/refused/mute`);
    waiting.on('error', () => {});
    await mute.promise;
    waiting.terminate();
    await expect.poll(countCaptured, { timeout: PATIENCE_MS }).toBe(before + 5);
    const kept = (await readCaptured(db)).slice(-5).map(({ record, response }) => ({
      ...{ path: record.path, kind: record.kind, status: record.status, aborted: record.aborted },
      ...{ run: record.run_id, answer: response.toString(), isTimed: record.first_byte_ms !== null },
      after: record.response.headers.find(([name]) => name === 'retry-after')?.[1],
    }));
    const other = { kind: 'other', aborted: false, isTimed: true, run: 'refused' };
    expect(kept).toEqual([
      ...['401', '404', '429'].map((status) => ({
        ...{ ...other, path: `/refused/${status}`, status: Number(status), after: '7' },
        answer: `{"error":{"message":"${status}"}}`,
      })),
      { ...other, path: '/refused/gone', status: 502, answer: '', after: undefined },
      {
        ...{ ...other, path: '/refused/mute', status: 0, answer: '', after: undefined },
        ...{ run: null, aborted: true, isTimed: false },
      },
    ]);
  });

  it('holds no credential, neither of the handshake nor of a frame', async () => {
    await flush(url);
    for (const { path, bytes } of readAllFiles(folder)) expect(bytes.includes(KEY), path).toBe(false);
    for (const { request, response } of await readCaptured(db)) {
      expect(Buffer.from(request).includes(KEY)).toBe(false);
      expect(Buffer.from(response).includes(KEY)).toBe(false);
    }
  });
});
