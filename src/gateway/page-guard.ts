/**
 * Refuses requests of web pages to routes that need no credential of the client: the admin routes, and routes
 * of `GW_ROUTES` that add the operator's credential. A page can send requests to these routes through the
 * browser of a person who can reach the port, and with DNS rebinding it can read the answers. Server threads.
 */
import { CatalogueError } from '../errors.ts';
import { type AllowedHosts, FOREIGN_HOST } from '../http/allowed-hosts.ts';
import type { RequestHead } from '../http/http-stream.ts';

/**
 * Refuses a request of a web page.
 * @param what names the routes in the error text
 * @throws CatalogueError `foreign_host` for a host name that DNS could point to this machine; `cross_site`
 * for a page of another site
 */
export function refusePages({ method, headers }: RequestHead, hosts: AllowedHosts, what: string): void {
  if (!hosts.allows(findHost(headers))) throw new CatalogueError('foreign_host', FOREIGN_HOST);
  if (isCrossSite(method, headers))
    throw new CatalogueError('cross_site', `${what} do not answer requests from other sites`);
}

function findHost(headers: readonly string[]): string | undefined {
  for (let at = 0; at < headers.length; at += 2) if (headers[at] === 'host') return headers[at + 1];
  return undefined;
}

/**
 * Whether a page of another site sent this request. Browsers send Fetch Metadata only to loopback and over TLS. They
 * send `Origin` everywhere: with all methods except GET and HEAD, with every cross-origin fetch whose answer the page
 * may read, and with WebSocket handshakes. A request with an `Origin` counts as sent by another site, unless its method
 * is GET or HEAD and the `Origin` names the gateway's own host, for example when a page of the gateway reads the stats.
 */
function isCrossSite(method: string, headers: readonly string[]): boolean {
  let origin: string | null = null;
  let host = '';
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1]!.toLowerCase();
    switch (headers[at]) {
      case 'origin':
        // Two different values are refused, like an unknown value.
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
  const isRead = method === 'GET' || method === 'HEAD';
  return !isRead || (origin !== `http://${host}` && origin !== `https://${host}`);
}
