/**
 * Takes tokens from rate buckets: from the table in shared memory, or from the key's actor if the key has no slot in
 * the table. Only this file sends messages to rate buckets. Server threads.
 */
import { hash } from 'node:crypto';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { RecentMap } from '../../src/std/recent-map.ts';
import { RATE_BUCKET_KIND, type RateBucketProtocol, type RateLimit, type TakeReply } from './protocol.ts';
import { RateShares } from './shares.ts';
import { RATE_SLOTS_KEY, RATE_SLOTS_KIND, type SlotReply } from './slots-protocol.ts';
import { RATE_SLOTS, RateTable, type ReadNs, readMonotonicNs, type SharedTake } from './table.ts';

/** Maximum time for an answer. After it, the bucket counts as unavailable. */
const TAKE_DEADLINE_MS = 1_000;

export class RateBucketClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /**
   * Takes tokens from the key's bucket, or none if there are too few.
   * @param key identifies the bucket; 1 … 512 UTF-16 units
   * @param limit the key's current limit
   * @param cost number of tokens; 0 only reads the state
   * @throws {CatalogueError} `unavailable` if the bucket does not answer or refuses the limit; the caller decides
   *   whether the request may pass
   */
  async take(key: string, limit: RateLimit, cost = 1): Promise<TakeReply> {
    const request: RateBucketProtocol['take']['request'] = { cost, ...limit };
    try {
      return (await this.#asker.ask({ kind: RATE_BUCKET_KIND, key }, 'take', request, {
        deadline_ms: TAKE_DEADLINE_MS,
      })) as TakeReply;
    } catch (thrown) {
      throw new CatalogueError('unavailable', undefined, { cause: thrown });
    }
  }
}

/**
 * Returns this box's current part of a limit.
 * @param part the part, 0 … 1; null or absent: all boxes have equal parts
 * @returns the limit; the same object for the same part, while the part is in the cache
 */
export type ReadLimit = (part?: number | null) => RateLimit;

/** Maximum number of cached limits. The cache makes equal limits the same object. */
const PARTS = 256;

/**
 * Divides a limit among the boxes that share it: each box gets a part of the rate and of the burst. The burst of each
 * box is at least 1, because otherwise no request of the key would be allowed. So if there are more boxes than `burst`,
 * all boxes together allow more than `burst`.
 * @param countBoxes ≥ 1
 */
export function divideLimit(limit: RateLimit, countBoxes: () => number): ReadLimit {
  const parts = new Map<number, RateLimit>();
  return (part = null) => {
    const asked = part ?? 1 / countBoxes();
    if (asked === 1) return limit;
    let known = parts.get(asked);
    if (known === undefined) {
      if (parts.size >= PARTS) parts.clear();
      // The added fraction corrects rounding: a third of a burst of 3 must be 1.
      const burst = Math.max(1, Math.floor(limit.burst * asked + 1e-9));
      known = { rate_per_s: limit.rate_per_s * asked, burst };
      parts.set(asked, known);
    }
    return known;
  };
}

/** Pause before a slot is requested again for a key that got none. */
const NO_SLOT_MS = 1_000;
/** Maximum number of keys that one thread counts separately while the actors do not answer. */
const OWN_SLOTS = 4_096;

/**
 * One limit for many keys, each with its own bucket. The limit is exact across all threads while the actor that assigns
 * slots answers. If that actor does not answer, each thread counts keys without a known slot separately, so the limit
 * applies to each thread.
 */
export class SharedRateLimiter {
  readonly #asker: Asker;
  readonly #table: RateTable;
  readonly #limit: ReadLimit;
  readonly #shares: RateShares | null;
  readonly #buckets: RateBucketClient;
  readonly #now: ReadNs;
  /** The slot of each key that recently made a request on this thread, and the slot's generation. */
  readonly #known = new RecentMap<string, { slot: number; generation: number }>(2 * RATE_SLOTS);
  readonly #asked = new Map<string, Promise<{ slot: number; generation: number } | null>>();
  /** Keys without a slot, and when to request one again. */
  readonly #placeless = new RecentMap<string, number>(2 * OWN_SLOTS);
  readonly #own: OwnBuckets;

  /**
   * @param memory memory of the rate table
   * @param shares memory with the parts of limits that this box may use (shares.ts); null: limits are not shared with
   * other boxes
   */
  constructor(
    asker: Asker,
    memory: SharedArrayBuffer,
    limit: ReadLimit,
    shares: SharedArrayBuffer | null = null,
    now: ReadNs = readMonotonicNs,
  ) {
    this.#asker = asker;
    this.#table = new RateTable(memory, now);
    this.#limit = limit;
    this.#shares = shares === null ? null : new RateShares(shares);
    this.#buckets = new RateBucketClient(asker);
    this.#now = now;
    this.#own = new OwnBuckets(limit, now);
  }

  /**
   * Takes one request from the key's bucket. Synchronous if this thread knows the key's slot, and the slot still belongs
   * to the key. Otherwise the actors are asked.
   * @param key 1 … 512 UTF-16 units
   */
  take(key: string): SharedTake | Promise<SharedTake> {
    const place = this.#known.get(key);
    const taken = place === undefined ? null : this.#takeFromSlot(place);
    return taken ?? this.#takeElsewhere(key);
  }

  #takeFromSlot({ slot, generation }: { slot: number; generation: number }): SharedTake | null {
    if (this.#shares === null) return this.#table.take(slot, generation, this.#limit());
    const taken = this.#table.take(slot, generation, this.#limit(this.#shares.partOfSlot(slot)));
    if (taken !== null) this.#shares.count(slot, taken.allowed);
    return taken;
  }

  async #takeElsewhere(key: string): Promise<SharedTake> {
    if ((this.#placeless.get(key) ?? 0) > this.#now()) return this.#takeFromActor(key);
    let place: { slot: number; generation: number } | null;
    try {
      place = await this.#assign(key);
    } catch {
      return this.#own.take(key, this.#limitOf(key));
    }
    if (place === null) {
      this.#placeless.set(key, this.#now() + NO_SLOT_MS * 1e6);
      return this.#takeFromActor(key);
    }
    this.#known.set(key, place);
    return this.#takeFromSlot(place) ?? this.#takeFromActor(key);
  }

  /** Requests a slot for a key. If many requests with a new key arrive at once, only one message is sent. */
  #assign(key: string): Promise<{ slot: number; generation: number } | null> {
    const before = this.#asked.get(key);
    if (before !== undefined) return before;
    const to = { kind: RATE_SLOTS_KIND, key: RATE_SLOTS_KEY };
    const asked = this.#asker
      .ask(to, 'assign', { key }, { deadline_ms: TAKE_DEADLINE_MS })
      .then((reply) => (reply as SlotReply).slot)
      .finally(() => this.#asked.delete(key));
    this.#asked.set(key, asked);
    return asked;
  }

  async #takeFromActor(key: string): Promise<SharedTake> {
    const limit = this.#limitOf(key);
    try {
      return { ...(await this.#buckets.take(key, limit)), limit };
    } catch {
      return this.#own.take(key, limit);
    }
  }

  #limitOf(key: string): RateLimit {
    return this.#limit(this.#shares?.partOfKey(key) ?? null);
  }
}

/** Buckets of a single thread, at most OWN_SLOTS. */
export class OwnBuckets {
  readonly #limit: ReadLimit;
  readonly #table: RateTable;
  readonly #slots = new Map<string, { slot: number; generation: number }>();
  #next = 0;

  constructor(limit: ReadLimit, now: ReadNs = readMonotonicNs) {
    this.#limit = limit;
    this.#table = new RateTable(new ArrayBuffer(OWN_SLOTS * 12), now);
  }

  /** Takes one request from the key's bucket. If there are more keys than slots, the oldest key loses its bucket. */
  take(key: string, limit = this.#limit()): SharedTake {
    let place = this.#slots.get(key);
    if (place === undefined) {
      if (this.#slots.size >= OWN_SLOTS) this.#slots.delete(this.#slots.keys().next().value!);
      const slot = this.#next++ % OWN_SLOTS;
      place = { slot, generation: this.#table.open(slot) };
      this.#slots.set(key, place);
    }
    const taken = this.#table.take(place.slot, place.generation, limit);
    if (taken !== null) return taken;
    this.#slots.delete(key);
    return this.take(key, limit);
  }
}

/** The generation of the slots of `SharedBuckets`. It is constant, because these slots never change their owner. */
const FIRST_GENERATION = 0;

/**
 * Buckets that all threads share. Keys whose digests have the same remainder share a bucket, so the number of buckets
 * is fixed and slots need not be assigned.
 */
export class SharedBuckets {
  readonly #limit: ReadLimit;
  readonly #table: RateTable;

  /**
   * @param memory made by `allocateRateTable`, and used by no other client
   */
  constructor(memory: SharedArrayBuffer, limit: ReadLimit, now: ReadNs = readMonotonicNs) {
    this.#limit = limit;
    this.#table = new RateTable(memory, now);
  }

  /** Takes one request from the bucket of the key's digest. */
  take(key: string): SharedTake {
    const slot = hash('sha256', key, 'buffer').readUInt32LE(0) % this.#table.slots;
    return this.#table.take(slot, FIRST_GENERATION, this.#limit())!;
  }
}
