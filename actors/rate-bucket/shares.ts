/**
 * Memory that the threads of a box share, about rates that several boxes divide. It has for each slot of the rate table
 * (table.ts) the key's digest, how many requests arrived and how many of them were refused, and the part of the rate
 * that this box may use. It also lists all keys whose rates are not divided equally, for slots that are opened later.
 * Any thread; the store thread writes the parts.
 */
import { hash } from 'node:crypto';

/** Parts are stored in millionths; 0 means an equal part. */
const UNITS = 1_000_000;
/**
 * Maximum number of entries in the list: twice as many as the database may have keys, because a box reads changes of
 * the database with a delay.
 */
const LISTED = 2_048;
const DIGEST_BYTES = 6;
const BYTES_PER_SLOT = 8 + 3 * 4;
const BYTES_PER_ENTRY = 8 + 4;

/**
 * Identifies a key on all boxes. It has 48 bits, so that it is exact as a number. Keys with the same digest share their
 * parts.
 */
function digestOf(key: string): number {
  return hash('sha256', key, 'buffer').readUIntBE(0, DIGEST_BYTES);
}

/** The requests of a slot since the last measurement. */
interface SlotDemand {
  slot: number;
  key: number;
  asked: number;
  refused: number;
}

export class RateShares {
  readonly slots: number;
  readonly #keys: Float64Array;
  readonly #listedKeys: Float64Array;
  readonly #asked: Int32Array;
  readonly #refused: Int32Array;
  readonly #parts: Int32Array;
  readonly #listedParts: Int32Array;
  /** Number of slots that were ever opened. */
  readonly #used: Int32Array;

  /** @param memory made by {@link RateShares.allocate} */
  constructor(memory: SharedArrayBuffer) {
    const slots = (memory.byteLength - LISTED * BYTES_PER_ENTRY - 4) / BYTES_PER_SLOT;
    let at = 0;
    const take = <View>(
      make: new (memory: SharedArrayBuffer, at: number, length: number) => View,
      bytes: number,
      length: number,
    ) => {
      const view = new make(memory, at, length);
      at += bytes * length;
      return view;
    };
    this.slots = slots;
    this.#keys = take(Float64Array<SharedArrayBuffer>, 8, slots);
    this.#listedKeys = take(Float64Array<SharedArrayBuffer>, 8, LISTED);
    this.#asked = take(Int32Array<SharedArrayBuffer>, 4, slots);
    this.#refused = take(Int32Array<SharedArrayBuffer>, 4, slots);
    this.#parts = take(Int32Array<SharedArrayBuffer>, 4, slots);
    this.#listedParts = take(Int32Array<SharedArrayBuffer>, 4, LISTED);
    this.#used = take(Int32Array<SharedArrayBuffer>, 4, 1);
  }

  /** Allocates memory for a rate table of this many slots. */
  static allocate(slots: number): SharedArrayBuffer {
    return new SharedArrayBuffer(slots * BYTES_PER_SLOT + LISTED * BYTES_PER_ENTRY + 4);
  }

  /** Assigns a slot to a key. Call it before the slot's generation changes. */
  assign(slot: number, key: string): void {
    const digest = digestOf(key);
    this.#keys[slot] = digest;
    Atomics.store(this.#asked, slot, 0);
    Atomics.store(this.#refused, slot, 0);
    // The store thread writes the list first, and then the slots. So either this loop reads the new list, or the store
    // thread finds this slot.
    let units: number;
    do {
      units = this.#unitsOf(digest);
      Atomics.store(this.#parts, slot, units);
    } while (units !== this.#unitsOf(digest));
    for (let used = this.#used[0]!; used <= slot; ) {
      const before = Atomics.compareExchange(this.#used, 0, used, slot + 1);
      if (before === used) break;
      used = before;
    }
  }

  count(slot: number, isAllowed: boolean): void {
    Atomics.add(this.#asked, slot, 1);
    if (!isAllowed) Atomics.add(this.#refused, slot, 1);
  }

  /** Returns the part of the rate that this box may use; null: an equal part. */
  partOfSlot(slot: number): number | null {
    return toPart(Atomics.load(this.#parts, slot));
  }

  /** Returns the part of the rate of a key that may have no slot; null: an equal part. */
  partOfKey(key: string): number | null {
    return toPart(this.#unitsOf(digestOf(key)));
  }

  /** Resets the counts. @returns the slots with a count above zero */
  takeDemands(): SlotDemand[] {
    const demands: SlotDemand[] = [];
    const used = Atomics.load(this.#used, 0);
    for (let slot = 0; slot < used; slot++) {
      if (Atomics.load(this.#asked, slot) === 0) continue;
      const asked = Atomics.exchange(this.#asked, slot, 0);
      const refused = Atomics.exchange(this.#refused, slot, 0);
      demands.push({ slot, key: this.#keys[slot]!, asked, refused });
    }
    return demands;
  }

  /**
   * Replaces all parts. Only the store thread calls it.
   * @param parts by digest; all other keys are divided equally
   * @param onSlot called before a slot's part changes
   */
  write(
    parts: ReadonlyMap<number, number>,
    onSlot: (slot: number, before: number | null, after: number | null) => void,
  ): void {
    this.#writeList(parts);
    const used = Atomics.load(this.#used, 0);
    for (let slot = 0; slot < used; slot++) {
      const before = Atomics.load(this.#parts, slot);
      if (before === 0 && parts.size === 0) continue;
      const after = toUnits(parts.get(this.#keys[slot]!));
      if (after === before) continue;
      onSlot(slot, toPart(before), toPart(after));
      Atomics.store(this.#parts, slot, after);
    }
  }

  #writeList(parts: ReadonlyMap<number, number>): void {
    const missing = new Map(parts);
    const free: number[] = [];
    for (let at = 0; at < LISTED; at++) {
      const key = this.#listedKeys[at]!;
      const part = missing.get(key);
      missing.delete(key);
      Atomics.store(this.#listedParts, at, toUnits(part));
      if (part === undefined) free.push(at);
    }
    for (const [key, part] of missing) {
      const at = free.pop();
      if (at === undefined) return;
      this.#listedKeys[at] = key;
      Atomics.store(this.#listedParts, at, toUnits(part));
    }
  }

  #unitsOf(digest: number): number {
    const at = this.#listedKeys.indexOf(digest);
    return at === -1 ? 0 : Atomics.load(this.#listedParts, at);
  }
}

function toUnits(part: number | undefined): number {
  return part === undefined ? 0 : Math.max(1, Math.floor(part * UNITS));
}

function toPart(units: number): number | null {
  return units === 0 ? null : units / UNITS;
}
