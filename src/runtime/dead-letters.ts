/**
 * Messages that were not handled: undeliverable, overflowed, expired, answered too late. All are counted. The last
 * few are kept without their payloads, which may contain secrets. Any thread.
 */
import { RingQueue } from '../std/ring-queue.ts';

/** Why a message went nowhere. */
export type DeadLetterReason =
  | 'mailbox_full'
  | 'dropped'
  | 'expired'
  | 'late_reply'
  | 'host_down'
  | 'link_full'
  | 'actor_stopped'
  | 'too_many_actors'
  | 'unknown_kind'
  | 'unknown_message'
  | 'bad_address'
  | 'draining'
  | 'not_durable'
  | 'stale_outcome'
  | 'unknown_reply';

/** One lost message. */
interface DeadLetter {
  at_ms: number;
  kind: string;
  key: string;
  name: string;
  reason: DeadLetterReason;
}

/** The last dead letters of a thread, and the counts of all. */
export class DeadLetters {
  readonly #recent: RingQueue<DeadLetter>;
  readonly #counts: Partial<Record<DeadLetterReason, number>> = {};
  #total = 0;

  /** @param keep how many letters are kept; older ones are only counted */
  constructor(keep = 256) {
    this.#recent = new RingQueue(keep);
  }

  /** Counts a lost message and keeps its envelope. */
  add(letter: DeadLetter): void {
    if (this.#recent.full) this.#recent.shift();
    this.#recent.push(letter);
    this.#counts[letter.reason] = (this.#counts[letter.reason] ?? 0) + 1;
    this.#total++;
  }

  get total(): number {
    return this.#total;
  }

  /** Counts by reason; a reason that never occurred is absent. */
  counts(): Partial<Record<DeadLetterReason, number>> {
    return { ...this.#counts };
  }

  /** The kept letters, oldest first. */
  recent(): DeadLetter[] {
    return this.#recent.toArray();
  }
}
