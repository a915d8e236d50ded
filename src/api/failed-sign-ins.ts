/**
 * Limits the invalid credentials per address: one bucket for each address, shared by all server
 * threads. A valid credential is never counted, so users with valid credentials are not locked out
 * by failures of others at the same address. Server threads.
 */
import { divideLimit, SharedBuckets } from '../../actors/rate-bucket/client.ts';

/**
 * `burst`: number of invalid credentials that one address may send at once (document 4, "Rate limits"); a
 * higher rate per second applies instead. `buckets`: number of buckets in shared memory. Addresses in the
 * same bucket share its rate, so with many addresses invalid credentials may be refused sooner.
 */
export const FAILED_SIGN_INS = { burst: 100, buckets: 65_536 } as const;

export class FailedSignIns {
  readonly #buckets: SharedBuckets;

  /**
   * @param memory that all server threads share
   * @param ratePerS allowed failures per second, once the burst is used up
   * @param countBoxes returns the number of boxes among which rate and burst are divided
   */
  constructor(memory: SharedArrayBuffer, ratePerS: number, countBoxes: () => number = () => 1) {
    const burst = Math.max(FAILED_SIGN_INS.burst, ratePerS);
    this.#buckets = new SharedBuckets(memory, divideLimit({ rate_per_s: ratePerS, burst }, countBoxes));
  }

  /**
   * Counts a failure.
   * @param address as the server writes it
   * @returns false when there have been too many
   */
  take(address: string): boolean {
    return this.#buckets.take(networkOf(address)).allowed;
  }
}

/**
 * Returns the part of an address by which it is counted. For IPv6 that is the /64 network, because an owner
 * usually has all of its addresses. An IPv4 address counts by itself.
 */
export function networkOf(address: string): string {
  // The server writes all eight groups with all their digits.
  return /^([\da-f]{4}:){7}[\da-f]{4}$/i.test(address) ? address.slice(0, 19) : address;
}
