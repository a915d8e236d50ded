/**
 * Clocks and scheduling for those parts of the runtime that use no threads; the simulator replaces them. Any thread.
 */
import { type Clock, systemClock } from '../std/clock.ts';

/** A clock, and two ways to schedule work. */
export interface Scheduler extends Clock {
  /** Runs `task` after the current events, before waiting for new ones. */
  soon(task: () => void): void;
  /** Runs `task` after `delayMs`; the returned function cancels it. Does not keep the process alive. */
  later(delayMs: number, task: () => void): () => void;
}

const MAX_TIMER_MS = 2 ** 31 - 1;

/** The thread's event loop. */
export const loopScheduler: Scheduler = {
  ...systemClock,
  soon: (task) => void setImmediate(task),
  later: (delayMs, task) => {
    // Node would shorten a longer delay to 1 ms. The limit is 24 days, which no delay of the runtime reaches.
    const timer = setTimeout(task, Math.min(Math.max(0, delayMs), MAX_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};
