/**
 * A page of a list in any order, from a single pass over the runs: it keeps the first runs after a position, and
 * counts all matches. A position identifies a run by its values, so pages stay correct while runs arrive. Pure; any
 * thread.
 */
import type { Verdict } from './match.ts';

/** The position of a run, largest first: by the sort value, then by fields that distinguish equal values. */
export interface PagePlace {
  key: number;
  /** When the run began, in milliseconds since the epoch. */
  started: number;
  /** The order of storage, which orders runs that began at the same time; 0 if unknown. */
  stored: number;
  run_id: string;
}

/** Reads the values of a position from a run. They are read only as far as a comparison needs them. */
export interface PlaceReader<Run> {
  key(run: Run): number;
  started(run: Run): number;
  stored(run: Run): number;
  run_id(run: Run): string;
}

/** A run that belongs on the page, if it matches. */
export interface PageCandidate<Run> {
  run: Run;
  place: PagePlace;
  /** null: unknown yet whether it matches. */
  verdict: true | null;
}

export class PageCollector<Run> {
  readonly #limit: number;
  readonly #after: PagePlace | null;
  readonly #read: PlaceReader<Run>;
  readonly #keep: (run: Run) => Run;
  readonly #found: PageCandidate<Run>[] = [];
  /** Runs that match, on this page or not. */
  matched = 0;
  /** Runs for which it is unknown yet whether they match. */
  unread = 0;
  /** Number of tested runs. */
  scanned = 0;

  /**
   * @param after place after which the page begins; null: the page begins the list
   * @param keep makes the stored form of a run that belongs on the page
   */
  constructor(limit: number, after: PagePlace | null, read: PlaceReader<Run>, keep: (run: Run) => Run) {
    this.#limit = limit;
    this.#after = after;
    this.#read = read;
    this.#keep = keep;
  }

  /** Adds the next run. Any order is correct; the order of the page is the fastest. */
  add(verdict: Verdict, run: Run): void {
    this.scanned += 1;
    if (verdict === false) return;
    if (verdict === null) this.unread += 1;
    else this.matched += 1;
    const key = this.#read.key(run);
    if (this.#after !== null && !this.#standsBehind(run, key, this.#after)) return;
    const found = this.#found;
    if (found.length === this.#limit) {
      if (this.#standsBehind(run, key, found[found.length - 1]!.place)) return;
      found.pop();
    }
    const place = readPlace(run, this.#read);
    let low = 0;
    let high = found.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isBehind(place, found[middle]!.place)) low = middle + 1;
      else high = middle;
    }
    found.splice(low, 0, { run: this.#keep(run), place, verdict });
  }

  /** The first runs after the position, in order. */
  get candidates(): readonly PageCandidate<Run>[] {
    return this.#found;
  }

  /** @param key the sort value of the run */
  #standsBehind(run: Run, key: number, other: PagePlace): boolean {
    if (key !== other.key) return key < other.key;
    const started = this.#read.started(run);
    if (started !== other.started) return started < other.started;
    const stored = this.#read.stored(run);
    return stored !== other.stored ? stored < other.stored : this.#read.run_id(run) < other.run_id;
  }
}

/** Reads the position of a run. */
export function readPlace<Run>(run: Run, read: PlaceReader<Run>): PagePlace {
  return {
    key: read.key(run),
    started: read.started(run),
    stored: read.stored(run),
    run_id: read.run_id(run),
  };
}

/** Whether the first position comes after the second one in the list. */
export function isBehind(run: PagePlace, other: PagePlace): boolean {
  if (run.key !== other.key) return run.key < other.key;
  if (run.started !== other.started) return run.started < other.started;
  return run.stored !== other.stored ? run.stored < other.stored : run.run_id < other.run_id;
}
