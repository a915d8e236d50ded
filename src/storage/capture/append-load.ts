/**
 * The appends of a log, for work on other files of the log that runs on the same thread: sealing, and indexing before
 * it. Such work leaves exchanges the time to be stored, because an exchange that waits too long is dropped. Capture
 * process.
 */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/** Share of the thread for other work while exchanges are stored, and while the log is behind. */
const SHARE = 0.5;
const BEHIND_SHARE = 0.1;
/** Longest pause, so that a file is sealed under any load. */
const PAUSE_MAX_MS = 500;

export class AppendLoad {
  /** Whether exchanges arrived faster than they were stored when the last append began. */
  is_behind = false;
  /** Appends that wait for earlier calls. */
  #waiting = 0;
  /** Appends so far, and as of the last pause. */
  #count = 0;
  #countAtPause = 0;
  readonly #pause: (ms: number) => Promise<void>;

  /** @param wait for tests */
  constructor(wait: (ms: number) => Promise<void> = pause) {
    this.#pause = wait;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Records an append. @returns a function to call when its turn has come */
  begin(): () => void {
    this.#count++;
    this.#waiting++;
    return () => {
      this.#waiting--;
    };
  }

  /**
   * Reads messages that have arrived. If they had appends, it also waits.
   * @param tookMs time of the work since the last call, ms
   */
  async rest(tookMs: number): Promise<void> {
    await nextTurn();
    if (this.#count === this.#countAtPause) return;
    this.#countAtPause = this.#count;
    const share = this.is_behind ? BEHIND_SHARE : SHARE;
    await this.#pause(Math.min(PAUSE_MAX_MS, tookMs / share - tookMs));
  }
}
