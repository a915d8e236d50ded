/**
 * The memory of uploads of which the upstream accepts one half and then nothing. One upload costs its captured
 * beginning and little else. Many uploads stay within the common bound, and other exchanges are still captured. The
 * gateway and the clients are separate processes; Linux reports the gateway's memory.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { CUT_BODY_BYTES } from '../../src/gateway/capture/tee.ts';
import { CliChild } from '../cli/child.ts';

const CLIENT = fileURLToPath(new URL('../fixtures/fast-uploader.ts', import.meta.url));
const ADDON = fileURLToPath(new URL('../../native/build/sockets.node', import.meta.url));
const UPLOAD_BYTES = 200_000_000;
const TAKEN_BYTES = 100_000_000;
/**
 * Maximum memory that an upload costs; it was once 96 MB and more. The stack, the heap and the buffers vary by some
 * megabytes between runs.
 */
const COST_BYTES_MAX = CUT_BODY_BYTES + 24_000_000;
const QUEUE_BYTES = 32 << 20;
const MANY = 20;
const MANY_BYTES = 16_000_000;
const MANY_TAKEN_BYTES = 10_000_000;
/** Without a bound, the copies alone would take 200 MB. In addition, each upload may hold some megabytes in transit. */
const MANY_COST_BYTES_MAX = QUEUE_BYTES + MANY * 5_000_000;

interface Stalling {
  port: string;
  /** Bytes of the process in memory. */
  measure(): number;
  /** Resolves when this many uploads have stalled. */
  stalled: Promise<void>;
  upload(bytes: number): ChildProcess;
}

/** Starts a gateway whose upstream accepts `takenBytes` of each upload and then no more. */
async function startStalling(
  takenBytes: number,
  uploads: number,
  env: Record<string, string>,
): Promise<Stalling> {
  const sockets = new Set<Socket>();
  const { promise: stalled, resolve } = Promise.withResolvers<void>();
  let standing = 0;
  const upstream = createServer((socket) => {
    sockets.add(socket);
    let taken = 0;
    /** Bytes of another request that still have to arrive. */
    let left = 0;
    socket.on('error', () => {});
    socket.on('data', (bytes: Buffer) => {
      if (taken === 0 && (left > 0 || !bytes.includes('/upload'))) {
        const head = bytes.indexOf('\r\n\r\n') + 4;
        if (left === 0)
          left = head + Number(/content-length: (\d+)/.exec(bytes.toString('latin1', 0, head))![1]);
        left -= bytes.length;
        if (left === 0) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
        return;
      }
      taken += bytes.length;
      if (taken < takenBytes) return;
      socket.pause();
      standing++;
      if (standing === uploads) resolve();
    });
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  const folder = mkdtempSync(join(tmpdir(), 'understudy-stalled-'));
  const gateway = new CliChild(['gateway', '--port', '0', '--db', join(folder, 'capture.mdb')], {
    env: {
      ...{ DATA_DIR: folder, SERVER_THREADS: '1' },
      GW_UPSTREAM_BASE: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
      ...env,
    },
  });
  const clients: ChildProcess[] = [];
  onTestFinished(async () => {
    for (const client of clients) {
      client.disconnect();
      await once(client, 'exit');
    }
    for (const socket of sockets) socket.destroy();
    await gateway[Symbol.asyncDispose]();
    upstream.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const [, port = ''] = await gateway.waitForOutput(/Gateway\s+http:\/\/[^:]+:(\d+)/);
  return {
    port,
    stalled,
    measure: () => {
      const status = readFileSync(`/proc/${gateway.process.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)![1]) * 1_024;
    },
    upload: (bytes) => {
      const client = fork(CLIENT, [port, `${bytes}`, '2']);
      clients.push(client);
      return client;
    },
  };
}

async function readStats(port: string) {
  const answer = await fetch(`http://127.0.0.1:${port}/__gw/stats`);
  expect(answer.status).toBe(200);
  return (await answer.json()) as {
    exchanges: { captured: number; dropped: number; in_flight: number };
    writer: { queue_bytes: number };
  };
}

/** Resolves when the system accepts no more bytes from any client. */
async function awaitStandstill(port: string, clients: readonly ChildProcess[]): Promise<void> {
  const ask = () =>
    Promise.all(
      clients.map(async (client): Promise<number> => {
        client.send('how much');
        return (await once(client, 'message'))[0];
      }),
    );
  const serveOthers = async () => {
    for (let i = 0; i < 100; i++) await readStats(port);
  };
  await serveOthers();
  for (let sent = '', now = `${await ask()}`; sent !== now; [sent, now] = [now, `${await ask()}`])
    await serveOthers();
}

const isMeasurable = existsSync(ADDON) && process.platform === 'linux';
const isSlow = { timeout: 120_000 };

it.skipIf(!isMeasurable)('an upload that stalls halfway takes little memory', isSlow, async () => {
  const { port, stalled, measure, upload } = await startStalling(TAKEN_BYTES, 1, {});
  for (let i = 0; i < 100; i++) await readStats(port);
  const before = measure();
  const client = upload(UPLOAD_BYTES);
  await stalled;
  await awaitStandstill(port, [client]);
  expect(measure() - before).toBeLessThan(COST_BYTES_MAX);
});

it.skipIf(!isMeasurable)(
  'many stalled uploads stay within their bound and do not block others',
  isSlow,
  async () => {
    const { port, stalled, measure, upload } = await startStalling(MANY_TAKEN_BYTES, MANY, {
      GW_MAX_QUEUE_BYTES: `${QUEUE_BYTES}`,
      GW_MAX_CAPTURE_BYTES: `${QUEUE_BYTES / 2}`,
    });
    for (let i = 0; i < 100; i++) await readStats(port);
    const before = measure();
    const clients = Array.from({ length: MANY }, () => upload(MANY_BYTES));
    await stalled;
    await awaitStandstill(port, clients);
    const { writer, exchanges } = await readStats(port);
    expect(writer.queue_bytes).toBeLessThanOrEqual(QUEUE_BYTES);
    expect(exchanges).toMatchObject({ captured: 0, dropped: 0, in_flight: MANY });
    expect(measure() - before).toBeLessThan(MANY_COST_BYTES_MAX);

    // Together these bodies exceed the remaining budget.
    const body = 'y'.repeat(400_000);
    for (let i = 0; i < 40; i++) {
      const answer = await fetch(`http://127.0.0.1:${port}/other`, { method: 'POST', body });
      await answer.arrayBuffer();
    }
    await fetch(`http://127.0.0.1:${port}/__gw/flush`, { method: 'POST' });
    expect((await readStats(port)).exchanges).toMatchObject({ captured: 40, dropped: 0, in_flight: MANY });
  },
);
