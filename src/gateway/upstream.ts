/**
 * Connections to the providers: one pool an origin, kept alive, HTTP/1.1, without limits on how long an answer may
 * think. Front threads; each front has its own pools.
 */

import { Pool } from 'undici';
import { UPSTREAM_CONNECT_MS, UPSTREAM_HEAD_BYTES, UPSTREAM_TIMEOUT_MS } from '../limits.ts';

/** One provider's address and the pool that leads there. */
export interface Upstream {
  pool: Pool;
  /** Value of Host. */
  host: string;
  /** Path of the base, put before the client's; '' for none. */
  base_path: string;
}

/** How long an unused connection is kept. Providers mostly close after more; a dead one costs a retry, not a failure. */
const KEEP_ALIVE_MS = 30_000;
/** Pools kept at once. Regions come from clients, so their number must be bounded; there are some 40 real ones. */
const POOLS_MAX = 64;

export class UpstreamPools {
  readonly #upstreams = new Map<string, Upstream>();

  /**
   * @param base http or https URL, perhaps with a path, without a trailing slash
   * @returns the upstream behind it, made at first use
   */
  get(base: string): Upstream {
    const known = this.#upstreams.get(base);
    if (known !== undefined) return known;
    const url = new URL(base);
    const upstream: Upstream = {
      pool: new Pool(url.origin, {
        allowH2: false,
        pipelining: 1,
        headersTimeout: UPSTREAM_TIMEOUT_MS,
        bodyTimeout: UPSTREAM_TIMEOUT_MS,
        keepAliveTimeout: KEEP_ALIVE_MS,
        maxHeaderSize: UPSTREAM_HEAD_BYTES,
        connect: { timeout: UPSTREAM_CONNECT_MS },
      }),
      host: url.host,
      base_path: url.pathname === '/' ? '' : url.pathname,
    };
    this.#upstreams.set(base, upstream);
    if (this.#upstreams.size > POOLS_MAX) this.#evict(base);
    return upstream;
  }

  /** Ends every connection, busy ones too. */
  async close(): Promise<void> {
    await Promise.all([...this.#upstreams.values()].map((upstream) => upstream.pool.destroy()));
    this.#upstreams.clear();
  }

  /** Gives up the oldest other pool; its exchanges finish. */
  #evict(keep: string): void {
    for (const [base, upstream] of this.#upstreams) {
      if (base === keep) continue;
      this.#upstreams.delete(base);
      upstream.pool.close().catch(() => {
        // Closing only fails when the pool is destroyed already, which is what we are after.
      });
      return;
    }
  }
}
