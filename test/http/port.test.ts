/** A held port: who can listen on it, and when it is free again. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { holdPort } from '../../src/http/port.ts';

const HOST = '127.0.0.1';

it.runIf(process.platform === 'linux')(
  'a held port is taken, except for sockets that share it, until it is released',
  async () => {
    const held = await holdPort(HOST, 0);
    const stranger = createServer();
    stranger.listen({ host: HOST, port: held.port, exclusive: true });
    const [error] = await once(stranger, 'error');
    expect(error).toMatchObject({ code: 'EADDRINUSE' });
    const ours = createServer();
    await once(ours.listen({ host: HOST, port: held.port, reusePort: true }), 'listening');
    held.release();
    ours.close();
    await once(ours, 'close');
    await once(stranger.listen({ host: HOST, port: held.port, exclusive: true }), 'listening');
    await expect(holdPort(HOST, held.port)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    stranger.close();
  },
);
