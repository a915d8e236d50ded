/**
 * Reports frequent events rarely: the first one immediately, then their number at most once a minute. Any
 * thread.
 */

const QUIET_MS = 60_000;

/** One instance for each list of causes. It has an entry for each cause, so their number must be bounded. */
export class RareTelling<Cause extends string> {
  readonly #told = new Map<Cause, { at_ms: number; untold: number }>();

  /**
   * Counts further events.
   * @returns how many to report now, including those since the last report; 0 if it is too soon
   */
  count(cause: Cause, more: number): number {
    const now = performance.now();
    let told = this.#told.get(cause);
    if (told === undefined) {
      told = { at_ms: Number.NEGATIVE_INFINITY, untold: 0 };
      this.#told.set(cause, told);
    }
    told.untold += more;
    if (now - told.at_ms < QUIET_MS) return 0;
    const { untold } = told;
    told.at_ms = now;
    told.untold = 0;
    return untold;
  }
}
