/** Finds the host for each message of one sender, which is an actor client or a host. Any thread. */
import { Claims } from './claims.ts';
import { type ActorAddress, type Placement, placeAddress, spreadAddress } from './protocol.ts';

export class Placer {
  readonly #placement: Placement;
  /** The host on the sender's own thread, which receives messages directly; −1: the thread has no host. */
  readonly #own: number;
  readonly #claims: Claims | null;

  constructor(placement: Placement, own: number) {
    this.#placement = placement;
    this.#own = own;
    this.#claims = placement.moving === undefined ? null : new Claims(placement.moving);
  }

  /**
   * Finds the host for a message to the address. For a moving kind, the host becomes the owner of the address's slot if
   * the slot has none, and a message to another host counts as in transit until `arrived` or `unsent` is called for it.
   */
  enter(to: ActorAddress): number {
    if (!this.isMoving(to.kind)) return placeAddress(this.#placement, to);
    const { first, hash, hosts } = spreadAddress(this.#placement, to);
    const sender = this.#own - first;
    const heir = sender >= 0 && sender < hosts ? sender : hash % hosts;
    return first + this.#claims!.enter(this.#claims!.slotOf(hash), sender, heir);
  }

  /** Records that the message of an `enter` call was not sent. */
  unsent(to: ActorAddress, host: number): void {
    if (host !== this.#own) this.arrived(to);
  }

  /** Records that a message from another thread has arrived at its host. */
  arrived(to: ActorAddress): void {
    if (this.isMoving(to.kind)) this.#claims!.leave(this.slotOf(to));
  }

  isMoving(kind: string): boolean {
    return this.#claims !== null && this.#placement.moving!.kinds.includes(kind);
  }

  slotOf(to: ActorAddress): number {
    return this.#claims!.slotOf(spreadAddress(this.#placement, to).hash);
  }

  /** Releases a slot of the sender's own host. @returns false while messages for it are in transit */
  release(slot: number, first: number): boolean {
    return this.#claims!.release(slot, this.#own - first);
  }
}
