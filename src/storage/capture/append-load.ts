/**
 * Measures the appends of a log, and pauses long work on the same thread so that exchanges can be stored. An exchange
 * that waits too long is dropped. The long work is indexing before a file is sealed, and sealing in commands. Capture
 * process.
 */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/**
 * Shares of the thread's time that other work may take while exchanges arrive: normally, and while the log is behind.
 */
const SHARE = 0.5;
const BEHIND_SHARE = 0.1;
/**
 * The log counts as behind for this long after an append that found it behind, unless a later append finds it up to
 * date.
 */
const BEHIND_MS = 1_000;
/** Maximum length of a pause. The limit ensures that sealing ends under any load. */
const PAUSE_MAX_MS = 500;

export class AppendLoad {
  /** Until when the log counts as behind, on the monotonic clock. */
  #behindUntil = 0;
  /** Appends that wait for earlier calls. */
  #waiting = 0;
  /** Number of appends so far, and at the last pause. */
  #count = 0;
  #countAtPause = 0;
  /** Time of the work since the last pause, ms. */
  #tookMs = 0;
  readonly #pause: (ms: number) => Promise<void>;

  /** @param wait waits for so many ms; tests replace it */
  constructor(wait: (ms: number) => Promise<void> = pause) {
    this.#pause = wait;
  }

  /** Whether exchanges arrived faster than they were stored when a recent append began. */
  get is_behind(): boolean {
    return performance.now() < this.#behindUntil;
  }

  set is_behind(isBehind: boolean) {
    this.#behindUntil = isBehind ? performance.now() + BEHIND_MS : 0;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Counts an append as waiting.
   * @returns a function to call when the append begins to be stored
   */
  begin(): () => void {
    this.#count++;
    this.#waiting++;
    return () => {
      this.#waiting--;
    };
  }

  /**
   * Lets the thread handle messages that have arrived. Then, if an append came since the last pause, pauses in
   * proportion to the work since that pause.
   * @param tookMs time of the work since the last call, ms
   */
  async rest(tookMs: number): Promise<void> {
    this.#tookMs += tookMs;
    await nextTurn();
    if (this.#count === this.#countAtPause) return;
    const worked = this.#tookMs;
    this.#countAtPause = this.#count;
    this.#tookMs = 0;
    const share = this.is_behind ? BEHIND_SHARE : SHARE;
    await this.#pause(Math.min(PAUSE_MAX_MS, worked / share - worked));
  }
}
