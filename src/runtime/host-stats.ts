/**
 * A host's counters, for administrators and operators. Actor threads, server threads.
 */

import type { DeadLetters } from './dead-letters.ts';

/** Counters of one kind on one host. The first three are current numbers, the others totals since the host's start. */
export interface KindStats {
  /** Actors in memory. */
  live: number;
  /** Actors that failed and were stopped, and have not been started again. */
  stopped: number;
  /** Messages that wait in mailboxes, without timers and outcomes. */
  mailbox_depth: number;
  /** Messages whose handler returned, including timers and outcomes. */
  handled: number;
  errors: number;
  restarts: number;
  activations: number;
  passivations: number;
  dead_letters: number;
  /** Counters of the actors themselves (`context.count`): by counter, then by label. */
  counts: Record<string, Record<string, number>>;
}

/** Counters of one host. */
export interface HostStats {
  /** The host's number in the placement. */
  index: number;
  /** By name of the kind. */
  kinds: Record<string, KindStats>;
  /** Effects that wait for a commit now. */
  held_effects: number;
  /** `io` and `compute` effects that have no outcome yet. */
  io_in_flight: number;
  /** Totals since the host's start, by reason. */
  dead_letters: ReturnType<DeadLetters['counts']>;
}
