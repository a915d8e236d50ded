/**
 * Shows a command's progress on standard error. On a terminal (`CliIo.shows_progress`) it is one line that is overwritten.
 * Elsewhere a long command may print a line from time to time, and other commands print nothing. Main thread.
 */

import type { CliIo } from './io.ts';
import { describeRemaining, RemainingTime } from './remaining-time.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/** Minimum time after which {@link Progress.tell} shows another text on a terminal. */
const PROGRESS_INTERVAL_MS = 200;
/** Interval at which a long command shows its last text again, with the time that is left. */
const REPEAT_MS = 1_000;
/** Interval at which a line is printed if standard error is not a terminal. The first line comes after one interval. */
const LINE_INTERVAL_MS = 30_000;

/** The beginning of each printed line if standard error is not a terminal. */
export const PROGRESS_LINE = 'progress: ';

/** The progress of one command. */
export class Progress {
  readonly #io: CliIo;
  readonly #isShown: boolean;
  readonly #hasLines: boolean;
  readonly #now: () => number;
  readonly #remaining = new RemainingTime();
  readonly #timer: NodeJS.Timeout | null;
  #toldMs = Number.NEGATIVE_INFINITY;
  #lineMs: number;
  #what = '';
  #done = 0;
  #of = 0;

  /**
   * @param hasLines whether the command may take long: then the last text is repeated, and lines are printed if
   *   standard error is not a terminal
   */
  constructor(io: CliIo, now: () => number, hasLines = false) {
    this.#io = io;
    this.#isShown = io.shows_progress === true;
    this.#hasLines = hasLines && !this.#isShown;
    this.#now = now;
    this.#lineMs = now();
    // A step may take minutes without a new text.
    this.#timer = hasLines ? setInterval(() => this.repeat(), REPEAT_MS).unref() : null;
  }

  /** Reports progress. Shows it if the last text is old enough. @param of amount of work; 0: unknown */
  tell(what: string, done: number, of: number): void {
    this.#take(what, done, of);
    if (this.#isShown && this.#now() - this.#toldMs >= PROGRESS_INTERVAL_MS) this.#show();
    else this.#printLine();
  }

  /**
   * Shows the text even if another one was shown just now. It announces a step that takes a while and reports nothing.
   */
  announce(what: string, done = 0, of = 0): void {
    this.#take(what, done, of);
    if (this.#isShown) this.#show();
    else this.#printLine();
  }

  /** Shows the last text again, with the time that is left now. */
  repeat(): void {
    if (this.#what === '') return;
    if (this.#isShown) this.#show();
    else this.#printLine();
  }

  /** Removes the line. Nothing is shown until the next message. */
  clear(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#isShown && this.#toldMs > 0) this.#io.err('\r\x1b[K');
  }

  #take(what: string, done: number, of: number): void {
    this.#what = what;
    this.#done = done;
    this.#of = of;
  }

  #show(): void {
    this.#toldMs = this.#now();
    this.#io.err(`\r\x1b[K${this.#describe()}`);
  }

  #printLine(): void {
    if (!this.#hasLines || this.#now() - this.#lineMs < LINE_INTERVAL_MS) {
      // The pace is observed even if nothing is printed.
      this.#remaining.estimate(this.#now(), this.#done, this.#of);
      return;
    }
    this.#lineMs = this.#now();
    this.#io.err(`${PROGRESS_LINE}${makeHarmlessLine(this.#describe())}\n`);
  }

  #describe(): string {
    const leftMs = this.#remaining.estimate(this.#now(), this.#done, this.#of);
    if (this.#done === 0 || this.#of === 0) return this.#what;
    const share = `${Math.floor((100 * this.#done) / this.#of)} %`;
    return `${this.#what} (${share}${leftMs === null ? '' : `, ${describeRemaining(leftMs)}`})`;
  }
}
