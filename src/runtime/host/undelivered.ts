/**
 * Handles messages that cannot be delivered: counts them as dead letters, and sends their askers an error at once.
 * Actor threads, server threads (and the simulator).
 */

import type { DeadLetterReason, DeadLetters } from '../dead-letters.ts';
import { type RuntimeErrorCode, runtimeError } from '../error.ts';
import type { ActorAddress } from '../protocol.ts';
import type { Delivery, Kind } from './cell.ts';

/** Handles messages that cannot be delivered. */
export class Undelivered {
  readonly #letters: DeadLetters;
  readonly #kinds: ReadonlyMap<string, Kind>;

  constructor(letters: DeadLetters, kinds: ReadonlyMap<string, Kind>) {
    this.#letters = letters;
    this.#kinds = kinds;
  }

  /** Refuses a message: its asker gets the error, and it becomes a dead letter. */
  discard(to: ActorAddress, delivery: Delivery, reason: DeadLetterReason, code: RuntimeErrorCode): void {
    this.bury(to, reason);
    if (delivery.reply_to !== null) {
      const { link, id } = delivery.reply_to;
      link.send({ type: 'error', id, error: runtimeError(code, `${to.kind} ${delivery.name}: ${code}`) });
    }
  }

  /** Makes a message without a waiting asker a dead letter. */
  bury(to: ActorAddress, reason: DeadLetterReason): void {
    this.#letters.add(reason);
    const kind = this.#kinds.get(to.kind);
    if (kind !== undefined) kind.stats.dead_letters++;
  }
}
