/**
 * A host's counters, for administrators and operators. Actor threads, server threads.
 */

import type { DeadLetters } from './dead-letters.ts';

/** Counters of one kind in one thread. */
export interface KindStats {
  live: number;
  stopped: number;
  mailbox_depth: number;
  handled: number;
  errors: number;
  restarts: number;
  activations: number;
  passivations: number;
  dead_letters: number;
  /** Counters of the actors themselves (`context.count`): by counter, then by label. */
  counts: Record<string, Record<string, number>>;
}

/** Counters of one thread. */
export interface HostStats {
  index: number;
  kinds: Record<string, KindStats>;
  held_effects: number;
  io_in_flight: number;
  dead_letters: ReturnType<DeadLetters['counts']>;
}
