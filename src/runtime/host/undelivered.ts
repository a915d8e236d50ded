/**
 * Messages that are not handled: counts them among the dead letters, and tells their askers at once. Actor threads,
 * server threads (and the simulator).
 */

import type { DeadLetterReason, DeadLetters } from '../dead-letters.ts';
import { type RuntimeErrorCode, runtimeError } from '../error.ts';
import type { ActorAddress } from '../protocol.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Delivery, Kind } from './cell.ts';

/** Does what is left to do for a message that goes nowhere. */
export class Undelivered {
  readonly #letters: DeadLetters;
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #scheduler: Scheduler;

  constructor(letters: DeadLetters, kinds: ReadonlyMap<string, Kind>, scheduler: Scheduler) {
    this.#letters = letters;
    this.#kinds = kinds;
    this.#scheduler = scheduler;
  }

  /** Refuses a message: its asker hears of it at once, and it is among the dead letters. */
  discard(to: ActorAddress, delivery: Delivery, reason: DeadLetterReason, code: RuntimeErrorCode): void {
    this.bury(to, delivery.name, reason);
    if (delivery.reply_to !== null) {
      const { link, id } = delivery.reply_to;
      link.send({ type: 'error', id, error: runtimeError(code, `${to.kind} ${delivery.name}: ${code}`) });
    }
  }

  /** Puts a message whose answer is not awaited among the dead letters. */
  bury(to: ActorAddress, name: string, reason: DeadLetterReason): void {
    this.#letters.add({ at_ms: this.#scheduler.wallMs(), kind: to.kind, key: to.key, name, reason });
    const kind = this.#kinds.get(to.kind);
    if (kind !== undefined) kind.stats.dead_letters++;
  }
}
