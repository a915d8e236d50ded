/**
 * Limits the invalid credentials per address: one bucket for each address, shared by all server
 * threads. A valid credential is never counted, so users with valid credentials are not locked out
 * by failures of others at the same address. Server threads.
 */
import { divideLimit, SharedBuckets } from '../../actors/rate-bucket/client.ts';

/**
 * Invalid credentials that one address may send at once (document 4, "Rate limits"), unless the rate per second is
 * higher, and the number of buckets in shared memory. Addresses in the same bucket share its rate, so with many
 * addresses invalid credentials may be refused sooner.
 */
export const FAILED_SIGN_INS = { burst: 100, buckets: 65_536 } as const;

export class FailedSignIns {
  readonly #buckets: SharedBuckets;

  /**
   * @param memory that all server threads share
   * @param ratePerS allowed failures per second, once the burst is used up
   * @param countBoxes the boxes among which both are divided
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
 * The owner of an IPv6 address usually has a /64 network, so all addresses of a /64 count as one.
 * Each IPv4 address counts separately.
 */
export function networkOf(address: string): string {
  // The server writes all eight groups with all their digits.
  return /^([\da-f]{4}:){7}[\da-f]{4}$/i.test(address) ? address.slice(0, 19) : address;
}
