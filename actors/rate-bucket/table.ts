/**
 * Rate buckets in memory that threads share: a take is a few atomic operations on one 64-bit word, no message, no
 * lock. A bucket is one number, the theoretical arrival time of GCRA (ITU-T I.371, annex A): the moment at which it
 * would be full again. It is a token bucket with the tokens spread evenly, exact over all threads: a word changes only
 * by compare-and-exchange, so no take is lost or counted twice.
 *
 * Slots are given out by one actor (slots.ts). Each has a generation that counts its owners; a thread that still knows
 * an earlier owner sees another generation and asks anew. A slot may change hands between that look and the take: one
 * request of a thread may then be counted in a stranger's bucket, at most once for each change of hands. Any thread.
 */
import type { RateLimit } from './protocol.ts';

/** Keys whose rate shared memory counts at once. Actors count the rest. */
export const RATE_SLOTS = 65_536;

/** One take's outcome. */
export interface SharedTake {
  allowed: boolean;
  /** Whole tokens left. */
  remaining: number;
  /** Until the bucket is full again if no more is taken. */
  full_after_ms: number;
}

const NS_PER_S = 1e9;
const NS_PER_MS = 1e6;
const BYTES_PER_SLOT = 12;
/** 73 years: what a 64-bit word holds besides the time since the machine's start. */
const DEPTH_NS_MAX = 2 ** 61;

/** Nanoseconds on the machine's monotonic clock, which all threads of a process read alike. */
export type ReadNs = () => number;

/**
 * What a thread adds to its own `performance.now()`, which begins in each thread at another moment and costs a third of
 * what `hrtime` does. The two clocks cannot be read at the same moment. A thread that has to wait for a core between the
 * two reads would be ahead of the others by its wait, so the closest of several pairs counts.
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
  /** When each bucket is full again, in nanoseconds. */
  readonly #fullAtNs: BigInt64Array;
  readonly #generations: Int32Array;
  readonly #now: ReadNs;

  /** @param memory made by {@link allocateRateTable}; plain memory serves one thread */
  constructor(memory: SharedArrayBuffer | ArrayBuffer, now: ReadNs = readMonotonicNs) {
    this.slots = memory.byteLength / BYTES_PER_SLOT;
    this.#fullAtNs = new BigInt64Array(memory, 0, this.slots);
    this.#generations = new Int32Array(memory, this.slots * 8, this.slots);
    this.#now = now;
  }

  /**
   * Takes one token.
   * @param generation that the slot had when it was given out
   * @returns null when the slot has another owner by now
   */
  take(slot: number, generation: number, { rate_per_s, burst }: RateLimit): SharedTake | null {
    if (Atomics.load(this.#generations, slot) !== generation) return null;
    const spacingNs = Math.max(1, NS_PER_S / rate_per_s);
    const depthNs = Math.min(DEPTH_NS_MAX, burst * spacingNs);
    for (;;) {
      const before = Atomics.load(this.#fullAtNs, slot);
      // Read after the bucket. A time from before another thread's take would show the bucket fuller than it is.
      const now = this.#now();
      const backlogNs = Math.max(0, Number(before) - now);
      const afterNs = backlogNs + spacingNs;
      // Half a nanosecond for what rounding to whole ones adds.
      if (afterNs > depthNs + burst / 2 + 1) return describe(false, backlogNs, depthNs, spacingNs);
      const after = BigInt(Math.round(now + afterNs));
      if (Atomics.compareExchange(this.#fullAtNs, slot, before, after) === before) {
        return describe(true, afterNs, depthNs, spacingNs);
      }
    }
  }

  /**
   * Gives a slot to a new owner, with a full bucket.
   * @returns its new generation
   */
  open(slot: number): number {
    const generation = Atomics.add(this.#generations, slot, 1) + 1;
    Atomics.store(this.#fullAtNs, slot, BigInt(Math.round(this.#now())));
    return generation;
  }

  /** Slots whose buckets have been full for so long, at most so many: their owners lose nothing. */
  findIdle(idleMs: number, max: number): number[] {
    const before = BigInt(Math.round(this.#now() - idleMs * NS_PER_MS));
    const idle: number[] = [];
    for (let slot = 0; slot < this.slots && idle.length < max; slot++) {
      if (Atomics.load(this.#fullAtNs, slot) < before) idle.push(slot);
    }
    return idle;
  }
}

/** Memory for so many buckets. */
export function allocateRateTable(slots: number): SharedArrayBuffer {
  return new SharedArrayBuffer(Math.ceil(slots / 2) * 2 * BYTES_PER_SLOT);
}

function describe(allowed: boolean, backlogNs: number, depthNs: number, spacingNs: number): SharedTake {
  return {
    allowed,
    remaining: Math.max(0, Math.floor((depthNs - backlogNs) / spacingNs + 1e-3)),
    full_after_ms: Math.ceil(backlogNs / NS_PER_MS),
  };
}
