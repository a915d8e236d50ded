/**
 * What one upload costs in memory that an upstream takes half of and then no more: the beginning of it that is captured, and little
 * else. The gateway and the client are processes of their own; Linux tells what the gateway holds.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { CUT_BODY_BYTES } from '../../src/limits.ts';
import { CliChild } from '../cli/child.ts';

const CLIENT = fileURLToPath(new URL('../fixtures/fast-uploader.ts', import.meta.url));
const ADDON = fileURLToPath(new URL('../../native/build/sockets.node', import.meta.url));
const UPLOAD_BYTES = 200_000_000;
const TAKEN_BYTES = 100_000_000;
/** It was 96 MB and more; the stack, the heap and the buffers move by some megabytes from run to run. */
const COST_BYTES_MAX = CUT_BODY_BYTES + 24_000_000;

it.skipIf(!existsSync(ADDON) || process.platform !== 'linux')(
  'an upload that stalls half-way costs little memory',
  { timeout: 120_000 },
  async () => {
    const sockets = new Set<Socket>();
    let taken = 0;
    const { promise: stalled, resolve } = Promise.withResolvers<void>();
    const upstream = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('data', (bytes: Buffer) => {
        if (taken === 0 && !bytes.includes('/upload')) {
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
          return;
        }
        taken += bytes.length;
        if (taken < TAKEN_BYTES) return;
        socket.pause();
        resolve();
      });
    });
    await once(upstream.listen(0, '127.0.0.1'), 'listening');
    const folder = mkdtempSync(join(tmpdir(), 'understudy-stalled-'));
    const gateway = new CliChild(['gateway', '--port', '0', '--db', join(folder, 'capture.mdb')], {
      env: {
        ...{ DATA_DIR: folder, SERVER_THREADS: '1' },
        GW_UPSTREAM_BASE: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
      },
    });
    const [, port] = await gateway.waitForOutput(/Gateway\s+http:\/\/[^:]+:(\d+)/);
    const measure = () => {
      const status = readFileSync(`/proc/${gateway.process.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)![1]) * 1_024;
    };
    const serveOthers = async () => {
      for (let i = 0; i < 100; i++) {
        const answer = await fetch(`http://127.0.0.1:${port}/__gw/stats`);
        expect(answer.status).toBe(200);
        await answer.arrayBuffer();
      }
    };
    await serveOthers();
    const before = measure();
    const client = fork(CLIENT, [`${port}`, `${UPLOAD_BYTES}`]);
    onTestFinished(async () => {
      client.disconnect();
      await once(client, 'exit');
      for (const socket of sockets) socket.destroy();
      await gateway[Symbol.asyncDispose]();
      upstream.close();
      rmSync(folder, { recursive: true, force: true });
    });
    const ask = async (): Promise<number> => {
      client.send('how much');
      return (await once(client, 'message'))[0] as number;
    };
    await stalled;
    for (let sent = -1, now = await ask(); sent !== now; [sent, now] = [now, await ask()])
      await serveOthers();
    expect(measure() - before).toBeLessThan(COST_BYTES_MAX);
  },
);
