/**
 * Hostile or broken clients and upstreams of the proxy: they harm only themselves, and get the reason if that is
 * possible. Real sockets, real TLS.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { readStats, type Stats } from '../fixtures/capture-gateway.ts';
import { issueCertificate } from '../fixtures/issued-certificate.ts';
import {
  askForTunnel,
  openSecureTunnel,
  openSecureUpstream,
  ProxiedService,
  type RawTunnel,
  type SecureUpstream,
} from '../fixtures/proxied-service.ts';

const KEY = 'a-key-of-the-proxy-0123';
const service = new ProxiedService();
const upstreams: Record<string, SecureUpstream> = {};
/** A server that accepts connections and never answers. */
let silent: Server;
let asked = 0;

beforeAll(async () => {
  const answer = (_request: unknown, response: { end(text: string): void }) => {
    asked++;
    response.end('whole');
  };
  const names = ['good', 'expired', 'unknown', 'misnamed'] as const;
  const [expired, unknown, misnamed] = await Promise.all([
    issueCertificate('expired', [-9, -2]),
    issueCertificate('unknown'),
    issueCertificate('misnamed', [-1, 30], 'another.example'),
  ]);
  for (const [at, given] of [undefined, expired, unknown, misnamed].entries())
    upstreams[names[at]!] = await openSecureUpstream(answer, given);
  silent = createServer(() => {}).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  // Two of the untrusted certificates are wrong in only one respect.
  const { TEST_CERTIFICATE } = await import('../fixtures/certificate.ts');
  const trusted = `${service.dir}/trusted.pem`;
  writeFileSync(trusted, [TEST_CERTIFICATE, expired!.cert, misnamed!.cert].join('\n'));
  const hosts = names.map((name) => `localhost:${upstreams[name]!.port}`);
  await service.start(hosts.join(','), { GW_UPSTREAM_CA: trusted });
});

afterAll(async () => {
  await service[Symbol.asyncDispose]();
  for (const upstream of Object.values(upstreams)) upstream.close();
  silent.close();
});

const good = () => `localhost:${upstreams.good!.port}`;
const refusals = async () =>
  ((await readStats(service.gateway)) as Stats & { proxy: { refused: Record<string, number> } }).proxy
    .refused;

/** Sends one request in a tunnel. @returns all received bytes until the end */
async function ask(authority: string, head: string): Promise<string> {
  const socket = await openSecureTunnel(service, authority);
  socket.write(head);
  let text = '';
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
  });
  await once(socket, 'close');
  return text;
}

const get = (authority: string) => `GET / HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`;

it.each([
  ['expired', 'CERT_HAS_EXPIRED'],
  ['unknown', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ['misnamed', 'ERR_TLS_CERT_ALTNAME_INVALID'],
])(
  'an upstream whose certificate is %s receives nothing, and the client gets a 502 that says so',
  async (name, code) => {
    asked = 0;
    const text = await ask(`localhost:${upstreams[name]!.port}`, get(`localhost:${upstreams[name]!.port}`));
    expect(text).toMatch(/^HTTP\/1\.1 502 /);
    expect(text).toContain(code);
    expect(asked).toBe(0);
  },
);

it('a request for another host than the tunnel’s is refused, and so is an ambiguous one', async () => {
  asked = 0;
  expect(await ask(good(), get('api.openai.com'))).toMatch(/^HTTP\/1\.1 421 /);
  const both = `POST / HTTP/1.1\r\nHost: ${good()}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n`;
  expect(await ask(good(), both)).toMatch(/^HTTP\/1\.1 400 /);
  expect(asked).toBe(0);
  // Inside a tunnel, the gateway's own paths belong to the upstream.
  expect(await ask(good(), get(good()).replace('GET / ', 'GET /__gw/stats '))).toContain('whole');
});

it.each([
  ['another name', { servername: 'api.openai.com' }],
  ['no name', { servername: '' }],
  ['a protocol that the proxy does not support', { ALPNProtocols: ['smtp'] }],
])('a handshake with %s fails', async (_what, options) => {
  const { handshake } = await refusals();
  const { socket, status } = await askForTunnel(service.port, good());
  expect(status).toBe(200);
  const secure = connectTls({
    socket,
    ca: service.ca,
    servername: 'localhost',
    checkServerIdentity: () => undefined,
    ...options,
  });
  secure.on('error', () => {});
  let isAgreed = false;
  secure.once('secureConnect', () => {
    isAgreed = true;
    secure.write(get(good()));
  });
  let text = '';
  secure.on('data', (bytes) => {
    text += bytes;
  });
  await once(socket, 'close');
  // In TLS 1.3, a client may finish the handshake before the server has checked the name. It still gets nothing.
  expect([isAgreed && text !== '', text]).toEqual([false, '']);
  expect((await refusals()).handshake).toBeGreaterThan(handshake!);
});

it('garbage instead of a handshake, or a missing handshake, ends only its connection', {
  tags: 'long',
}, async () => {
  const { handshake } = await refusals();
  const waiting = await askForTunnel(service.port, good());
  const half = await askForTunnel(service.port, good());
  // The beginning of a TLS hello.
  half.socket.write(Buffer.from('1603010200010001fc0303', 'hex'));
  const broken = await askForTunnel(service.port, good());
  const isOver = [waiting, half, broken].map(({ socket }) => once(socket, 'close'));
  broken.socket.write('GET / HTTP/1.1\r\n\r\n');
  const gone = await askForTunnel(service.port, good());
  gone.socket.destroy();
  await isOver[2];
  expect(await ask(good(), get(good()))).toContain('whole');
  await Promise.all(isOver);
  await expect.poll(async () => (await refusals()).handshake).toBe(handshake! + 4);
});

it.each([
  ['GET / HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n', 501],
  ['CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT localhost HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT localhost:0 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT localhost:99999 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT user@localhost:443 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT 0x7f.1:443 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT 2130706433:443 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT 127.1:443 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['CONNECT localhost:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc', 400],
  ['CONNECT localhost:443 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
  ['\x16\x03\x01\x02\x00\x01\x00\x01', 400],
  [`CONNECT localhost:443 HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
])('%j gets %i', async (head, status) => {
  const answer = await askForTunnel(service.port, '', head);
  expect(answer.status).toBe(status);
  await once(answer.socket, 'close');
});

it('a head that arrives too slowly is given up', { tags: 'long' }, async () => {
  const answer = await askForTunnel(service.port, '', 'CONNECT localhost:443 HTTP/1.1\r\n');
  expect(answer.status).toBe(408);
  answer.socket.destroy();
});

it.each([
  ...['169.254.169.254:80', '[fe80::1]:443', '[::ffff:169.254.169.254]:80', '0.0.0.0:80', '[::]:443'],
  ...[
    '[::ffff:0:169.254.169.254]:80',
    '[2002:a9fe:a9fe::1]:80',
    '[::169.254.169.254]:80',
    '[64:ff9b::a9fe:a9fe]:80',
  ],
])('no client reaches %s', async (authority) => {
  const { status, socket } = await askForTunnel(service.port, authority);
  expect(status).toBe(403);
  socket.destroy();
});

it('the service’s own ports cannot be reached through a tunnel, by any name', async () => {
  const own = [service.port, Number(new URL(service.gateway).port)];
  for (const port of own) {
    for (const host of ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '127.0.0.2']) {
      const { status, socket } = await askForTunnel(service.port, `${host}:${port}`);
      expect([host, status]).toEqual([host, 403]);
      socket.destroy();
    }
  }
});

it('a blind tunnel to a closed port gets 502; when one side ends, the other side may finish', async () => {
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as { port: number };
  await new Promise((resolve) => closed.close(resolve));
  const refused = await askForTunnel(service.port, `127.0.0.1:${port}`);
  expect(refused.status).toBe(502);
  expect(refused.text).toContain('ECONNREFUSED');

  const polite = createServer({ allowHalfOpen: true }, (socket) => {
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes;
    });
    socket.on('end', () => socket.end(`you said ${text}`));
  }).listen(0, '127.0.0.1');
  await once(polite, 'listening');
  const { socket, status } = await askForTunnel(
    service.port,
    `127.0.0.1:${(polite.address() as { port: number }).port}`,
  );
  expect(status).toBe(200);
  socket.end('all of it');
  expect(String((await once(socket, 'data'))[0])).toBe('you said all of it');
  polite.close();
});

it('a proxy with keys requires one of them, and opens no blind tunnel if blind tunnels are off', {
  tags: 'long',
}, async () => {
  const locked = new ProxiedService();
  try {
    await locked.start(good(), { GW_PROXY_KEYS: KEY, GW_PROXY_BLIND: 'off' });
    const authority = `127.0.0.1:${(silent.address() as { port: number }).port}`;
    const head = (given: string) => `CONNECT ${authority} HTTP/1.1\r\nHost: x\r\n${given}\r\n`;
    const basic = (words: string) =>
      `Proxy-Authorization: Basic ${Buffer.from(words).toString('base64')}\r\n`;
    const statusOf = async (given: string) => {
      const { status, socket, text } = await askForTunnel(locked.port, '', head(given));
      socket.destroy();
      return [status, /proxy-authenticate: basic/i.test(text)];
    };
    expect(await statusOf('')).toEqual([407, true]);
    expect(await statusOf(basic(`any:${KEY}x`))).toEqual([407, true]);
    expect(await statusOf('Proxy-Authorization: Negotiate abc\r\n')).toEqual([407, true]);
    // The key is valid, but hosts that are not listed are refused, because blind tunnels are off.
    expect(await statusOf(basic(`any:${KEY}`))).toEqual([403, false]);
    expect(await statusOf(`Proxy-Authorization: Bearer ${KEY}\r\n`)).toEqual([403, false]);
  } finally {
    await locked[Symbol.asyncDispose]();
  }
});

it.runIf(process.platform === 'linux')(
  'tunnels beyond the bound are refused, and accepted again when others end',
  { tags: 'long' },
  async () => {
    const crowded = new ProxiedService();
    const authority = `127.0.0.1:${(silent.address() as { port: number }).port}`;
    const opened: RawTunnel[] = [];
    try {
      // Half of the descriptors are for tunnels, which take four each.
      await crowded.start(good(), {}, 'proxy', 512);
      for (let at = 0; at < 64; at++) opened.push(await askForTunnel(crowded.port, authority));
      expect(new Set(opened.map(({ status }) => status))).toEqual(new Set([200]));
      expect((await askForTunnel(crowded.port, authority)).status).toBe(503);
      expect((await askForTunnel(crowded.port, good())).status).toBe(503);
      // The gateway itself continues.
      expect((await readStats(crowded.gateway)).status).toBe('ok');
      opened[0]!.socket.destroy();
      await expect.poll(async () => (await askForTunnel(crowded.port, authority)).status).toBe(200);
    } finally {
      for (const { socket } of opened) socket.destroy();
      await crowded[Symbol.asyncDispose]();
    }
  },
);

it('a tunnel that has ended leaves its place to another host', { tags: 'long' }, async () => {
  const visited = new ProxiedService();
  try {
    await visited.start('*.models.test');
    // The gateway has listeners for 256 hosts.
    for (let at = 0; at <= 256; at++) {
      const { socket, status } = await askForTunnel(visited.port, `host-${at}.models.test:443`);
      expect(status, `host ${at}`).toBe(200);
      socket.destroy();
    }
  } finally {
    await visited[Symbol.asyncDispose]();
  }
});

it('an answer in progress when the service stops arrives whole', { tags: 'long' }, async () => {
  const leaving = new ProxiedService();
  const released = Promise.withResolvers<void>();
  const slow = await openSecureUpstream((_request, response) => {
    response.write('first,');
    void released.promise.then(() => response.end('last'));
  });
  try {
    await leaving.start(`localhost:${slow.port}`);
    const socket = await openSecureTunnel(leaving, `localhost:${slow.port}`);
    socket.write(get(`localhost:${slow.port}`));
    let text = '';
    socket.on('data', (bytes: Buffer) => {
      text += bytes;
    });
    await expect.poll(() => text).toContain('first,');
    const stopped = leaving.stop();
    // The proxy does not accept new clients at that time.
    await expect
      .poll(async () => (await askForTunnel(leaving.port, '/', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).status)
      .toBe(0);
    released.resolve();
    await once(socket, 'close');
    expect(text).toContain('last');
    expect(await stopped).toBe(0);
  } finally {
    await leaving[Symbol.asyncDispose]();
    slow.close();
  }
});

it('beyond loopback a proxy without keys does not start', () => {
  const load = (env: Record<string, string>) => loadConfig({ listener: 'gateway' }, env);
  const open = { GW_PROXY_PORT: '8788', GW_PROXY_HOST: '0.0.0.0' };
  expect(() => load(open)).toThrow(/GW_PROXY_KEYS/);
  expect(load({ ...open, GW_PROXY_KEYS: KEY }).proxy).toMatchObject({ blind: 'public' });
  expect(load({ GW_PROXY_PORT: '8788' }).proxy).toMatchObject({ blind: 'all', keys: [] });
  expect(load({}).proxy).toBeNull();
  for (const GW_PROXY_HOSTS of ['*', '*.com', '127.0.0.1', 'a b', 'x:0', 'api..com', '1.2.3.4:443'])
    expect(() => load({ GW_PROXY_HOSTS }), GW_PROXY_HOSTS).toThrow(/GW_PROXY_HOSTS/);
});
