/**
 * Supervision and bounds as data: how often something may fail, the delay before a restart, and the limits of a kind
 * of actor. Pure. Any thread.
 */

/** How a failing actor or thread is restarted. */
export interface RestartPolicy {
  /** Maximum number of restarts within the window. One more failure stops the actor or thread. */
  max_restarts: number;
  window_ms: number;
  /** Delay before the first restart in a window; it doubles with each further restart. */
  backoff_first_ms: number;
  backoff_max_ms: number;
}

/** What happens if a mailbox is full. An ask is always answered with an error. */
export type Overflow =
  /** The sender gets a retryable error (`mailbox_full`). */
  | 'reject'
  /** The message itself is dropped. */
  | 'drop_newest'
  /** The messages that have waited longest are dropped until the new message fits. */
  | 'drop_oldest';

/** The bounds of one kind of actor. */
export interface KindPolicy {
  /** Maximum number of messages that wait for one actor. */
  mailbox_capacity: number;
  /** Maximum bytes of bodies that wait for one actor. An empty mailbox accepts a message of any size. */
  mailbox_bytes: number;
  overflow: Overflow;
  /** An actor without work for this long is passivated; Infinity: it never is. */
  idle_after_ms: number;
  /**
   * Maximum number of actors of this kind in the memory of one host. To make room for another, the host checks some
   * actors and passivates the least recently used idle one. If none of those is idle, it refuses the message
   * (`too_many_actors`).
   */
  max_live: number;
  /**
   * An actor with this many `io` and `compute` effects in progress takes no message from its mailbox until one of these
   * effects has an outcome.
   */
  max_io_in_flight: number;
  /**
   * An actor of which this many effects, or this many events, wait for the journal takes no message from its mailbox
   * until a commit.
   */
  max_held_effects: number;
  /**
   * When one actor keeps this many answers for later, new asks to it are refused, as by a full mailbox.
   */
  max_held_replies: number;
  /** Maximum number of pending timers of one actor. One more is a failure of the actor. */
  max_timers: number;
  restart: RestartPolicy;
  /** A stopped actor refuses messages for this long; then the next message starts it again. */
  stopped_for_ms: number;
}

/** Default bounds; a kind states only its differences. */
export const DEFAULT_KIND_POLICY: KindPolicy = {
  mailbox_capacity: 1024,
  mailbox_bytes: 64 * 1024 * 1024,
  overflow: 'reject',
  idle_after_ms: 60_000,
  max_live: 100_000,
  max_io_in_flight: 64,
  max_held_effects: 4096,
  max_held_replies: 1024,
  max_timers: 64,
  restart: { max_restarts: 5, window_ms: 60_000, backoff_first_ms: 50, backoff_max_ms: 5_000 },
  stopped_for_ms: 30_000,
};

/** The default for threads: they are always restarted, however often they fail. The delay grows to 5 s. */
export const DEFAULT_HOST_RESTART: RestartPolicy = {
  max_restarts: Number.POSITIVE_INFINITY,
  window_ms: 60_000,
  backoff_first_ms: 50,
  backoff_max_ms: 5_000,
};

/** The times of recent failures within the window, at most 64. */
export interface RestartHistory {
  failed_at_ms: number[];
}

const HISTORY_LENGTH = 64;

/**
 * Records a failure and decides what follows.
 * @param history of this actor or thread; changed in place
 * @param nowMs monotonic milliseconds
 * @returns the delay before the restart in milliseconds; null when the actor or thread must be stopped
 */
export function recordFailure(policy: RestartPolicy, history: RestartHistory, nowMs: number): number | null {
  const since = nowMs - policy.window_ms;
  const recent = history.failed_at_ms.filter((at) => at > since);
  recent.push(nowMs);
  const failures = recent.length;
  history.failed_at_ms = recent.slice(-HISTORY_LENGTH);
  if (failures > policy.max_restarts) return null;
  return Math.min(policy.backoff_max_ms, policy.backoff_first_ms * 2 ** Math.min(failures - 1, 30));
}
