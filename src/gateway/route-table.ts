/**
 * Where a path goes: the default upstream, `/gemini`, `/bedrock/{region}`, or a prefix of `GW_ROUTES`. What `GET
 * /__gw/routes` shows is made from the same table. Server threads, once a request; paths are compared raw, never decoded.
 */

import type { UpstreamRoute } from '../domain/upstream-route.ts';
import type { RequestHead } from '../http/http-stream.ts';
import { BEDROCK_REGION, BEDROCK_REGION_CHARACTERS, ROUTE_REGION } from '../limits.ts';
import type { ClassifiedRoute } from '../providers/classify.ts';
import type { Upstream, UpstreamPools } from './upstream/upstream-pools.ts';

export interface RouteBases {
  upstream_base: string;
  /** Label of the default upstream. */
  provider: string;
  gemini_base: string;
  /** With `{region}` wherever the region goes. */
  bedrock_base: string;
  /** Under prefixes of their own, longest first; left out: none. */
  routes?: readonly UpstreamRoute[];
}

/** Where one request goes. */
export interface Destination {
  route: ClassifiedRoute;
  provider: string;
  upstream: Upstream;
  /** Client's path without the route's prefix, raw. */
  path: string;
  /** Headers that go to the upstream in place of the client's own; left out: none. Secret. */
  headers?: AddedHeaders;
}

/** Where everything goes that a client sends through one of the proxy's tunnels. */
export interface ProxiedRoute {
  /** As `Host` names it: lower case, with a port where it is not the usual one. */
  authority: string;
  /** Label of what it answers. */
  provider: string;
}

/** Headers that a route adds, as the head of a request takes them. */
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
  /** Names of the headers that it adds; absent: none. Their values are nobody's to see. */
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
   * @param path raw, as the client sent it
   * @returns where it goes, or null for a path without a proper region where one must stand
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
   * @param head of a request within the tunnel
   * @returns the host of the tunnel; null for a request that names another. The default upstream keeps its part in relegation.
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

  /** The prefix of a path that `resolve` refused. */
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
    // A region becomes part of a host name, so nothing but its exact form is let through.
    if (region.length > BEDROCK_REGION_CHARACTERS || !BEDROCK_REGION.test(region)) return null;
    return {
      route: 'bedrock',
      provider: 'bedrock',
      upstream: this.#pools.get(this.#bases.bedrock_base.replaceAll('{region}', region)),
      path: slash < 0 ? '/' : path.slice(slash),
    };
  }
}

/** A route of `GW_ROUTES`, as it is looked up. */
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

/** The prefix is whole segments of the path. */
function isUnder(path: string, prefix: string): boolean {
  return path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/');
}
