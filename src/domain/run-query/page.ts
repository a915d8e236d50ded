/**
 * A page of a list in any order, out of runs that are looked through once: it keeps the first runs behind a place, and counts
 * all that match. A place names a run by its values, so pages stay right while runs arrive. Pure; any thread.
 */
import type { Verdict } from './match.ts';

/** Where a run stands, the largest first: by what the list is ordered by, and then by what tells equal values apart. */
export interface PagePlace {
  key: number;
  /** When it began, in milliseconds since the epoch. */
  started: number;
  /** Among runs that began at the same time: in the order of storing; 0: not known. */
  stored: number;
  run_id: string;
}

/** A run that belongs on the page, if it matches. */
interface PageCandidate<Run> {
  run: Run;
  place: PagePlace;
  /** null: not known yet whether it matches. */
  verdict: true | null;
}

export class PageCollector<Run> {
  readonly #limit: number;
  readonly #after: PagePlace | null;
  readonly #found: PageCandidate<Run>[] = [];
  /** Runs that match, on this page or not. */
  matched = 0;
  /** Runs of which it is not known yet whether they match. */
  unread = 0;
  /** Runs that were looked at. */
  scanned = 0;

  /** @param after the page begins behind it; null: at the beginning of the list */
  constructor(limit: number, after: PagePlace | null) {
    this.#limit = limit;
    this.#after = after;
  }

  /**
   * Takes the next run, in any order.
   * @param place where it stands; it is copied
   * @param keep makes what is kept of a run that belongs on the page
   */
  add(verdict: Verdict, place: PagePlace, keep: () => Run): void {
    this.scanned += 1;
    if (verdict === false) return;
    if (verdict === null) this.unread += 1;
    else this.matched += 1;
    if (this.#after !== null && !isBehind(place, this.#after)) return;
    const found = this.#found;
    if (found.length === this.#limit) {
      if (isBehind(place, found.at(-1)!.place)) return;
      found.pop();
    }
    let low = 0;
    let high = found.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isBehind(place, found[middle]!.place)) low = middle + 1;
      else high = middle;
    }
    found.splice(low, 0, { run: keep(), place: { ...place }, verdict });
  }

  /** The first runs behind the place, in their order. */
  get candidates(): readonly PageCandidate<Run>[] {
    return this.#found;
  }
}

function isBehind(run: PagePlace, other: PagePlace): boolean {
  if (run.key !== other.key) return run.key < other.key;
  if (run.started !== other.started) return run.started < other.started;
  return run.stored !== other.stored ? run.stored < other.stored : run.run_id < other.run_id;
}
