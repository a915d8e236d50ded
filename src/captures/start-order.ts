/**
 * The runs of the list by their start: captured runs, and reported runs that were not captured. A page without a filter
 * is read from this order, so it examines no more runs than it shows. Pure; capture reader.
 *
 * Memory: a reference for each run. The order is made for the first page, in about 10 ms for 100,000 runs, and then
 * follows single runs.
 */
import { isBehind, type PagePlace } from '../domain/run-query/page.ts';
import { idOf, type RunEntry, startOf } from './run-entry.ts';

/** A run of the list, and its position by start. */
interface PlacedRun {
  run: RunEntry;
  place: PagePlace;
}

export class StartOrder {
  /** Ascending, with the places at which the runs were added. */
  #runs: PlacedRun[] | null = null;

  get isMade(): boolean {
    return this.#runs !== null;
  }

  /** Discards the order after a change of the list that it cannot follow. */
  forget(): void {
    this.#runs = null;
  }

  /**
   * Makes the order.
   * @param runs all runs of the list. The caller must report each later change with {@link add} or {@link remove}, or
   * call {@link forget}
   */
  make(runs: Iterable<RunEntry>): void {
    this.#runs = Array.from(runs, (run) => ({ run, place: placeOf(run) }));
    this.#runs.sort((a, b) => (isBehind(a.place, b.place) ? -1 : 1));
  }

  add(run: RunEntry): void {
    const runs = this.#runs;
    if (runs === null) return;
    const place = placeOf(run);
    const newest = runs.at(-1);
    if (newest === undefined || isBehind(newest.place, place)) runs.push({ run, place });
    else runs.splice(countBehind(runs, place), 0, { run, place });
  }

  /**
   * Removes a run.
   * @param started_ms the start of the run at the time of its addition
   */
  remove(run: RunEntry, started_ms: number): void {
    const runs = this.#runs;
    if (runs === null) return;
    const at = countBehind(runs, { ...placeOf(run), key: started_ms, started: started_ms });
    if (runs[at]?.run === run) runs.splice(at, 1);
    // The run is not where its start says.
    else this.forget();
  }

  removeAll(removed: ReadonlySet<RunEntry>): void {
    if (removed.size > 0) this.#runs = this.#runs?.filter(({ run }) => !removed.has(run)) ?? null;
  }

  /** Number of all runs. */
  get size(): number {
    return this.#runs?.length ?? 0;
  }

  /** The runs after a place, newest first; null: from the newest on. */
  *newest(after: PagePlace | null): Generator<PlacedRun> {
    const runs = this.#runs ?? [];
    let at = after === null ? runs.length : countBehind(runs, after);
    while (at > 0) yield runs[--at]!;
  }
}

function placeOf(run: RunEntry): PagePlace {
  const started = startOf(run);
  return { key: started, started, stored: run.listed?.tally.first_id ?? 0, run_id: idOf(run) };
}

/** Counts the runs after a place. @param runs ascending */
function countBehind(runs: readonly PlacedRun[], place: PagePlace): number {
  let low = 0;
  let high = runs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBehind(runs[middle]!.place, place)) low = middle + 1;
    else high = middle;
  }
  return low;
}
