/**
 * The public conformance cases of WebSocket through the gateway, sent by either side: the other side gets the same
 * bytes as without the gateway, and its answer is the same. Also `permessage-deflate` with all its parameters. The
 * answering side is `ws`; the sending side is a bare socket. Test thread, gateway included.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { socketEngine } from '../../native/socket-engine.ts';
import { loadServer } from '../../src/http/server.ts';
import { isSpeakingTls, TEST_CERTIFICATE } from '../fixtures/certificate.ts';
import { startTestGateway, type TestGateway } from '../fixtures/gateway.ts';
import { openRawClient } from '../fixtures/raw-client.ts';
import {
  encodeFrame,
  endsWithClose,
  WEBSOCKET_CASES,
  type WebSocketCase,
} from '../fixtures/websocket-cases.ts';

const canTunnel = (await loadServer()) === 'node' || socketEngine.watchConnections() !== '';

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const HANDSHAKE = `GET /v1/cases HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n`;
const HEAD_END = '\r\n\r\n';
/** Cases up to this size are also sent byte by byte. */
const CUT_BYTES_MAX = 300;
const AT_ONCE = 16;
const SECTION_MS = 60_000;

let echo: WebSocketServer;
let echoing: TestGateway;
let script: Server;
let scripted: TestGateway;
/** By path: the bytes that the scripted upstream sends, and a function that gets the bytes of the client. */
const scripts = new Map<string, { pieces: Buffer[]; onEnd: (came: Buffer) => void }>();

const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port;

beforeAll(async () => {
  echo = new WebSocketServer({ port: 0, host: '127.0.0.1', maxPayload: 16 << 20 });
  await once(echo, 'listening');
  echo.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  echoing = await startTestGateway(`http://127.0.0.1:${portOf(echo)}`);
  script = createTcpServer(playScript);
  await new Promise<void>((resolve) => script.listen(0, '127.0.0.1', resolve));
  scripted = await startTestGateway(`http://127.0.0.1:${portOf(script)}`);
});
afterAll(async () => {
  await echoing.close();
  await scripted.close();
  echo.close();
  script.close();
});

/** A server that accepts every handshake, and ends the connection after the client's closing frame. */
function playScript(socket: Socket): void {
  let came = Buffer.alloc(0);
  let isOpen = false;
  let path = '';
  socket.setNoDelay(true);
  socket.on('error', () => {});
  socket.on('data', (bytes) => {
    came = Buffer.concat([came, bytes]);
    if (isOpen) {
      if (endsWithClose(came)) socket.end();
      return;
    }
    const end = came.indexOf(HEAD_END);
    if (end < 0) return;
    isOpen = true;
    const head = came.subarray(0, end).toString('latin1');
    path = head.split(' ')[1]!;
    const key = /^sec-websocket-key: *(.*)$/im.exec(head)![1]!.trim();
    came = came.subarray(end + HEAD_END.length);
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    void sendPieces(socket, scripts.get(path)!.pieces);
  });
  socket.on('close', () => scripts.get(path)?.onEnd(came));
}

async function sendPieces(socket: Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (!socket.writable) return;
    await new Promise((resolve) => socket.write(piece, resolve));
  }
}

/** The ways to send a case: in one piece, and a short case also byte by byte. */
function waysToSend({ frames }: WebSocketCase, isMasked: boolean): Buffer[][] {
  const whole = Buffer.concat(frames.map((frame) => encodeFrame(frame, isMasked)));
  return whole.length > CUT_BYTES_MAX ? [[whole]] : [[whole], [...whole].map((byte) => Buffer.of(byte))];
}

/** Sends as a client. @returns the server's bytes until it ends the connection */
async function sendUp(socket: Socket, pieces: readonly Buffer[]): Promise<Buffer> {
  const came: Buffer[] = [];
  const ended = new Promise((resolve) => socket.once('end', resolve).once('close', resolve));
  const opened = new Promise<void>((resolve) => {
    socket.on('data', (bytes: Buffer) => {
      came.push(bytes);
      resolve();
    });
  });
  socket.on('error', () => {});
  socket.write(HANDSHAKE);
  await opened;
  await sendPieces(socket, pieces);
  await ended;
  socket.destroy();
  const all = Buffer.concat(came);
  return all.subarray(all.indexOf(HEAD_END) + HEAD_END.length);
}

/**
 * Lets the upstream send to a client that echoes.
 * @returns the bytes that the upstream gets until the connection ends
 */
async function sendDown(url: string, name: string, pieces: Buffer[]): Promise<Buffer> {
  const path = `/${encodeURIComponent(name)}`;
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  scripts.set(path, { pieces, onEnd: resolve });
  const client = new WebSocket(`${url}${path}`, {
    ca: TEST_CERTIFICATE,
    perMessageDeflate: false,
    generateMask: (mask) => void mask.fill(0),
  });
  client.on('error', () => {});
  client.on('message', (data, isBinary) => client.send(data, { binary: isBinary }));
  const came = await promise;
  client.terminate();
  return came;
}

/** The echoes and the closing code, from bytes that are unmasked or masked with zeros. */
function readOutcome(bytes: Buffer): { code: number | null | undefined; echoes: number } {
  let code: number | null | undefined;
  let echoes = 0;
  for (let at = 0; at < bytes.length; ) {
    const opcode = bytes[at]! & 15;
    const isMasked = bytes[at + 1]! >= 0x80;
    const short = bytes[at + 1]! & 0x7f;
    const extra = short < 126 ? 0 : short === 126 ? 2 : 8;
    const length =
      extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
    const payload = at + 2 + extra + (isMasked ? 4 : 0);
    if (opcode === 1 || opcode === 2) echoes++;
    if (opcode === 8) code = length < 2 ? null : bytes.readUInt16BE(payload);
    at = payload + length;
  }
  return { code, echoes };
}

/** Calls `run` for each item, a few at a time. */
async function forAll<T>(all: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const take = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await run(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, take));
}

describe.runIf(canTunnel)('the Autobahn cases of', () => {
  for (const [section, cases] of Object.entries(WEBSOCKET_CASES)) {
    // Over TLS, the cases of UTF-8 are left out, because they do not depend on the connection.
    if (isSpeakingTls() && section === 'UTF-8') continue;
    it(`${section}, sent by the client, pass`, { timeout: SECTION_MS }, async () => {
      const wrong: string[] = [];
      await forAll(cases, async (testCase) => {
        for (const pieces of waysToSend(testCase, true)) {
          const direct = await sendUp(connect(portOf(echo), '127.0.0.1').setNoDelay(true), pieces);
          const client = await openRawClient(echoing.port);
          const through = await sendUp(client.socket as Socket, pieces);
          if (!direct.equals(through))
            wrong.push(`${testCase.id}: ${preview(direct)} became ${preview(through)}`);
          expect(readOutcome(direct), testCase.id).toEqual({ code: testCase.code, echoes: testCase.echoes });
        }
      });
      expect(wrong).toEqual([]);
    });

    it(`${section}, sent by the upstream, pass`, { timeout: SECTION_MS }, async () => {
      const wrong: string[] = [];
      await forAll(cases, async (testCase) => {
        for (const [way, pieces] of waysToSend(testCase, false).entries()) {
          const direct = await sendDown(
            `ws://127.0.0.1:${portOf(script)}`,
            `${testCase.id} ${way} direct`,
            pieces,
          );
          const through = await sendDown(
            scripted.url.replace('http', 'ws'),
            `${testCase.id} ${way} through`,
            pieces,
          );
          if (!direct.equals(through))
            wrong.push(`${testCase.id}: ${preview(direct)} became ${preview(through)}`);
          expect(readOutcome(direct), testCase.id).toEqual({ code: testCase.code, echoes: testCase.echoes });
        }
      });
      expect(wrong).toEqual([]);
    });
  }
});

const preview = (bytes: Buffer) => `${bytes.length} bytes ${bytes.subarray(0, 40).toString('hex')}`;

/** Records every byte that an open socket writes and reads from now on. */
function watchBytes(socket: WebSocket): { came: () => string; went: () => string } {
  const { _socket: below } = socket as unknown as { _socket: Socket };
  const [came, went] = [createHash('sha256'), createHash('sha256')];
  // This listener is called before that of `ws`, which removes the mask in place.
  below.prependListener('data', (bytes) => came.update(bytes));
  const write = below.write.bind(below) as (bytes: Buffer, ...rest: unknown[]) => boolean;
  below.write = ((bytes: Buffer, ...rest: unknown[]) => {
    went.update(bytes);
    return write(bytes, ...rest);
  }) as Socket['write'];
  return { came: () => came.digest('hex'), went: () => went.digest('hex') };
}

describe.runIf(canTunnel)('permessage-deflate', () => {
  const parameters: [string, WebSocket.PerMessageDeflateOptions, WebSocket.PerMessageDeflateOptions][] = [
    ['as offered', {}, {}],
    ['server_no_context_takeover', { serverNoContextTakeover: true }, {}],
    ['client_no_context_takeover', { clientNoContextTakeover: true }, {}],
    ['both of them', { serverNoContextTakeover: true, clientNoContextTakeover: true }, {}],
    ['asked for by the server', {}, { serverNoContextTakeover: true, clientNoContextTakeover: true }],
    ['server_max_window_bits=9', { serverMaxWindowBits: 9 }, {}],
    ['client_max_window_bits=9', { clientMaxWindowBits: 9 }, {}],
    ['client_max_window_bits by the server', {}, { clientMaxWindowBits: 10 }],
    [
      'all four',
      {
        ...{ serverNoContextTakeover: true, clientNoContextTakeover: true },
        ...{ serverMaxWindowBits: 12, clientMaxWindowBits: 11 },
      },
      {},
    ],
  ];

  it.each(parameters)(
    'works through the gateway: %s',
    { timeout: SECTION_MS },
    async (_name, offered, taken) => {
      const server = new WebSocketServer({
        ...{ port: 0, host: '127.0.0.1', perMessageDeflate: { threshold: 0, ...taken } },
      });
      await once(server, 'listening');
      const gateway = await startTestGateway(`http://127.0.0.1:${portOf(server)}`);
      const talk = async (url: string) => {
        const connected = once(server, 'connection') as Promise<[WebSocket]>;
        const client = new WebSocket(url, {
          ca: TEST_CERTIFICATE,
          perMessageDeflate: { threshold: 0, ...offered },
        });
        const opened = once(client, 'open');
        const [there] = await connected;
        const above = watchBytes(there);
        there.on('message', (data, isBinary) => there.send(data, { binary: isBinary }));
        await opened;
        const below = watchBytes(client);
        const agreed = client.extensions;
        for (const size of [0, 1, 100, 4_096, 40_000, 131_072]) {
          for (const sent of [Buffer.alloc(size, `row ${size}: `), Buffer.alloc(size, 'a')]) {
            client.send(sent, { binary: size % 2 === 0 });
            const [got] = (await once(client, 'message')) as [Buffer];
            expect(got.equals(sent)).toBe(true);
          }
        }
        // A message in several frames, then an uncompressed one.
        client.send('in ', { fin: false });
        client.send('pieces', { fin: true });
        expect(String((await once(client, 'message'))[0])).toBe('in pieces');
        client.send('plain', { compress: false });
        expect(String((await once(client, 'message'))[0])).toBe('plain');
        client.close(1000);
        await Promise.all([once(client, 'close'), once(there, 'close')]);
        expect(above.came()).toBe(below.went());
        expect(below.came()).toBe(above.went());
        return agreed;
      };
      const direct = await talk(`ws://127.0.0.1:${portOf(server)}`);
      expect(direct).toMatch(/^permessage-deflate/);
      expect(await talk(gateway.url.replace('http', 'ws'))).toBe(direct);
      await gateway.close();
      server.close();
    },
  );
});
