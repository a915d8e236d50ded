/**
 * How often the capture process has failed over its files, and what follows: a pause that doubles, and files that are set aside.
 * Pure. Actor thread.
 */
import { CAPTURE_CALM_MS, CAPTURE_RESTART_MS } from '../../src/limits.ts';
import type { SetAside } from './child-protocol.ts';

/** Ends of the process over a file, with nothing stored in between or with something, after which it is set aside. */
const FAULTS_IN_A_ROW = 2;
const FAULTS = 3;
/** Errors in a row that say that a page is damaged; the file is opened anew after each. */
const DAMAGES_IN_A_ROW = 2;

export class FaultHistory {
  #lastAt = Number.NEGATIVE_INFINITY;
  /** Ends of any kind since it was calm. */
  #ends = 0;
  #faults = 0;
  #faultsInARow = 0;
  #damagesInARow = 0;
  /** What was set aside since it was calm. */
  #level: SetAside = 'none';
  /** Something was stored since the last time. */
  #hasStored = false;
  /** What is to be set aside before a database is opened. */
  #due: SetAside = 'none';

  /**
   * The process has ended by itself.
   * @param isFault it may have been over a file
   */
  noteEnd(isFault: boolean, nowMs: number): void {
    this.#rest(nowMs);
    this.#ends++;
    if (!isFault) return;
    this.#faults++;
    this.#faultsInARow++;
    if (this.#faultsInARow >= FAULTS_IN_A_ROW || this.#faults >= FAULTS) this.#blame();
  }

  /** An append failed because of a damaged page. @returns whether the process is to end, so that the file can be set aside */
  noteDamage(nowMs: number): boolean {
    this.#rest(nowMs);
    this.#damagesInARow++;
    if (this.#damagesInARow < DAMAGES_IN_A_ROW) return false;
    this.#blame();
    return this.#due !== 'none';
  }

  noteStored(): void {
    this.#hasStored = true;
    this.#faultsInARow = 0;
    this.#damagesInARow = 0;
  }

  /** What the process is to set aside before it opens a database. */
  get due(): SetAside {
    return this.#due;
  }

  /** It has done so. */
  noteOpened(): void {
    this.#due = 'none';
  }

  /** Pause before the next start. */
  get pause_ms(): number {
    if (this.#ends === 0) return 0;
    return Math.min(CAPTURE_RESTART_MS.first * 2 ** (this.#ends - 1), CAPTURE_RESTART_MS.last);
  }

  /**
   * The live file first. If that did not help, those that are about to be sealed with it. After that only a file that stored
   * something: where nothing can be stored, one more new file helps nobody.
   */
  #blame(): void {
    this.#faults = 0;
    this.#faultsInARow = 0;
    this.#damagesInARow = 0;
    if (this.#level === 'all' && !this.#hasStored) return;
    this.#level = this.#level === 'none' ? 'live' : 'all';
    this.#due = this.#level;
    this.#hasStored = false;
  }

  #rest(nowMs: number): void {
    if (nowMs - this.#lastAt >= CAPTURE_CALM_MS) {
      this.#ends = 0;
      this.#faults = 0;
      this.#level = 'none';
    }
    this.#lastAt = nowMs;
  }
}
