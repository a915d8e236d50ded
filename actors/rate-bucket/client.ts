/**
 * Asks rate buckets: through memory that all threads share, and where a key has no place there, through its actor. The
 * only place that makes their messages. Server threads.
 */
import { hash } from 'node:crypto';
import { CatalogueError } from '../../src/errors.ts';
import type { Asker } from '../../src/runtime/actor-client.ts';
import { RecentMap } from '../../src/std/recent-map.ts';
import { RATE_BUCKET_KIND, type RateBucketProtocol, type RateLimit, type TakeReply } from './protocol.ts';
import { RATE_SLOTS_KEY, RATE_SLOTS_KIND, type SlotReply } from './slots-protocol.ts';
import { RATE_SLOTS, RateTable, type ReadNs, readMonotonicNs, type SharedTake } from './table.ts';

/** A limiter that takes longer than this to answer is as good as down. */
const TAKE_DEADLINE_MS = 1_000;

export class RateBucketClient {
  readonly #asker: Asker;

  constructor(asker: Asker) {
    this.#asker = asker;
  }

  /**
   * Takes tokens out of the key's bucket, or none when there are not enough.
   * @param key whose bucket; 1 … 512 UTF-16 units
   * @param limit the key's limit as it stands now
   * @param cost tokens; 0 only looks
   * @throws {CatalogueError} `unavailable` when the bucket cannot be asked: whether to let pass is the caller's to say
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

/** A key without a place in the table asks for one again after so long. */
const NO_SLOT_MS = 1_000;
/** Keys that one thread counts for itself while the actors cannot be asked. */
const OWN_SLOTS = 4_096;

/**
 * One limit for many keys, each with its bucket. Exact over all threads while the actor that gives out places in the
 * shared table can be asked; a key that a thread sees first while it cannot is counted by that thread alone, so that
 * the limit holds for each thread then.
 */
export class SharedRateLimiter {
  readonly #asker: Asker;
  readonly #table: RateTable;
  readonly #limit: RateLimit;
  readonly #buckets: RateBucketClient;
  readonly #now: ReadNs;
  /** Where each key's bucket is. */
  readonly #known = new RecentMap<string, { slot: number; generation: number }>(2 * RATE_SLOTS);
  readonly #asked = new Map<string, Promise<{ slot: number; generation: number } | null>>();
  /** Keys without a place, and until when that is believed. */
  readonly #placeless = new RecentMap<string, number>(2 * OWN_SLOTS);
  readonly #own: OwnBuckets;

  constructor(asker: Asker, memory: SharedArrayBuffer, limit: RateLimit, now: ReadNs = readMonotonicNs) {
    this.#asker = asker;
    this.#table = new RateTable(memory, now);
    this.#limit = limit;
    this.#buckets = new RateBucketClient(asker);
    this.#now = now;
    this.#own = new OwnBuckets(limit, now);
  }

  /**
   * Takes one request out of the key's bucket. At once for a key with a place in the table, which is every key but one
   * that this thread sees for the first time.
   * @param key 1 … 512 UTF-16 units
   */
  take(key: string): SharedTake | Promise<SharedTake> {
    const place = this.#known.get(key);
    const taken = place === undefined ? null : this.#table.take(place.slot, place.generation, this.#limit);
    return taken ?? this.#takeElsewhere(key);
  }

  async #takeElsewhere(key: string): Promise<SharedTake> {
    if ((this.#placeless.get(key) ?? 0) > this.#now()) return this.#takeFromActor(key);
    let place: { slot: number; generation: number } | null;
    try {
      place = await this.#assign(key);
    } catch {
      return this.#own.take(key);
    }
    if (place === null) {
      this.#placeless.set(key, this.#now() + NO_SLOT_MS * 1e6);
      return this.#takeFromActor(key);
    }
    this.#known.set(key, place);
    return this.#table.take(place.slot, place.generation, this.#limit) ?? this.#takeFromActor(key);
  }

  /** Many requests of a new key come at once; one asks. */
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
    try {
      return await this.#buckets.take(key, this.#limit);
    } catch {
      return this.#own.take(key);
    }
  }
}

/** Buckets of one thread alone. */
export class OwnBuckets {
  readonly #limit: RateLimit;
  readonly #table: RateTable;
  readonly #slots = new Map<string, { slot: number; generation: number }>();
  #next = 0;

  constructor(limit: RateLimit, now: ReadNs = readMonotonicNs) {
    this.#limit = limit;
    this.#table = new RateTable(new ArrayBuffer(OWN_SLOTS * 12), now);
  }

  /** Of more keys than there are slots, the one that came first loses its bucket. */
  take(key: string): SharedTake {
    let place = this.#slots.get(key);
    if (place === undefined) {
      if (this.#slots.size >= OWN_SLOTS) this.#slots.delete(this.#slots.keys().next().value!);
      const slot = this.#next++ % OWN_SLOTS;
      place = { slot, generation: this.#table.open(slot) };
      this.#slots.set(key, place);
    }
    const taken = this.#table.take(place.slot, place.generation, this.#limit);
    if (taken !== null) return taken;
    this.#slots.delete(key);
    return this.take(key);
  }
}

/** These buckets are not given out, so no bucket changes its owner. */
const FIRST_GENERATION = 0;

/**
 * Buckets that all threads share, one for each group of keys with the same remainder of their digests. So they are bounded
 * whatever the keys are, and no slot has to be given out.
 */
export class SharedBuckets {
  readonly #limit: RateLimit;
  readonly #table: RateTable;

  /** @param memory made by `allocateRateTable` and given to no other client */
  constructor(memory: SharedArrayBuffer, limit: RateLimit, now: ReadNs = readMonotonicNs) {
    this.#limit = limit;
    this.#table = new RateTable(memory, now);
  }

  take(key: string): SharedTake {
    const slot = hash('sha256', key, 'buffer').readUInt32LE(0) % this.#table.slots;
    return this.#table.take(slot, FIRST_GENERATION, this.#limit)!;
  }
}
