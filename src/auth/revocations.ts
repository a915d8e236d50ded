/**
 * Signals to all threads of the process that a credential was revoked or a membership ended. Each thread then clears
 * its caches of credentials. Revocations are rare, so one counter for all of them is enough. Live streams are many and
 * long-lived, so a stream checks its credential again only after a revocation in its own organization. Organizations
 * share a fixed number of counters for this. Any thread.
 */
import { hash } from 'node:crypto';

const ORGANIZATION_COUNTERS = 1_024;

export class Revocations {
  readonly #counters: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.#counters = new Int32Array(memory);
  }

  /** Memory for {@link Revocations}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer((1 + ORGANIZATION_COUNTERS) * Int32Array.BYTES_PER_ELEMENT);
  }

  /** Changes with every revocation. */
  get epoch(): number {
    return Atomics.load(this.#counters, 0);
  }

  /** Changes with every revocation in the organization, and with some in other organizations. */
  epochOf(org_id: string): number {
    return Atomics.load(this.#counters, slotOf(org_id));
  }

  /** Call it when a revocation in the organization is durable, before the revocation is acknowledged. */
  announce(org_id: string): void {
    Atomics.add(this.#counters, 0, 1);
    Atomics.add(this.#counters, slotOf(org_id), 1);
  }

  /** Call it when other boxes have changed credentials or memberships. */
  announceAll(): void {
    for (let slot = 0; slot <= ORGANIZATION_COUNTERS; slot++) Atomics.add(this.#counters, slot, 1);
  }
}

function slotOf(org_id: string): number {
  return 1 + (hash('sha1', org_id, 'buffer').readUInt32LE(0) % ORGANIZATION_COUNTERS);
}
