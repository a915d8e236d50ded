/**
 * Where a path goes: the default upstream, `/gemini`, `/bedrock/{region}`. What `GET /__gw/routes` shows is made from
 * the same table. Server threads, once a request; paths are compared raw, never decoded.
 */

import { BEDROCK_REGION, BEDROCK_REGION_CHARACTERS } from '../limits.ts';
import type { ClassifiedRoute } from '../providers/classify.ts';
import type { Upstream, UpstreamPools } from './upstream/upstream-pools.ts';

export interface RouteBases {
  upstream_base: string;
  /** Label of the default upstream. */
  provider: string;
  gemini_base: string;
  /** With `{region}` wherever the region goes. */
  bedrock_base: string;
}

/** Where one request goes. */
export interface Destination {
  route: ClassifiedRoute;
  provider: string;
  upstream: Upstream;
  /** Client's path without the route's prefix, raw. */
  path: string;
}

/** A row of `GET /__gw/routes`. */
export interface RouteRow {
  prefix: string;
  provider: string;
  upstream: string;
}

export class RouteTable {
  readonly rows: readonly RouteRow[];
  readonly #bases: RouteBases;
  readonly #pools: UpstreamPools;

  constructor(bases: RouteBases, pools: UpstreamPools) {
    this.#bases = bases;
    this.#pools = pools;
    this.rows = [
      { prefix: '/gemini', provider: 'gemini', upstream: bases.gemini_base },
      { prefix: '/bedrock/{region}', provider: 'bedrock', upstream: bases.bedrock_base },
      { prefix: '/', provider: bases.provider, upstream: bases.upstream_base },
    ];
  }

  /**
   * @param path raw, as the client sent it
   * @returns where it goes, or null for a Bedrock path without a proper region
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
    return {
      route: 'default',
      provider: this.#bases.provider,
      upstream: this.#pools.get(this.#bases.upstream_base),
      path,
    };
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
