/**
 * The admin routes under `/__gw/`, which the gateway answers itself. They require no credential (document 3). The bind
 * address limits who can connect. The checks of host and site (page-guard.ts) protect all routes except `/__gw/ready`
 * from web pages in the operator's browser. Server threads.
 */

import { CatalogueError, toCatalogueError } from '../errors.ts';
import type { AllowedHosts } from '../http/allowed-hosts.ts';
import type { HttpStream } from '../http/http-stream.ts';
import type { CaptureAdmin } from './capture/capture-control.ts';
import { replyError } from './forward.ts';
import { refusePages } from './page-guard.ts';
import type { RouteRow } from './route-table.ts';

interface AdminRoute {
  methods: readonly string[];
  handle: (admin: CaptureAdmin, rows: readonly RouteRow[]) => Promise<object>;
  /** Allowed under every host name, and for pages of every site. */
  is_open?: true;
}

const READ = ['GET', 'HEAD'];

/** All admin routes. Each asks CaptureControl, except `/__gw/routes`, which shows the table of routes. */
export const ADMIN_ROUTES: Record<string, AdminRoute> = {
  '/__gw/ready': { methods: READ, handle: reportReadiness, is_open: true },
  '/__gw/stats': { methods: READ, handle: (admin) => admin.stats() },
  '/__gw/flush': { methods: ['GET', 'POST'], handle: (admin) => admin.flush() },
  '/__gw/rotate': { methods: ['POST'], handle: (admin) => admin.rotate() },
  '/__gw/writer/kill': { methods: ['POST'], handle: (admin) => admin.kill() },
  '/__gw/routes': { methods: READ, handle: async (_admin, routes) => ({ routes }) },
};

/**
 * Reports to a load balancer whether the gateway forwards requests. The gateway is ready until it
 * begins to shut down. It stays ready when the disk is full or capture has stopped.
 */
async function reportReadiness(admin: CaptureAdmin): Promise<object> {
  const { refusal = null, capture } = await admin.readiness().catch(() => ({}) as Record<string, undefined>);
  if (refusal !== null) throw new CatalogueError('unavailable', `Not ready: ${refusal}`);
  return { status: 'ready', ...(capture === undefined ? {} : { capture }) };
}

/**
 * Whether a raw path is an admin path. Percent-encoded spellings of admin paths are not, because
 * paths are never decoded.
 */
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
    const { path, method } = stream.head;
    const route = Object.hasOwn(ADMIN_ROUTES, path) ? ADMIN_ROUTES[path]! : undefined;
    if (route?.is_open !== true) refusePages(stream.head, hosts, 'Admin routes');
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
