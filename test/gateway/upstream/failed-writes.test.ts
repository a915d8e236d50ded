/**
 * An upstream answers before it has accepted the upload, and closes. So a write to it fails while its answer has
 * arrived but was not read yet. Here everything happens in one tick, so that the write comes first. Test thread.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { constants } from 'node:os';
import { setImmediate as nextTick } from 'node:timers/promises';
import { createSecureContext, createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { socketEngine } from '../../../native/socket-engine.ts';
import type { UpstreamError } from '../../../src/gateway/upstream/answer-error.ts';
import { ConnectionPool } from '../../../src/gateway/upstream/connection-pool.ts';
import type {
  AnswerHandler,
  UpstreamConnection,
  UpstreamRequest,
} from '../../../src/gateway/upstream/upstream-connection.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../../fixtures/certificate.ts';

const UPLOAD_BYTES = 64 * 1024 * 1024;
const PIECE = Buffer.alloc(64 * 1024, 'x');

const ends: (() => unknown)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  for (const end of ends.splice(0).reverse()) await end();
});

/** An upload in progress, with its state at both ends. */
class Upload implements AnswerHandler {
  connection!: UpstreamConnection;
  status = 0;
  body = '';
  error: UpstreamError | null = null;
  readonly drained = Promise.withResolvers<void>();
  readonly over = Promise.withResolvers<void>();

  onConnection(connection: UpstreamConnection): void {
    this.connection = connection;
  }
  onHead({ status }: { status: number }): void {
    this.status = status;
  }
  onBody(chunk: Buffer): void {
    this.body += chunk.toString();
  }
  onRead(): void {}
  onEnd(): void {
    this.over.resolve();
  }
  onError(error: UpstreamError): void {
    this.error = error;
    this.over.resolve();
  }
  onUploadDrained(): void {
    this.drained.resolve();
  }
  write(): boolean {
    return this.connection.write(this, PIECE, false);
  }
}

interface Scene {
  pool: ConnectionPool;
  upload: Upload;
  /** The upstream's end; it has read only the head of the request. */
  far: Socket;
  server: Server;
}

async function begin(framing: UpstreamRequest['framing'], isSecure = false): Promise<Scene> {
  const arrived = Promise.withResolvers<Socket>();
  const onConnection = (far: Socket): void => {
    far.on('error', () => {});
    far.once('data', () => {
      far.pause();
      arrived.resolve(far);
    });
  };
  const server = isSecure
    ? createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_KEY, allowHalfOpen: true }, onConnection)
    : createServer({ allowHalfOpen: true }, onConnection);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const trust = isSecure ? createSecureContext({ ca: TEST_CERTIFICATE }) : undefined;
  const pool = new ConnectionPool(`${isSecure ? 'https' : 'http'}://127.0.0.1:${port}`, trust);
  ends.push(
    () => server.close(),
    () => pool.destroy(),
  );
  const upload = new Upload();
  pool.send({ method: 'POST', head: 'POST / HTTP/1.1\r\nhost: up\r\n', framing, body: null }, upload);
  const far = await arrived.promise;
  ends.push(() => far.destroy());
  return { pool, upload, far, server };
}

/** Answers without framing, and resolves when the FIN has been sent. */
function endAnswer(far: Socket): Promise<void> {
  return new Promise((resolve) => far.end('HTTP/1.1 413 Too Large\r\n\r\nno', resolve));
}

const framings: [string, UpstreamRequest['framing']][] = [
  ['with a length', { kind: 'length', bytes: UPLOAD_BYTES }],
  ['in chunks', { kind: 'chunked' }],
];
const answers: [string, string][] = [
  ['with a length', 'HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno'],
  ['that closes', 'HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno'],
  ['in chunks', 'HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n'],
  [
    'behind an informational one',
    'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno',
  ],
];

describe.each(framings)('an upload %s whose write fails', (_name, framing) => {
  it.each(answers)(
    'receives the answer %s that has arrived from an upstream that ended',
    async (_how, answer) => {
      const { upload, far } = await begin(framing);
      far.write(answer);
      far.destroy();
      // The first write is answered with a reset, further ones fail.
      for (let at = 0; at < 4; at++) expect(upload.write()).toBe(true);
      await upload.over.promise;
      expect(upload).toMatchObject({ status: 413, body: 'no', error: null });
    },
  );

  it.each(answers)('receives the answer %s that arrived before a reset', async (_how, answer) => {
    const { upload, far } = await begin(framing);
    // The unread bytes make the system reset the connection.
    upload.write();
    far.write(answer);
    far.destroy();
    for (let at = 0; at < 4; at++) expect(upload.write()).toBe(true);
    await upload.over.promise;
    expect(upload).toMatchObject({ status: 413, body: 'no', error: null });
  });

  it('receives the part of an answer that arrived, and an error', async () => {
    for (const answer of [
      'HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\nno',
      // This answer would end with the connection, but the connection was reset.
      'HTTP/1.1 413 Too Large\r\n\r\nno',
    ]) {
      const { upload, far } = await begin(framing);
      upload.write();
      far.write(answer);
      far.destroy();
      for (let at = 0; at < 4; at++) upload.write();
      await upload.over.promise;
      expect(upload).toMatchObject({ status: 413, body: 'no' });
      expect(['EPIPE', 'ECONNRESET']).toContain(upload.error!.code);
    }
  });

  it.each([
    ['an end', (far: Socket) => void far.end(), true],
    // Unread bytes make the system reset the connection.
    ['a reset', (far: Socket) => void far.destroy(), false],
  ])(
    'that waits receives the answer that ends with %s, and an error only after a reset',
    async (_how, close, isWhole) => {
      const { upload, far } = await begin(framing);
      while (upload.write());
      far.write('HTTP/1.1 413 Too Large\r\n\r\nno');
      close(far);
      await upload.over.promise;
      expect(upload).toMatchObject({ status: 413, body: 'no' });
      expect(upload.error === null).toBe(isWhole);
    },
  );

  it.runIf(process.platform === 'linux').each([
    ['flows', (upload: Upload) => upload.write()],
    [
      'waits',
      (upload: Upload) => {
        while (upload.write());
      },
    ],
  ])('that %s has the answer that ended before a reset, whole', async (_how, write) => {
    const { upload, far } = await begin(framing);
    // The write fails and the answer arrives before anything is read.
    upload.connection.pause(upload);
    write(upload);
    await endAnswer(far);
    far.destroy();
    for (let at = 0; at < 4; at++) upload.write();
    upload.connection.resume(upload);
    await upload.over.promise;
    expect(upload).toMatchObject({ status: 413, body: 'no', error: null });
  });

  it('fails without an answer', async () => {
    const { upload, far } = await begin(framing);
    far.destroy();
    for (let at = 0; at < 4; at++) upload.write();
    await upload.over.promise;
    expect(upload).toMatchObject({ status: 0, body: '' });
    expect(['EPIPE', 'ECONNRESET']).toContain(upload.error!.code);
    expect(upload.error!.isStaleConnection).toBe(false);
  });

  it('reports that it was reset', async () => {
    const { upload, far } = await begin(framing);
    upload.write();
    far.destroy();
    upload.write();
    await upload.over.promise;
    expect(upload.error!.code).toBe('ECONNRESET');
  });

  it('receives the answer after waiting for the client', async () => {
    const { upload, far } = await begin(framing);
    upload.connection.pause(upload);
    while (upload.write());
    far.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno');
    far.destroy();
    // The upload continues, although the upstream does not read it.
    await upload.drained.promise;
    expect(upload.write()).toBe(true);
    expect(upload).toMatchObject({ status: 0, error: null });
    upload.connection.resume(upload);
    await upload.over.promise;
    expect(upload).toMatchObject({ status: 413, body: 'no', error: null });
  });

  it('leaves a connection that is not used again', async () => {
    const { pool, upload, far } = await begin(framing);
    far.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno');
    far.destroy();
    for (let at = 0; at < 4; at++) upload.write();
    await upload.over.promise;
    const next = new Upload();
    pool.send({ method: 'POST', head: 'POST / HTTP/1.1\r\nhost: up\r\n', framing, body: null }, next);
    expect(next.connection).not.toBe(upload.connection);
  });
});

it.runIf(process.platform === 'linux')(
  'an answer that ends before a reset also counts without an upload',
  async () => {
    const { upload, far } = await begin({ kind: 'none' });
    upload.connection.pause(upload);
    await endAnswer(far);
    far.resetAndDestroy();
    upload.connection.resume(upload);
    await upload.over.promise;
    expect(upload).toMatchObject({ status: 413, body: 'no', error: null });
  },
);

it('an upload whose connection timed out reports the timeout, and is not sent again', async () => {
  const { upload } = await begin({ kind: 'length', bytes: UPLOAD_BYTES });
  vi.spyOn(socketEngine, 'sendNow').mockReturnValue(-constants.errno.ETIMEDOUT);
  upload.write();
  await upload.over.promise;
  expect(upload.error).toMatchObject({ code: 'ETIMEDOUT', isStaleConnection: false });
});

it('an upload over TLS whose write fails receives the answer that has arrived', async () => {
  for (const isReset of [false, true]) {
    const { upload, far } = await begin({ kind: 'chunked' }, true);
    if (isReset) upload.write();
    const written = new Promise((resolve) =>
      far.write('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno', resolve),
    );
    // Waits until the record is sent, and reads nothing meanwhile.
    upload.connection.pause(upload);
    await written;
    far.destroy();
    for (let at = 0; at < 64; at++) {
      upload.write();
      await nextTick();
    }
    upload.connection.resume(upload);
    await upload.over.promise;
    expect(upload).toMatchObject({ status: 413, body: 'no', error: null });
  }
});
