/**
 * The certificates that the proxy shows for its hosts: made at the first handshake, kept for a day, never written to
 * disk. One key, made when the thread starts, serves all of them. Proxy thread.
 */
import { generateKeyPairSync } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Authority } from './authority.ts';
import { PROXY_LEAF_HOURS } from './authority.ts';

/** Maximum number of certificates that are kept, one per host. */
const PROXY_LEAVES_MAX = 256;

const HOUR_MS = 3_600_000;

interface KnownLeaf {
  context: Promise<SecureContext>;
  /** Time from which on a new certificate is made. */
  renewed_at_ms: number;
}

export class LeafCertificates {
  readonly #now: () => number;
  readonly #key: string;
  readonly #publicKey: Buffer;
  /** Certificates by host, in order of use, the most recently used last. */
  readonly #leaves = new Map<string, KnownLeaf>();
  #authority: Authority;

  /** @param now wall clock */
  constructor(authority: Authority, now: () => number) {
    this.#authority = authority;
    this.#now = now;
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#key = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
    this.#publicKey = publicKey.export({ type: 'spki', format: 'der' });
  }

  /** Replaces the authority that signs new certificates. */
  renew(authority: Authority): void {
    this.#authority = authority;
    this.#leaves.clear();
  }

  /** The context for a client that asks for this host. */
  get(host: string): Promise<SecureContext> {
    const nowMs = this.#now();
    const known = this.#leaves.get(host);
    this.#leaves.delete(host);
    const leaf = known !== undefined && nowMs < known.renewed_at_ms ? known : this.#make(host, nowMs);
    this.#leaves.set(host, leaf);
    if (this.#leaves.size > PROXY_LEAVES_MAX) this.#leaves.delete(this.#leaves.keys().next().value!);
    return leaf.context;
  }

  #make(host: string, nowMs: number): KnownLeaf {
    const issued = this.#authority.issue(host, this.#publicKey, nowMs);
    const leaf: KnownLeaf = {
      context: issued.then(({ cert }) =>
        createSecureContext({ cert, key: this.#key, minVersion: 'TLSv1.2' }),
      ),
      renewed_at_ms: nowMs + (PROXY_LEAF_HOURS.lifetime - PROXY_LEAF_HOURS.renewal) * HOUR_MS,
    };
    leaf.context.catch(() => {
      if (this.#leaves.get(host) === leaf) this.#leaves.delete(host);
    });
    return leaf;
  }
}
