/**
 * Supervision and bounds as data: how often something may fail, how long to wait before it starts again, how much a
 * kind of actor may hold. Pure. Any thread.
 */

/** How a failing actor or thread is started again. */
export interface RestartPolicy {
  /** Restarts allowed within the window; one more and it is stopped. */
  max_restarts: number;
  window_ms: number;
  /** Wait before the first restart in a window; doubles with each one after it. */
  backoff_first_ms: number;
  backoff_max_ms: number;
}

/** What happens to a message that finds the mailbox full. An ask is answered with an error in every case. */
export type Overflow =
  /** The sender gets a retryable error (`mailbox_full`). */
  | 'reject'
  /** The message itself is dropped. */
  | 'drop_newest'
  /** The longest-waiting message is dropped in its favour. */
  | 'drop_oldest';

/** The bounds of one kind of actor. */
export interface KindPolicy {
  /** Messages waiting for one actor. */
  mailbox_capacity: number;
  /** Bytes of bodies waiting for one actor; a message that finds an empty mailbox passes whatever its size. */
  mailbox_bytes: number;
  overflow: Overflow;
  /** An actor without work for this long is passivated; Infinity: never. */
  idle_after_ms: number;
  /** Living actors of this kind in one thread; beyond it the least recently used idle one is passivated. */
  max_live: number;
  /** `io` and `compute` effects of one actor on their way; at the limit it takes no new messages until one ends. */
  max_io_in_flight: number;
  /** Effects of one actor waiting for the journal; at the limit it takes no new messages until a commit. */
  max_held_effects: number;
  /** Answers kept for later by one actor; at the limit a new ask is refused as by a full mailbox. */
  max_held_replies: number;
  /** Timers of one actor set at a time; one more is a failure of the actor. */
  max_timers: number;
  restart: RestartPolicy;
  /** A stopped actor refuses messages for this long, then the next message starts it again. */
  stopped_for_ms: number;
}

/** Sensible bounds; a kind states only where it differs. */
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

/** Threads come back however often they fail; the wait grows to 5 s. */
export const DEFAULT_HOST_RESTART: RestartPolicy = {
  max_restarts: Number.POSITIVE_INFINITY,
  window_ms: 60_000,
  backoff_first_ms: 50,
  backoff_max_ms: 5_000,
};

/** When something failed, as far as the window reaches. At most 64 moments are kept. */
export interface RestartHistory {
  failed_at_ms: number[];
}

const HISTORY_LENGTH = 64;

/**
 * Notes a failure and decides what follows.
 * @param history of this actor or thread; changed in place
 * @param nowMs monotonic milliseconds
 * @returns how long to wait before the restart, in milliseconds, or null: stop it
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
