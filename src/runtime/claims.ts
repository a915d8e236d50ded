/**
 * Where actors of kinds that move live: on the host whose thread first had a message for them, as long as they are in memory
 * anywhere. An agent sends all of a run's requests over one connection, so a run lives where that connection is, and a
 * message for it does not leave the thread. Memory that all threads of a process share; any thread.
 *
 * Addresses are hashed into slots, and a slot has one owner. A word holds the owner and how many messages for the slot
 * are on their way to it from other threads. A host lets go of a slot only when none are: so no message ever
 * arrives at a host that is not the owner. A message that is lost on its way (its thread died) is counted for ever; the slot then
 * stays where it is, which costs a hop and nothing else.
 */

/** Living actors share a slot now and then: they live on one thread then. 256 KiB. */
const SLOTS = 65_536;
/** A word: 7 bits for the owner (0: unclaimed), the rest counts messages under way, which are fewer than the asks that may wait. */
const OWNER_BITS = 7;
const OWNER_MASK = (1 << OWNER_BITS) - 1;
const ONE_MESSAGE = 1 << OWNER_BITS;

/** Plain data, for threads to share. */
export interface ClaimTable {
  kinds: readonly string[];
  words: SharedArrayBuffer;
}

/** @param kinds whose actors move between the hosts of their group */
export function allocateClaims(kinds: readonly string[]): ClaimTable {
  return { kinds, words: new SharedArrayBuffer(SLOTS * Int32Array.BYTES_PER_ELEMENT) };
}

/** One thread's view of the table. Owners are numbered from 0, at most 126. */
export class Claims {
  readonly #words: Int32Array;

  constructor({ words }: ClaimTable) {
    this.#words = new Int32Array(words);
  }

  /** @param hash of the address */
  slotOf(hash: number): number {
    return hash & (SLOTS - 1);
  }

  /** null: unclaimed. */
  ownerOf(slot: number): number | null {
    const word = Atomics.load(this.#words, slot) & OWNER_MASK;
    return word === 0 ? null : word - 1;
  }

  /**
   * Finds the owner for a message, and counts the message as on its way unless the sender is the owner.
   * @param sender number of the owner on the sender's own thread; −1 without one
   * @param heir becomes the owner of an unclaimed slot
   */
  enter(slot: number, sender: number, heir: number): number {
    const words = this.#words;
    for (let word = Atomics.load(words, slot); ; ) {
      const owner = (word & OWNER_MASK) === 0 ? heir : (word & OWNER_MASK) - 1;
      // A host gives its own slots up on its own thread: not while this runs.
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

  /** A message that was counted has arrived, or was not sent. */
  leave(slot: number): void {
    Atomics.sub(this.#words, slot, ONE_MESSAGE);
  }

  /** Gives the slot up, unless messages are on their way. On the owner's thread alone. */
  release(slot: number, owner: number): boolean {
    return Atomics.compareExchange(this.#words, slot, owner + 1, 0) === owner + 1;
  }
}
