/**
 * The providers' connection pools for HTTP/1.1: one for each base URL, created at first use. Server threads; each has
 * its own pools.
 */

import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { ConnectionPool } from './connection-pool.ts';

/** Maximum number of pools. Clients choose the region, so the number needs a bound. About 40 regions exist. */
const UPSTREAM_POOLS_MAX = 64;

/** One provider's address and its pool. */
export interface Upstream {
  pool: ConnectionPool;
  /** Scheme, host and port. */
  origin: string;
  /** Value of Host. */
  host: string;
  /** Path of the base, which precedes the client's path; '' for none. */
  base_path: string;
  /**
   * Trusted certificate authorities; undefined: Node's default ones. The certificate is always
   * verified.
   */
  trust: SecureContext | undefined;
}

export class UpstreamPools {
  /** By base URL, the most recently used last. */
  readonly #upstreams = new Map<string, Upstream>();
  #newest: Upstream | null = null;
  readonly #trust: SecureContext | undefined;

  /**
   * @param ca certificate authorities (PEM) that are trusted in addition to the default ones; null
   * for none
   */
  constructor(ca: string | null = null) {
    if (ca !== null) this.#trust = createSecureContext({ ca: [...getCACertificates('default'), ca] });
  }

  /**
   * Returns the upstream of a base URL, which is created at its first use. A new upstream may take the place of the
   * least recently used one.
   * @param base http or https URL, perhaps with a path, without a trailing slash
   */
  get(base: string): Upstream {
    const known = this.#upstreams.get(base);
    if (known !== undefined) {
      if (known !== this.#newest) this.#use(base, known);
      return known;
    }
    const url = new URL(base);
    const upstream: Upstream = {
      pool: new ConnectionPool(url.origin, this.#trust),
      origin: url.origin,
      host: url.host,
      base_path: url.pathname === '/' ? '' : url.pathname,
      trust: this.#trust,
    };
    this.#use(base, upstream);
    if (this.#upstreams.size > UPSTREAM_POOLS_MAX) this.#evict();
    return upstream;
  }

  /**
   * Ends every connection, busy ones too, except those of pools that were given up earlier. These end with
   * their exchanges.
   */
  close(): void {
    for (const upstream of this.#upstreams.values()) upstream.pool.destroy();
    this.#upstreams.clear();
    this.#newest = null;
  }

  #use(base: string, upstream: Upstream): void {
    this.#upstreams.delete(base);
    this.#upstreams.set(base, upstream);
    this.#newest = upstream;
  }

  /** Gives up the least recently used pool; its exchanges finish. */
  #evict(): void {
    const [base, upstream] = this.#upstreams.entries().next().value!;
    this.#upstreams.delete(base);
    upstream.pool.close();
  }
}
