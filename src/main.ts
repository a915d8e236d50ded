/** Composition root: puts the process's parts together, starts them, stops them in reverse. Main thread. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { compileDispatch } from './api/dispatch.ts';
import { apiRoutes } from './api/routes.ts';
import type { Config } from './config.ts';
import { CatalogueError } from './errors.ts';

/** What runs after a start. */
export interface RunningUnderstudy {
  /** Without a trailing slash; null when the part was not asked for. */
  api_url: string | null;
  gateway_url: string | null;
  /** Drains and closes everything. Called once. */
  stop(): Promise<void>;
}

/** Starts the parts that are asked for. */
export async function startUnderstudy(
  config: Config,
  parts: { api: boolean; gateway: boolean },
): Promise<RunningUnderstudy> {
  if (parts.gateway) throw new CatalogueError('unavailable', 'the gateway is not part of this build');
  const dispatch = compileDispatch(apiRoutes({ version: config.version, probes: {} }), (error) =>
    console.error(error),
  );
  const server = createServer(async (incoming, outgoing) => {
    const [path = '/', query = ''] = (incoming.url ?? '/').split('?', 2);
    const headers = new Map(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]));
    const reply = await dispatch({
      method: incoming.method ?? 'GET',
      path,
      query,
      headers,
      body: new Uint8Array(),
    });
    outgoing.writeHead(reply.status, Object.fromEntries(reply.headers)).end(reply.body);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(config.api.port, config.api.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    api_url: `http://${config.api.host}:${port}`,
    gateway_url: null,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
