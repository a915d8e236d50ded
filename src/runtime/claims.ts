/**
 * Decides where actors of moving kinds run: on the host whose thread first sent them a message. If that thread has no
 * host for the kind, the address's hash chooses the host. The actors stay there until they leave memory. An agent
 * usually sends all requests of a run over one connection, so the run is placed on that
 * connection's thread, and its messages do not leave the thread. The table is in memory that all threads of a process
 * share. Any thread.
 *
 * Addresses are hashed into slots, and each slot has one owner. Each slot has a word with two numbers: the number that
 * identifies the owner, and the number of messages that are in transit to the owner from other threads. A host releases
 * a slot only if no message is in transit, so a message never arrives at a host that is not the owner. If a thread
 * dies, its messages in transit stay counted. The slot is then never released, and messages from other threads must
 * always be sent to its owner.
 */

/** Number of slots; the table takes 256 KiB. Actors that share a slot by chance run on the same thread. */
const SLOTS = 65_536;
/**
 * A word has 7 bits for the owner (0: unclaimed). The other bits count messages in transit, which the links bound by
 * their bytes.
 */
const OWNER_BITS = 7;
const OWNER_MASK = (1 << OWNER_BITS) - 1;
const ONE_MESSAGE = 1 << OWNER_BITS;

/** Plain data, for threads to share. */
export interface ClaimTable {
  kinds: readonly string[];
  words: SharedArrayBuffer;
}

/** Makes an empty table. @param kinds the kinds whose actors move between the hosts of their group */
export function allocateClaims(kinds: readonly string[]): ClaimTable {
  return { kinds, words: new SharedArrayBuffer(SLOTS * Int32Array.BYTES_PER_ELEMENT) };
}

/** A thread's view of the table. Owners are numbered from 0, at most 126. */
export class Claims {
  readonly #words: Int32Array;

  constructor({ words }: ClaimTable) {
    this.#words = new Int32Array(words);
  }

  /**
   * Returns the slot of an address.
   * @param hash hash of the address
   */
  slotOf(hash: number): number {
    return hash & (SLOTS - 1);
  }

  /** Returns the owner of a slot; null: the slot is unclaimed. */
  ownerOf(slot: number): number | null {
    const word = Atomics.load(this.#words, slot) & OWNER_MASK;
    return word === 0 ? null : word - 1;
  }

  /**
   * Returns the owner for a message, after `heir` has become the owner of an unclaimed slot. Counts the message as in
   * transit, unless the sender is the owner.
   * @param sender number of the host on the sender's own thread; −1: that thread has no host
   * @param heir number of the host that becomes the owner of an unclaimed slot
   */
  enter(slot: number, sender: number, heir: number): number {
    const words = this.#words;
    for (let word = Atomics.load(words, slot); ; ) {
      const owner = (word & OWNER_MASK) === 0 ? heir : (word & OWNER_MASK) - 1;
      // Only this thread releases the slots of its host, so the slot cannot be released at the same time.
      if (owner === sender && (word & OWNER_MASK) !== 0) return owner;
      const owned = (word & ~OWNER_MASK) | (owner + 1);
      const found = Atomics.compareExchange(
        words,
        slot,
        word,
        owner === sender ? owned : owned + ONE_MESSAGE,
      );
      if (found === word) return owner;
      word = found;
    }
  }

  /** Records that a counted message has arrived, or was not sent. */
  leave(slot: number): void {
    Atomics.sub(this.#words, slot, ONE_MESSAGE);
  }

  /**
   * Releases the slot, unless messages are in transit. Call it only on the owner's thread.
   * @returns whether it was released
   */
  release(slot: number, owner: number): boolean {
    return Atomics.compareExchange(this.#words, slot, owner + 1, 0) === owner + 1;
  }
}
