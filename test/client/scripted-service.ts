/** A service over a real socket that records its requests and always gives the same answer. Test thread. */

import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

interface Asked {
  method: string;
  path: string;
  body: Record<string, unknown> | null;
}

/** Starts a service that gives every request the same answer, and stops it when the test has finished. */
export async function startService(
  status: number,
  answer: unknown,
): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer(async (request: IncomingMessage, response) => {
    const text = Buffer.concat(await request.toArray()).toString();
    asked.push({
      method: request.method!,
      path: request.url!,
      body: text === '' ? null : (JSON.parse(text) as Record<string, unknown>),
    });
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}
