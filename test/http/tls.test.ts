/**
 * The listener over TLS: bytes that are not TLS end only their own connection, an expired certificate is still used,
 * and a replaced certificate applies to new connections while open ones continue. Test thread, server included.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectPlain, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { COUNTERS, socketEngine } from '../../native/socket-engine.ts';
import { raiseParserHeadLimit } from '../../src/config.ts';
import type { CertificateOutcome } from '../../src/http/certificate-watch.ts';
import type { HttpServer } from '../../src/http/http-server.ts';
import { startServer } from '../../src/http/server.ts';
import { type IssuedCertificate, issueCertificate } from '../fixtures/issued-certificate.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

raiseParserHeadLimit();

let folder: string;
let files: { cert: string; key: string };
let first: IssuedCertificate;
let server: HttpServer;
const outcomes: CertificateOutcome[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-tls-'));
  files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  first = await issueCertificate('first');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(() => {
  outcomes.length = 0;
  write(first);
});

function write({ cert, key }: IssuedCertificate): void {
  writeFileSync(files.cert, cert);
  writeFileSync(files.key, key, { mode: 0o600 });
}

async function withServer(run: () => Promise<void>): Promise<void> {
  server = await startServer({
    host: '127.0.0.1',
    port: 0,
    isShared: false,
    onStream: (stream) => stream.reply(200, '', `hello ${stream.head.path}`),
    describeError: (status, message) => `${status} ${message}`,
    tls: { files, onChange: (outcome) => outcomes.push(outcome) },
  });
  try {
    await run();
  } finally {
    await server.drain(1_000);
  }
}

async function openSecure(options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port: server.port, rejectUnauthorized: false, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

async function ask(socket: TLSSocket, path = '/'): Promise<string> {
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  return bytes.toString('latin1');
}

async function servesOthers(): Promise<void> {
  const socket = await openSecure();
  expect(await ask(socket)).toMatch(/^HTTP\/1\.1 200 OK/);
  socket.destroy();
}

function countOpen(): number {
  const counters = new Float64Array(COUNTERS.length);
  socketEngine.countConnections(counters);
  return counters[COUNTERS.indexOf('open')]!;
}

async function failureOf(options: ConnectionOptions): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: server.port, rejectUnauthorized: false, ...options });
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  return error.code ?? error.message;
}

describe('a handshake', () => {
  it.each([
    ['bytes of no protocol', Buffer.alloc(5_000, 0xff)],
    ['a request without TLS', Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n')],
    ['a record that says it is longer than any', Buffer.from('160301ffff01', 'hex')],
    ['an empty record of the handshake, again and again', Buffer.from('1603010000'.repeat(2_000), 'hex')],
    ['an alert instead of a hello', Buffer.from('15030100020250', 'hex')],
    ['data before the hello', Buffer.from('1703030005aabbccddee', 'hex')],
    ['a hello of zeros', Buffer.from(`160301002001${'00'.repeat(31)}`, 'hex')],
  ])('of %s ends its own connection', async (_name, bytes) => {
    await withServer(async () => {
      const socket = connectPlain(server.port, '127.0.0.1');
      socket.on('error', () => {});
      const closed = once(socket, 'close');
      socket.write(bytes);
      socket.resume();
      await closed;
      await servesOthers();
    });
  });

  it.each([
    ['TLS 1.0', { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }],
    ['TLS 1.1', { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }],
    ['RC4 and nothing else', { maxVersion: 'TLSv1.2', ciphers: 'NULL-SHA256@SECLEVEL=0' }],
  ] as [string, ConnectionOptions][])('with %s is refused', async (_name, options) => {
    await withServer(async () => {
      expect(await failureOf(options)).toMatch(/^(ERR_SSL|ECONNRESET|EPROTO)/);
      await servesOthers();
    });
  });

  it.each([
    'absent.example',
    'LOCALHOST',
    `${'a'.repeat(63)}.${'b'.repeat(63)}.example`,
    'x',
    'xn--nxasmq6b.example',
  ])('for the name %s gets the certificate that there is', async (servername) => {
    await withServer(async () => {
      const socket = await openSecure({ servername });
      expect(socket.getPeerCertificate().subject.CN).toBe('first');
      expect(await ask(socket)).toMatch(/200 OK/);
      socket.destroy();
    });
  });

  it.each([
    ['an empty name', '0000'],
    ['a list of names that is cut', '000600000a6162'],
    ['a list that holds two', '000800000161000001 62'],
    ['a name with a NUL', '000600000361 0062'],
    ['an unknown kind of name', '000401000161'],
  ])('with %s ends its own connection, or has what it needs', async (_name, list) => {
    const names = Buffer.from(list.replaceAll(' ', ''), 'hex');
    const extension = Buffer.concat([Buffer.from([0, 0, names.length >> 8, names.length]), names]);
    const versions = Buffer.from('002b0003020304', 'hex');
    const extensions = Buffer.concat([extension, versions]);
    const body = Buffer.concat([
      ...[Buffer.from('0303', 'hex'), Buffer.alloc(32, 7), Buffer.of(0), Buffer.from('000213010100', 'hex')],
      ...[Buffer.from([extensions.length >> 8, extensions.length]), extensions],
    ]);
    const hello = Buffer.concat([Buffer.from([1, 0, body.length >> 8, body.length]), body]);
    await withServer(async () => {
      const socket = connectPlain(server.port, '127.0.0.1');
      socket.on('error', () => {});
      const answered = Promise.race([once(socket, 'data'), once(socket, 'close')]);
      socket.write(Buffer.concat([Buffer.from([22, 3, 1, hello.length >> 8, hello.length]), hello]));
      await answered;
      socket.destroy();
      await servesOthers();
    });
  });

  it('for a new key within a connection is refused', async () => {
    await withServer(async () => {
      const socket = await openSecure({ maxVersion: 'TLSv1.2' });
      expect(await ask(socket)).toMatch(/200 OK/);
      const ended = Promise.race([once(socket, 'error'), once(socket, 'close')]);
      const { promise, resolve } = Promise.withResolvers<Error | null>();
      socket.renegotiate({}, (error) => resolve(error));
      await Promise.race([ended, promise.then((error) => expect(error).not.toBeNull())]);
      socket.destroy();
      await servesOthers();
    });
  });

  it('that never ends is closed after some seconds', { tags: 'long', timeout: 30_000 }, async () => {
    await withServer(async () => {
      const mute = connectPlain(server.port, '127.0.0.1');
      const slow = connectPlain(server.port, '127.0.0.1');
      const closed = Promise.all(
        [mute, slow].map((socket) => once(socket.on('error', () => {}).resume(), 'close')),
      );
      slow.write(Buffer.from('1603010200010001fc', 'hex'));
      const drip = setInterval(() => slow.write(Buffer.of(3)), 1_000);
      await closed;
      clearInterval(drip);
    });
  });

  it('that is started a thousand times at once leaves nothing behind', { timeout: 60_000 }, async () => {
    await withServer(async () => {
      const before = countOpen();
      const sockets: Socket[] = [];
      for (let i = 0; i < 1_000; i++) {
        const socket = connectPlain(server.port, '127.0.0.1').on('error', () => {});
        await once(socket, 'connect');
        socket.write(Buffer.from('1603010200010001fc0303', 'hex'));
        sockets.push(socket);
      }
      await servesOthers();
      for (const socket of sockets) socket.resetAndDestroy();
      await expect.poll(countOpen, { timeout: PATIENCE_MS }).toBe(before);
    });
  });
});

describe('the certificate', () => {
  it('is also served when it has expired, or is not valid yet', async () => {
    for (const [days, code] of [
      [[-30, -1], 'CERT_HAS_EXPIRED'],
      [[1, 30], 'CERT_NOT_YET_VALID'],
    ] as const) {
      const wrong = await issueCertificate('wrong', days);
      write(wrong);
      await withServer(async () => {
        expect(await failureOf({ ca: wrong.cert, rejectUnauthorized: true })).toBe(code);
        await servesOthers();
      });
    }
  });

  it('is replaced for new connections, by address and by name, and open ones continue', {
    timeout: 30_000,
  }, async () => {
    const second = await issueCertificate('second');
    await withServer(async () => {
      const open = await openSecure();
      expect(await ask(open, '/1')).toContain('hello /1');
      write(second);
      await expect.poll(() => outcomes, { timeout: PATIENCE_MS }).toHaveLength(1);
      expect(outcomes[0]).toHaveProperty('facts');
      for (const servername of ['', 'localhost']) {
        // The listener that is being closed may have accepted the first of these two connections.
        const socket = await openSecure({ ca: second.cert, rejectUnauthorized: true, servername });
        expect(socket.getPeerCertificate().subject.CN).toBe('second');
        expect(await ask(socket)).toMatch(/200 OK/);
        socket.destroy();
      }
      expect(await ask(open, '/2')).toContain('hello /2');
      open.destroy();
    });
  });

  it('stays while the files that replace it are unusable', {
    tags: 'long',
    timeout: 30_000,
  }, async () => {
    const second = await issueCertificate('second');
    await withServer(async () => {
      write({ cert: second.cert, key: first.key });
      await expect.poll(() => outcomes, { timeout: PATIENCE_MS }).toHaveLength(1);
      expect(outcomes[0]).toMatchObject({ thrown: { message: expect.stringContaining('does not belong') } });
      const socket = await openSecure();
      expect(socket.getPeerCertificate().subject.CN).toBe('first');
      socket.destroy();
      write(second);
      await expect.poll(() => outcomes, { timeout: PATIENCE_MS }).toHaveLength(2);
      const later = await openSecure();
      expect(later.getPeerCertificate().subject.CN).toBe('second');
      later.destroy();
    });
  });

  it('is served on a port that another server cannot take', async () => {
    await withServer(async () => {
      await expect(
        startServer({
          host: '127.0.0.1',
          port: server.port,
          isShared: false,
          onStream: () => {},
          describeError: () => '',
          tls: { files, onChange: () => {} },
        }),
      ).rejects.toThrow('the port is in use');
    });
  });
});
