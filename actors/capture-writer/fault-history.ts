/**
 * Counts failures of the capture process that its files may have caused. Decides how long to wait before a restart, and
 * which files to rename (to "set aside"). Pure. Actor thread.
 */
import type { SetAside } from './child-protocol.ts';

/**
 * Delay before a restart of the capture process. It doubles with each end of the process, from the first value to the
 * last.
 */
export const CAPTURE_RESTART_MS = { first: 100, last: 10_000 } as const;
/**
 * Length of a calm period: a time in which the process does not end, and reports no damaged page. After a calm period,
 * earlier ends no longer count, and earlier crashes count only towards FAULTS_IN_A_ROW.
 */
export const CAPTURE_CALM_MS = 5 * 60_000;

/**
 * Files are set aside after FAULTS_IN_A_ROW crashes without a stored exchange in between, or after FAULTS crashes. Both
 * counts start again when files are set aside. The count towards FAULTS also starts again after a calm period.
 */
const FAULTS_IN_A_ROW = 2;
const FAULTS = 3;
/**
 * Number of consecutive errors about a damaged page after which a file is set aside. After each error the file is
 * opened again.
 */
const DAMAGES_IN_A_ROW = 2;

export class FaultHistory {
  #lastAt = Number.NEGATIVE_INFINITY;
  /** Number of ends of the process, for any reason, since the last calm period. */
  #ends = 0;
  #faults = 0;
  #faultsInARow = 0;
  #damagesInARow = 0;
  /** Which files were set aside since the last calm period. */
  #level: SetAside = 'none';
  /** Whether anything was stored since files were last chosen to be set aside. */
  #hasStored = false;
  /** Which files to set aside before a database is opened. */
  #due: SetAside = 'none';

  /**
   * Records that the process ended unexpectedly.
   * @param isFault whether a file may be the cause
   */
  noteEnd(isFault: boolean, nowMs: number): void {
    this.#rest(nowMs);
    this.#ends++;
    if (!isFault) return;
    this.#faults++;
    this.#faultsInARow++;
    if (this.#faultsInARow >= FAULTS_IN_A_ROW || this.#faults >= FAULTS) this.#blame();
  }

  /**
   * Records that an append failed because of a damaged page.
   * @returns whether the process should end, because files are to be set aside before the next start
   */
  noteDamage(nowMs: number): boolean {
    this.#rest(nowMs);
    this.#damagesInARow++;
    if (this.#damagesInARow < DAMAGES_IN_A_ROW) return false;
    this.#blame();
    return this.#due !== 'none';
  }

  /** Records that exchanges were stored. */
  noteStored(): void {
    this.#hasStored = true;
    this.#faultsInARow = 0;
    this.#damagesInARow = 0;
  }

  /** The files that the process should set aside before it opens a database. */
  get due(): SetAside {
    return this.#due;
  }

  /** Records that the process has set the files aside and opened a database. */
  noteOpened(): void {
    this.#due = 'none';
  }

  /** Pause before the next start; 0 if the process has not ended since the last calm period. */
  get pause_ms(): number {
    if (this.#ends === 0) return 0;
    return Math.min(CAPTURE_RESTART_MS.first * 2 ** (this.#ends - 1), CAPTURE_RESTART_MS.last);
  }

  /**
   * Chooses the files to set aside: first the live file, then also the files that are about to be sealed. After that,
   * files are set aside again only if an exchange was stored in between, because otherwise the files are not the cause.
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
