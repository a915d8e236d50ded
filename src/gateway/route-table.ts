/**
 * Maps a path to its destination: the default upstream, `/gemini`, `/bedrock/{region}`, or a prefix of `GW_ROUTES`.
 * `GET /__gw/routes` shows the same table. Server threads, once per request; paths are compared raw, never decoded.
 */

import type { UpstreamRoute } from '../domain/upstream-route.ts';
import type { RequestHead } from '../http/http-stream.ts';
import type { ClassifiedRoute } from '../providers/classify.ts';
import type { Upstream, UpstreamPools } from './upstream/upstream-pools.ts';

/** A region after a prefix of GW_ROUTES: providers write `us-east-1`, `europe-west4`, `us` and `global`. */
const ROUTE_REGION = /^[a-z]{2,16}(?:-[a-z]{1,16}){0,3}(?:-?\d{1,2})?$/;
/** A region in `/bedrock/{region}`. Lower case only, because it becomes part of a host name. */
const BEDROCK_REGION = /^[a-z]{2}(-[a-z]+)+-\d$/;
/** Maximum length of a region: the maximum length of a DNS label (RFC 1035, 2.3.4). */
const BEDROCK_REGION_CHARACTERS = 63;

export interface RouteBases {
  upstream_base: string;
  /** Label of the default upstream. */
  provider: string;
  gemini_base: string;
  /** Contains `{region}` as the placeholder for the region. */
  bedrock_base: string;
  /** Routes by prefix, longest first; absent: none. */
  routes?: readonly UpstreamRoute[];
}

/** Destination of one request. */
export interface Destination {
  route: ClassifiedRoute;
  provider: string;
  upstream: Upstream;
  /** The client's path without the route's prefix, raw. */
  path: string;
  /** Headers that replace the client's on the way to the upstream; absent: none. Secret. */
  headers?: AddedHeaders;
}

/** Destination of everything that a client sends through one of the proxy's tunnels. */
export interface ProxiedRoute {
  /** The host as in a `Host` header: lower case, with the port unless it is the default port. */
  authority: string;
  /** Provider label of the exchanges that are captured through the tunnel. */
  provider: string;
}

/** Headers that a route adds, as header lines. */
export interface AddedHeaders {
  /** In lower case. */
  names: ReadonlySet<string>;
  /** `name: value\r\n` each. */
  lines: string;
}

/** A row of `GET /__gw/routes`. */
export interface RouteRow {
  prefix: string;
  provider: string;
  upstream: string;
  /** Names of the headers that the route adds; absent: none. Their values are never shown. */
  adds_headers?: string[];
}

export class RouteTable {
  readonly rows: readonly RouteRow[];
  readonly #bases: RouteBases;
  readonly #pools: UpstreamPools;
  readonly #named: readonly NamedRoute[];

  constructor(bases: RouteBases, pools: UpstreamPools) {
    this.#bases = bases;
    this.#pools = pools;
    this.#named = (bases.routes ?? []).map(nameRoute);
    this.rows = [
      ...(bases.routes ?? []).map(describeRoute),
      { prefix: '/gemini', provider: 'gemini', upstream: bases.gemini_base },
      { prefix: '/bedrock/{region}', provider: 'bedrock', upstream: bases.bedrock_base },
      { prefix: '/', provider: bases.provider, upstream: bases.upstream_base },
    ];
  }

  /**
   * Finds the destination of a request.
   * @param path raw, as the client sent it
   * @returns the destination; null for a path without a valid region where one is required
   */
  resolve(path: string): Destination | null {
    if (path.startsWith('/gemini') && (path.length === 7 || path[7] === '/')) {
      return {
        route: 'gemini',
        provider: 'gemini',
        upstream: this.#pools.get(this.#bases.gemini_base),
        path: path.length === 7 ? '/' : path.slice(7),
      };
    }
    if (path.startsWith('/bedrock') && (path.length === 8 || path[8] === '/'))
      return this.#resolveBedrock(path);
    for (let at = 0; at < this.#named.length; at++) {
      const named = this.#named[at]!;
      if (isUnder(path, named.prefix)) return this.#resolveNamed(path, named);
    }
    return {
      route: 'default',
      provider: this.#bases.provider,
      upstream: this.#pools.get(this.#bases.upstream_base),
      path,
    };
  }

  /**
   * Finds the destination of a request inside one of the proxy's tunnels.
   * @param head of a request inside the tunnel
   * @returns the tunnel's host as destination; null for a request to another host. If the host is also the default
   *   upstream, its requests can still be relegated.
   */
  resolveProxied({ authority, provider }: ProxiedRoute, { path, headers }: RequestHead): Destination | null {
    for (let at = 0; at < headers.length; at += 2) {
      if (headers[at] === 'host' && headers[at + 1]!.toLowerCase() !== authority) return null;
    }
    const base = `https://${authority}`;
    const isDefault = this.#bases.upstream_base === base;
    return {
      route: isDefault ? 'default' : 'named',
      provider: isDefault ? this.#bases.provider : provider,
      upstream: this.#pools.get(base),
      path,
    };
  }

  /**
   * Finds the route of a path that `resolve` has refused because of its region, and returns the route's
   * prefix.
   */
  nameRegionPrefix(path: string): string {
    return this.#named.find(({ prefix }) => isUnder(path, prefix))?.prefix ?? '/bedrock';
  }

  #resolveNamed(path: string, named: NamedRoute): Destination | null {
    const { prefix, takes_region, base, region_bases, provider, added } = named;
    let begin = prefix.length;
    let address = base;
    if (takes_region) {
      const slash = path.indexOf('/', prefix.length + 1);
      begin = slash < 0 ? path.length : slash;
      const region = path.slice(prefix.length + 1, begin);
      if (!ROUTE_REGION.test(region)) return null;
      address = region_bases.get(region) ?? base.replaceAll('{region}', region);
    }
    const destination: Destination = {
      route: 'named',
      provider,
      upstream: this.#pools.get(address),
      path: begin === path.length ? '/' : path.slice(begin),
    };
    if (added !== null) destination.headers = added;
    return destination;
  }

  #resolveBedrock(path: string): Destination | null {
    const slash = path.indexOf('/', 9);
    const region = slash < 0 ? path.slice(9) : path.slice(9, slash);
    // A region becomes part of a host name, so only text of exactly this form is accepted.
    if (region.length > BEDROCK_REGION_CHARACTERS || !BEDROCK_REGION.test(region)) return null;
    return {
      route: 'bedrock',
      provider: 'bedrock',
      upstream: this.#pools.get(this.#bases.bedrock_base.replaceAll('{region}', region)),
      path: slash < 0 ? '/' : path.slice(slash),
    };
  }
}

/** A route of `GW_ROUTES`, prepared for lookup. */
interface NamedRoute extends Pick<UpstreamRoute, 'prefix' | 'takes_region' | 'base' | 'provider'> {
  region_bases: ReadonlyMap<string, string>;
  added: AddedHeaders | null;
}

function nameRoute({
  prefix,
  takes_region,
  base,
  provider,
  region_bases,
  headers,
}: UpstreamRoute): NamedRoute {
  const added = {
    names: new Set(headers.map(([name]) => name)),
    lines: headers.map(([name, value]) => `${name}: ${value}\r\n`).join(''),
  };
  return {
    ...{ prefix, takes_region, base, provider },
    region_bases: new Map(Object.entries(region_bases)),
    added: headers.length === 0 ? null : added,
  };
}

function describeRoute({ prefix, takes_region, base, provider, headers }: UpstreamRoute): RouteRow {
  const row: RouteRow = {
    prefix: takes_region ? `${prefix}/{region}` : prefix,
    provider,
    upstream: base,
  };
  if (headers.length > 0) row.adds_headers = headers.map(([name]) => name);
  return row;
}

/** Whether the path begins with the prefix and the prefix ends at a segment boundary. */
function isUnder(path: string, prefix: string): boolean {
  return path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/');
}
