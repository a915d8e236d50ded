/**
 * Counts the appends of a log, and says how long other work on the same thread must pause for them: sealing a file, and
 * indexing it before. Without pauses, exchanges would wait too long to be stored, and be dropped. Capture process.
 */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/**
 * Share of the thread's time that other work may take while exchanges arrive; the second applies while the log is
 * behind.
 */
const SHARE = 0.5;
const BEHIND_SHARE = 0.1;
/** Maximum length of a pause. The limit ensures that sealing ends under any load. */
const PAUSE_MAX_MS = 500;

export class AppendLoad {
  /** Whether exchanges arrived faster than they were stored when the last append began. */
  is_behind = false;
  /** Appends that wait for earlier calls. */
  #waiting = 0;
  /** Number of appends so far, and at the last pause. */
  #count = 0;
  #countAtPause = 0;
  readonly #pause: (ms: number) => Promise<void>;

  /** @param wait waits for so many ms; tests replace it */
  constructor(wait: (ms: number) => Promise<void> = pause) {
    this.#pause = wait;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Counts an append as waiting. @returns a function to call when the append begins to be stored */
  begin(): () => void {
    this.#count++;
    this.#waiting++;
    return () => {
      this.#waiting--;
    };
  }

  /**
   * Gives the event loop a turn, so that messages that have arrived are handled. Pauses if appends arrived since the
   * last call.
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
