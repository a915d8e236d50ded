/**
 * Unchanged clients use the proxy: SDKs with undici's agents, curl, Python, a WebSocket, a client that supports only
 * HTTP/2. Requests to a listed host arrive byte for byte and are captured as by the gateway. All other traffic passes
 * and leaves no trace.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { promisify } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { EnvHttpProxyAgent, ProxyAgent, fetch as undiciFetch } from 'undici';
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { flush, readStats, type Stats } from '../fixtures/capture-gateway.ts';
import {
  askForTunnel,
  openSecureTunnel,
  openSecureUpstream,
  ProxiedService,
  type SecureUpstream,
} from '../fixtures/proxied-service.ts';

const run = promisify(execFile);
const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
);
const hasPython = await run('python3', ['-c', 'import ssl']).then(
  () => true,
  () => false,
);

const KEY = 'sk-ant-api03-proxied-client-key-which-is-never-stored-0123456789';
const service = new ProxiedService();
let upstream: SecureUpstream;
/** The upstream of a host that is not listed, so its tunnels are blind. */
let stranger: SecureUpstream;
let seen: { url: string; raw: string[]; body: string }[] = [];

const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-demo',
  content: [{ type: 'text', text: 'Hello' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 1 },
};
const COMPLETION = {
  id: 'c1',
  object: 'chat.completion',
  created: 1,
  model: 'gpt-demo',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
};

beforeAll(async () => {
  upstream = await openSecureUpstream((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      seen.push({ url: request.url!, raw: request.rawHeaders, body });
      response.setHeader('content-type', 'application/json');
      if (request.url === '/echo') response.end(body);
      else if (request.url === '/trailers') {
        response.setHeader('trailer', 'x-sum');
        response.write('whole');
        response.addTrailers({ 'x-sum': '5' });
        response.end();
      } else if (request.url === '/hints') {
        response.writeEarlyHints({ link: '</style.css>; rel=preload' });
        response.end('hinted');
      } else if (body.includes('"stream":true')) {
        response.setHeader('content-type', 'text/event-stream');
        const send = (event: object & { type: string }) =>
          response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
        send({ type: 'message_start', message: { ...MESSAGE, content: [], stop_reason: null } } as never);
        send({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as never);
        send({
          type: 'content_block_delta',
          index: 0,
          delta: { type: 'text_delta', text: 'Hello' },
        } as never);
        send({ type: 'content_block_stop', index: 0 } as never);
        send({
          type: 'message_delta',
          delta: { stop_reason: 'end_turn' },
          usage: { output_tokens: 1 },
        } as never);
        send({ type: 'message_stop' });
        response.end();
      } else response.end(JSON.stringify(request.url === '/v1/messages' ? MESSAGE : COMPLETION));
    });
  });
  stranger = await openSecureUpstream((request, response) => {
    request.resume().on('end', () => response.end(`${request.headers['x-canary']} and back`));
  });
  await service.start(`default,localhost:${upstream.port}`, { LOG_LEVEL: 'info' }, 'up');
});

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  upstream.close();
  stranger.close();
});

const base = () => `https://localhost:${upstream.port}`;
const agent = () => new ProxyAgent({ uri: service.url, requestTls: { ca: service.ca } });
const proxyStats = async () =>
  ((await readStats(service.gateway)) as Stats & { proxy: Record<string, Record<string, number>> }).proxy;

it('the SDKs of Anthropic and OpenAI work, also streaming, and are captured by their wire formats', async () => {
  seen = [];
  const dispatcher = agent();
  const fetch = ((url: string, init: object) => undiciFetch(url, { ...init, dispatcher })) as never;
  const anthropic = new Anthropic({ apiKey: KEY, baseURL: base(), fetch });
  const asked = {
    model: 'claude-demo',
    max_tokens: 9,
    messages: [{ role: 'user' as const, content: 'Hi, proxied' }],
  };
  const labelled = { headers: { 'x-svc-run': 'proxied-run', 'x-svc-seq': '0' } };
  expect(await anthropic.messages.create(asked, labelled)).toMatchObject(MESSAGE);
  const stream = anthropic.messages.stream(asked, {
    headers: { 'x-svc-run': 'proxied-run', 'x-svc-seq': '1' },
  });
  expect((await stream.finalMessage()).content).toEqual(MESSAGE.content);
  const openai = new OpenAI({ apiKey: KEY, baseURL: `${base()}/v1`, fetch });
  const { choices } = await openai.chat.completions.create({ model: 'gpt-demo', messages: asked.messages });
  expect(choices[0]!.message.content).toBe('Hello');
  // The gateway removes its labels. The upstream gets everything else.
  expect(seen.map(({ url }) => url)).toEqual(['/v1/messages', '/v1/messages', '/v1/chat/completions']);
  expect(seen[0]!.raw).not.toContain('x-svc-run');
  expect(seen[0]!.raw.join('|')).toContain(KEY);
  await flush(service.gateway);
  const reader = CaptureReader.open(service.db);
  onTestFinished(() => reader.close());
  expect([...reader.summaries()]).toMatchObject([
    { run_id: 'proxied-run', shape: 'messages', kind: 'turn', provider: 'localhost', status: 200 },
    { run_id: 'proxied-run', shape: 'messages', kind: 'turn', status: 200 },
    { shape: 'chat_completions', kind: 'turn', status: 200 },
  ]);
  expect(await proxyStats()).toMatchObject({ tunnels: { blind: 0 } });
  await dispatcher.close();
});

it('Node’s own proxy variables work', async () => {
  vi.stubEnv('NO_PROXY', '');
  vi.stubEnv('no_proxy', '');
  const dispatcher = new EnvHttpProxyAgent({ httpsProxy: service.url, requestTls: { ca: service.ca } });
  const response = await undiciFetch(`${base()}/echo`, { method: 'POST', body: 'by variable', dispatcher });
  expect(await response.text()).toBe('by variable');
  await dispatcher.close();
});

it.skipIf(!hasCurl)('curl trusts the printed file, also with Expect: 100-continue', async () => {
  const bundle = join(service.data, 'proxy-ca-bundle.pem');
  const body = randomBytes(2_000_000).toString('base64');
  const child = execFile(
    'curl',
    [
      ...['-sS', '--proxy', service.url, '--cacert', bundle, '-H', 'Expect: 100-continue'],
      ...['--data-binary', '@-', `${base()}/echo`],
    ],
    { maxBuffer: 1 << 24 },
  );
  let answer = '';
  child.stdout!.on('data', (text: string) => {
    answer += text;
  });
  child.stdin!.end(body);
  await once(child, 'close');
  expect(answer === body).toBe(true);
});

it.skipIf(!hasPython)('Python’s urllib works through HTTPS_PROXY and SSL_CERT_FILE', async () => {
  const script = `import urllib.request as r; print(r.urlopen(r.Request("${base()}/echo", data=b"from python")).read().decode())`;
  const { stdout } = await run('python3', ['-c', script], {
    env: {
      PATH: process.env.PATH,
      HTTPS_PROXY: service.url,
      SSL_CERT_FILE: join(service.data, 'proxy-ca-bundle.pem'),
    },
  });
  expect(stdout.trim()).toBe('from python');
});

it('requests arrive as the client wrote them, one after another on a tunnel', async () => {
  seen = [];
  const socket = await openSecureTunnel(service, `localhost:${upstream.port}`);
  const ask = async (path: string) => {
    socket.write(
      `POST ${path} HTTP/1.1\r\nX-Odd:  two  words \r\nHost: localhost:${upstream.port}\r\nx-twice: a\r\nX-Twice: b\r\nContent-Length: 2\r\n\r\nhi`,
    );
    let text = '';
    while (!/\r\n\r\n[\s\S]*hi$/.test(text)) text += String((await once(socket, 'data'))[0]);
    return text;
  };
  expect(await ask('/echo')).toContain('HTTP/1.1 200 OK');
  expect(await ask('/echo')).toContain('HTTP/1.1 200 OK');
  expect(seen.map(({ raw }) => raw.filter((_, at) => at % 2 === 0))).toEqual(
    Array(2)
      .fill(['host', 'connection', 'x-odd', 'x-twice', 'x-twice', 'content-length'].sort())
      .map(() => seen[0]!.raw.filter((_, at) => at % 2 === 0)),
  );
  expect(seen[0]!.raw.join('|')).toContain('x-odd|two  words');
  expect(seen[0]!.raw.join('|')).toContain('x-twice|a|x-twice|b');
  socket.destroy();
});

it('a client that starts TLS before the answer to CONNECT is served', async () => {
  const { socket } = await askForTunnel(service.port, `localhost:${upstream.port}`);
  socket.destroy();
  const authority = `localhost:${upstream.port}`;
  const { connect } = await import('node:net');
  const { connect: connectTls } = await import('node:tls');
  const { Duplex: AnyDuplex } = await import('node:stream');
  const raw = connect(service.port, '127.0.0.1');
  const head = `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
  let isFirst = true;
  let answer = Buffer.alloc(0);
  let isOpen = false;
  // The CONNECT and the TLS hello after it are sent in one write.
  const eager: Duplex = new AnyDuplex({
    write: (chunk: Buffer, _encoding, done) => {
      raw.write(isFirst ? Buffer.concat([Buffer.from(head), chunk]) : chunk, () => done());
      isFirst = false;
    },
    read: () => {},
  });
  raw.on('data', (bytes: Buffer) => {
    if (isOpen) {
      eager.push(bytes);
      return;
    }
    answer = Buffer.concat([answer, bytes]);
    const end = answer.indexOf('\r\n\r\n');
    if (end < 0) return;
    isOpen = true;
    if (answer.length > end + 4) eager.push(answer.subarray(end + 4));
  });
  const secure = connectTls({ socket: eager, ca: service.ca, servername: 'localhost' });
  await once(secure, 'secureConnect');
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 /);
  secure.destroy();
  raw.destroy();
});

it('a WebSocket passes frame by frame', async () => {
  const echo = new WebSocketServer({ noServer: true });
  upstream.server.on('upgrade', (request, socket, head) =>
    echo.handleUpgrade(request, socket as never, head, (peer) =>
      peer.on('message', (data, isBinary) => peer.send(data, { binary: isBinary })),
    ),
  );
  const tunnel = await openSecureTunnel(service, `localhost:${upstream.port}`);
  const socket = new WebSocket(`wss://localhost:${upstream.port}/v1/realtime`, {
    createConnection: () => tunnel as never,
  });
  await once(socket, 'open');
  const large = randomBytes(1 << 20);
  socket.send(large);
  const [answer] = (await once(socket, 'message')) as [Buffer];
  expect(answer.equals(large)).toBe(true);
  socket.close(4001);
  expect((await once(socket, 'close'))[0]).toBe(4001);
});

it('a client that supports only HTTP/2 is served, with informational answers, trailers and many streams', async () => {
  const tunnel = await openSecureTunnel(service, `localhost:${upstream.port}`, { ALPNProtocols: ['h2'] });
  expect(tunnel.alpnProtocol).toBe('h2');
  const session = connectHttp2(base(), { createConnection: () => tunnel });
  onTestFinished(() => session.destroy());
  const ask = async (path: string, body = '', headers: object = {}) => {
    const stream = session.request({ ':path': path, ':method': body === '' ? 'GET' : 'POST', ...headers });
    const told: number[] = [];
    let trailers: Record<string, unknown> = {};
    stream.on('headers', (lines) => told.push(Number(lines[':status'])));
    stream.on('trailers', (lines) => {
      trailers = lines;
    });
    if (body !== '') stream.end(body);
    const [lines] = await once(stream, 'response');
    let text = '';
    for await (const chunk of stream.setEncoding('utf8')) text += chunk;
    return { status: lines[':status'], text, told, trailers };
  };
  seen = [];
  const body = JSON.stringify({ model: 'claude-demo', messages: [] });
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => ask('/v1/messages', body, { 'x-svc-run': 'h2-run' })),
  );
  expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([JSON.stringify(MESSAGE)]));
  expect(
    seen.every(({ raw }) => raw.includes(`localhost:${upstream.port}`) && !raw.includes('x-svc-run')),
  ).toBe(true);
  expect(await ask('/hints')).toMatchObject({ text: 'hinted', told: [103] });
  expect(await ask('/trailers')).toMatchObject({ text: 'whole', trailers: { 'x-sum': '5' } });
  const large = 'x'.repeat(3_000_000);
  expect((await ask('/echo', large)).text === large).toBe(true);
  expect((await ask('/echo', 'a', { ':authority': 'api.openai.com' })).status).toBe(421);
});

it('an HTTP/2 client that disconnects during an answer leaves nothing open', async () => {
  const openNow = async () => (await proxyStats()).open!.terminated;
  await expect.poll(openNow).toBe(0);
  const tunnel = await openSecureTunnel(service, `localhost:${upstream.port}`, { ALPNProtocols: ['h2'] });
  const session = connectHttp2(base(), { createConnection: () => tunnel });
  session.on('error', () => {});
  const stream = session.request({ ':path': '/echo', ':method': 'POST' });
  stream.on('error', () => {});
  // The body is larger than what the upstream accepts before it reads.
  stream.end('x'.repeat(3_000_000));
  await once(stream, 'response');
  stream.pause();
  expect(await openNow()).toBe(1);
  tunnel.destroy();
  await expect.poll(openNow).toBe(0);
});

it('tunnels to other hosts are blind: nothing is decoded, stored or reported', { tags: 'long' }, async () => {
  const canary = `canary-${randomBytes(16).toString('hex')}`;
  const before = await readStats(service.gateway);
  // The client trusts only the upstream's own certificate, and no certificate of the proxy's authority.
  const tls = {
    ca: stranger === undefined ? '' : (await import('../fixtures/certificate.ts')).TEST_CERTIFICATE,
  };
  const dispatcher = new ProxyAgent({ uri: service.url, requestTls: tls });
  const url = `https://localhost:${stranger.port}/${canary}`;
  const response = await undiciFetch(url, {
    method: 'POST',
    headers: { 'x-canary': canary, authorization: `Bearer ${canary}` },
    body: canary,
    dispatcher,
  });
  expect(await response.text()).toBe(`${canary} and back`);
  await dispatcher.close();
  await flush(service.gateway);
  const after = await readStats(service.gateway);
  expect(after.exchanges.attempted).toBe(before.exchanges.attempted);
  expect((await proxyStats()).tunnels!.blind).toBeGreaterThan(0);
  for (const file of listFiles(service.data)) expect(readFileSync(file).includes(canary), file).toBe(false);
  expect(service.stderr).not.toContain(canary);
  expect(service.stderr).not.toContain(String(stranger.port));
});

it('keys in requests are not stored on the disk', async () => {
  await flush(service.gateway);
  for (const file of listFiles(service.data)) expect(readFileSync(file).includes(KEY), file).toBe(false);
});

it('/metrics counts tunnels', async () => {
  const text = await (await fetch(`${service.api}/metrics`)).text();
  expect(text).toMatch(/^understudy_proxy_tunnels_total\{kind="terminated"\} [1-9]/m);
  expect(text).toMatch(/^understudy_proxy_tunnels_open\{kind="blind"\} \d/m);
  expect(text).toMatch(/^understudy_proxy_refused_total\{reason="handshake"\} \d/m);
});

function listFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}
