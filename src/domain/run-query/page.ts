/**
 * A page of a list in any order, from a single pass over the runs: it keeps the first runs after a position, and
 * counts all matches. A position identifies a run by its values, so pages stay correct while runs arrive. Pure; any
 * thread.
 */
import type { Verdict } from './match.ts';

/** The position of a run, largest first: by the sort value, then by fields that distinguish equal values. */
export interface PagePlace {
  key: number;
  /** When it began, in milliseconds since the epoch. */
  started: number;
  /** Among runs that began at the same time: in the order of storage; 0 if unknown. */
  stored: number;
  run_id: string;
}

/** A run that belongs on the page, if it matches. */
interface PageCandidate<Run> {
  run: Run;
  place: PagePlace;
  /** null: unknown yet whether it matches. */
  verdict: true | null;
}

export class PageCollector<Run> {
  readonly #limit: number;
  readonly #after: PagePlace | null;
  readonly #found: PageCandidate<Run>[] = [];
  /** Runs that match, on this page or not. */
  matched = 0;
  /** Runs for which it is unknown yet whether they match. */
  unread = 0;
  /** Number of tested runs. */
  scanned = 0;

  /**
   * @param after the page begins after it; null: at the beginning of the list
   */
  constructor(limit: number, after: PagePlace | null) {
    this.#limit = limit;
    this.#after = after;
  }

  /**
   * Adds the next run, in any order.
   * @param place its position, which is copied
   * @param keep makes the stored form of a run that belongs on the page
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

  /** The first runs after the position, in order. */
  get candidates(): readonly PageCandidate<Run>[] {
    return this.#found;
  }
}

function isBehind(run: PagePlace, other: PagePlace): boolean {
  if (run.key !== other.key) return run.key < other.key;
  if (run.started !== other.started) return run.started < other.started;
  return run.stored !== other.stored ? run.stored < other.stored : run.run_id < other.run_id;
}
