/** Shows a command's progress on standard error, in one line that it overwrites, where that is a terminal (`CliIo.shows_progress`). Main thread. */

import type { CliIo } from './io.ts';

/** How often progress is shown. */
const PROGRESS_INTERVAL_MS = 200;

/** One line on a terminal that shows the progress. */
export class Progress {
  readonly #io: CliIo;
  readonly #isShown: boolean;
  readonly #now: () => number;
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(io: CliIo, now: () => number) {
    this.#io = io;
    this.#isShown = io.shows_progress === true;
    this.#now = now;
  }

  tell(what: string, done: number, of: number): void {
    if (!this.#isShown) return;
    const nowMs = this.#now();
    if (nowMs - this.#toldMs < PROGRESS_INTERVAL_MS) return;
    this.#toldMs = nowMs;
    const share = done === 0 || of === 0 ? '' : ` (${Math.floor((100 * done) / of)} %)`;
    this.#io.err(`\r\x1b[K${what}${share}`);
  }

  /** Shows the text even if another was shown just now: a step begins that takes a while and reports nothing. */
  announce(what: string): void {
    if (!this.#isShown) return;
    this.#toldMs = this.#now();
    this.#io.err(`\r\x1b[K${what}`);
  }

  clear(): void {
    if (this.#isShown && this.#toldMs > 0) this.#io.err('\r\x1b[K');
  }
}
