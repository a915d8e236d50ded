/**
 * A client on the same machine sends faster than the gateway reads, to an upstream that accepts nothing. The client
 * must wait, and its upload is not read into memory. Test thread, gateway included; the client is a separate process.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { startTestGateway } from '../fixtures/gateway.ts';

const CLIENT = fileURLToPath(new URL('../fixtures/fast-uploader.ts', import.meta.url));
const ADDON = fileURLToPath(new URL('../../native/build/sockets.node', import.meta.url));
const UPLOAD_BYTES = 800_000_000;
/** More bytes than the system's buffers of both connections hold. */
const TAKEN_MAX = 128_000_000;

it.skipIf(!existsSync(ADDON))(
  'a fast upload waits at its client while the upstream does not read',
  async () => {
    const sockets = new Set<Socket>();
    const upstream = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('data', (bytes: Buffer) => {
        if (bytes.includes('/upload')) socket.pause();
        else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
      });
    });
    await once(upstream.listen(0, '127.0.0.1'), 'listening');
    const gateway = await startTestGateway(`http://127.0.0.1:${(upstream.address() as AddressInfo).port}`);
    const client = fork(CLIENT, [`${gateway.port}`, `${UPLOAD_BYTES}`]);
    onTestFinished(async () => {
      client.disconnect();
      await once(client, 'exit');
      for (const socket of sockets) socket.destroy();
      await gateway.close();
      upstream.close();
    });
    const ask = async (): Promise<number> => {
      client.send('how much');
      return (await once(client, 'message'))[0] as number;
    };
    // Wait until the client waits for the gateway, then serve other clients for a while.
    while ((await ask()) < 1_000_000);
    for (let i = 0; i < 300; i++) {
      const answer = await fetch(`${gateway.url}/v1/messages`, { method: 'POST', body: '{}' });
      expect(await answer.text()).toBe('ok');
    }
    expect(await ask()).toBeLessThan(TAKEN_MAX);
  },
);
