/**
 * The routes under `/__gw/`: the gateway's own, never forwarded. They are not authenticated (document 3). So the checks
 * of host and site here, and the bind address, protect them from a web page in the operator's browser.
 * Server threads.
 */

import type { CaptureHealth } from '../domain/capture-health.ts';
import { CatalogueError, toCatalogueError } from '../errors.ts';
import { type AllowedHosts, FOREIGN_HOST } from '../http/allowed-hosts.ts';
import type { HttpStream } from '../http/http-stream.ts';
import { replyError } from './forward.ts';
import type { RouteRow } from './route-table.ts';

/** What the admin routes act on; answers for all server threads together. */
export interface CaptureAdmin {
  /** The stats record of `spec` document 4, "Gateway". */
  stats(): Promise<object>;
  /** How capture is doing, without asking the writer. */
  health(): Promise<CaptureHealth>;
  /** @returns exchanges written since start, all of them safe on disk */
  flush(): Promise<{ flushed: true; written: number }>;
  /** @returns paths of the sealed file and of the one opened instead */
  rotate(): Promise<{ sealed: string | null; opened: string }>;
  kill(): Promise<{ alive: false }>;
}

interface AdminRoute {
  methods: readonly string[];
  handle: (admin: CaptureAdmin, rows: readonly RouteRow[]) => Promise<object>;
}

const READ = ['GET', 'HEAD'];
const ROUTES: Record<string, AdminRoute> = {
  '/__gw/stats': { methods: READ, handle: (admin) => admin.stats() },
  '/__gw/flush': { methods: ['GET', 'POST'], handle: (admin) => admin.flush() },
  '/__gw/rotate': { methods: ['POST'], handle: (admin) => admin.rotate() },
  '/__gw/writer/kill': { methods: ['POST'], handle: (admin) => admin.kill() },
  '/__gw/routes': { methods: READ, handle: async (_admin, routes) => ({ routes }) },
};

/** Whether a raw path is the gateway's own. One that only decodes to it is not. */
export function isAdminPath(path: string): boolean {
  return path.startsWith('/__gw/') || path === '/__gw';
}

/** Answers an admin request; every failure has a JSON body. */
export async function answerAdmin(
  stream: HttpStream,
  admin: CaptureAdmin,
  rows: readonly RouteRow[],
  hosts: AllowedHosts,
): Promise<void> {
  try {
    const { path, method, headers } = stream.head;
    const route = Object.hasOwn(ROUTES, path) ? ROUTES[path]! : undefined;
    if (!hosts.allows(findHost(headers))) throw new CatalogueError('foreign_host', FOREIGN_HOST);
    if (isCrossSite(method, headers)) throw new CatalogueError('cross_site');
    if (route === undefined) throw new CatalogueError('not_found', 'No such admin route');
    if (!route.methods.includes(method)) {
      replyError(stream, new CatalogueError('method_not_allowed'), `Allow: ${route.methods.join(', ')}\r\n`);
      return;
    }
    const body = await route.handle(admin, rows);
    stream.reply(200, 'Content-Type: application/json\r\nCache-Control: no-store\r\n', JSON.stringify(body));
  } catch (thrown) {
    replyError(stream, toCatalogueError(thrown));
  }
}

function findHost(headers: readonly string[]): string | undefined {
  for (let at = 0; at < headers.length; at += 2) if (headers[at] === 'host') return headers[at + 1];
  return undefined;
}

/**
 * A page of another site speaks: by Fetch Metadata where the browser sends it, by Origin everywhere. A POST may have none at
 * all; with a GET it may be this very host's, as in a page that asks the gateway for its own numbers.
 */
function isCrossSite(method: string, headers: readonly string[]): boolean {
  let origin: string | null = null;
  let host = '';
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1]!.toLowerCase();
    switch (headers[at]) {
      case 'origin':
        // Two that differ are nobody's.
        origin = origin === null || origin === value ? value : 'null';
        break;
      case 'host':
        host = value;
        break;
      case 'sec-fetch-site':
        if (value === 'cross-site' || value === 'same-site') return true;
    }
  }
  if (origin === null) return false;
  return method === 'POST' || (origin !== `http://${host}` && origin !== `https://${host}`);
}
