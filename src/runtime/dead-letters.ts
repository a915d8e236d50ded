/**
 * Counts messages that were not handled: they could not be delivered, overflowed a mailbox, expired or were answered
 * too late. Any thread.
 */

/** Why a message was not handled. */
export type DeadLetterReason =
  | 'mailbox_full'
  | 'dropped'
  | 'expired'
  | 'late_reply'
  | 'host_down'
  | 'link_full'
  | 'actor_stopped'
  | 'storage_unavailable'
  | 'too_many_actors'
  | 'unknown_kind'
  | 'unknown_message'
  | 'bad_address'
  | 'draining'
  | 'not_durable'
  | 'stale_outcome'
  | 'unknown_reply';

/** The counts of a thread's dead letters. */
export class DeadLetters {
  readonly #counts: Partial<Record<DeadLetterReason, number>> = {};

  add(reason: DeadLetterReason): void {
    this.#counts[reason] = (this.#counts[reason] ?? 0) + 1;
  }

  /** Returns the counts by reason. A reason that never occurred is absent. */
  counts(): Partial<Record<DeadLetterReason, number>> {
    return { ...this.#counts };
  }
}
