/**
 * Time and ticks for the transport-free parts of the runtime, so that the simulator can put its own in their place.
 * Any thread.
 */
import { type Clock, systemClock } from '../std/clock.ts';

/** A clock, and the two ways to do something later. */
export interface Scheduler extends Clock {
  /** Runs `task` after the events at hand have been handled, before waiting for new ones. */
  soon(task: () => void): void;
  /** Runs `task` after `delayMs`; the returned function prevents it. Does not keep the process alive. */
  later(delayMs: number, task: () => void): () => void;
}

const MAX_TIMER_MS = 2 ** 31 - 1;

/** The thread's event loop. */
export const loopScheduler: Scheduler = {
  ...systemClock,
  soon: (task) => void setImmediate(task),
  later: (delayMs, task) => {
    // A longer delay would fire at once (Node clamps it to 1 ms); 24 days is as good as for ever here.
    const timer = setTimeout(task, Math.min(Math.max(0, delayMs), MAX_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};
