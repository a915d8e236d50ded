/**
 * Rate buckets in memory that all threads share. A take is a few atomic operations on one 64-bit word, without messages
 * or locks. A bucket is one number, the theoretical arrival time of GCRA (ITU-T I.371, annex A): the time at which the
 * bucket would be full again. This equals a token bucket with evenly spread tokens. It is exact across threads, because
 * a word changes only by compare-and-exchange, so that each take is counted once.
 *
 * One actor assigns the slots (slots.ts). Each slot has a generation, which changes with its owner. If the generation
 * differs from the generation that a thread knows, the slot has another owner, and the thread requests a slot again. If
 * the owner changes between that check and the take, a request is counted in another key's bucket: at most one request
 * per thread and change. Any thread.
 */
import type { RateLimit } from './protocol.ts';

/** Maximum number of keys that are counted in shared memory at once. Actors count the others. */
export const RATE_SLOTS = 65_536;

/** One take's outcome. */
export interface SharedTake {
  allowed: boolean;
  /** Whole tokens left. */
  remaining: number;
  /** Time until the bucket is full, if no more is taken. */
  full_after_ms: number;
  /** The limit that applied. */
  limit: RateLimit;
}

const NS_PER_S = 1e9;
const NS_PER_MS = 1e6;
const BYTES_PER_SLOT = 12;
/** Maximum time to refill a bucket: 73 years, because a 64-bit word also holds the time since the machine's start. */
const DEPTH_NS_MAX = 2 ** 61;

/** Nanoseconds on the machine's monotonic clock, which is the same for all threads of a process. */
export type ReadNs = () => number;

/**
 * Measures the offset to add to this thread's `performance.now()`, so that it agrees with `hrtime`. `performance.now()`
 * starts at a different time in each thread, but costs a third of `hrtime`. The two clocks cannot be read at the same
 * time, and a thread that loses its core between the two reads would get a wrong offset. So several pairs are read, and
 * the closest pair counts.
 */
export function findOriginNs(readHrtimeNs: ReadNs = () => Number(process.hrtime.bigint())): number {
  let closest = { gapMs: Infinity, originNs: 0 };
  for (let pair = 0; pair < 16; pair++) {
    const beforeMs = performance.now();
    const atNs = readHrtimeNs();
    const gapMs = performance.now() - beforeMs;
    if (gapMs < closest.gapMs) closest = { gapMs, originNs: atNs - (beforeMs + gapMs / 2) * NS_PER_MS };
  }
  return closest.originNs;
}

const ORIGIN_NS = findOriginNs();
export const readMonotonicNs: ReadNs = () => ORIGIN_NS + performance.now() * NS_PER_MS;

export class RateTable {
  readonly slots: number;
  /** The time at which each bucket is full again, in nanoseconds. */
  readonly #fullAtNs: BigInt64Array;
  readonly #generations: Int32Array;
  readonly #now: ReadNs;

  /**
   * @param memory made by {@link allocateRateTable}; for one thread, plain memory is enough
   */
  constructor(memory: SharedArrayBuffer | ArrayBuffer, now: ReadNs = readMonotonicNs) {
    this.slots = memory.byteLength / BYTES_PER_SLOT;
    this.#fullAtNs = new BigInt64Array(memory, 0, this.slots);
    this.#generations = new Int32Array(memory, this.slots * 8, this.slots);
    this.#now = now;
  }

  /**
   * Takes one token.
   * @param generation generation of the slot when it was assigned
   * @returns null if the slot has another owner now
   */
  take(slot: number, generation: number, limit: RateLimit): SharedTake | null {
    if (Atomics.load(this.#generations, slot) !== generation) return null;
    const { burst } = limit;
    const spacingNs = spacingOf(limit);
    const depthNs = depthOf(limit);
    for (;;) {
      const before = Atomics.load(this.#fullAtNs, slot);
      // The clock is read after the bucket. If the clock were read before, its time could be earlier than another
      // thread's take, and the bucket would seem to have more tokens than it has.
      const now = this.#now();
      const backlogNs = Math.max(0, Number(before) - now);
      const afterNs = backlogNs + spacingNs;
      // Allows half a nanosecond for rounding to whole nanoseconds.
      if (afterNs > depthNs + burst / 2 + 1) return describe(false, backlogNs, limit);
      const after = BigInt(Math.round(now + afterNs));
      if (Atomics.compareExchange(this.#fullAtNs, slot, before, after) === before) {
        return describe(true, afterNs, limit);
      }
    }
  }

  /**
   * Gives a slot to a new owner, and fills the slot's bucket.
   * @returns the new generation
   */
  open(slot: number): number {
    const generation = Atomics.add(this.#generations, slot, 1) + 1;
    Atomics.store(this.#fullAtNs, slot, BigInt(Math.round(this.#now())));
    return generation;
  }

  /**
   * Prepares a slot for a greater limit, so that its bucket keeps the number of tokens that it has, and gets further
   * tokens only with time. Otherwise it would have additional tokens at once. A smaller limit needs no preparation,
   * because the tokens decrease in proportion.
   */
  keepTokens(slot: number, before: RateLimit, after: RateLimit): void {
    for (;;) {
      const word = Atomics.load(this.#fullAtNs, slot);
      const now = this.#now();
      const backlogNs = Math.max(0, Number(word) - now);
      const tokens = Math.max(0, depthOf(before) - backlogNs) / spacingOf(before);
      const afterNs = Math.max(0, depthOf(after) - tokens * spacingOf(after));
      if (afterNs <= backlogNs) return;
      const next = BigInt(Math.round(now + afterNs));
      if (Atomics.compareExchange(this.#fullAtNs, slot, word, next) === word) return;
    }
  }

  /**
   * Finds at most `max` slots whose buckets have been full for this long, so that their keys lose no tokens if the
   * slots are taken back.
   */
  findIdle(idleMs: number, max: number): number[] {
    const before = BigInt(Math.round(this.#now() - idleMs * NS_PER_MS));
    const idle: number[] = [];
    for (let slot = 0; slot < this.slots && idle.length < max; slot++) {
      if (Atomics.load(this.#fullAtNs, slot) < before) idle.push(slot);
    }
    return idle;
  }
}

/** Allocates memory for this many buckets. */
export function allocateRateTable(slots: number): SharedArrayBuffer {
  return new SharedArrayBuffer(Math.ceil(slots / 2) * 2 * BYTES_PER_SLOT);
}

function spacingOf({ rate_per_s }: RateLimit): number {
  return Math.max(1, NS_PER_S / rate_per_s);
}

function depthOf(limit: RateLimit): number {
  return Math.min(DEPTH_NS_MAX, limit.burst * spacingOf(limit));
}

function describe(allowed: boolean, backlogNs: number, limit: RateLimit): SharedTake {
  return {
    allowed,
    remaining: Math.max(0, Math.floor((depthOf(limit) - backlogNs) / spacingOf(limit) + 1e-3)),
    full_after_ms: Math.ceil(backlogNs / NS_PER_MS),
    limit,
  };
}
